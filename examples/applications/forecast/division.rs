//! The parameters, shares and result of a division, which all approaches use.

use std::{fmt, str::FromStr};

use crate::integer::Integer;

/// Maximum width of numbers, in bits.
pub(crate) const MAX_BITS: usize = 512;

/// The widths of the paper's tables and figures, plus 128, for which its compiler failed.
pub(crate) const WIDTHS: [usize; 10] = [8, 12, 16, 20, 24, 28, 32, 48, 64, 128];

/// The method of a division.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Approach {
    /// A garbled circuit.
    Circuit,
    /// Blinded numbers under homomorphic encryption: few rounds, but leaks.
    Fast,
    /// Newton's iteration for the reciprocal under homomorphic encryption.
    Newton,
}

impl Approach {
    /// All approaches.
    pub(crate) const ALL: [Self; 3] = [Self::Circuit, Self::Fast, Self::Newton];

    /// Returns the name of the approach.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Circuit => "circuit",
            Self::Fast => "fast",
            Self::Newton => "newton",
        }
    }
}

impl fmt::Display for Approach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Approach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        (Self::ALL.into_iter())
            .find(|approach| approach.name() == text)
            .ok_or_else(|| format!("unknown approach {text:?}, expected circuit, fast or newton"))
    }
}

/// A division of two numbers that are split between the parties.
///
/// The result is `trunc(2^fraction * dividend / divisor)`, a fixed-point number with `fraction`
/// fraction bits, rounded toward zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Division {
    /// Width of the dividend in bits, including the sign.
    pub(crate) dividend: usize,
    /// Width of the divisor in bits, including the sign.
    pub(crate) divisor: usize,
    /// Number of fraction bits of the quotient.
    pub(crate) fraction: usize,
    /// Whether both numbers may be negative.
    pub(crate) signed: bool,
}

impl Division {
    /// Returns the paper's division: numbers of one width, with as many fraction bits.
    pub(crate) fn of_width(width: usize, signed: bool) -> Self {
        Self {
            dividend: width,
            divisor: width,
            fraction: width,
            signed,
        }
    }

    /// Returns the width that both numbers fit in.
    pub(crate) fn width(&self) -> usize {
        self.dividend.max(self.divisor)
    }

    /// Returns the width of the quotient's magnitude, in bits.
    pub(crate) fn quotient_bits(&self) -> usize {
        self.dividend + self.fraction
    }
}

/// The result of a division.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Quotient {
    /// The fixed-point quotient as an integer.
    Value(Integer),
    /// The divisor is 0. The parties learn nothing else.
    DivisorIsZero,
}

/// The additive shares of one party.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// The share of the dividend.
    pub(crate) dividend: Integer,
    /// The share of the divisor.
    pub(crate) divisor: Integer,
}

/// Converts a width in bits. Widths are small, so the conversion is lossless.
pub(crate) fn to_u32(bits: usize) -> u32 {
    u32::try_from(bits).unwrap_or(u32::MAX)
}
