//! What a division is asked for and what comes of it, whichever way it is computed.

use std::{fmt, str::FromStr};

use crate::integer::Integer;

/// The widest numbers that are divided, in bits.
pub(crate) const MAX_BITS: usize = 512;

/// The widths of the paper's tables and figures, and one that its circuit compiler could not build.
pub(crate) const WIDTHS: [usize; 10] = [8, 12, 16, 20, 24, 28, 32, 48, 64, 128];

/// How a division is computed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Approach {
    /// A garbled circuit.
    Circuit,
    /// Blinded numbers under homomorphic encryption: few rounds, and leaks.
    Fast,
    /// Newton's iteration for the reciprocal under homomorphic encryption.
    Newton,
}

impl Approach {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Circuit, Self::Fast, Self::Newton];

    /// Returns the name.
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
/// The quotient is the number `trunc(2^fraction * dividend / divisor)`: a fixed-point number with
/// `fraction` bits after the point, rounded toward zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Division {
    /// Bits of the dividend; with a sign bit if signed.
    pub(crate) dividend: usize,
    /// Bits of the divisor; with a sign bit if signed.
    pub(crate) divisor: usize,
    /// Bits of the quotient after the point.
    pub(crate) fraction: usize,
    /// Whether both numbers may be below zero.
    pub(crate) signed: bool,
}

impl Division {
    /// Divides numbers of one width, with as many bits after the point: the paper's division.
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

    /// Returns the bits of the quotient's magnitude.
    pub(crate) fn quotient_bits(&self) -> usize {
        self.dividend + self.fraction
    }
}

/// What a division gives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Quotient {
    /// The fixed-point quotient as a whole number.
    Value(Integer),
    /// There is none, and this is all that the parties learn.
    DivisorIsZero,
}

/// The shares of one party.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// What it adds to the dividend.
    pub(crate) dividend: Integer,
    /// What it adds to the divisor.
    pub(crate) divisor: Integer,
}

/// Converts a width; all of them are small.
pub(crate) fn to_u32(bits: usize) -> u32 {
    u32::try_from(bits).unwrap_or(u32::MAX)
}
