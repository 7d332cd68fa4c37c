//! Keys that serve one tweak each, expanded ahead of the gates that use them.
//!
//! Such keys are counted up from gate to gate and depend on no label. While one group of gates is
//! encrypted, the schedules for the next are computed and stored: the two have nothing to do with
//! one another, so the processor need not wait for either where gates depend on the gates before.

use super::{
    TweakNumbers,
    rounds::{
        AesRounds, MIDDLE_ROUNDS, add_keys, encrypt_last_round, encrypt_round, next_rows, put,
        substitute, take,
    },
};

/// Gates whose keys are expanded together.
const GATES: usize = 8;

/// Distance in bytes between the keys of the first and the second tweak of a gate.
const SECOND: usize = 16 * GATES;

/// One round key for each tweak of [`GATES`] gates: those of the first tweaks, then those of the
/// second ones.
type Round = [u8; 2 * SECOND];

/// The round keys of [`GATES`] gates; padded, so that no bound has to be checked.
#[repr(align(64))]
struct Window([Round; 16], [u8; 1280]);

/// The schedules of the keys of eight gates, and room for those of the eight that follow; public
/// like the keys.
pub(crate) struct KeysAhead {
    /// The first gate of the window that is ready.
    gate: Option<u64>,
    /// Which of the windows is ready.
    ready: usize,
    windows: [Window; 2],
}

impl Default for KeysAhead {
    fn default() -> Self {
        Self {
            gate: None,
            ready: 0,
            windows: [const { Window([[0; _]; 16], [0; _]) }; 2],
        }
    }
}

impl KeysAhead {
    /// Returns for how many gates from `gate` on the keys are there.
    #[inline(always)]
    pub(super) fn left(&self, gate: u64) -> usize {
        match self.gate {
            Some(first) if gate.wrapping_sub(first) < GATES as u64 => {
                GATES - gate.wrapping_sub(first) as usize
            }
            _ => 0,
        }
    }

    /// Expands the keys of the gates from the given one on, unless those of that gate are there.
    #[inline(always)]
    pub(super) fn prepare<I: AesRounds>(&mut self, isa: I, numbers: TweakNumbers) {
        if self.left(numbers.gate) == 0 {
            self.fill(isa, numbers);
        }
    }

    #[inline(always)]
    fn fill<I: AesRounds>(&mut self, isa: I, numbers: TweakNumbers) {
        let window = &mut self.windows[self.ready % 2];
        for quad in 0..2 * GATES / (4 * I::LANES) {
            let mut schedule = Schedule::new(isa, numbers, quad, window);
            for round in 0..isa.middle_rounds() {
                schedule.next(isa, round, window);
            }
            schedule.last(isa, window);
        }
        self.gate = Some(numbers.gate);
    }

    /// Encrypts `blocks[k][b]` of a group of eight gates under the keys of the tweaks `k`, and
    /// expands the keys of the eight gates that follow.
    #[inline(always)]
    pub(super) fn encrypt<I: AesRounds, const N: usize, const B: usize>(
        &mut self,
        isa: I,
        numbers: TweakNumbers,
        blocks: &mut [[[I::Reg; N]; B]; 2],
    ) {
        debug_assert_eq!(N * I::LANES, GATES);
        if self.gate != Some(numbers.gate) {
            self.fill(isa, numbers);
        }
        let next_gate = numbers.gate.wrapping_add(GATES as u64);
        let next = TweakNumbers {
            gate: next_gate,
            ..numbers
        };
        let [first, second] = &mut self.windows;
        let (window, ahead) = if self.ready == 0 {
            (&*first, second)
        } else {
            (&*second, first)
        };
        self.ready ^= 1;
        self.gate = Some(next_gate);
        for quad in 0..2 * N / 4 {
            let mut state = take::<I, N, B, 2, 4>(blocks, 4 * quad);
            add_keys(isa, &mut state, &round_keys(isa, window, 0, quad));
            let mut schedule = Schedule::new(isa, next, quad, ahead);
            for round in 0..isa.middle_rounds() {
                schedule.next(isa, round, ahead);
                encrypt_round(isa, &mut state, &round_keys(isa, window, round + 1, quad));
            }
            schedule.last(isa, ahead);
            let last = round_keys(isa, window, MIDDLE_ROUNDS + 1, quad);
            encrypt_last_round(isa, &mut state, &last);
            put(blocks, 4 * quad, state);
        }
    }

    /// Encrypts the blocks of one gate, under the first key in the first of two lanes and under the
    /// second key in the second.
    #[inline(always)]
    pub(super) fn encrypt_one<I: AesRounds, const N: usize, const B: usize>(
        &self,
        isa: I,
        gate: u64,
        blocks: &mut [[I::Reg; N]; B],
    ) {
        debug_assert_eq!(N * I::LANES, 2);
        let number = gate.wrapping_sub(self.gate.unwrap_or(gate)) as usize % GATES;
        let Window(rounds, _) = &self.windows[self.ready % 2];
        let mut state = *blocks;
        add_keys(isa, &mut state, &keys_of(isa, &rounds[0], number));
        for round in &rounds[1..=MIDDLE_ROUNDS] {
            encrypt_round(isa, &mut state, &keys_of(isa, round, number));
        }
        let last = keys_of(isa, &rounds[MIDDLE_ROUNDS + 1], number);
        encrypt_last_round(isa, &mut state, &last);
        *blocks = state;
    }
}

/// Both keys of one gate in one round.
#[inline(always)]
fn keys_of<I: AesRounds, const N: usize>(isa: I, round: &Round, number: usize) -> [I::Reg; N] {
    let mut keys = [isa.splat(0); N];
    for (n, key) in keys.iter_mut().enumerate() {
        *key = isa.load(&round[16 * number + n * SECOND..], SECOND);
    }
    keys
}

/// The keys of one round in the registers `4 quad` to `4 quad + 3`.
#[inline(always)]
fn round_keys<I: AesRounds>(isa: I, window: &Window, round: usize, quad: usize) -> [I::Reg; 4] {
    let round = &window.0[round % 16];
    let mut keys = [isa.splat(0); 4];
    for (n, key) in keys.iter_mut().enumerate() {
        *key = isa.load(&round[(4 * quad + n) * 16 * I::LANES..], 16);
    }
    keys
}

/// Four registers of keys whose schedules are being computed.
struct Schedule<I: AesRounds> {
    rows: [I::Reg; 4],
    substituted: I::Reg,
    quad: usize,
}

impl<I: AesRounds> Schedule<I> {
    /// Begins with the keys themselves.
    #[inline(always)]
    fn new(isa: I, TweakNumbers { start, gate }: TweakNumbers, quad: usize, to: &mut Window) -> Self {
        let mut keys = [isa.splat(start); 4];
        for (n, key) in keys.iter_mut().enumerate() {
            let lane = (4 * quad + n) * I::LANES;
            let (k, i) = (lane / GATES, lane % GATES);
            let tweak = gate.wrapping_add(i as u64).wrapping_mul(2) | k as u64;
            *key = isa.xor(*key, isa.counter(tweak, 2, 0));
        }
        Self::store(isa, keys, 0, quad, to);
        let rows = isa.transpose(keys);
        Self {
            rows,
            substituted: substitute(isa, rows, 0),
            quad,
        }
    }

    /// Stores the keys that follow those of `round`.
    #[inline(always)]
    fn next(&mut self, isa: I, round: usize, to: &mut Window) {
        let rows = next_rows(isa, self.rows, self.substituted);
        // Ahead of all that does not hold up the next round.
        (self.substituted, self.rows) = isa.in_order(substitute(isa, rows, round + 1), rows);
        Self::store(isa, isa.transpose(self.rows), round + 1, self.quad, to);
    }

    /// Stores the keys of the last round.
    #[inline(always)]
    fn last(self, isa: I, to: &mut Window) {
        let rows = next_rows(isa, self.rows, self.substituted);
        Self::store(isa, isa.transpose(rows), MIDDLE_ROUNDS + 1, self.quad, to);
    }

    #[inline(always)]
    fn store(isa: I, keys: [I::Reg; 4], round: usize, quad: usize, to: &mut Window) {
        let round = &mut to.0[round % 16];
        for (n, key) in keys.into_iter().enumerate() {
            isa.store(key, &mut round[(4 * quad + n) * 16 * I::LANES..], 16);
        }
    }
}
