//! Strings of bits, packed into 64-bit words.

use std::fmt;

use thiserror::Error;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A string of bits in wire order: bit 0 belongs to the first wire.
///
/// The bits may be a private input, so their memory is overwritten on drop, and `Debug` prints only
/// their number. To print the bits, use [`Display`](fmt::Display), which writes one `0` or `1` per
/// bit in wire order, or [`Bits::to_hex`], which returns them as one integer.
///
/// # Examples
/// ```
/// use transpute_circuit::Bits;
/// // Bit 0 is the least significant bit of the last hexadecimal digit.
/// let bits = Bits::from_hex("1e", 8)?;
/// assert_eq!(bits.to_string(), "01111000");
/// assert_eq!(bits.to_hex(), "1e");
/// # Ok::<(), transpute_circuit::BitsError>(())
/// ```
#[derive(Clone, Default, Eq, PartialEq, Zeroize, ZeroizeOnDrop)]
pub struct Bits {
    /// Bit `i` of the string is bit `i % 64` of word `i / 64`. The bits of the last word past `len`
    /// are zero.
    words: Vec<u64>,
    len: usize,
}

/// The reason why a text does not encode a value of the requested width.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum BitsError {
    /// The text has a character that is not a digit of the notation.
    #[error("unexpected character {found:?} at position {position} of a {notation} value")]
    BadDigit {
        /// Name of the notation: `bits`, `hex` or `decimal`.
        notation: &'static str,
        /// The character that is not a digit.
        found: char,
        /// The position of the character in the text, counted in characters from 0.
        position: usize,
    },
    /// The text does not have as many digits as a value of the requested width.
    #[error("a {notation} value for {width} bits has {expected} digits, not {found}")]
    WrongLength {
        /// Name of the notation: `bits`, `hex` or `decimal`.
        notation: &'static str,
        /// The requested width in bits.
        width: usize,
        /// The number of digits that a value of the requested width has. For `decimal`, it is the
        /// smallest valid number, 1.
        expected: usize,
        /// The number of digits in the text.
        found: usize,
    },
    /// The number needs more bits than the requested width.
    #[error("the value does not fit in {width} bits")]
    TooLarge {
        /// The requested width in bits.
        width: usize,
    },
}

impl Bits {
    /// Returns an empty string.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `len` zero bits.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)],
            len,
        }
    }

    /// Returns the low `width` bits of `value`, least significant bit first.
    ///
    /// # Panics
    /// Panics if `width` is over 128.
    #[must_use]
    pub fn from_u128(value: u128, width: usize) -> Self {
        assert!(width <= 128, "a u128 has 128 bits, not {width}");
        (0..width).map(|i| value >> i & 1 == 1).collect()
    }

    /// Parses a text of one `0` or `1` per bit, in wire order.
    ///
    /// # Errors
    /// Returns [`BitsError::WrongLength`] unless there are `width` characters. Returns
    /// [`BitsError::BadDigit`] for any character other than `0` and `1`.
    pub fn from_binary(text: &str, width: usize) -> Result<Self, BitsError> {
        let notation = "bits";
        let mut bits = Self::with_capacity(width);
        for (position, found) in text.chars().enumerate() {
            match found {
                '0' => bits.push(false),
                '1' => bits.push(true),
                _ => {
                    return Err(BitsError::BadDigit {
                        notation,
                        found,
                        position,
                    });
                }
            }
        }
        if bits.len() == width {
            Ok(bits)
        } else {
            Err(BitsError::WrongLength {
                notation,
                width,
                expected: width,
                found: bits.len(),
            })
        }
    }

    /// Parses a hexadecimal integer, most significant digit first. Bit 0 of the result is its least
    /// significant bit.
    ///
    /// # Errors
    /// Returns [`BitsError::WrongLength`] unless there are `width / 4` digits, rounded up. Returns
    /// [`BitsError::BadDigit`] for a character that is not a hexadecimal digit. Returns
    /// [`BitsError::TooLarge`] if the first digit has bits past `width`.
    pub fn from_hex(text: &str, width: usize) -> Result<Self, BitsError> {
        let notation = "hex";
        let mut digits = Vec::with_capacity(text.len());
        for (position, found) in text.chars().enumerate() {
            match found.to_digit(16) {
                Some(digit) => digits.push(digit),
                None => {
                    digits.zeroize();
                    return Err(BitsError::BadDigit {
                        notation,
                        found,
                        position,
                    });
                }
            }
        }
        let expected = width.div_ceil(4);
        let found = digits.len();
        let mut bits = Self::zeros(expected * 4);
        if found == expected {
            for (i, digit) in digits.iter().rev().enumerate() {
                bits.words[i / 16] |= u64::from(*digit) << (4 * (i % 16));
            }
        }
        digits.zeroize();
        if found != expected {
            return Err(BitsError::WrongLength {
                notation,
                width,
                expected,
                found,
            });
        }
        if bits.iter().skip(width).any(|bit| bit) {
            return Err(BitsError::TooLarge { width });
        }
        bits.truncate(width);
        Ok(bits)
    }

    /// Parses a decimal integer. Bit 0 of the result is its least significant bit. A negative
    /// integer, with a leading `-`, is stored in two's complement.
    ///
    /// # Errors
    /// Returns [`BitsError::WrongLength`] for a text without digits. Returns
    /// [`BitsError::BadDigit`] for a character that is not a decimal digit. Returns
    /// [`BitsError::TooLarge`] if the number needs more than `width` bits, where a negative number
    /// has a sign bit and other numbers have none.
    pub fn from_decimal(text: &str, width: usize) -> Result<Self, BitsError> {
        let notation = "decimal";
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if digits.is_empty() {
            return Err(BitsError::WrongLength {
                notation,
                width,
                expected: 1,
                found: 0,
            });
        }
        let mut bits = Self::zeros(width);
        for (position, found) in digits.chars().enumerate() {
            let Some(digit) = found.to_digit(10) else {
                return Err(BitsError::BadDigit {
                    notation,
                    found,
                    position: position + usize::from(negative),
                });
            };
            if !bits.multiply_add(10, u64::from(digit)) {
                return Err(BitsError::TooLarge { width });
            }
        }
        if negative && !bits.negate() {
            return Err(BitsError::TooLarge { width });
        }
        Ok(bits)
    }

    /// Returns an empty string with memory for `bits` bits.
    #[must_use]
    pub fn with_capacity(bits: usize) -> Self {
        Self {
            words: Vec::with_capacity(bits.div_ceil(64)),
            len: 0,
        }
    }

    /// Returns the number of bits in the string.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the string has no bits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns bit `index`.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Bits::len`].
    #[must_use]
    pub fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bit {index} of {}", self.len);
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// Sets bit `index` to `value`.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Bits::len`].
    pub fn set(&mut self, index: usize, value: bool) {
        assert!(index < self.len, "bit {index} of {}", self.len);
        let word = &mut self.words[index / 64];
        *word = *word & !(1 << (index % 64)) | u64::from(value) << (index % 64);
    }

    /// Appends one bit.
    pub fn push(&mut self, value: bool) {
        if self.len.is_multiple_of(64) {
            self.add_word(0);
        }
        self.len += 1;
        self.set(self.len - 1, value);
    }

    /// Removes all bits after the first `len`. A shorter string does not change.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        self.words[len.div_ceil(64)..].zeroize();
        self.words.truncate(len.div_ceil(64));
        if !len.is_multiple_of(64) {
            self.words[len / 64] &= (1 << (len % 64)) - 1;
        }
        self.len = len;
    }

    /// Returns a copy of the bits in `range`.
    ///
    /// # Panics
    /// Panics if the range ends past [`Bits::len`].
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        let mut bits = Self::with_capacity(range.len());
        bits.append(self, range);
        bits
    }

    /// Appends the bits in `range` of another string.
    ///
    /// # Panics
    /// Panics if the range ends past the end of `from`.
    pub fn append(&mut self, from: &Self, range: std::ops::Range<usize>) {
        assert!(range.end <= from.len, "bit {} of {}", range.end, from.len);
        let mut start = range.start;
        while start < range.end {
            let count = (64 - start % 64).min(range.end - start);
            self.push_word(from.words[start / 64] >> (start % 64), count);
            start += count;
        }
    }

    /// Appends the lowest `count` bits of `word`, the least significant first.
    ///
    /// # Panics
    /// Panics if `count` is over 64.
    pub fn push_word(&mut self, word: u64, count: usize) {
        assert!(count <= 64, "{count} bits of a word");
        if count == 0 {
            return;
        }
        let bits = word & (u64::MAX >> (64 - count));
        let used = self.len % 64;
        if used == 0 {
            self.add_word(bits);
        } else {
            self.words[self.len / 64] |= bits << used;
            if used + count > 64 {
                self.add_word(bits >> (64 - used));
            }
        }
        self.len += count;
    }

    /// Appends a word to `words`. If there is no room for it, the old memory is overwritten.
    fn add_word(&mut self, word: u64) {
        if self.words.len() == self.words.capacity() {
            drop(self.replace_buffer((2 * self.words.len()).max(4)));
        }
        self.words.push(word);
    }

    /// Moves the words to a vector with room for `capacity` words. Returns the old vector, whose
    /// words are overwritten with zeros. `Vec` itself does not overwrite its old memory when it
    /// grows.
    fn replace_buffer(&mut self, capacity: usize) -> Vec<u64> {
        let mut words = Vec::with_capacity(capacity);
        words.extend_from_slice(&self.words);
        let mut old = std::mem::replace(&mut self.words, words);
        old.as_mut_slice().zeroize();
        old
    }

    /// Iterates over the bits in wire order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = bool> + '_ {
        (0..self.len).map(|i| self.words[i / 64] >> (i % 64) & 1 == 1)
    }

    /// Returns the packed words: bit `i` of the string is bit `i % 64` of word `i / 64`. The bits
    /// of the last word past the end of the string are zero.
    #[must_use]
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the bits as an integer whose least significant bit is bit 0, or `None` if there are
    /// more than 128 bits.
    #[must_use]
    pub fn to_u128(&self) -> Option<u128> {
        let low = u128::from(self.words.first().copied().unwrap_or(0));
        let high = u128::from(self.words.get(1).copied().unwrap_or(0));
        (self.len <= 128).then_some(high << 64 | low)
    }

    /// Returns the bits as a hexadecimal integer of `len / 4` digits, rounded up. The most
    /// significant digit comes first, and bit 0 is the least significant bit.
    #[must_use]
    pub fn to_hex(&self) -> String {
        (0..self.len.div_ceil(4))
            .rev()
            .map(|i| self.words[i / 16] >> (4 * (i % 16)) & 15)
            .map(|digit| char::from(b"0123456789abcdef"[digit as usize]))
            .collect()
    }

    /// Multiplies the integer by `factor` and adds `addend`. Returns whether the result fits in
    /// `len` bits.
    fn multiply_add(&mut self, factor: u64, addend: u64) -> bool {
        let mut carry = u128::from(addend);
        for word in &mut self.words {
            let value = u128::from(*word) * u128::from(factor) + carry;
            *word = value as u64;
            carry = value >> 64;
        }
        carry == 0 && self.padding_is_zero()
    }

    /// Negates the integer in two's complement. Returns whether it was at most `2^(len - 1)`, so
    /// that its negation fits in `len` bits.
    fn negate(&mut self) -> bool {
        if self.len == 0 {
            return true;
        }
        let was_zero = self.words.iter().all(|word| *word == 0);
        let mut carry = true;
        for word in &mut self.words {
            let (value, overflow) = (!*word).overflowing_add(u64::from(carry));
            *word = value;
            carry = overflow;
        }
        if !self.len.is_multiple_of(64) {
            let last = self.len / 64;
            self.words[last] &= (1 << (self.len % 64)) - 1;
        }
        was_zero || self.get(self.len - 1)
    }

    fn padding_is_zero(&self) -> bool {
        self.len.is_multiple_of(64) || self.words[self.len / 64] >> (self.len % 64) == 0
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bits({} bits)", self.len)
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter()
            .try_for_each(|bit| f.write_str(if bit { "1" } else { "0" }))
    }
}

impl FromIterator<bool> for Bits {
    fn from_iter<I: IntoIterator<Item = bool>>(iter: I) -> Self {
        let mut bits = Self::new();
        bits.extend(iter);
        bits
    }
}

impl Extend<bool> for Bits {
    fn extend<I: IntoIterator<Item = bool>>(&mut self, iter: I) {
        for bit in iter {
            self.push(bit);
        }
    }
}

impl Extend<Self> for Bits {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, iter: I) {
        for bits in iter {
            self.append(&bits, 0..bits.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outgrown_buffer_is_wiped() {
        let mut bits: Bits = (0..128).map(|i| i % 3 == 0).collect();
        let before = bits.clone();
        assert_eq!(bits.replace_buffer(100), [0; 2]);
        assert_eq!((&bits, bits.words.capacity()), (&before, 100));
        // Both `push` and `extend` grow through `replace_buffer`.
        let mut pushed = Bits::new();
        let mut extended = Bits::new();
        for (index, bit) in before.iter().enumerate() {
            pushed.push(bit);
            extended.extend([bit]);
            assert_eq!(pushed.words.capacity(), if index < 256 { 4 } else { 8 });
            assert_eq!(extended, pushed);
        }
        assert_eq!(pushed, before);
    }

    #[test]
    fn hex_and_binary_agree_on_the_order_of_wires() {
        let bits = Bits::from_hex("3f01", 14).unwrap();
        assert_eq!(bits.to_string(), "10000000111111");
        assert_eq!(bits.to_hex(), "3f01");
        assert_eq!(Bits::from_binary("10000000111111", 14).unwrap(), bits);
        assert_eq!(Bits::from_decimal("16129", 14).unwrap(), bits);
    }

    #[test]
    fn values_of_the_wrong_size_are_rejected() {
        assert_eq!(
            Bits::from_hex("4000", 14),
            Err(BitsError::TooLarge { width: 14 })
        );
        assert!(matches!(
            Bits::from_hex("000", 8),
            Err(BitsError::WrongLength {
                expected: 2,
                found: 3,
                ..
            })
        ));
        assert!(matches!(
            Bits::from_binary("012", 3),
            Err(BitsError::BadDigit {
                found: '2',
                position: 2,
                ..
            })
        ));
        assert_eq!(
            Bits::from_decimal("256", 8),
            Err(BitsError::TooLarge { width: 8 })
        );
        assert_eq!(
            Bits::from_decimal("-129", 8),
            Err(BitsError::TooLarge { width: 8 })
        );
        assert!(Bits::from_decimal("", 8).is_err());
        assert!(Bits::from_decimal("1", 0).is_err());
    }

    #[test]
    fn decimals_wrap_in_twos_complement() {
        assert_eq!(Bits::from_decimal("-128", 8).unwrap().to_u128(), Some(128));
        assert_eq!(
            Bits::from_decimal("-1", 70).unwrap().to_hex(),
            "3fffffffffffffffff"
        );
        assert_eq!(Bits::from_decimal("-0", 8).unwrap().to_u128(), Some(0));
    }

    #[test]
    fn ranges_at_any_offset_are_appended() {
        let from: Bits = (0..300).map(|i| i * i % 7 < 3).collect();
        for already in [0, 1, 63, 64, 65, 130] {
            for range in [0..0, 0..1, 5..64, 63..65, 1..300, 64..192, 7..299, 300..300] {
                let mut bits = from.slice(0..already);
                bits.append(&from, range.clone());
                let expected = (0..already).chain(range).map(|i| from.get(i));
                assert!(bits.iter().eq(expected), "behind {already}");
                // The bits past the end of the last word are zero: equality compares whole words.
                assert_eq!(bits, bits.iter().collect());
            }
        }
    }

    #[test]
    fn debug_shows_no_bits() {
        assert_eq!(format!("{:?}", Bits::from_u128(5, 3)), "Bits(3 bits)");
    }

    #[test]
    fn truncated_bits_are_cleared() {
        let mut bits = Bits::from_u128(u128::MAX, 128);
        bits.truncate(65);
        bits.push(false);
        assert_eq!(bits.to_u128(), Some((1 << 65) - 1));
    }
}
