//! The column check: all columns of a segment were corrected with the same choices.
//!
//! Every column of a segment is hashed to 128 bits by a polynomial at a public element of
//! GF(2^128), the challenge, which is drawn from a hash of what the receiver has sent. The hash is
//! linear, so `R(q_c) = R(t_c) ^ delta_c R(x)` holds for every column `c` of an honest receiver,
//! which sends `R(x)` and all `R(t_c)`. The last block of a segment is sacrificed: its random
//! choices hide `R(x)`, and its rows are never used. A receiver with other choices `x ^ e` in
//! column `c` passes only if it bets on `delta_c`, because `R(e) = 0` has probability
//! `63 / 2^128` at most over the challenge.
//!
//! This is the check of columns of Roy, SoftSpokenOT (eprint 2022/192), with a polynomial hash. The
//! older check of rows (Keller, Orsini and Scholl, CRYPTO 2015) has a flaw in its proof and is not
//! used.

use std::ops::Deref;

use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::error::check_len;
use crate::extension::{BLOCK_LEN, Block};
use crate::gf128::{Powers, hash_columns};
use crate::{BASE_COUNT, CHECK_LEN, Extension, OtError};

/// Derives the elements at which the segments of a session are hashed.
pub(crate) struct Challenges {
    prefix: blake3::Hasher,
    /// Number of the next segment.
    segment: u64,
}

impl Challenges {
    pub(crate) fn new(kind: Extension, sid: &[u8; 32]) -> Self {
        let mut prefix = blake3::Hasher::new_derive_key("transpute OT column check v1");
        prefix.update(&[kind.code()]).update(sid);
        Self { prefix, segment: 0 }
    }

    /// Returns the coefficients for the next segment.
    pub(crate) fn next(&mut self, challenge: &[u8; 32], blocks: usize) -> Powers {
        let mut hasher = self.prefix.clone();
        hasher.update(&self.segment.to_le_bytes()).update(challenge);
        self.segment += 1;
        let mut element = [0; BLOCK_LEN];
        hasher.finalize_xof().fill(&mut element);
        Powers::new(u128::from_le_bytes(element), blocks)
    }
}

/// The hashes of the columns of a segment.
pub(crate) struct ColumnHashes {
    powers: Powers,
    hashes: Zeroizing<[u128; BASE_COUNT]>,
}

impl ColumnHashes {
    pub(crate) fn new(columns: &[Block], stride: usize, powers: Powers) -> Self {
        let hashes = hash_columns(columns, stride, &powers);
        Self { powers, hashes }
    }
}

/// Appends the receiver's check: the hash of the choices and of every column.
pub(crate) fn write(hashes: &ColumnHashes, choices: &[Block], message: &mut Vec<u8>) {
    message.reserve(CHECK_LEN);
    message.extend_from_slice(&hashes.powers.hash(choices).to_le_bytes());
    for hash in hashes.hashes.iter() {
        message.extend_from_slice(&hash.to_le_bytes());
    }
}

/// Rows of a segment whose check has not come: nothing can be done with them but to
/// [check](crate::CotSender::check) them.
///
/// Wiped on drop.
#[must_use = "rows can be used only when they are checked"]
pub struct UncheckedRows {
    rows: Zeroizing<Vec<u128>>,
    hashes: ColumnHashes,
}

impl UncheckedRows {
    pub(crate) fn new(rows: Zeroizing<Vec<u128>>, hashes: ColumnHashes) -> Self {
        Self { rows, hashes }
    }

    /// Returns the rows if the receiver's check holds for all columns. The time does not depend on
    /// which of them differ.
    pub(crate) fn check(self, delta: u128, message: &[u8]) -> Result<CheckedRows, OtError> {
        check_len("OT extension check", CHECK_LEN, message.len())?;
        let (blocks, _) = message.as_chunks::<BLOCK_LEN>();
        let choices = u128::from_le_bytes(blocks[0]);
        let mut difference = Zeroizing::new(0);
        for (column, (hash, sent)) in self.hashes.hashes.iter().zip(&blocks[1..]).enumerate() {
            // Opaque to the compiler, so that it does not make a branch of the bit.
            let bit = Choice::from((delta >> column & 1) as u8).unwrap_u8();
            let mask = u128::from(bit).wrapping_neg();
            *difference |= hash ^ u128::from_le_bytes(*sent) ^ (choices & mask);
        }
        if bool::from(difference.ct_eq(&0)) {
            Ok(CheckedRows(self.rows))
        } else {
            Err(OtError::ColumnCheckFailed)
        }
    }
}

/// Rows of a segment whose check holds: one `q` per OT.
///
/// Wiped on drop.
pub struct CheckedRows(Zeroizing<Vec<u128>>);

impl CheckedRows {
    pub(crate) fn into_inner(self) -> Zeroizing<Vec<u128>> {
        self.0
    }
}

impl Deref for CheckedRows {
    type Target = [u128];

    fn deref(&self) -> &[u128] {
        &self.0
    }
}
