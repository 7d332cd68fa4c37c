//! AES keys that serve one tweak each, expanded before the gates that use them.
//!
//! The keys are consecutive numbers and do not depend on labels. In a serial circuit, every gate
//! waits for the previous one. The keys of the next eight gates are then expanded together, so that
//! a gate takes only the time of its AES rounds. For groups of independent gates, expanding the
//! keys during the encryption is faster, because both overlap and no key is stored.

use super::{
    TweakNumbers,
    rounds::{
        AesRounds, MIDDLE_ROUNDS, encrypt_last_round, encrypt_round, next_rows, start, substitute,
    },
};

/// Number of gates whose keys are expanded together.
const WINDOW_GATES: usize = 8;

/// Distance in bytes between the keys of the first and the second tweak of a gate.
const SECOND_TWEAK: usize = 16 * WINDOW_GATES;

/// The round keys of one AES round for [`WINDOW_GATES`] gates: first those of all first tweaks,
/// then those of all second tweaks.
type Round = [u8; 2 * SECOND_TWEAK];

/// The round keys of [`WINDOW_GATES`] gates; padded to 16 rounds, so that no bounds check is
/// needed.
#[repr(align(64))]
struct Window([Round; 16]);

/// The key schedules of eight gates. The keys are public, so they are not wiped.
pub(crate) struct ExpandedKeys {
    /// Number of the first of these gates, or `None` if no keys are expanded.
    gate: Option<u64>,
    window: Window,
}

impl Default for ExpandedKeys {
    fn default() -> Self {
        Self {
            gate: None,
            window: Window([[0; _]; 16]),
        }
    }
}

impl ExpandedKeys {
    /// Returns the number of gates, from `gate` on, whose keys are expanded.
    #[inline(always)]
    pub(super) fn left(&self, gate: u64) -> usize {
        match self.gate {
            Some(first) if gate.wrapping_sub(first) < WINDOW_GATES as u64 => {
                WINDOW_GATES - gate.wrapping_sub(first) as usize
            }
            _ => 0,
        }
    }

    /// Expands the keys of [`WINDOW_GATES`] gates from the given gate on, unless its keys are
    /// expanded.
    #[inline(always)]
    pub(super) fn prepare<I: AesRounds>(&mut self, isa: I, numbers: TweakNumbers) {
        if self.left(numbers.gate) == 0 {
            self.fill(isa, numbers);
        }
    }

    #[inline(always)]
    fn fill<I: AesRounds>(&mut self, isa: I, numbers: TweakNumbers) {
        let window = &mut self.window;
        for quad in 0..2 * WINDOW_GATES / (4 * I::LANES) {
            let mut schedule = Schedule::new(isa, numbers, quad, window);
            for round in 0..isa.middle_rounds() {
                schedule.next(isa, round, window);
            }
            schedule.last(isa, window);
        }
        self.gate = Some(numbers.gate);
    }

    /// Encrypts the blocks of one gate. The first of two lanes has the key of the first tweak, the
    /// second lane that of the second tweak.
    #[inline(always)]
    pub(super) fn encrypt_one<I: AesRounds, const N: usize, const B: usize>(
        &self,
        isa: I,
        gate: u64,
        blocks: &mut [[I::Reg; N]; B],
    ) {
        debug_assert_eq!(N * I::LANES, 2);
        let number = gate.wrapping_sub(self.gate.unwrap_or(gate)) as usize % WINDOW_GATES;
        let Window(rounds) = &self.window;
        let mut state = *blocks;
        start(isa, &mut state, &keys_of(isa, &rounds[0], number));
        for round in 1..MIDDLE_ROUNDS + 1 {
            let before = keys_of(isa, &rounds[round - 1], number);
            let keys = keys_of(isa, &rounds[round], number);
            encrypt_round(isa, &mut state, &before, &keys);
        }
        let before = keys_of(isa, &rounds[MIDDLE_ROUNDS], number);
        let last = keys_of(isa, &rounds[MIDDLE_ROUNDS + 1], number);
        encrypt_last_round(isa, &mut state, &before, &last);
        *blocks = state;
    }
}

/// Returns both keys of one gate for one round.
#[inline(always)]
fn keys_of<I: AesRounds, const N: usize>(isa: I, round: &Round, number: usize) -> [I::Reg; N] {
    let mut keys = [isa.splat(0); N];
    for (n, key) in keys.iter_mut().enumerate() {
        *key = isa.load(&round[16 * number + n * SECOND_TWEAK..], SECOND_TWEAK);
    }
    keys
}

/// The state of the key expansion for four registers of keys.
struct Schedule<I: AesRounds> {
    rows: [I::Reg; 4],
    substituted: I::Reg,
    quad: usize,
}

impl<I: AesRounds> Schedule<I> {
    /// Starts with the keys, which are the round keys of round 0.
    #[inline(always)]
    fn new(
        isa: I,
        TweakNumbers { start, gate }: TweakNumbers,
        quad: usize,
        to: &mut Window,
    ) -> Self {
        let mut keys = [isa.splat(start); 4];
        for (n, key) in keys.iter_mut().enumerate() {
            let lane = (4 * quad + n) * I::LANES;
            let (k, i) = (lane / WINDOW_GATES, lane % WINDOW_GATES);
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

    /// Computes and stores the round keys that follow those of `round`.
    #[inline(always)]
    fn next(&mut self, isa: I, round: usize, to: &mut Window) {
        let rows = next_rows(isa, self.rows, self.substituted);
        // Do this first: the next round depends on it, and not on the stores below.
        (self.substituted, self.rows) = isa.in_order(substitute(isa, rows, round + 1), rows);
        Self::store(isa, isa.transpose(self.rows), round + 1, self.quad, to);
    }

    /// Computes and stores the keys of the last round.
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
