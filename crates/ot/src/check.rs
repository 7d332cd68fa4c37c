//! The column check: it proves that all columns of a segment were corrected with the same choices.
//!
//! Every column of a segment is hashed to 128 bits by a polynomial. It is evaluated at a public
//! element of GF(2^128), the challenge, which is derived from a hash of the receiver's messages.
//! The hash `R` is linear over the field, so `R(q_c) = R(t_c) + delta_c R(x)` holds for every
//! column `c` of an honest receiver.
//!
//! The `k` columns of a group were corrected by one string, so they are checked together, as the
//! coefficients of 1, x, .., x^(k-1). Let `H_g(t)` be the sum of `x^j R(t_j)` over the group, and
//! `D_g` the polynomial of the group's bits of `delta`. Then
//!
//! ```text
//! H_g(q) = H_g(t) + D_g R(x)          for every group g
//! ```
//!
//! The receiver sends `R(x)` and all `H_g(t)`. The last block of a segment is sacrificed: its
//! random choices hide `R(x)`, and its rows are never used.
//!
//! A receiver that corrects group `g` for choices `x + e` makes the two sides differ by `D_g R(e)`.
//! Over the random challenge, `R(e) = 0` has probability at most `63 / 2^128`. Otherwise the
//! difference is distinct for each value of `D_g`, so the receiver passes only if it guesses all
//! `k` bits.
//!
//! This is the column check of Roy, SoftSpokenOT (eprint 2022/192), with a polynomial hash. The
//! older row check (Keller, Orsini and Scholl, CRYPTO 2015) has a flaw in its proof and is not
//! used.

use std::ops::Deref;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::error::check_len;
use crate::extension::{BLOCK_LEN, Block};
use crate::gf128::{Hashes, Powers, hash_column, hash_groups, scale};
use crate::{Extension, OtError};

/// The state from which the challenges of all segments of a session are derived.
pub(crate) struct Challenges {
    kind: Extension,
    prefix: Sha256,
    /// The number of the next segment.
    segment: u64,
}

impl Challenges {
    pub(crate) fn new(kind: Extension, sid: &[u8; 32]) -> Self {
        let prefix = Sha256::new()
            .chain_update(b"transpute OT column check v1")
            .chain_update([kind.code()])
            .chain_update(sid);
        Self {
            kind,
            prefix,
            segment: 0,
        }
    }

    /// Hashes the columns of the next segment, which have `blocks` blocks each.
    pub(crate) fn hash(
        &mut self,
        challenge: &[u8; 32],
        blocks: usize,
        columns: &[Block],
        stride: usize,
    ) -> ColumnHashes {
        let digest = self
            .prefix
            .clone()
            .chain_update(self.segment.to_le_bytes())
            .chain_update(challenge)
            .finalize();
        self.segment += 1;
        let mut element = [0; BLOCK_LEN];
        element.copy_from_slice(&digest[..BLOCK_LEN]);
        let powers = Powers::new(u128::from_le_bytes(element), blocks);
        ColumnHashes {
            kind: self.kind,
            hashes: hash_groups(columns, stride, self.kind.k(), &powers),
            powers,
        }
    }
}

/// The hashes of the columns of a segment.
pub(crate) struct ColumnHashes {
    kind: Extension,
    hashes: Hashes,
    powers: Powers,
}

/// Appends the receiver's check to `message`: the hash of the choices, and one hash for each group
/// of columns.
pub(crate) fn write(hashes: &ColumnHashes, choices: &[Block], message: &mut Vec<u8>) {
    message.reserve(hashes.kind.check_len());
    message.extend_from_slice(&hash_column(choices, &hashes.powers).to_le_bytes());
    for hash in hashes.hashes.iter() {
        message.extend_from_slice(&hash.to_le_bytes());
    }
}

/// Rows of a segment that is not checked yet. They cannot be read before
/// [`CotSender::check`](crate::CotSender::check).
///
/// Wiped on drop.
#[must_use = "rows can be used only when they are checked"]
pub struct UncheckedRows {
    rows: Zeroizing<Vec<u128>>,
    kind: Extension,
    hashes: Hashes,
}

impl UncheckedRows {
    pub(crate) fn new(rows: Zeroizing<Vec<u128>>, columns: ColumnHashes) -> Self {
        let ColumnHashes { kind, hashes, .. } = columns;
        Self { rows, kind, hashes }
    }

    /// Returns the rows if the receiver's check holds for all columns. The running time does not
    /// depend on which columns fail.
    pub(crate) fn check(self, delta: u128, message: &[u8]) -> Result<CheckedRows, OtError> {
        let kind = self.kind;
        check_len("OT extension check", kind.check_len(), message.len())?;
        let (blocks, _) = message.as_chunks::<BLOCK_LEN>();
        let choices = u128::from_le_bytes(blocks[0]);
        let mut difference = Zeroizing::new(0);
        for (group, (hash, sent)) in self.hashes.iter().zip(&blocks[1..]).enumerate() {
            let expected = scale(choices, delta >> (group * kind.k()), kind.k());
            *difference |= hash ^ u128::from_le_bytes(*sent) ^ expected;
        }
        if bool::from(difference.ct_eq(&0)) {
            Ok(CheckedRows(self.rows))
        } else {
            Err(OtError::ColumnCheckFailed)
        }
    }
}

/// Rows of a segment that passed the check: one `q` per OT.
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
