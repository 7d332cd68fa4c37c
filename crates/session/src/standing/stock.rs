//! The stock of correlated oblivious transfers of one direction of a connection.
//!
//! The party that evaluates extends the stock whenever it likes, over random choices, with one
//! message that needs no answer. To use a transfer it tells how the choice differs from what it
//! needs; the answer is masked with hashes at the transfer's index in the stock, which never repeats.
//!
//! Transfers leave the stock in order and by value: [`Items`] and [`Rows`] are consumed by the one
//! use they are good for.

use std::{collections::VecDeque, sync::Arc};

use rand::CryptoRng;
use transpute_circuit::Bits;
use transpute_ot::{
    AnyReceiver, AnySender, BASE_COUNT, BLOCK_OTS, BaseOt, CotReceiver, CotSender, Extension,
    MAX_INDEX, MaskHash, delta_choices,
};
use zeroize::{Zeroize, Zeroizing};

use crate::{
    FrameKind, SessionError,
    ot::{Corrections, OT_CHUNK},
};

/// Bytes in front of the corrections: the index of the first transfer (8) and their number (4).
pub(crate) const CORRECT_HEADER: usize = 12;

/// The most transfers to have in stock.
pub(super) const MAX_STOCK: usize = 1 << 16;

/// Transfers that the evaluator's side has and has not used.
///
/// No `Debug`: everything inside is secret. Wiped on drop.
pub(super) struct ReceiverStock {
    cot: Box<CotReceiver>,
    masks: Arc<MaskHash>,
    random: VecDeque<bool>,
    rows: VecDeque<u128>,
    /// Index of the first transfer not used.
    next: u64,
}

impl ReceiverStock {
    /// Sets up a stock from the peer's base-OT message; returns what to send.
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
        let stock = Self {
            cot: Box::new(cot),
            masks: Arc::new(MaskHash::new(sid)),
            random: VecDeque::new(),
            rows: VecDeque::new(),
            next: 0,
        };
        let seeds = (kind.setup_len() > 0).then_some(corrections);
        Ok((stock, Corrections { setup, seeds }))
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds at least `count` transfers, at most [`OT_CHUNK`], and appends the message about them.
    pub(super) fn extend(&mut self, count: usize, rng: &mut impl CryptoRng, out: &mut Vec<u8>) {
        let count = count.clamp(1, OT_CHUNK).next_multiple_of(BLOCK_OTS);
        out.extend_from_slice(&(self.next + self.rows.len() as u64).to_le_bytes());
        let mut choices = Zeroizing::new(vec![0_u64; count / 64]);
        for word in choices.iter_mut() {
            *word = rng.next_u64();
        }
        let mut rows = Zeroizing::new(Vec::with_capacity(count));
        self.cot.extend(&choices, count, out, &mut rows);
        self.random
            .extend((0..count).map(|i| choices[i / 64] >> (i % 64) & 1 == 1));
        self.rows.extend(rows.iter());
    }

    /// Takes the next `count` transfers out; `None` if there are fewer.
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

impl Drop for ReceiverStock {
    fn drop(&mut self) {
        self.rows.iter_mut().for_each(Zeroize::zeroize);
        self.random.iter_mut().for_each(Zeroize::zeroize);
    }
}

/// Transfers taken out of the stock, to be used once.
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

    /// Returns the index of the first one in the stock.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Uses the transfers for as many `choices`; returns the corrections, packed from bit 0 of each
    /// byte upwards, and what the answer is read with.
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

/// Transfers that wait for the garbler's answer.
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

    /// Reads the answer: one masked pair per transfer.
    pub(crate) fn open(self, pairs: &[[u128; 2]]) -> Zeroizing<Vec<u128>> {
        let mut opened = Zeroizing::new(Vec::with_capacity(pairs.len()));
        let words = self.choices.as_words();
        self.masks
            .unmask(self.first, &self.rows, words, pairs, &mut opened);
        opened
    }
}

/// Appends what an `OtCorrect` frame carries.
pub(crate) fn write_correct(first: u64, count: usize, corrections: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&first.to_le_bytes());
    // At most a chunk.
    out.extend_from_slice(&(count as u32).to_le_bytes());
    out.extend_from_slice(corrections);
}

/// The stock of the garbler's side, before and behind its setup.
///
/// No `Debug`: everything inside is secret. Wiped on drop.
pub(super) struct SenderStock {
    delta: Zeroizing<u128>,
    base: Option<AnyReceiver>,
    ready: Option<Ready>,
    rows: VecDeque<u128>,
    /// Index of the first transfer not used.
    next: u64,
}

struct Ready {
    cot: CotSender,
    is_set_up: bool,
    masks: Arc<MaskHash>,
}

impl SenderStock {
    /// Begins; returns the base-OT message to send.
    pub(super) fn start(
        base: BaseOt,
        nonce: &[u8; 32],
        rng: &mut impl CryptoRng,
    ) -> (Self, Vec<u8>) {
        let mut bytes = Zeroizing::new([0; 16]);
        rng.fill_bytes(&mut *bytes);
        let delta = Zeroizing::new(u128::from_le_bytes(*bytes));
        let (base, message) = AnyReceiver::start(base, &*delta_choices(*delta), nonce, rng);
        let stock = Self {
            delta,
            base: Some(base),
            ready: None,
            rows: VecDeque::new(),
            next: 0,
        };
        (stock, message)
    }

    /// Goes on with the peer's base-OT message: the point of its opening, or its answer.
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
                is_set_up: kind.setup_len() == 0,
                masks: Arc::new(MaskHash::new(sid)),
            });
        }
        Ok(())
    }

    /// Says whether the peer's base-OT message is awaited.
    pub(super) fn awaits_base(&self) -> bool {
        self.base.is_some()
    }

    /// Takes the peer's seed corrections.
    pub(super) fn handle_setup(&mut self, message: &[u8]) -> Result<(), SessionError> {
        match &mut self.ready {
            Some(ready) if !ready.is_set_up => {
                ready.cot.setup(message)?;
                ready.is_set_up = true;
                Ok(())
            }
            _ => Err(SessionError::Unexpected {
                kind: FrameKind::OtExtendSetup,
                problem: "no extension waits for it",
            }),
        }
    }

    /// Takes an extension of the stock, which may then hold at most `limit` unused transfers.
    pub(super) fn handle_extend(
        &mut self,
        message: &[u8],
        limit: usize,
    ) -> Result<(), SessionError> {
        let wrong = |problem| SessionError::Unexpected {
            kind: FrameKind::OtExtend,
            problem,
        };
        let Some(ready) = self.ready.as_mut().filter(|ready| ready.is_set_up) else {
            return Err(wrong("the extension is not set up"));
        };
        let Some((first, message)) = message.split_first_chunk() else {
            return Err(wrong("it has no number"));
        };
        let blocks = message.len() / ready.cot.kind().message_len(1);
        let count = blocks * BLOCK_OTS;
        if u64::from_le_bytes(*first) != self.next + self.rows.len() as u64 {
            return Err(wrong("it does not go on where the stock ends"));
        }
        if count == 0 || count > OT_CHUNK || self.rows.len() + count > limit {
            return Err(wrong("it adds more than agreed, or nothing"));
        }
        let mut rows = Zeroizing::new(Vec::with_capacity(count));
        ready.cot.extend(count, message, &mut rows)?;
        self.rows.extend(rows.iter());
        Ok(())
    }

    /// Takes out the transfers that an `OtCorrect` frame is about, which must be the next ones.
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
            return Err(wrong("there is no stock"));
        };
        if first != self.next || count == 0 || count > self.rows.len().min(OT_CHUNK) {
            return Err(wrong("it is not about the next transfers in stock"));
        }
        let unused = corrections
            .last()
            .is_some_and(|last| !count.is_multiple_of(8) && last >> (count % 8) != 0);
        if corrections.len() != count.div_ceil(8) || unused {
            return Err(wrong("it has not one correction for each transfer"));
        }
        if first + count as u64 > MAX_INDEX {
            return Err(wrong("the stock is used up"));
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

impl Drop for SenderStock {
    fn drop(&mut self) {
        self.rows.iter_mut().for_each(Zeroize::zeroize);
    }
}

/// Transfers taken out of the garbler's stock, to be answered once.
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

    /// Appends the answer: both strings of every pair, masked so that the receiver can open the one
    /// of its choice. `corrections` has one bit per transfer.
    pub(crate) fn answer(self, corrections: &[u8], pairs: &[[u128; 2]], out: &mut Vec<u8>) {
        let Self {
            first,
            mut rows,
            delta,
            masks,
        } = self;
        for (index, row) in rows.iter_mut().enumerate() {
            let bit = corrections[index / 8] >> (index % 8) & 1;
            // Public, but there is no need for a branch.
            *row ^= *delta & u128::from(bit).wrapping_neg();
        }
        let mut masked = Vec::with_capacity(pairs.len());
        masks.mask(first, &rows, *delta, pairs, &mut masked);
        for block in masked.as_flattened() {
            out.extend_from_slice(&block.to_le_bytes());
        }
    }
}
