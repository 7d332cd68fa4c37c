//! The variants of OT extension and what each costs.

use std::fmt;
use std::str::FromStr;

use crate::{BASE_COUNT, OtError};

/// The variant of OT extension: how correlated OTs are made from 128 base OTs.
///
/// All four are one construction: `128 / k` vector oblivious linear evaluations over the field
/// of `2^k` elements (Roy, SoftSpokenOT, eprint 2022/192); with `k = 1` that is the OT extension
/// of Ishai, Kilian, Nissim and Petrank (CRYPTO 2003). A larger `k` sends `128 / k` bits per OT
/// instead of 128 and computes `2^k / k` AES blocks per 128 bits on either side. The seed trees
/// and the columns are checked, so a receiver that deviates is caught (see
/// [`CotSender`](crate::CotSender)).
///
/// | variant | bytes per OT | setup message |
/// | --- | --- | --- |
/// | `Iknp` | 16 | none |
/// | `SoftSpoken2` | 8 | 6,144 bytes |
/// | `SoftSpoken4` | 4 | 5,120 bytes |
/// | `SoftSpoken8` | 2 | 4,608 bytes |
///
/// Each segment of at most [`SEGMENT_OTS`] OTs also sends one more block of 128 OTs, which is
/// sacrificed, and a check of [`check_len`](Self::check_len)
/// bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Extension {
    /// IKNP, `k = 1`: the least setup, for small numbers of OTs.
    Iknp,
    /// SoftSpoken with `k = 2`: the fastest where bandwidth is plentiful.
    SoftSpoken2,
    /// SoftSpoken with `k = 4`: a quarter of the bytes of IKNP at little more work.
    SoftSpoken4,
    /// SoftSpoken with `k = 8`: for slow links.
    SoftSpoken8,
}

/// OTs per block: a segment of `n` OTs sends and computes `n` rounded up to a multiple of this,
/// and one block more.
pub const BLOCK_OTS: usize = 128;

/// Largest number of OTs in a segment, the unit that is extended and checked at once. With the
/// sacrificed block the columns have 64 blocks, which the AES kernels take in one step.
pub const SEGMENT_OTS: usize = (SEGMENT_BLOCKS - 1) * BLOCK_OTS;

/// Largest number of blocks in a column of a segment, with the sacrificed block.
pub(crate) const SEGMENT_BLOCKS: usize = 64;

/// 128 bits in the kernels, low word first: the compiler makes vector code of loops over `u64`, not
/// of loops over `u128`.
pub(crate) type Block = [u64; 2];

/// Splits a string into words.
pub(crate) fn to_block(value: u128) -> Block {
    [value as u64, (value >> 64) as u64]
}

/// Joins the words of a string.
pub(crate) fn from_block([low, high]: Block) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

/// Bytes of one 128-bit string on the wire.
pub(crate) const BLOCK_LEN: usize = 16;

/// Bytes of the check of one seed tree: the sum of the leaves' strings and a hash of all of them.
pub(crate) const TREE_CHECK_LEN: usize = 64;

/// Returns the number of blocks in a column of a segment of `n` OTs, with the sacrificed block.
pub(crate) fn segment_blocks(n: usize) -> usize {
    n.div_ceil(BLOCK_OTS).saturating_add(1)
}

/// From this many OTs on, sending fewer bytes is worth SoftSpoken's setup.
const SOFTSPOKEN_FROM: u64 = 10_000;

impl Extension {
    /// Every variant, from the most bytes to the fewest.
    pub const ALL: [Self; 4] = [
        Self::Iknp,
        Self::SoftSpoken2,
        Self::SoftSpoken4,
        Self::SoftSpoken8,
    ];

    /// Returns the variant to take for `n` OTs when nothing is known about the path: IKNP below
    /// 10,000, SoftSpoken with `k = 4` from there on. On a link that carries over about 1 Gbit/s
    /// `SoftSpoken2` is the better choice, below about 10 Mbit/s `SoftSpoken8`.
    #[must_use]
    pub fn for_count(n: u64) -> Self {
        if n < SOFTSPOKEN_FROM {
            Self::Iknp
        } else {
            Self::SoftSpoken4
        }
    }

    /// Returns the length of the one-time setup message, in bytes; 0 if none is sent.
    #[must_use]
    pub fn setup_len(self) -> usize {
        self.groups() * self.group_setup_len()
    }

    /// Returns the bytes of the setup message that belong to one seed tree: two corrections for
    /// each level below the top, and the check of its leaves.
    pub(crate) fn group_setup_len(self) -> usize {
        match self.k() {
            1 => 0,
            k => (k - 1) * 2 * BLOCK_LEN + TREE_CHECK_LEN,
        }
    }

    /// Returns the bytes of the corrections of one block of [`BLOCK_OTS`]: `16 * 128 / k`.
    #[must_use]
    pub fn block_len(self) -> usize {
        self.groups() * BLOCK_LEN
    }

    /// Returns the length of the corrections of a segment of `n` OTs, in bytes: `16 * 128 / k` per
    /// started block of [`BLOCK_OTS`] and for the sacrificed block. Saturates instead of
    /// overflowing.
    #[must_use]
    pub fn corrections_len(self, n: usize) -> usize {
        segment_blocks(n).saturating_mul(self.block_len())
    }

    /// Returns the length of the check of a segment, in bytes: a hash of the choices and one of each
    /// group of columns.
    #[must_use]
    pub fn check_len(self) -> usize {
        BLOCK_LEN + self.block_len()
    }

    /// Returns the code on the wire, which is `k`.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Iknp => 1,
            Self::SoftSpoken2 => 2,
            Self::SoftSpoken4 => 4,
            Self::SoftSpoken8 => 8,
        }
    }

    /// Returns the variant with this code.
    ///
    /// # Errors
    /// [`OtError::UnknownCode`].
    pub fn from_code(code: u8) -> Result<Self, OtError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.code() == code)
            .ok_or(OtError::UnknownCode { code })
    }

    /// Returns the field size exponent `k`.
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
    fn names_and_codes_lead_back() {
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
