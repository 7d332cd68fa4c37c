//! Signed integers of any size, for shares, for quotients and for computations in the clear.

use std::{cmp::Ordering, fmt, str::FromStr};

use crypto_bigint::{BoxedUint, ConcatenatingMul, Limb, NonZero, RandomBits, Resize};
use rand::CryptoRng;
use thiserror::Error;
use transpute::Bits;
use zeroize::Zeroize;

/// Maximum number of decimal digits of a parsed integer. Such a number has about 4,096 bits, which
/// is more than any number of this program.
const MAX_DIGITS: usize = 1_234;

/// A signed integer, zeroized on drop.
///
/// Operations are not constant-time. A peer can observe only the total time of a protocol.
#[derive(Clone)]
pub(crate) struct Integer {
    /// Whether the number is below 0. False for 0.
    negative: bool,
    /// The absolute value. It has no leading zero limbs, but at least one limb.
    magnitude: BoxedUint,
}

/// The error for text that is not an integer.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("expected a whole number of at most {MAX_DIGITS} digits, found {found:?}")]
pub(crate) struct NotAnInteger {
    found: String,
}

impl Integer {
    /// Creates an integer from its sign and magnitude.
    pub(crate) fn new(negative: bool, magnitude: &BoxedUint) -> Self {
        let magnitude = trimmed(magnitude);
        Self {
            negative: negative && !is_zero(&magnitude),
            magnitude,
        }
    }

    /// Returns 0.
    pub(crate) fn zero() -> Self {
        Self::from(0)
    }

    /// Returns 2 to the power of `exponent`.
    pub(crate) fn power_of_two(exponent: u32) -> Self {
        Self::from(1).shifted_left(exponent)
    }

    /// Returns a random integer from 0 to 2^`bits` - 1.
    pub(crate) fn random(bits: u32, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        if bits == 0 {
            return Self::zero();
        }
        Self::new(false, &BoxedUint::random_bits(rng, bits))
    }

    /// Parses bits, least significant first, in two's complement if `signed`.
    pub(crate) fn from_bits(bits: &Bits, signed: bool) -> Self {
        let width = u32::try_from(bits.len()).unwrap_or(u32::MAX);
        let words = bits.as_words().iter().copied();
        let value = Self::new(
            false,
            &BoxedUint::from_words_with_precision(words, width.max(1)),
        );
        if signed && !bits.is_empty() && bits.get(bits.len() - 1) {
            return value.minus(&Self::power_of_two(width));
        }
        value
    }

    /// Returns the low `width` bits in two's complement, least significant first.
    pub(crate) fn to_bits(&self, width: usize) -> Bits {
        // A negative number is the complement of its magnitude, plus one.
        let mut carry = self.negative;
        (0..width)
            .map(|i| {
                let bit = u32::try_from(i).is_ok_and(|i| self.magnitude_bit(i));
                if !self.negative {
                    return bit;
                }
                let flipped = !bit;
                let sum = flipped ^ carry;
                carry &= flipped;
                sum
            })
            .collect()
    }

    fn magnitude_bit(&self, index: u32) -> bool {
        index < self.magnitude.bits_precision() && self.magnitude.bit_vartime(index)
    }

    /// Returns the number of significant bits of the magnitude; 0 for zero.
    pub(crate) fn bits(&self) -> u32 {
        self.magnitude.bits_vartime()
    }

    /// Returns whether the number is 0.
    pub(crate) fn is_zero(&self) -> bool {
        is_zero(&self.magnitude)
    }

    /// Returns whether the number is negative.
    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    /// Returns the magnitude.
    pub(crate) fn magnitude(&self) -> Self {
        Self::new(false, &self.magnitude)
    }

    /// Returns the negated number if `condition`, otherwise the number.
    pub(crate) fn negated_if(&self, condition: bool) -> Self {
        Self::new(self.negative ^ condition, &self.magnitude)
    }

    /// Returns the sum of both numbers.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let (a, b) = (&self.magnitude, &other.magnitude);
        if self.negative == other.negative {
            return Self::new(self.negative, &a.concatenating_add(b));
        }
        match a.cmp_vartime(b) {
            Ordering::Less => Self::new(other.negative, &b.borrowing_sub(a, Limb::ZERO).0),
            _ => Self::new(self.negative, &a.borrowing_sub(b, Limb::ZERO).0),
        }
    }

    /// Returns the difference of both numbers.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.plus(&other.negated_if(true))
    }

    /// Returns the product of both numbers.
    pub(crate) fn times(&self, other: &Self) -> Self {
        Self::new(
            self.negative ^ other.negative,
            &self.magnitude.concatenating_mul(&other.magnitude),
        )
    }

    /// Returns the number times 2^`distance`.
    pub(crate) fn shifted_left(&self, distance: u32) -> Self {
        let room = self.magnitude.bits_precision().saturating_add(distance);
        let wide = (&self.magnitude).resize_unchecked(room);
        Self::new(self.negative, &wide.unbounded_shl_vartime(distance))
    }

    /// Returns the number divided by 2^`distance`, rounded down.
    pub(crate) fn shifted_right(&self, distance: u32) -> Self {
        let up = match self.negative {
            true => Self::power_of_two(distance).minus(&Self::from(1)),
            false => Self::zero(),
        };
        let rounded = self.minus(&up);
        let shifted = rounded.magnitude.unbounded_shr_vartime(distance);
        Self::new(self.negative, &shifted)
    }

    /// Returns the quotient, rounded toward zero, and the remainder; `None` for the divisor 0.
    pub(crate) fn divided_by(&self, divisor: &Self) -> Option<(Self, Self)> {
        let by = NonZero::new(divisor.magnitude.clone()).into_option()?;
        let (quotient, remainder) = self.magnitude.div_rem_vartime(&by);
        Some((
            Self::new(self.negative ^ divisor.negative, &quotient),
            Self::new(self.negative, &remainder),
        ))
    }

    /// Returns the residue modulo `modulus`, as a number with as many limbs as the modulus.
    pub(crate) fn modulo(&self, modulus: &NonZero<BoxedUint>) -> BoxedUint {
        let rest = self.magnitude.rem_vartime(modulus);
        match self.negative && !is_zero(&rest) {
            true => modulus.as_ref().wrapping_sub(&rest),
            false => rest,
        }
    }

    /// Converts a residue to an integer of the same class near 0. Residues in the upper half of the
    /// range represent negative numbers.
    pub(crate) fn centred(residue: &BoxedUint, modulus: &NonZero<BoxedUint>) -> Self {
        let value = Self::new(false, residue);
        let modulus = Self::new(false, modulus.as_ref());
        match value.shifted_left(1) < modulus {
            true => value,
            false => value.minus(&modulus),
        }
    }

    /// Returns the magnitude as `len` bytes, little-endian. `None` if it does not fit.
    pub(crate) fn to_le_bytes(&self, len: usize) -> Option<Vec<u8>> {
        let mut bytes = self.magnitude.to_le_bytes().into_vec();
        if bytes.iter().skip(len).any(|&byte| byte != 0) {
            bytes.zeroize();
            return None;
        }
        bytes.resize(len, 0);
        Some(bytes)
    }

    /// Creates an integer from its sign and its magnitude in little-endian bytes.
    pub(crate) fn from_le_bytes(negative: bool, bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::zero();
        }
        Self::new(negative, &BoxedUint::from_le_slice_vartime(bytes))
    }

    /// Formats the number divided by 2^`fraction` with `digits` decimal places, rounded toward
    /// zero.
    pub(crate) fn to_decimal(&self, fraction: u32, digits: usize) -> String {
        let scale = (0..digits).fold(Self::from(1), |scale, _| scale.times(&Self::from(10)));
        let scaled = self.magnitude().times(&scale).shifted_right(fraction);
        let text = scaled.to_string();
        let text = format!("{text:0>width$}", width = digits + 1);
        let (whole, rest) = text.split_at(text.len() - digits);
        let sign = if self.negative { "-" } else { "" };
        match digits {
            0 => format!("{sign}{whole}"),
            _ => format!("{sign}{whole}.{rest}"),
        }
    }
}

/// Removes leading zero limbs. Without this, magnitudes would get longer with each operation.
fn trimmed(magnitude: &BoxedUint) -> BoxedUint {
    if magnitude.nlimbs() == 0 {
        return BoxedUint::zero();
    }
    magnitude.resize_unchecked(magnitude.bits_vartime().max(1))
}

fn is_zero(magnitude: &BoxedUint) -> bool {
    magnitude.bits_vartime() == 0
}

impl Drop for Integer {
    fn drop(&mut self) {
        self.magnitude.zeroize();
        self.negative.zeroize();
    }
}

impl From<i128> for Integer {
    fn from(value: i128) -> Self {
        Self::new(value < 0, &BoxedUint::from(value.unsigned_abs()))
    }
}

impl PartialEq for Integer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Integer {}

impl PartialOrd for Integer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Integer {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitudes = self.magnitude.cmp_vartime(&other.magnitude);
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => magnitudes,
            (true, true) => magnitudes.reverse(),
        }
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(
            !self.negative,
            "",
            &self.magnitude.to_string_radix_vartime(10),
        )
    }
}

impl fmt::Debug for Integer {
    /// Shows only the number of bits, because the value may be a private input.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Integer({} bits)", self.bits())
    }
}

impl FromStr for Integer {
    type Err = NotAnInteger;

    fn from_str(text: &str) -> Result<Self, NotAnInteger> {
        let wrong = || NotAnInteger {
            found: text.chars().take(40).collect(),
        };
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let is_number = (1..=MAX_DIGITS).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            return Err(wrong());
        }
        let magnitude = BoxedUint::from_str_radix_vartime(digits, 10).map_err(|_| wrong())?;
        Ok(Self::new(negative, &magnitude))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_decimal_integers_are_parsed() {
        for text in ["0", "7", "-1", "340282366920938463463374607431768211456"] {
            assert_eq!(text.parse::<Integer>().unwrap().to_string(), text);
        }
        assert_eq!("-0".parse::<Integer>().unwrap(), Integer::zero());
        let long = "1".repeat(MAX_DIGITS + 1);
        for text in ["", "-", "+1", "1.5", "0x10", "1_000", "ten", &long] {
            assert!(text.parse::<Integer>().is_err(), "{text}");
        }
    }

    #[test]
    fn decimals_are_truncated() {
        let value = Integer::from(-7);
        assert_eq!(value.to_decimal(1, 2), "-3.50");
        assert_eq!(value.to_decimal(3, 2), "-0.87");
        assert_eq!(value.to_decimal(0, 0), "-7");
        assert_eq!(Integer::zero().to_decimal(8, 3), "0.000");
    }

    #[test]
    fn debug_shows_no_value() {
        assert_eq!(format!("{:?}", Integer::from(-5)), "Integer(3 bits)");
    }

    proptest! {
        #[test]
        fn arithmetic_equals_that_of_machine_integers(a: i64, b: i64, distance in 0_u32..60) {
            let [wide_a, wide_b] = [a, b].map(i128::from);
            let [x, y] = [wide_a, wide_b].map(Integer::from);
            prop_assert_eq!(x.plus(&y), Integer::from(wide_a + wide_b));
            prop_assert_eq!(x.minus(&y), Integer::from(wide_a - wide_b));
            prop_assert_eq!(x.times(&y), Integer::from(wide_a * wide_b));
            prop_assert_eq!(x.shifted_left(distance), Integer::from(wide_a << distance));
            prop_assert_eq!(x.shifted_right(distance), Integer::from(wide_a >> distance));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x.to_string(), a.to_string());
            if b != 0 {
                let (quotient, remainder) = x.divided_by(&y).unwrap();
                prop_assert_eq!(quotient, Integer::from(wide_a / wide_b));
                prop_assert_eq!(remainder, Integer::from(wide_a % wide_b));
                let modulus = BoxedUint::from(b.unsigned_abs());
                let modulus = NonZero::new(modulus).unwrap();
                let rest = Integer::new(false, &x.modulo(&modulus));
                prop_assert_eq!(rest, Integer::from(wide_a.rem_euclid(wide_b)));
            } else {
                prop_assert!(x.divided_by(&y).is_none());
            }
        }

        #[test]
        fn bits_and_bytes_are_parsed_back_to_the_number(a: i64) {
            let x = Integer::from(i128::from(a));
            for width in [64, 65, 128, 200] {
                prop_assert_eq!(&Integer::from_bits(&x.to_bits(width), true), &x);
            }
            let bytes = x.to_le_bytes(20).unwrap();
            prop_assert_eq!(&Integer::from_le_bytes(a < 0, &bytes), &x);
            prop_assert_eq!(x.to_le_bytes(1).is_some(), a.unsigned_abs() < 256);
        }

        #[test]
        fn the_upper_half_of_residues_is_negative(a in -500_i128..500) {
            let modulus = NonZero::new(BoxedUint::from(1001_u32)).unwrap();
            let x = Integer::from(a);
            prop_assert_eq!(Integer::centred(&x.modulo(&modulus), &modulus), x);
        }
    }
}
