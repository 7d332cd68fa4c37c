//! The variants of OT extension and what each costs.

use std::fmt;
use std::str::FromStr;

use crate::{BASE_COUNT, OtError};

/// How correlated OTs are made from 128 base OTs, **semi-honest** in every variant.
///
/// All four are one construction: `128 / k` vector oblivious linear evaluations over the field
/// of `2^k` elements (Roy, SoftSpokenOT, eprint 2022/192, without its consistency check); with
/// `k = 1` that is the OT extension of Ishai, Kilian, Nissim and Petrank (CRYPTO 2003). A larger
/// `k` sends `128 / k` bits per OT instead of 128 and computes `2^k / k` AES blocks per 128 bits
/// on either side.
///
/// | variant | bytes per OT | setup message |
/// | --- | --- | --- |
/// | `Iknp` | 16 | none |
/// | `SoftSpoken2` | 8 | 2,048 bytes |
/// | `SoftSpoken4` | 4 | 3,072 bytes |
/// | `SoftSpoken8` | 2 | 3,584 bytes |
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

/// OTs per block: a call for `n` OTs sends and computes `n` rounded up to a multiple of this.
pub const BLOCK_OTS: usize = 128;

/// OTs per stripe: the largest part of a message that is in column order. Calls for a multiple
/// of this number are the fastest.
pub const STRIPE_OTS: usize = 8192;

/// Blocks per stripe.
pub(crate) const STRIPE_BLOCKS: usize = STRIPE_OTS / BLOCK_OTS;

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
        self.groups() * (self.k() - 1) * 2 * BLOCK_LEN
    }

    /// Returns the length of the message of one call for `n` OTs, in bytes: `16 * 128 / k` per
    /// started block of [`BLOCK_OTS`]. Saturates instead of overflowing.
    #[must_use]
    pub fn message_len(self, n: usize) -> usize {
        n.div_ceil(BLOCK_OTS)
            .saturating_mul(self.groups() * BLOCK_LEN)
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
        let sizes =
            |kind: Extension| (kind.setup_len(), kind.message_len(1), kind.message_len(129));
        assert_eq!(sizes(Extension::Iknp), (0, 2048, 4096));
        assert_eq!(sizes(Extension::SoftSpoken2), (2048, 1024, 2048));
        assert_eq!(sizes(Extension::SoftSpoken4), (3072, 512, 1024));
        assert_eq!(sizes(Extension::SoftSpoken8), (3584, 256, 512));
        assert_eq!(Extension::SoftSpoken8.message_len(0), 0);
        assert_eq!(Extension::Iknp.message_len(usize::MAX), usize::MAX);
    }

    #[test]
    fn small_counts_skip_the_setup() {
        assert_eq!(Extension::for_count(9_999), Extension::Iknp);
        assert_eq!(Extension::for_count(10_000), Extension::SoftSpoken4);
    }
}
