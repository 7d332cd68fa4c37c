//! The pool of correlated oblivious transfers of one direction of a connection.
//!
//! The evaluator can extend the pool at any time, with random choices. It sends one message and its
//! consistency check, which need no answer. Only checked transfers enter the pool. To use a
//! transfer, the evaluator sends a correction: the difference between the random choice and its
//! input bit. The garbler masks its answer with hashes of the transfer's index in the pool, which
//! never repeats. Every transfer is used once, in order, because the use of [`Items`] and [`Rows`]
//! consumes them.

use std::{collections::VecDeque, sync::Arc};

use rand::CryptoRng;
use transpute_circuit::Bits;
use transpute_ot::{
    AnyReceiver, AnySender, BASE_COUNT, BLOCK_OTS, BaseOt, CotReceiver, CotSender, Extension,
    MAX_INDEX, MaskHash, UncheckedRows, delta_choices,
};
use zeroize::{Zeroize, Zeroizing};

use crate::{FrameKind, SessionError, ot::Corrections, ot_plan::OT_CHUNK, queue::extend_secret};

/// Length of the fields before the corrections in an `OtCorrect` frame, in bytes: the index of the
/// first transfer (8) and the number of transfers (4).
pub(crate) const CORRECT_HEADER: usize = 12;

/// Maximum number of unused transfers in the pool.
pub(super) const MAX_POOL: usize = 1 << 16;

/// The evaluator's side of the pool.
///
/// All content is secret, so the type has no `Debug` and wipes its content on drop.
pub(super) struct ReceiverPool {
    cot: Box<CotReceiver>,
    challenges: Challenges,
    masks: Arc<MaskHash>,
    random: VecDeque<bool>,
    rows: VecDeque<u128>,
    /// Index of the first unused transfer.
    next: u64,
}

impl ReceiverPool {
    /// Sets up a pool from the peer's base-OT message. Returns the answer.
    pub(super) fn new(
        kind: Extension,
        base: AnySender,
        sid: &[u8; 32],
        garbler_nonce: &[u8; 32],
        message: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<(Self, Corrections), SessionError> {
        let (pairs, setup) = base.finish(sid, garbler_nonce, message, BASE_COUNT, rng)?;
        let (cot, corrections) = CotReceiver::new(kind, &pairs, sid);
        let pool = Self {
            cot: Box::new(cot),
            challenges: Challenges::new(&corrections),
            masks: Arc::new(MaskHash::new(sid)),
            random: VecDeque::new(),
            rows: VecDeque::new(),
            next: 0,
        };
        let seeds = (kind.setup_len() > 0).then_some(corrections);
        Ok((pool, Corrections { setup, seeds }))
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds `count` transfers, rounded up to whole blocks, but at most [`OT_CHUNK`]. Returns the
    /// `OtExtend` message and its check.
    pub(super) fn extend(
        &mut self,
        count: usize,
        rng: &mut impl CryptoRng,
    ) -> [(FrameKind, Vec<u8>); 2] {
        let count = count.clamp(1, OT_CHUNK).next_multiple_of(BLOCK_OTS);
        let first = self.next + self.rows.len() as u64;
        let mut message = first.to_le_bytes().to_vec();
        let mut choices = Zeroizing::new(vec![0_u64; count / 64]);
        for word in choices.iter_mut() {
            *word = rng.next_u64();
        }
        let mut rows = Zeroizing::new(Vec::with_capacity(count));
        let segment = self.cot.extend(&choices, count, rng, &mut message);
        let mut check = Vec::new();
        segment.prove(&self.challenges.next(&message), &mut check, &mut rows);
        let random = (0..count).map(|i| choices[i / 64] >> (i % 64) & 1 == 1);
        extend_secret(&mut self.random, random);
        extend_secret(&mut self.rows, rows.iter().copied());
        [(FrameKind::OtExtend, message), (FrameKind::OtCheck, check)]
    }

    /// Removes and returns the next `count` transfers. `None` if the pool has fewer.
    pub(super) fn take(&mut self, count: usize) -> Option<Items> {
        if count > self.rows.len() || self.next + count as u64 > MAX_INDEX {
            return None;
        }
        let first = self.next;
        self.next += count as u64;
        let items = Items {
            first,
            random: self.random.iter().copied().take(count).collect(),
            rows: Zeroizing::new(self.rows.iter().copied().take(count).collect()),
            masks: self.masks.clone(),
        };
        self.rows.iter_mut().take(count).for_each(Zeroize::zeroize);
        self.rows.drain(..count);
        self.random
            .iter_mut()
            .take(count)
            .for_each(Zeroize::zeroize);
        self.random.drain(..count);
        Some(items)
    }
}

/// The challenges of a pool's consistency checks. Each challenge is a hash of the set-up message
/// and of all `OtExtend` messages so far.
struct Challenges {
    last: [u8; 32],
}

impl Challenges {
    fn new(setup: &[u8]) -> Self {
        let mut challenges = Self { last: [0; 32] };
        challenges.next(setup);
        challenges
    }

    /// Hashes the next message. Returns the challenge of its check.
    fn next(&mut self, message: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("transpute 1 stock challenge");
        self.last = *hasher
            .update(&self.last)
            .update(message)
            .finalize()
            .as_bytes();
        self.last
    }
}

impl Drop for ReceiverPool {
    fn drop(&mut self) {
        self.rows.iter_mut().for_each(Zeroize::zeroize);
        self.random.iter_mut().for_each(Zeroize::zeroize);
    }
}

/// Transfers taken from the evaluator's pool. [`Self::correct`] consumes them, so none is used
/// twice.
pub(crate) struct Items {
    first: u64,
    random: Bits,
    rows: Zeroizing<Vec<u128>>,
    masks: Arc<MaskHash>,
}

impl Items {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the index in the pool of the first of these transfers.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Uses the transfers for `choices`, one bit per transfer. Returns the corrections, eight per
    /// byte from bit 0 upwards, and the transfers, which then wait for the garbler's answer.
    pub(crate) fn correct(self, choices: Bits) -> (Vec<u8>, Asked) {
        debug_assert_eq!(choices.len(), self.rows.len());
        let mut corrections = vec![0; choices.len().div_ceil(8)];
        for (index, (choice, random)) in choices.iter().zip(self.random.iter()).enumerate() {
            corrections[index / 8] |= u8::from(choice ^ random) << (index % 8);
        }
        let asked = Asked {
            first: self.first,
            choices,
            rows: self.rows,
            masks: self.masks,
        };
        (corrections, asked)
    }
}

/// Transfers from the evaluator's pool that wait for the garbler's answer.
pub(crate) struct Asked {
    first: u64,
    choices: Bits,
    rows: Zeroizing<Vec<u128>>,
    masks: Arc<MaskHash>,
}

impl Asked {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Drops the transfers. Returns their choices.
    pub(crate) fn into_choices(self) -> Bits {
        self.choices
    }

    /// Decrypts the answer, which has one masked pair per transfer. Returns the chosen strings.
    pub(crate) fn open(self, pairs: &[[u128; 2]]) -> Zeroizing<Vec<u128>> {
        let mut opened = Zeroizing::new(Vec::with_capacity(pairs.len()));
        let words = self.choices.as_words();
        self.masks
            .unmask(self.first, &self.rows, words, pairs, &mut opened);
        opened
    }
}

/// Appends the content of an `OtCorrect` frame to `out`.
pub(crate) fn write_correct(first: u64, count: usize, corrections: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&first.to_le_bytes());
    // The cast is exact, because `count` is at most a chunk.
    out.extend_from_slice(&(count as u32).to_le_bytes());
    out.extend_from_slice(corrections);
}

/// The garbler's side of the pool, during and after its set-up.
///
/// All content is secret, so the type has no `Debug` and wipes its content on drop.
pub(super) struct SenderPool {
    delta: Zeroizing<u128>,
    base: Option<AnyReceiver>,
    ready: Option<Ready>,
    rows: VecDeque<u128>,
    /// Index of the first unused transfer.
    next: u64,
}

struct Ready {
    cot: CotSender,
    /// `None` until the peer's seed corrections have arrived.
    challenges: Option<Challenges>,
    masks: Arc<MaskHash>,
    /// The transfers of the last extension, until its check arrives.
    unchecked: Option<UncheckedRows>,
}

impl SenderPool {
    /// Starts the set-up. Returns the garbler's base-OT message.
    pub(super) fn start(
        base: BaseOt,
        nonce: &[u8; 32],
        rng: &mut impl CryptoRng,
    ) -> (Self, Vec<u8>) {
        let mut bytes = Zeroizing::new([0; 16]);
        rng.fill_bytes(&mut *bytes);
        let delta = Zeroizing::new(u128::from_le_bytes(*bytes));
        let (base, message) = AnyReceiver::start(base, &*delta_choices(*delta), nonce, rng);
        let pool = Self {
            delta,
            base: Some(base),
            ready: None,
            rows: VecDeque::new(),
            next: 0,
        };
        (pool, message)
    }

    /// Continues the set-up with the peer's base-OT message. It is the point in the peer's opening,
    /// or an answer (ML-KEM).
    pub(super) fn connect(
        &mut self,
        kind: Extension,
        sid: &[u8; 32],
        message: &[u8],
    ) -> Result<(), SessionError> {
        if let Some(base) = self.base.take() {
            let keys = base.finish(sid, message)?;
            self.ready = Some(Ready {
                cot: CotSender::new(kind, *self.delta, &keys, sid),
                challenges: (kind.setup_len() == 0).then(|| Challenges::new(&[])),
                masks: Arc::new(MaskHash::new(sid)),
                unchecked: None,
            });
        }
        Ok(())
    }

    /// Returns whether the peer's base-OT message has not arrived.
    pub(super) fn awaits_base(&self) -> bool {
        self.base.is_some()
    }

    /// Handles the peer's seed corrections.
    pub(super) fn handle_setup(&mut self, message: &[u8]) -> Result<(), SessionError> {
        match &mut self.ready {
            Some(ready) if ready.challenges.is_none() => {
                ready.cot.setup(message)?;
                ready.challenges = Some(Challenges::new(message));
                Ok(())
            }
            _ => Err(SessionError::Unexpected {
                kind: FrameKind::OtExtendSetup,
                problem: "no extension waits for it",
            }),
        }
    }

    /// Handles an `OtExtend` message. It is an error if the pool would then have more than `limit`
    /// unused transfers.
    pub(super) fn handle_extend(
        &mut self,
        message: &[u8],
        limit: usize,
    ) -> Result<(), SessionError> {
        let wrong = |problem| SessionError::Unexpected {
            kind: FrameKind::OtExtend,
            problem,
        };
        let Some(Ready {
            cot,
            challenges: Some(challenges),
            unchecked: unchecked @ None,
            ..
        }) = &mut self.ready
        else {
            return Err(wrong(
                "the extension is not set up, or the check of a segment is due",
            ));
        };
        let challenge = challenges.next(message);
        let Some((first, message)) = message.split_first_chunk() else {
            return Err(wrong("it has no number"));
        };
        // One block of the message is sacrificed for the check.
        let blocks = (message.len() / cot.kind().block_len()).saturating_sub(1);
        let count = blocks * BLOCK_OTS;
        if u64::from_le_bytes(*first) != self.next + self.rows.len() as u64 {
            return Err(wrong("it does not go on where the pool ends"));
        }
        if count == 0 || count > OT_CHUNK || self.rows.len() + count > limit {
            return Err(wrong("it adds more than agreed, or nothing"));
        }
        *unchecked = Some(cot.extend(count, message, &challenge)?);
        Ok(())
    }

    /// Handles the check of the last `OtExtend` message. If the check succeeds, the transfers enter
    /// the pool.
    pub(super) fn handle_check(&mut self, message: &[u8]) -> Result<(), SessionError> {
        let due =
            (self.ready.as_mut()).and_then(|ready| Some((&mut ready.cot, ready.unchecked.take()?)));
        let Some((cot, unchecked)) = due else {
            return Err(SessionError::Unexpected {
                kind: FrameKind::OtCheck,
                problem: "no segment of an extension waits for it",
            });
        };
        let rows = cot.check(unchecked, message)?;
        extend_secret(&mut self.rows, rows.iter().copied());
        cot.recycle(rows);
        Ok(())
    }

    /// Removes and returns the transfers of an `OtCorrect` frame. They must be the next ones.
    pub(super) fn take(&mut self, correct: &[u8]) -> Result<Rows, SessionError> {
        let wrong = |problem| SessionError::Unexpected {
            kind: FrameKind::OtCorrect,
            problem,
        };
        let Some((header, corrections)) = correct.split_first_chunk::<CORRECT_HEADER>() else {
            return Err(wrong("it has no header"));
        };
        let (first, count) = header.split_at(8);
        let first = first
            .iter()
            .rev()
            .fold(0, |n, byte| n << 8 | u64::from(*byte));
        let count = count
            .iter()
            .rev()
            .fold(0, |n, byte| n << 8 | usize::from(*byte));
        let Some(ready) = &self.ready else {
            return Err(wrong("there is no pool"));
        };
        if first != self.next || count == 0 || count > self.rows.len().min(OT_CHUNK) {
            return Err(wrong("it is not about the next transfers in the pool"));
        }
        let unused = corrections
            .last()
            .is_some_and(|last| !count.is_multiple_of(8) && last >> (count % 8) != 0);
        if corrections.len() != count.div_ceil(8) || unused {
            return Err(wrong("it has not one correction for each transfer"));
        }
        if first + count as u64 > MAX_INDEX {
            return Err(wrong("the pool is used up"));
        }
        self.next += count as u64;
        let rows = Rows {
            first,
            rows: Zeroizing::new(self.rows.iter().copied().take(count).collect()),
            delta: self.delta.clone(),
            masks: ready.masks.clone(),
        };
        self.rows.iter_mut().take(count).for_each(Zeroize::zeroize);
        self.rows.drain(..count);
        Ok(rows)
    }
}

impl Drop for SenderPool {
    fn drop(&mut self) {
        self.rows.iter_mut().for_each(Zeroize::zeroize);
    }
}

/// Transfers taken from the garbler's pool. [`Self::answer`] consumes them, so none is used twice.
pub(crate) struct Rows {
    first: u64,
    rows: Zeroizing<Vec<u128>>,
    delta: Zeroizing<u128>,
    masks: Arc<MaskHash>,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Appends the answer to `out`: both strings of every pair, masked so that the receiver can
    /// decrypt only the string of its choice. `corrections` has one bit per transfer.
    pub(crate) fn answer(self, corrections: &[u8], pairs: &[[u128; 2]], out: &mut Vec<u8>) {
        let Self {
            first,
            mut rows,
            delta,
            masks,
        } = self;
        for (index, row) in rows.iter_mut().enumerate() {
            let bit = corrections[index / 8] >> (index % 8) & 1;
            *row ^= *delta & u128::from(bit).wrapping_neg();
        }
        let mut masked = Vec::with_capacity(pairs.len());
        masks.mask(first, &rows, *delta, pairs, &mut masked);
        for block in masked.as_flattened() {
            out.extend_from_slice(&block.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};
    use transpute_ot::OtError;

    use super::*;

    const SID: [u8; 32] = [1; 32];

    fn pools(kind: Extension, rng: &mut StdRng) -> (SenderPool, ReceiverPool) {
        let (base, point) = AnySender::start(BaseOt::Ristretto255, rng);
        let nonce = [2; 32];
        let (mut sender, message) = SenderPool::start(BaseOt::Ristretto255, &nonce, rng);
        let (receiver, answer) =
            ReceiverPool::new(kind, base, &SID, &nonce, &message, rng).unwrap();
        sender.connect(kind, &SID, &point.unwrap()).unwrap();
        if let Some(seeds) = answer.seeds {
            sender.handle_setup(&seeds).unwrap();
        }
        (sender, receiver)
    }

    /// Extends the pool with corrections in which the choices of transfer 0 differ in some columns,
    /// with a check for the changed message.
    fn deviate(
        pool: &mut ReceiverPool,
        columns: &[usize],
        rng: &mut StdRng,
    ) -> [(FrameKind, Vec<u8>); 2] {
        let mut message = pool.rows.len().to_le_bytes().to_vec();
        let (mut check, mut rows) = (Vec::new(), Vec::new());
        let segment = pool.cot.extend(&[0; 2], BLOCK_OTS, rng, &mut message);
        for column in columns {
            // In the message, each column has two blocks of 16 bytes.
            message[8 + 32 * column] ^= 1;
        }
        segment.prove(&pool.challenges.next(&message), &mut check, &mut rows);
        [(FrameKind::OtExtend, message), (FrameKind::OtCheck, check)]
    }

    #[test]
    fn only_checked_transfers_enter_a_pool() {
        let mut rng = StdRng::seed_from_u64(7);
        let (mut passed, trials) = (0, 60);
        for trial in 0..trials {
            for columns in [&[trial][..], &[trial, 127]] {
                let (mut sender, mut receiver) = pools(Extension::Iknp, &mut rng);
                for (_, message) in &receiver.extend(1, &mut rng)[..1] {
                    sender.handle_extend(message, 1000).unwrap();
                    assert!(sender.rows.is_empty(), "usable before its check");
                }
                let (mut sender, mut receiver) = pools(Extension::Iknp, &mut rng);
                let [(_, message), (_, check)] = deviate(&mut receiver, columns, &mut rng);
                sender.handle_extend(&message, 1000).unwrap();
                // The attacker's check is right if all guessed bits of delta are zero.
                let is_right = columns.iter().all(|c| *sender.delta >> c & 1 == 0);
                match sender.handle_check(&check) {
                    Ok(()) => {
                        assert!(is_right);
                        passed += usize::from(columns.len() == 1);
                    }
                    Err(error) => {
                        assert!(!is_right);
                        assert!(matches!(
                            error,
                            SessionError::Ot(OtError::ColumnCheckFailed)
                        ));
                        assert!(sender.rows.is_empty());
                        // After a failed check, the pool also rejects later messages.
                        let [(_, message), _] = receiver.extend(1, &mut rng);
                        assert!(sender.handle_extend(&message, 1000).is_err());
                    }
                }
            }
        }
        // The attacker must guess one bit, so about half of the trials pass.
        assert!((trials / 4..3 * trials / 4).contains(&passed), "{passed}");
    }

    #[test]
    fn a_pool_is_extended_up_to_its_limit() {
        let mut rng = StdRng::seed_from_u64(8);
        let (mut sender, mut receiver) = pools(Extension::SoftSpoken8, &mut rng);
        let limit = 20_000;
        let refused = loop {
            let [(_, message), (_, check)] = receiver.extend(OT_CHUNK, &mut rng);
            if let Err(error) = sender.handle_extend(&message, limit) {
                break error;
            }
            sender.handle_check(&check).unwrap();
        };
        assert!(matches!(refused, SessionError::Unexpected { .. }));
        assert_eq!(sender.rows.len(), 2 * OT_CHUNK);
    }
}
