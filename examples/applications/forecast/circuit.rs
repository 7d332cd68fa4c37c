//! The circuits. Each adds the parties' shares of its numbers, then divides, multiplies or averages
//! the sums.

use transpute::{
    Bits, Builder, Circuit, CircuitError,
    circuit::{Bit, Word},
};

use crate::{
    division::{Division, Quotient},
    integer::Integer,
};

/// A quotient in a circuit.
struct Divided<'b> {
    /// The quotient of the magnitudes; all ones for the divisor 0.
    magnitude: Word<'b>,
    divisor_is_zero: Bit<'b>,
}

/// Builds the circuit that divides two split numbers. Input value 0 is the garbler's shares of
/// dividend and divisor, input value 1 the evaluator's.
///
/// The outputs are the magnitude of the quotient, its sign if the numbers are signed, and whether
/// the divisor is 0. For the divisor 0, the magnitude is all ones and the sign 0, so neither
/// depends on the dividend.
///
/// With dividends of `n` bits, divisors of `m` bits and `f` fraction bits, this takes about `m^2 /
/// 2 + m (n + f - m)` AND gates if `m <= n + f`. For the paper's division that is 1.5 times the
/// square of the width.
///
/// # Errors
/// Returns [`CircuitError`] if the circuit is too large.
pub(crate) fn division(division: Division) -> Result<Circuit, CircuitError> {
    Builder::build(|b| {
        let [x, y] = numbers(b, [division.dividend, division.divisor]);
        output_quotient(b, &x, &y, division);
    })
}

/// Builds the circuit that multiplies two split numbers. Input value 0 is the garbler's shares of
/// both, input value 1 the evaluator's. The output is the full product of twice the width, in two's
/// complement if `signed`.
///
/// # Errors
/// Returns [`CircuitError`] if the circuit is too large.
pub(crate) fn multiplication(width: usize, signed: bool) -> Result<Circuit, CircuitError> {
    Builder::build(|b| {
        let [x, y] = numbers(b, [width, width]);
        let (low, mut high) = x.widening_mul(&y);
        if signed {
            // In the unsigned product, a negative factor counts as 2^width more than its value. So
            // the other factor is subtracted from the high half.
            let zero = b.word(0, width);
            for (factor, other) in [(&x, &y), (&y, &x)] {
                high -= &factor.bit(width - 1).select(other, &zero);
            }
        }
        b.output(low.concat(&high));
    })
}

/// A weighted average of split values with split weights.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Average {
    /// Number of values and of weights.
    pub(crate) periods: usize,
    /// Width of a value in bits, including the sign.
    pub(crate) value: usize,
    /// Width of an unsigned weight, in bits.
    pub(crate) weight: usize,
    /// Number of fraction bits of the result.
    pub(crate) fraction: usize,
    /// Whether values may be negative.
    pub(crate) signed: bool,
}

impl Average {
    /// Returns the parameters of the final division, of the weighted sum by the sum of the weights.
    pub(crate) fn division(&self) -> Division {
        let carries = (usize::BITS - self.periods.saturating_sub(1).leading_zeros()) as usize;
        // The divisor is never negative, so a signed division needs a sign bit for it.
        let divisor = self.weight + carries + usize::from(self.signed);
        Division {
            dividend: self.value + self.weight + carries,
            divisor,
            fraction: self.fraction,
            signed: self.signed,
        }
    }
}

/// Builds the circuit of a weighted average. Input value 0 is the garbler's shares of all values,
/// then of all weights; input value 1 is the evaluator's. The outputs are those of [`division`].
/// If all weights are 0, the divisor is 0.
///
/// # Errors
/// Returns [`CircuitError`] if the circuit is too large.
pub(crate) fn weighted_average(average: Average) -> Result<Circuit, CircuitError> {
    let division = average.division();
    Builder::build(|b| {
        let parties = [(); 2].map(|()| {
            let all = b.input_word(average.periods * (average.value + average.weight));
            let (values, weights) = (average.periods * average.value, average.periods);
            let value = |i: usize| all.slice(i * average.value..(i + 1) * average.value);
            let weight = |i: usize| {
                all.slice(values + i * average.weight..values + (i + 1) * average.weight)
            };
            (
                (0..average.periods).map(value).collect::<Vec<_>>(),
                (0..weights).map(weight).collect::<Vec<_>>(),
            )
        });
        let [(own_values, own_weights), (other_values, other_weights)] = parties;
        let product_bits = average.value + average.weight;
        let (mut products, mut weights) = (Vec::new(), Vec::new());
        let values = own_values.iter().zip(&other_values);
        for ((x, y), (v, w)) in values.zip(own_weights.iter().zip(&other_weights)) {
            let (value, weight) = (x + y, v + w);
            let value = match average.signed {
                true => value.resize_signed(product_bits),
                false => value.resize(product_bits),
            };
            let product = &value * &weight.resize(product_bits);
            products.push(match average.signed {
                true => product.resize_signed(division.dividend),
                false => product.resize(division.dividend),
            });
            weights.push(weight.resize(division.divisor));
        }
        let (x, y) = (Word::sum(&products), Word::sum(&weights));
        output_quotient(b, &x, &y, division);
    })
}

/// Builds the circuit that counts the significant bits of the magnitude of a split number. Input
/// value 0 is the garbler's share, input value 1 the evaluator's. Output value 0 is the count; for
/// a signed number, output value 1 is its sign.
///
/// # Errors
/// Returns [`CircuitError`] if the circuit is too large.
pub(crate) fn significant_bits(width: usize, signed: bool) -> Result<Circuit, CircuitError> {
    Builder::build(|b| {
        let sum = b.input_word(width) + b.input_word(width);
        let magnitude = match signed {
            true => magnitude(&sum),
            false => sum.clone(),
        };
        // `seen` becomes 1 at the highest bit that is 1, from the top down, and stays 1 below. So
        // the number of ones in `places` is the number of significant bits.
        let mut seen = b.bit(false);
        let mut places = Vec::with_capacity(width);
        for bit in magnitude.bits().into_iter().rev() {
            seen |= bit;
            places.push(seen);
        }
        let count = b.word_of(places).count_ones();
        b.output(count.resize(count_bits(width)));
        if signed {
            b.output(sum.bit(width - 1));
        }
    })
}

/// Returns the number of bits that represent every count from 0 to `width`.
pub(crate) fn count_bits(width: usize) -> usize {
    (usize::BITS - width.leading_zeros()) as usize
}

/// Parses the outputs of [`division`] and [`weighted_average`].
pub(crate) fn read_quotient(outputs: &[Bits], division: Division) -> Option<Quotient> {
    let (magnitude, signs, divisor_is_zero) = match (division.signed, outputs) {
        (false, [magnitude, flag]) => (magnitude, None, flag),
        (true, [magnitude, sign, flag]) => (magnitude, Some(sign), flag),
        _ => return None,
    };
    let flags = signs.into_iter().chain([divisor_is_zero]);
    if magnitude.len() != division.quotient_bits() || flags.into_iter().any(|flag| flag.len() != 1)
    {
        return None;
    }
    if divisor_is_zero.get(0) {
        return Some(Quotient::DivisorIsZero);
    }
    let negative = signs.is_some_and(|sign| sign.get(0));
    let value = Integer::from_bits(magnitude, false);
    Some(Quotient::Value(value.negated_if(negative)))
}

/// Declares an input value of each party: its shares of numbers of the given widths. Returns the
/// sums of the shares.
fn numbers<'b, const N: usize>(b: Builder<'b>, widths: [usize; N]) -> [Word<'b>; N] {
    let total = widths.iter().sum();
    let [own, other] = [(); 2].map(|()| b.input_word(total));
    let mut start = 0;
    widths.map(|width| {
        let range = start..start + width;
        start += width;
        own.slice(range.clone()) + other.slice(range)
    })
}

fn output_quotient<'b>(b: Builder<'b>, x: &Word<'b>, y: &Word<'b>, division: Division) {
    if !division.signed {
        let divided = divide(b, x, y, division.fraction);
        b.output(divided.magnitude);
        b.output(divided.divisor_is_zero);
        return;
    }
    let negative = x.bit(x.width() - 1) ^ y.bit(y.width() - 1);
    let divided = divide(b, &magnitude(x), &magnitude(y), division.fraction);
    // The sign of a zero quotient, or of one with divisor 0, would reveal the sign of the other
    // number. So it is cleared.
    let has_sign = !x.is_zero() & !divided.divisor_is_zero;
    b.output(divided.magnitude);
    b.output(negative & has_sign);
    b.output(divided.divisor_is_zero);
}

/// Returns the magnitude of a number in two's complement. It takes one AND gate less than the
/// number has bits.
fn magnitude<'b>(number: &Word<'b>) -> Word<'b> {
    let b = number.builder();
    let sign = number.bit(number.width() - 1);
    let flipped = b.word_of(number.bits().into_iter().map(|bit| bit ^ sign));
    flipped + Word::from(sign).resize(number.width())
}

/// Adds two numbers and a carry bit. It takes one AND gate per bit, as many as without the carry.
fn add_with_carry<'b>(x: &Word<'b>, y: &Word<'b>, carry: Bit<'b>) -> Word<'b> {
    // Both numbers get `carry` as an additional lowest bit. The sum of these two bits produces the
    // carry into the next bit.
    let carry = Word::from(carry);
    (carry.concat(x) + carry.concat(y)).slice(1..1 + x.width())
}

/// Divides `2^fraction x` by `y`, both unsigned, by non-restoring division. Each step takes one
/// more bit of the dividend and adds or subtracts the divisor.
///
/// The partial remainder lies between minus the divisor and the divisor. So step `k` computes only
/// its low `min(k, m) + 1` bits. The highest of them is the sign, unless the divisor has more than
/// `k` bits. In that case the remainder is negative, and the computed sign is ignored.
fn divide<'b>(b: Builder<'b>, x: &Word<'b>, y: &Word<'b>, fraction: usize) -> Divided<'b> {
    let (n, m) = (x.width(), y.width());
    // fits[k] is whether the divisor is below 2^k. So fits[0] is whether the divisor is 0.
    let mut fits = vec![b.bit(true); m + 1];
    for k in (0..m).rev() {
        fits[k] = fits[k + 1] & !y.bit(k);
    }
    let divisor_is_zero = fits[0];
    let mut partial = b.word(0, 1);
    let mut positive = b.bit(true);
    let mut quotient = Vec::with_capacity(n + fraction);
    for k in 1..=n + fraction {
        let next = if k <= n { x.bit(n - k) } else { b.bit(false) };
        let width = k.min(m) + 1;
        let shifted = Word::from(next).concat(&partial).resize(width);
        let addend = y.resize(width).bits().into_iter().map(|bit| bit ^ positive);
        partial = add_with_carry(&shifted, &b.word_of(addend), positive);
        let is_not_negative = !partial.bit(width - 1);
        positive = match fits.get(k) {
            Some(&fits) => fits & is_not_negative,
            // For the divisor 0, the remainder overflows. The bit is set to 1, so that the output
            // does not depend on the dividend.
            None => divisor_is_zero | is_not_negative,
        };
        quotient.push(positive);
    }
    quotient.reverse();
    Divided {
        magnitude: b.word_of(quotient),
        divisor_is_zero,
    }
}
