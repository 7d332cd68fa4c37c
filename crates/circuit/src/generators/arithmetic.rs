//! Integer arithmetic on one number from each party.
//!
//! Wire 0 of each number is the least significant bit: `Bits::from_hex("1f", 8)` is 31.

use super::{GeneratorError, check};
use crate::{Builder, Circuit, Word};

/// The largest width of the numbers, in bits.
pub const MAX_NUMBER_BITS: usize = 1024;

/// Returns a circuit that adds two numbers modulo `2^bits`. Input values 0 and 1 are the numbers,
/// output value 0 is the sum.
///
/// The circuit has `bits - 1` AND gates.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn add(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x + y])
}

/// Returns a circuit that subtracts input value 1 from input value 0 modulo `2^bits`. Output value
/// 0 is the difference.
///
/// The circuit has `bits - 1` AND gates.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn subtract(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x - y])
}

/// Returns a circuit that multiplies two numbers modulo `2^bits`. Input values 0 and 1 are the
/// factors, output value 0 is the product. The product is correct for unsigned numbers and for
/// two's complement.
///
/// The circuit has `bits^2 - bits + 1` AND gates for less than 32 bits, and fewer than that from 32
/// bits on: 975 for 32 bits, 3,620 for 64 and 12,595 for 128.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn multiply(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x * y])
}

/// Returns a circuit that multiplies two unsigned numbers without truncation. Input values 0 and 1
/// are the factors. Output value 0 is the product, which has `2 bits` bits.
///
/// The circuit has `2 bits^2 - bits` AND gates for less than 16 bits, and fewer than that from 16
/// bits on: 1,608 for 32 bits, 5,229 for 64 and 16,466 for 128.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn multiply_wide(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| {
        let (low, high) = x.widening_mul(y);
        vec![low.concat(&high)]
    })
}

/// Returns a circuit that divides input value 0 by input value 1, both unsigned. Output value 0 is
/// the quotient, output value 1 is the remainder. All bits of `x / 0` are 1, and `x % 0` is `x`.
///
/// The circuit has `bits (bits + 1) / 2 + 4 bits - 4` AND gates.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn divide(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| <[_; 2]>::from(x.div_rem(y)).to_vec())
}

/// Returns a circuit that divides input value 0 by input value 1, both in two's complement. Output
/// value 0 is the quotient, rounded toward zero. Output value 1 is the remainder, which has the
/// sign of the dividend.
///
/// The smallest number divided by -1 is the smallest number. `x % 0` is `x`, and `x / 0` is -1 for
/// `x >= 0` and 1 for `x < 0`.
///
/// The circuit has `4 bits - 4` more AND gates than that of [`divide`].
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn divide_signed(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| <[_; 2]>::from(x.div_rem_signed(y)).to_vec())
}

/// Returns a circuit that compares two unsigned numbers. Output value 0 is one bit, which is 1 if
/// input value 0 is less than input value 1.
///
/// The circuit has `bits` AND gates.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn less_than(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x.lt(y).into()])
}

/// Returns a circuit that compares two numbers in two's complement. Output value 0 is one bit,
/// which is 1 if input value 0 is less than input value 1.
///
/// The circuit has `bits` AND gates.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn less_than_signed(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x.lt_signed(y).into()])
}

/// Returns a circuit of the millionaires' problem. Output value 0 is one bit, which is 1 if input
/// value 0 is greater than input value 1, both unsigned.
///
/// The circuit has `bits` AND gates.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn millionaires(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x.gt(y).into()])
}

/// Builds a circuit whose input values are two numbers of `bits` bits, and whose output values are
/// the results of `function`.
fn binary_circuit(
    bits: usize,
    function: impl for<'b> FnOnce(&Word<'b>, &Word<'b>) -> Vec<Word<'b>>,
) -> Result<Circuit, GeneratorError> {
    check("number width in bits", bits, 1..=MAX_NUMBER_BITS)?;
    Ok(Builder::build(|b| {
        let (x, y) = (b.input_word(bits), b.input_word(bits));
        for result in function(&x, &y) {
            b.output(result);
        }
    })?)
}
