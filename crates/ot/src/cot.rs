//! Correlated OT in segments, from 128 base OTs.
//!
//! For each segment and group `g` of `k` base OTs, the receiver has the columns `v` and the total
//! `u` of its tree. It sends the correction `c = u ^ x`, where `x` are its choices. The sender has
//! `w_j = v_j ^ delta_j u` and computes `q_j = w_j ^ delta_j c = v_j ^ delta_j x`. The rows of
//! these columns are `t` and `q`.
//!
//! The corrections of a segment are the `c` of all groups, in order. A `c` consists of blocks of
//! 128 OTs, the last of which is padded, and the sacrificed block. A block has 16 bytes, with OT 0
//! in bit 0 of byte 0. The [column check](crate::check) follows the corrections.

use rand::CryptoRng;
use sha2::{Digest, Sha256};
use subtle::Choice;
use zeroize::{Zeroize, Zeroizing};

use crate::check::{self, ColumnHashes};
use crate::dispatch::{Work, run};
use crate::error::check_len;
use crate::extension::{
    BLOCK_LEN, BLOCK_OTS, Block, SEGMENT_BLOCKS, TREE_CHECK_LEN, segment_blocks,
};
use crate::fold::{Fold, STRIDE};
use crate::prg::Stream;
use crate::transpose::Transposer;
use crate::tree::{finish_full, finish_punctured, grow_full, grow_punctured, label};
use crate::{BASE_COUNT, CheckedRows, Extension, OtError, SEGMENT_OTS, UncheckedRows};

/// The sender of correlated OTs, which holds `delta` and obtains one `q` per OT. It is secure
/// against a malicious receiver.
///
/// Two checks detect a malicious receiver. The setup message has a check of the seed trees
/// (SoftSpoken only). Each segment has a check of the columns, which proves that the receiver
/// corrected all columns with the same choices. To use different choices in some groups of `k`
/// columns, a receiver must guess the `k` bits of `delta` of each of these groups. It learns `j`
/// bits of `delta` in this way with probability 2^-j, and is detected otherwise.
///
/// Nothing that depends on a row may be revealed before its segment is checked. The types ensure
/// that: only [`CheckedRows`] can be read. After a failed check, the sender rejects all calls,
/// because `delta` must not be used any more.
///
/// Secrets are wiped on drop.
pub struct CotSender {
    delta: Zeroizing<u128>,
    expansion: Expansion,
    /// The chosen keys, until the setup message was received.
    keys: Option<Zeroizing<Vec<u128>>>,
    failed: Option<OtError>,
    /// Memory for the rows of the next segment.
    spare: Zeroizing<Vec<u128>>,
}

impl CotSender {
    /// Returns a sender after 128 base OTs in which this party was the *receiver*, with the bits of
    /// `delta` as choices ([`delta_choices`](crate::delta_choices)), and obtained `base_keys`.
    ///
    /// The same base OTs may serve several sessions if `sid` never repeats.
    ///
    /// # Panics
    /// Panics unless there are [`BASE_COUNT`] keys.
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
            expansion: Expansion::new(kind, sid, seeds.nonce()),
            keys: Some(keys),
            failed: None,
            spare: Zeroizing::default(),
        };
        if kind.setup_len() == 0 {
            // This variant has no seed tree, so `grow` cannot fail.
            let _ = sender.grow(&[]);
        }
        sender
    }

    /// Reads the receiver's setup message and checks its seed trees. Call this once, before the
    /// first [`extend`](Self::extend). The call is optional for a variant without a setup message.
    ///
    /// # Errors
    /// Returns [`OtError::WrongLength`] if the message has the wrong length. Returns
    /// [`OtError::SetupRepeated`] on a second call. Returns [`OtError::TreeCheckFailed`] if a seed
    /// tree is inconsistent.
    pub fn setup(&mut self, message: &[u8]) -> Result<(), OtError> {
        self.check_not_failed()?;
        let expected = self.expansion.kind.setup_len();
        check_len("OT extension setup message", expected, message.len())?;
        if expected > 0 {
            if self.keys.is_none() {
                return Err(OtError::SetupRepeated);
            }
            self.grow(message).map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    /// Computes the rows of a segment of `n` OTs from the receiver's corrections, which have
    /// [`Extension::corrections_len`]`(n)` bytes. Both parties must extend by the same sequence of
    /// `n`.
    ///
    /// `challenge` is the value that the receiver passes to [`OpenSegment::prove`]. It is a hash,
    /// modelled as a random oracle, of at least these corrections and of all earlier messages of
    /// the receiver: the base-OT message, the setup message and the corrections of the earlier
    /// segments. A receiver that could predict it would pass the check with any corrections.
    ///
    /// # Errors
    /// Returns [`OtError::SegmentSize`] if `n` is out of range. Returns [`OtError::SetupMissing`]
    /// before the setup. Returns [`OtError::WrongLength`] if the corrections have the wrong length;
    /// or the error of an earlier check that failed.
    pub fn extend(
        &mut self,
        n: usize,
        corrections: &[u8],
        challenge: &[u8; 32],
    ) -> Result<UncheckedRows, OtError> {
        self.check_not_failed()?;
        if self.keys.is_some() {
            return Err(OtError::SetupMissing);
        }
        if !(1..=SEGMENT_OTS).contains(&n) {
            return Err(OtError::SegmentSize {
                max: SEGMENT_OTS,
                found: n,
            });
        }
        let kind = self.expansion.kind;
        let expected = kind.corrections_len(n);
        check_len("OT extension message", expected, corrections.len())?;
        let (corrections, _) = corrections.as_chunks::<BLOCK_LEN>();
        let delta = &*self.delta;
        let blocks = segment_blocks(n);
        self.expansion.expand(blocks, |group, columns, _| {
            run(Correct {
                columns,
                sent: &corrections[group * blocks..][..blocks],
                alpha: delta >> (group * kind.k()),
            });
        });
        let hashes = self.expansion.hash_columns(blocks, challenge);
        let mut rows = std::mem::take(&mut self.spare);
        rows.clear();
        if rows.capacity() < n {
            // Growing the vector would leave a copy of the rows in the old memory.
            rows = Zeroizing::new(Vec::with_capacity(n));
        }
        self.expansion.append_rows(n, &mut rows);
        Ok(UncheckedRows::new(rows, hashes))
    }

    /// Verifies the check of a segment, [`Extension::check_len`] bytes, and returns its rows.
    ///
    /// # Errors
    /// Returns [`OtError::WrongLength`] if the check has the wrong length. Returns
    /// [`OtError::ColumnCheckFailed`] if it fails.
    pub fn check(&mut self, rows: UncheckedRows, message: &[u8]) -> Result<CheckedRows, OtError> {
        self.check_not_failed()?;
        let checked = rows.check(*self.delta, message);
        checked.map_err(|error| self.fail(error))
    }

    /// Returns the memory of used rows, so that the next segment can reuse it.
    pub fn recycle(&mut self, rows: CheckedRows) {
        self.spare = rows.into_inner();
    }

    /// Returns the variant of OT extension.
    #[must_use]
    pub fn kind(&self) -> Extension {
        self.expansion.kind
    }

    fn check_not_failed(&self) -> Result<(), OtError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: OtError) -> OtError {
        self.delta.zeroize();
        self.expansion.streams.clear();
        self.failed = Some(error.clone());
        error
    }

    /// Derives the streams from the base-OT keys and the setup message.
    fn grow(&mut self, setup: &[u8]) -> Result<(), OtError> {
        let Some(keys) = self.keys.take() else {
            return Ok(());
        };
        let kind = self.expansion.kind;
        let (k, nonce) = (kind.k(), self.expansion.nonce);
        let mut leaves = Zeroizing::new(vec![0; 1 << k]);
        let mut rest = setup;
        for (group, keys) in keys.chunks(k).enumerate() {
            let alpha = (*self.delta >> (group * k)) as usize & ((1 << k) - 1);
            let (message, next) = rest.split_at(kind.group_setup_len());
            rest = next;
            if let Some((corrections, check)) = message.split_last_chunk::<TREE_CHECK_LEN>() {
                let (corrections, _) = corrections.as_chunks::<BLOCK_LEN>();
                grow_punctured(nonce, group, keys, alpha, corrections, &mut leaves);
                finish_punctured(nonce, k, group, alpha, &mut leaves, check)?;
            } else {
                leaves[1] = keys[0];
            }
            for (y, leaf) in leaves.iter().enumerate().skip(1) {
                let label = label(nonce, k + 1, group, y ^ alpha);
                self.expansion.streams.push(Stream::new(*leaf, label));
            }
        }
        Ok(())
    }
}

/// The receiver of correlated OTs; it has one choice per OT and obtains one `t = q ^ x * delta`. A
/// malicious sender learns nothing about the choices.
///
/// Secrets are wiped on drop.
pub struct CotReceiver {
    expansion: Expansion,
}

impl CotReceiver {
    /// Returns a receiver after 128 base OTs in which this party was the *sender* and obtained
    /// `base_pairs`. Also returns the setup message, [`Extension::setup_len`] bytes.
    ///
    /// The same base OTs may serve several sessions if `sid` never repeats.
    ///
    /// # Panics
    /// Panics unless there are [`BASE_COUNT`] pairs.
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
        let mut expansion = Expansion::new(kind, sid, nonce);
        let mut message = Vec::with_capacity(kind.setup_len());
        let mut leaves = Zeroizing::new(vec![0; 1 << k]);
        for (group, pairs) in pairs.chunks(k).enumerate() {
            grow_full(nonce, group, pairs, &mut leaves, &mut message);
            if k > 1 {
                finish_full(nonce, k, group, &mut leaves, &mut message);
            }
            for (x, leaf) in leaves.iter().enumerate() {
                let label = label(nonce, k + 1, group, x);
                expansion.streams.push(Stream::new(*leaf, label));
            }
        }
        (Self { expansion }, message)
    }

    /// Begins a segment of `n` OTs and appends its corrections for the sender,
    /// [`Extension::corrections_len`]`(n)` bytes, to `message`. The choice of OT `i` is bit `i %
    /// 64` of `choices[i / 64]`; bits past `n` are ignored. `rng` draws the choices of the
    /// sacrificed block, which hides the other choices in the check.
    ///
    /// # Panics
    /// Panics unless `n` is 1 to [`SEGMENT_OTS`], or if there are fewer than `n` choices.
    pub fn extend(
        &mut self,
        choices: &[u64],
        n: usize,
        rng: &mut impl CryptoRng,
        message: &mut Vec<u8>,
    ) -> OpenSegment<'_> {
        assert!(
            (1..=SEGMENT_OTS).contains(&n),
            "a segment of {n} OTs, expected 1 to {SEGMENT_OTS}"
        );
        assert!(
            choices.len() >= n.div_ceil(64),
            "{} words of choices for {n} OTs",
            choices.len()
        );
        let choices = pack(choices, n, [rng.next_u64(), rng.next_u64()]);
        message.reserve(self.expansion.kind.corrections_len(n));
        let mut correction = [[0; BLOCK_LEN]; SEGMENT_BLOCKS];
        let correction = &mut correction[..choices.len()];
        self.expansion.expand(choices.len(), |_, _, total| {
            run(Mask {
                total,
                choices: &choices,
                correction,
            });
            message.extend_from_slice(correction.as_flattened());
        });
        OpenSegment {
            expansion: &mut self.expansion,
            choices,
            n,
        }
    }

    /// Returns the variant of OT extension.
    #[must_use]
    pub fn kind(&self) -> Extension {
        self.expansion.kind
    }
}

/// A segment whose corrections were written, but whose check was not. [`OpenSegment::prove`] writes
/// the check.
#[must_use = "the sender cannot use a segment without its check"]
pub struct OpenSegment<'a> {
    expansion: &'a mut Expansion,
    /// The choices of the OTs, followed by those of the sacrificed block.
    choices: Zeroizing<Vec<Block>>,
    n: usize,
}

impl OpenSegment<'_> {
    /// Appends the check for `challenge`, [`Extension::check_len`] bytes for the sender, to
    /// `message`, and one `t` per OT to `t`. [`CotSender::extend`] describes the challenge.
    ///
    /// `prove` reserves room for the rows in `t`. A vector that grows leaves a copy of its contents
    /// in the old memory. To prevent that, reserve the room for all rows in advance.
    pub fn prove(self, challenge: &[u8; 32], message: &mut Vec<u8>, t: &mut Vec<u128>) {
        let hashes = self.expansion.hash_columns(self.choices.len(), challenge);
        check::write(&hashes, &self.choices, message);
        self.expansion.append_rows(self.n, t);
    }
}

/// Packs the first `n` choices into blocks, with 0 for bits past `n`, and appends the sacrificed
/// block.
fn pack(choices: &[u64], n: usize, sacrificed: Block) -> Zeroizing<Vec<Block>> {
    let mut blocks = Zeroizing::new(vec![[0; 2]; segment_blocks(n)]);
    blocks[n.div_ceil(BLOCK_OTS)] = sacrificed;
    let words = blocks.as_flattened_mut();
    words[..n.div_ceil(64)].copy_from_slice(&choices[..n.div_ceil(64)]);
    if !n.is_multiple_of(64) {
        words[n / 64] &= (1 << (n % 64)) - 1;
    }
    blocks
}

/// The part of the computation that both parties share. It expands the streams of all trees,
/// segment by segment, into columns and rows.
struct Expansion {
    kind: Extension,
    nonce: u64,
    /// The state from which the challenges of the session are derived.
    challenges: check::Challenges,
    /// One stream per known leaf, ordered by group.
    streams: Vec<Stream>,
    /// Number of blocks used of every stream. It only increases, and cannot reach 2^64.
    position: u64,
    columns: Columns,
    fold: Fold,
    transposer: Transposer,
}

impl Expansion {
    fn new(kind: Extension, sid: &[u8; 32], nonce: u64) -> Self {
        Self {
            kind,
            nonce,
            challenges: check::Challenges::new(kind, sid),
            streams: Vec::with_capacity(kind.groups() << kind.k()),
            position: 0,
            columns: Columns::new(),
            fold: Fold::new(),
            transposer: Transposer::new(),
        }
    }

    /// Computes the columns of a segment of `blocks` blocks. For every group, calls `finish` with
    /// the index of the group, its columns and its total.
    fn expand(&mut self, blocks: usize, mut finish: impl FnMut(usize, &mut [Block], &[Block])) {
        let k = self.kind.k();
        let known = self.streams.len() / self.kind.groups();
        for (group, (streams, columns)) in self
            .streams
            .chunks(known)
            .zip(self.columns.aligned().chunks_mut(k * STRIDE))
            .enumerate()
        {
            let total = self.fold.sum(k, streams, self.position, blocks, columns);
            finish(group, columns, total);
        }
        self.position += blocks as u64;
    }

    /// Hashes the columns of the present segment for its check.
    fn hash_columns(&mut self, blocks: usize, challenge: &[u8; 32]) -> ColumnHashes {
        let columns = self.columns.aligned();
        self.challenges.hash(challenge, blocks, columns, STRIDE)
    }

    /// Appends the first `n` rows of the present segment.
    fn append_rows(&mut self, n: usize, rows: &mut Vec<u128>) {
        let columns = self.columns.aligned();
        self.transposer.append_rows(columns, STRIDE, n, rows);
    }
}

/// The columns of a segment. Consecutive columns start [`STRIDE`] blocks apart.
struct Columns(Zeroizing<Vec<Block>>);

impl Columns {
    const LEN: usize = BASE_COUNT * STRIDE;

    /// Number of blocks in a cache line.
    const LINE: usize = 4;

    fn new() -> Self {
        Self(Zeroizing::new(vec![[0; 2]; Self::LEN + Self::LINE - 1]))
    }

    /// Returns the columns, aligned to a cache line for full-width vectors.
    fn aligned(&mut self) -> &mut [Block] {
        let skipped = self
            .0
            .as_ptr()
            .align_offset(Self::LINE * size_of::<Block>());
        // If the alignment cannot be computed, the columns are unaligned, which affects only speed.
        &mut self.0[skipped.min(Self::LINE - 1)..][..Self::LEN]
    }
}

/// The sender's operation on a group: adds the correction to each column `j` for which bit `j` of
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
            // `Choice` hides the bit from the optimizer, which could otherwise turn it into a
            // branch.
            let bit = Choice::from((self.alpha >> j & 1) as u8);
            let mask = 0_u64.wrapping_sub(u64::from(bit.unwrap_u8()));
            for (q, sent) in column.as_flattened_mut().iter_mut().zip(sent) {
                *q ^= mask & u64::from_le_bytes(*sent);
            }
        }
    }
}

/// The receiver's operation on a group: computes the correction, which is the total plus the
/// choices.
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

/// Derives seeds from base-OT keys. A seed depends on the session, the variant and the index of the
/// key.
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

    /// Returns the seed derived from a base-OT key of instance `index`.
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

    /// Returns the public nonce that separates the PRG labels of this session from those of others.
    fn nonce(&self) -> u64 {
        let digest = <[u8; 32]>::from(self.prefix.clone().chain_update(b"nonce").finalize());
        let mut nonce = [0; 8];
        nonce.copy_from_slice(&digest[..8]);
        u64::from_le_bytes(nonce)
    }
}
