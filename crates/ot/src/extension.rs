//! The variants of OT extension and their costs.

use std::fmt;
use std::str::FromStr;

use crate::{BASE_COUNT, OtError};

/// A variant of OT extension, which derives correlated OTs from 128 base OTs.
///
/// All four variants are one construction: `128 / k` vector oblivious linear evaluations over the
/// field of `2^k` elements (Roy, SoftSpokenOT, eprint 2022/192). With `k = 1` it is the OT
/// extension of Ishai, Kilian, Nissim and Petrank (CRYPTO 2003). A larger `k` sends `128 / k` bits
/// per OT instead of 128, and computes `2^k / k` AES blocks per 128 bits on each side. The seed
/// trees and the columns are checked, so that a malicious receiver is detected (see
/// [`CotSender`](crate::CotSender)).
///
/// | variant | bytes per OT | setup message |
/// | --- | --- | --- |
/// | `Iknp` | 16 | none |
/// | `SoftSpoken2` | 8 | 6,144 bytes |
/// | `SoftSpoken4` | 4 | 5,120 bytes |
/// | `SoftSpoken8` | 2 | 4,608 bytes |
///
/// Each segment of at most [`SEGMENT_OTS`] OTs also sends one sacrificed block of 128 OTs, and a
/// check of [`check_len`](Self::check_len) bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Extension {
    /// IKNP, `k = 1`: no setup message, for small numbers of OTs.
    Iknp,
    /// SoftSpoken with `k = 2`: the fastest variant on links with high bandwidth.
    SoftSpoken2,
    /// SoftSpoken with `k = 4`: a quarter of the bytes of IKNP with little more computation.
    SoftSpoken4,
    /// SoftSpoken with `k = 8`: for links with low bandwidth.
    SoftSpoken8,
}

/// Number of OTs per block. For a segment of `n` OTs, the parties process `n` rounded up to a
/// multiple of this number, plus one sacrificed block.
pub const BLOCK_OTS: usize = 128;

/// The maximum number of OTs in a segment, which is extended and checked as one unit. With the
/// sacrificed block, a column then has 64 blocks, which the AES kernels encrypt in one step.
pub const SEGMENT_OTS: usize = (SEGMENT_BLOCKS - 1) * BLOCK_OTS;

/// The largest number of blocks in a column of a segment, including the sacrificed block.
pub(crate) const SEGMENT_BLOCKS: usize = 64;

/// A 128-bit string in the kernels, low word first. The compiler vectorizes loops over `u64`, but
/// not over `u128`.
pub(crate) type Block = [u64; 2];

/// Splits a 128-bit string into words.
pub(crate) fn to_block(value: u128) -> Block {
    [value as u64, (value >> 64) as u64]
}

/// Joins the words of a 128-bit string.
pub(crate) fn from_block([low, high]: Block) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

/// Length of a 128-bit string on the wire, in bytes.
pub(crate) const BLOCK_LEN: usize = 16;

/// Length of the check of one seed tree, in bytes: the sum of the leaves' strings, and a hash of
/// all of them.
pub(crate) const TREE_CHECK_LEN: usize = 64;

/// Returns the number of blocks in a column of a segment of `n` OTs, including the sacrificed
/// block.
pub(crate) fn segment_blocks(n: usize) -> usize {
    n.div_ceil(BLOCK_OTS).saturating_add(1)
}

/// The minimum number of OTs for which [`Extension::for_count`] selects SoftSpoken: from here on,
/// its smaller corrections outweigh its setup message.
const SOFTSPOKEN_FROM: u64 = 10_000;

impl Extension {
    /// All variants, in decreasing order of bytes per OT.
    pub const ALL: [Self; 4] = [
        Self::Iknp,
        Self::SoftSpoken2,
        Self::SoftSpoken4,
        Self::SoftSpoken8,
    ];

    /// Returns the variant for `n` OTs if nothing is known about the path: IKNP below 10,000 OTs,
    /// else SoftSpoken with `k = 4`. `SoftSpoken2` is better on links over about 1 Gbit/s, and
    /// `SoftSpoken8` below about 10 Mbit/s.
    #[must_use]
    pub fn for_count(n: u64) -> Self {
        if n < SOFTSPOKEN_FROM {
            Self::Iknp
        } else {
            Self::SoftSpoken4
        }
    }

    /// Returns the length of the setup message, in bytes; 0 if there is none.
    #[must_use]
    pub fn setup_len(self) -> usize {
        self.groups() * self.group_setup_len()
    }

    /// Returns the length of one seed tree's part of the setup message, in bytes: two corrections
    /// for each level below the top, and the check of the leaves.
    pub(crate) fn group_setup_len(self) -> usize {
        match self.k() {
            1 => 0,
            k => (k - 1) * 2 * BLOCK_LEN + TREE_CHECK_LEN,
        }
    }

    /// Returns the length of the corrections of one block of [`BLOCK_OTS`], in bytes: `16 * 128 /
    /// k`.
    #[must_use]
    pub fn block_len(self) -> usize {
        self.groups() * BLOCK_LEN
    }

    /// Returns the length of the corrections of a segment of `n` OTs, in bytes: `16 * 128 / k` for
    /// each block of [`BLOCK_OTS`], the last one padded, and for the sacrificed block. The result
    /// saturates instead of overflowing.
    #[must_use]
    pub fn corrections_len(self, n: usize) -> usize {
        segment_blocks(n).saturating_mul(self.block_len())
    }

    /// Returns the length of the check of a segment, in bytes: one hash of the choices, and one per
    /// group of columns.
    #[must_use]
    pub fn check_len(self) -> usize {
        BLOCK_LEN + self.block_len()
    }

    /// Returns the code of the variant on the wire, which is `k`.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Iknp => 1,
            Self::SoftSpoken2 => 2,
            Self::SoftSpoken4 => 4,
            Self::SoftSpoken8 => 8,
        }
    }

    /// Returns the variant with a code.
    ///
    /// # Errors
    /// Returns [`OtError::UnknownCode`] if no variant has this code.
    pub fn from_code(code: u8) -> Result<Self, OtError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.code() == code)
            .ok_or(OtError::UnknownCode { code })
    }

    /// Returns the exponent `k` of the field size.
    pub(crate) fn k(self) -> usize {
        usize::from(self.code())
    }

    /// Returns the number of groups of `k` base OTs.
    pub(crate) fn groups(self) -> usize {
        BASE_COUNT / self.k()
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Iknp => "iknp",
            Self::SoftSpoken2 => "softspoken-2",
            Self::SoftSpoken4 => "softspoken-4",
            Self::SoftSpoken8 => "softspoken-8",
        })
    }
}

impl FromStr for Extension {
    type Err = OtError;

    fn from_str(name: &str) -> Result<Self, OtError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_string() == name)
            .ok_or_else(|| OtError::UnknownName {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_names_and_codes_round_trip() {
        for kind in Extension::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(Extension::from_code(kind.code()), Ok(kind));
        }
        assert_eq!(
            Extension::from_code(3),
            Err(OtError::UnknownCode { code: 3 })
        );
        assert!("IKNP".parse::<Extension>().is_err());
    }

    #[test]
    fn messages_have_the_documented_sizes() {
        let sizes = |kind: Extension| {
            let corrections = [1, 129].map(|n| kind.corrections_len(n));
            (kind.setup_len(), corrections)
        };
        assert_eq!(sizes(Extension::Iknp), (0, [4096, 6144]));
        assert_eq!(sizes(Extension::SoftSpoken2), (6144, [2048, 3072]));
        assert_eq!(sizes(Extension::SoftSpoken4), (5120, [1024, 1536]));
        assert_eq!(sizes(Extension::SoftSpoken8), (4608, [512, 768]));
        assert_eq!(Extension::Iknp.corrections_len(usize::MAX), usize::MAX);
        let checks = Extension::ALL.map(Extension::check_len);
        assert_eq!((SEGMENT_OTS, checks), (8064, [2064, 1040, 528, 272]));
    }

    #[test]
    fn small_counts_skip_the_setup() {
        assert_eq!(Extension::for_count(9_999), Extension::Iknp);
        assert_eq!(Extension::for_count(10_000), Extension::SoftSpoken4);
    }
}
