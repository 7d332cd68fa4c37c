//! Correlated OT in any number of calls, from 128 base OTs.
//!
//! Per stripe of at most [`STRIPE_OTS`] OTs and group `g` of `k` base OTs, the receiver has the
//! columns `v` and the total `u` of its tree and sends `c = u ^ x`, `x` being its choices. The
//! sender has `w_j = v_j ^ delta_j u` and makes `q_j = w_j ^ delta_j c = v_j ^ delta_j x`. The
//! rows of the columns are `t` and `q`.
//!
//! The message of a call is its stripes in order; a stripe has the `c` of every group in order,
//! each the started blocks of 128 OTs of the stripe, 16 bytes per block, OT 0 in bit 0 of byte 0.

use sha2::{Digest, Sha256};
use subtle::Choice;
use zeroize::Zeroizing;

use crate::dispatch::{Work, run};
use crate::error::check_len;
use crate::extension::{BLOCK_LEN, BLOCK_OTS, Block, STRIPE_BLOCKS, STRIPE_OTS};
use crate::fold::{Fold, STRIDE};
use crate::prg::Stream;
use crate::transpose::append_rows;
use crate::tree::{grow_full, grow_punctured, label};
use crate::{BASE_COUNT, Extension, OtError};

/// Sender of correlated OTs, **semi-honest**: holds `delta` and gets one `q` per OT.
///
/// A receiver that deviates from the protocol can learn bits of `delta`: there is no consistency
/// check. Secrets are wiped on drop.
pub struct CotSender {
    delta: Zeroizing<u128>,
    expansion: Expansion,
    /// Chosen keys, until the setup message has come.
    keys: Option<Zeroizing<Vec<u128>>>,
}

impl CotSender {
    /// Takes over after 128 base OTs in which this party was the *receiver* with the bits of
    /// `delta` as choices ([`delta_choices`](crate::delta_choices)) and got `base_keys`.
    ///
    /// Base OTs may serve several sessions as long as `sid` never repeats.
    ///
    /// # Panics
    /// Unless there are [`BASE_COUNT`] keys.
    #[must_use]
    pub fn new(kind: Extension, delta: u128, base_keys: &[u128], sid: &[u8; 32]) -> Self {
        assert_eq!(base_keys.len(), BASE_COUNT, "one base OT per bit of delta");
        let seeds = SeedHash::new(kind, sid);
        let keys: Zeroizing<Vec<u128>> = Zeroizing::new(
            base_keys
                .iter()
                .enumerate()
                .map(|(i, key)| seeds.seed(i, *key))
                .collect(),
        );
        let mut sender = Self {
            delta: Zeroizing::new(delta),
            expansion: Expansion::new(kind, seeds.nonce()),
            keys: Some(keys),
        };
        if kind.setup_len() == 0 {
            sender.grow(&[]);
        }
        sender
    }

    /// Takes in the receiver's setup message, once and before the first [`extend`](Self::extend).
    /// Where the variant has none the call may be left out.
    ///
    /// # Errors
    /// [`OtError::WrongLength`], [`OtError::SetupRepeated`].
    pub fn setup(&mut self, message: &[u8]) -> Result<(), OtError> {
        let expected = self.expansion.kind.setup_len();
        check_len("OT extension setup message", expected, message.len())?;
        if expected > 0 {
            if self.keys.is_none() {
                return Err(OtError::SetupRepeated);
            }
            self.grow(message);
        }
        Ok(())
    }

    /// Makes `n` OTs from the receiver's message of [`Extension::message_len`]`(n)` bytes and
    /// appends one `q` per OT. Both parties must make the same sequence of `n`.
    ///
    /// Room for `n` more elements is reserved first; a caller that cares about copies left behind
    /// by growing reserves all it needs.
    ///
    /// # Errors
    /// [`OtError::SetupMissing`], [`OtError::WrongLength`]; nothing is appended then.
    pub fn extend(&mut self, n: usize, message: &[u8], q: &mut Vec<u128>) -> Result<(), OtError> {
        if self.keys.is_some() {
            return Err(OtError::SetupMissing);
        }
        let expected = self.expansion.kind.message_len(n);
        check_len("OT extension message", expected, message.len())?;
        q.reserve(n);
        let (blocks, _) = message.as_chunks::<BLOCK_LEN>();
        let groups = self.expansion.kind.groups();
        for (stripe, ots) in blocks.chunks(STRIPE_BLOCKS * groups).zip(stripe_sizes(n)) {
            let delta = &*self.delta;
            self.expansion.expand(ots, q, |group, columns, blocks, _| {
                let k = columns.len() / STRIDE;
                run(Correct {
                    columns,
                    sent: &stripe[group * blocks..][..blocks],
                    alpha: delta >> (group * k),
                });
            });
        }
        Ok(())
    }

    /// Returns the variant.
    #[must_use]
    pub fn kind(&self) -> Extension {
        self.expansion.kind
    }

    /// Turns the keys into streams.
    fn grow(&mut self, setup: &[u8]) {
        let Some(keys) = self.keys.take() else { return };
        let kind = self.expansion.kind;
        let (k, nonce) = (kind.k(), self.expansion.nonce);
        let (corrections, _) = setup.as_chunks::<BLOCK_LEN>();
        let mut leaves = Zeroizing::new(vec![0; 1 << k]);
        for (group, keys) in keys.chunks(k).enumerate() {
            let alpha = (*self.delta >> (group * k)) as usize & ((1 << k) - 1);
            let per_group = 2 * (k - 1);
            let corrections = &corrections[group * per_group..][..per_group];
            grow_punctured(nonce, group, keys, alpha, corrections, &mut leaves);
            for (y, leaf) in leaves.iter().enumerate().skip(1) {
                let label = label(nonce, k, group, y ^ alpha);
                self.expansion.streams.push(Stream::new(*leaf, label));
            }
        }
    }
}

/// Receiver of correlated OTs, **semi-honest**: has one choice per OT and gets one
/// `t = q ^ x * delta`.
///
/// Secrets are wiped on drop.
pub struct CotReceiver {
    expansion: Expansion,
}

impl CotReceiver {
    /// Takes over after 128 base OTs in which this party was the *sender* and got `base_pairs`.
    /// Returns the setup message, [`Extension::setup_len`] bytes.
    ///
    /// Base OTs may serve several sessions as long as `sid` never repeats.
    ///
    /// # Panics
    /// Unless there are [`BASE_COUNT`] pairs.
    #[must_use]
    pub fn new(kind: Extension, base_pairs: &[[u128; 2]], sid: &[u8; 32]) -> (Self, Vec<u8>) {
        assert_eq!(base_pairs.len(), BASE_COUNT, "one base OT per bit of delta");
        let seeds = SeedHash::new(kind, sid);
        let pairs: Zeroizing<Vec<[u128; 2]>> = Zeroizing::new(
            base_pairs
                .iter()
                .enumerate()
                .map(|(i, pair)| pair.map(|key| seeds.seed(i, key)))
                .collect(),
        );
        let (k, nonce) = (kind.k(), seeds.nonce());
        let mut expansion = Expansion::new(kind, nonce);
        let mut message = Vec::with_capacity(kind.setup_len());
        let mut leaves = Zeroizing::new(vec![0; 1 << k]);
        for (group, pairs) in pairs.chunks(k).enumerate() {
            grow_full(nonce, group, pairs, &mut leaves, &mut message);
            for (x, leaf) in leaves.iter().enumerate() {
                let label = label(nonce, k, group, x);
                expansion.streams.push(Stream::new(*leaf, label));
            }
        }
        (Self { expansion }, message)
    }

    /// Makes `n` OTs: appends the [`Extension::message_len`]`(n)` bytes for the sender to
    /// `message` and one `t` per OT to `t`. The choice of OT `i` is bit `i % 64` of
    /// `choices[i / 64]`; bits past `n` are ignored.
    ///
    /// Room is reserved in both vectors first, as in [`CotSender::extend`].
    ///
    /// # Panics
    /// If there are fewer than `n` choices.
    pub fn extend(&mut self, choices: &[u64], n: usize, message: &mut Vec<u8>, t: &mut Vec<u128>) {
        assert!(
            choices.len() >= n.div_ceil(64),
            "{} words of choices for {n} OTs",
            choices.len()
        );
        message.reserve(self.expansion.kind.message_len(n));
        t.reserve(n);
        let mut correction = [[0; BLOCK_LEN]; STRIPE_BLOCKS];
        for (stripe, ots) in choices.chunks(STRIPE_OTS / 64).zip(stripe_sizes(n)) {
            let packed = pack(stripe, ots);
            self.expansion.expand(ots, t, |_, _, blocks, total| {
                let correction = &mut correction[..blocks];
                run(Mask {
                    total,
                    choices: &packed,
                    correction,
                });
                message.extend_from_slice(correction.as_flattened());
            });
        }
    }

    /// Returns the variant.
    #[must_use]
    pub fn kind(&self) -> Extension {
        self.expansion.kind
    }
}

/// Splits `n` OTs into stripes.
fn stripe_sizes(n: usize) -> impl Iterator<Item = usize> {
    (0..n.div_ceil(STRIPE_OTS)).map(move |i| STRIPE_OTS.min(n - i * STRIPE_OTS))
}

/// Packs the first `n` choices into blocks; bits past `n` become 0.
fn pack(choices: &[u64], n: usize) -> Zeroizing<Vec<Block>> {
    let mut blocks = Zeroizing::new(vec![[0; 2]; n.div_ceil(BLOCK_OTS)]);
    let words = blocks.as_flattened_mut();
    words[..n.div_ceil(64)].copy_from_slice(&choices[..n.div_ceil(64)]);
    if !n.is_multiple_of(64) {
        words[n / 64] &= (1 << (n % 64)) - 1;
    }
    blocks
}

/// What both parties do: streams of all trees, stripe by stripe, into rows.
struct Expansion {
    kind: Extension,
    nonce: u64,
    /// One stream per known leaf, group after group.
    streams: Vec<Stream>,
    /// Blocks of every stream used up. It never goes back, and 2^64 blocks are never reached.
    position: u64,
    columns: Columns,
    fold: Fold,
}

impl Expansion {
    fn new(kind: Extension, nonce: u64) -> Self {
        Self {
            kind,
            nonce,
            streams: Vec::with_capacity(kind.groups() << kind.k()),
            position: 0,
            columns: Columns::new(),
            fold: Fold::new(),
        }
    }

    /// Makes the columns of one stripe, lets `finish` see every group (index, columns, blocks of a
    /// column, total) and appends the rows.
    fn expand(
        &mut self,
        ots: usize,
        rows: &mut Vec<u128>,
        mut finish: impl FnMut(usize, &mut [Block], usize, &[Block]),
    ) {
        let k = self.kind.k();
        let blocks = ots.div_ceil(BLOCK_OTS);
        let known = self.streams.len() / self.kind.groups();
        let all_columns = self.columns.aligned();
        for (group, (streams, columns)) in self
            .streams
            .chunks(known)
            .zip(all_columns.chunks_mut(k * STRIDE))
            .enumerate()
        {
            let total = self.fold.sum(k, streams, self.position, blocks, columns);
            finish(group, columns, blocks, total);
        }
        self.position += blocks as u64;
        append_rows(all_columns, STRIDE, ots, rows);
    }
}

/// The columns of a stripe, [`STRIDE`] apart.
struct Columns(Zeroizing<Vec<Block>>);

impl Columns {
    const LEN: usize = BASE_COUNT * STRIDE;

    /// Blocks in a cache line.
    const LINE: usize = 4;

    fn new() -> Self {
        Self(Zeroizing::new(vec![[0; 2]; Self::LEN + Self::LINE - 1]))
    }

    /// Starts at a cache line, for vectors that fill one.
    fn aligned(&mut self) -> &mut [Block] {
        let skipped = self
            .0
            .as_ptr()
            .align_offset(Self::LINE * size_of::<Block>());
        // The offset is not promised to be found, and costs only speed if it is not.
        &mut self.0[skipped.min(Self::LINE - 1)..][..Self::LEN]
    }
}

/// What the sender does with a group: adds the correction to the columns `j` of which bit `j` of
/// `alpha` is set.
struct Correct<'a> {
    columns: &'a mut [Block],
    sent: &'a [[u8; BLOCK_LEN]],
    alpha: u128,
}

impl Work for Correct<'_> {
    #[inline(always)]
    fn run<const WORDS: usize>(self) {
        let (sent, _) = self.sent.as_flattened().as_chunks::<8>();
        for (j, column) in self.columns.chunks_mut(STRIDE).enumerate() {
            // Opaque to the compiler, so that it does not make a branch of the bit.
            let bit = Choice::from((self.alpha >> j & 1) as u8);
            let mask = 0_u64.wrapping_sub(u64::from(bit.unwrap_u8()));
            for (q, sent) in column.as_flattened_mut().iter_mut().zip(sent) {
                *q ^= mask & u64::from_le_bytes(*sent);
            }
        }
    }
}

/// What the receiver does with a group: the correction is the total with the choices added.
struct Mask<'a> {
    total: &'a [Block],
    choices: &'a [Block],
    correction: &'a mut [[u8; BLOCK_LEN]],
}

impl Work for Mask<'_> {
    #[inline(always)]
    fn run<const WORDS: usize>(self) {
        let (correction, _) = self.correction.as_flattened_mut().as_chunks_mut::<8>();
        let words = self
            .total
            .as_flattened()
            .iter()
            .zip(self.choices.as_flattened());
        for (sent, (total, choices)) in correction.iter_mut().zip(words) {
            *sent = (total ^ choices).to_le_bytes();
        }
    }
}

/// Binds the keys of the base OTs to the session, the variant and their index.
struct SeedHash {
    prefix: Sha256,
}

impl SeedHash {
    fn new(kind: Extension, sid: &[u8; 32]) -> Self {
        let prefix = Sha256::new()
            .chain_update(b"transpute OT extension v1")
            .chain_update([kind.code()])
            .chain_update(sid);
        Self { prefix }
    }

    /// Returns the seed that a base key of instance `index` stands for.
    fn seed(&self, index: usize, key: u128) -> u128 {
        let digest = self
            .prefix
            .clone()
            .chain_update(b"seed")
            .chain_update((index as u64).to_le_bytes())
            .chain_update(*Zeroizing::new(key.to_le_bytes()))
            .finalize();
        let digest = Zeroizing::new(<[u8; 32]>::from(digest));
        let mut seed = Zeroizing::new([0; 16]);
        seed.copy_from_slice(&digest[..16]);
        u128::from_le_bytes(*seed)
    }

    /// Returns the public number that makes the labels of this session different.
    fn nonce(&self) -> u64 {
        let digest = <[u8; 32]>::from(self.prefix.clone().chain_update(b"nonce").finalize());
        let mut nonce = [0; 8];
        nonce.copy_from_slice(&digest[..8]);
        u64::from_le_bytes(nonce)
    }
}
