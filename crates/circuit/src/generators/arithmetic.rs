//! Integer arithmetic on one number from each party.
//!
//! Wire 0 of each number is the least significant bit: `Bits::from_hex("1f", 8)` is 31.

use super::{GeneratorError, check};
use crate::{Builder, Circuit, Word};

/// The largest width of the numbers, in bits.
pub const MAX_NUMBER_BITS: usize = 1024;

/// Returns a circuit that adds modulo `2^bits`; input values 0 and 1 are the numbers, output value
/// 0 the sum.
///
/// `bits - 1` AND.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn add(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x + y])
}

/// Returns a circuit that subtracts input value 1 from input value 0 modulo `2^bits`; output value
/// 0 is the difference.
///
/// `bits - 1` AND.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn subtract(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x - y])
}

/// Returns a circuit that multiplies modulo `2^bits`; input values 0 and 1 are the factors, output
/// value 0 the product. It is correct for unsigned numbers and for two's complement.
///
/// `bits^2 - bits + 1` AND, fewer from 32 bits on: 975 for 32, 3,620 for 64, 12,595 for 128.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn multiply(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x * y])
}

/// Returns a circuit that multiplies unsigned numbers without truncation; input values 0 and 1 are
/// the factors, output value 0 is the product of `2 bits` bits.
///
/// `2 bits^2 - bits` AND, fewer from 16 bits on: 1,608 for 32, 5,229 for 64, 16,466 for 128.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn multiply_wide(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| {
        let (low, high) = x.widening_mul(y);
        vec![low.concat(&high)]
    })
}

/// Returns a circuit that divides input value 0 by input value 1, both unsigned; output value 0 is
/// the quotient, output value 1 the remainder. `x / 0` is all ones and `x % 0` is `x`.
///
/// `bits (bits + 1) / 2 + 4 bits - 4` AND.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn divide(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| <[_; 2]>::from(x.div_rem(y)).to_vec())
}

/// Returns a circuit that divides input value 0 by input value 1, both in two's complement,
/// truncating toward zero. Output value 0 is the quotient; output value 1 is the remainder, with
/// the sign of the dividend.
///
/// The lowest number divided by -1 wraps to itself. `x % 0` is `x`; `x / 0` is -1 for `x >= 0` and
/// 1 otherwise.
///
/// `4 bits - 4` more AND than [`divide`].
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn divide_signed(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| <[_; 2]>::from(x.div_rem_signed(y)).to_vec())
}

/// Returns a circuit that compares unsigned numbers; output value 0 is one bit, 1 if input value 0
/// is less than input value 1.
///
/// `bits` AND.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn less_than(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x.lt(y).into()])
}

/// Returns a circuit that compares numbers in two's complement; output value 0 is one bit, 1 if
/// input value 0 is less than input value 1.
///
/// `bits` AND.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn less_than_signed(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x.lt_signed(y).into()])
}

/// Returns a circuit of the millionaires' problem; output value 0 is one bit, 1 if input value 0 is
/// greater than input value 1, both unsigned.
///
/// `bits` AND.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `bits` is from 1 to [`MAX_NUMBER_BITS`].
pub fn millionaires(bits: usize) -> Result<Circuit, GeneratorError> {
    binary_circuit(bits, |x, y| vec![x.gt(y).into()])
}

/// Builds a circuit with two numbers as input values and the results of `function` as output
/// values.
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
