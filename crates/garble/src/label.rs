//! Wire labels.

use std::ops::{BitXor, BitXorAssign};

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::DefaultIsZeroes;

/// A 128-bit wire label.
///
/// Its colour, bit 0 of byte 0, is the permute bit of point-and-permute. A label is secret, so
/// there is no `Debug` and no `==`; compare with [`ConstantTimeEq`]. It is `Copy` so that kernels
/// can keep it in registers; containers of labels are wiped on drop.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Label(pub(crate) u128);

impl Label {
    /// Length of a label on the wire, in bytes.
    pub const BYTES: usize = 16;

    pub(crate) const ZERO: Self = Self(0);

    /// Reads a label from its little-endian bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// Returns the little-endian bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Returns the colour: bit 0 of byte 0.
    #[must_use]
    pub const fn colour(self) -> bool {
        self.0 & 1 == 1
    }

    /// Returns this label if `bit` is set, else the zero label, without branching.
    pub(crate) const fn masked(self, bit: bool) -> Self {
        Self(self.0 & (bit as u128).wrapping_neg())
    }

    /// Returns this label with its colour replaced.
    pub(crate) const fn with_colour(self, colour: bool) -> Self {
        Self(self.0 & !1 | colour as u128)
    }
}

impl DefaultIsZeroes for Label {}

impl BitXor for Label {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl BitXorAssign for Label {
    fn bitxor_assign(&mut self, other: Self) {
        self.0 ^= other.0;
    }
}

impl ConstantTimeEq for Label {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl ConditionallySelectable for Label {
    fn conditional_select(a: &Self, b: &Self, choice: Choice) -> Self {
        Self(u128::conditional_select(&a.0, &b.0, choice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colour_is_the_lowest_bit_of_the_first_byte() {
        let mut bytes = [0xfe; 16];
        assert!(!Label::from_bytes(bytes).colour());
        bytes[0] = 1;
        assert!(Label::from_bytes(bytes).colour());
        assert_eq!(Label::from_bytes(bytes).to_bytes(), bytes);
        assert_eq!(Label::from_bytes(bytes).with_colour(false).to_bytes()[0], 0);
    }

    #[test]
    fn masks_follow_the_bit() {
        let label = Label(7 << 100 | 5);
        assert_eq!(label.masked(true).0, label.0);
        assert_eq!(label.masked(false).0, 0);
    }
}
