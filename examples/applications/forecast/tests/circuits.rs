//! Tests of the circuits, evaluated without garbling.

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use transpute::{Bits, Circuit};

use super::{in_the_clear, number, split};
use crate::{
    circuit::{
        Average, count_bits, division, multiplication, read_quotient, significant_bits,
        weighted_average,
    },
    division::{Division, Quotient, WIDTHS, to_u32},
    integer::Integer,
};

fn evaluate(circuit: &Circuit, inputs: [Bits; 2]) -> Vec<Bits> {
    let mut all = Bits::new();
    all.extend(inputs);
    circuit.split_outputs(&circuit.evaluate(&all).unwrap())
}

/// Calls `check` for random pairs of numbers of `width` bits, and for random shares of each pair.
fn for_numbers(width: usize, signed: bool, cases: u32, check: impl Fn([Integer; 2], [Integer; 2])) {
    let numbers = [number(width, signed), number(width, signed)];
    let shares = [number(width, false), number(width, false)];
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    runner
        .run(&(numbers, shares), |(numbers, shares)| {
            check(numbers, shares);
            Ok(())
        })
        .unwrap();
}

fn divide(
    circuit: &Circuit,
    shape: &Division,
    numbers: &[Integer; 2],
    shares: [Integer; 2],
) -> Quotient {
    let [x, y] = numbers;
    let inputs = split(x, y, shares).map(|shares| shares.bits(shape));
    read_quotient(&evaluate(circuit, inputs), *shape).unwrap()
}

#[test]
fn division_of_every_width_equals_integer_division() {
    for width in WIDTHS {
        for signed in [false, true] {
            let shape = Division::of_width(width, signed);
            let circuit = division(shape).unwrap();
            for_numbers(width, signed, 40, |numbers, shares| {
                let found = divide(&circuit, &shape, &numbers, shares);
                let [x, y] = numbers;
                assert_eq!(found, in_the_clear(&shape, &x, &y), "{x} / {y}, {shape:?}");
            });
        }
    }
}

#[test]
fn division_of_small_numbers_is_exhaustively_correct() {
    for (dividend, divisor, fraction) in [(3, 3, 3), (2, 4, 1), (4, 2, 0), (4, 3, 5), (2, 5, 0)] {
        for signed in [false, true] {
            let shape = Division {
                dividend,
                divisor,
                fraction,
                signed,
            };
            let circuit = division(shape).unwrap();
            for bits in 0..1_u128 << (dividend + divisor) {
                let all = Bits::from_u128(bits, dividend + divisor);
                let x = Integer::from_bits(&all.slice(0..dividend), signed);
                let y = Integer::from_bits(&all.slice(dividend..dividend + divisor), signed);
                let shares = [Integer::from(3), Integer::from(-1)];
                let found = divide(&circuit, &shape, &[x.clone(), y.clone()], shares);
                assert_eq!(found, in_the_clear(&shape, &x, &y), "{x} / {y}, {shape:?}");
            }
        }
    }
}

/// The outputs must not depend on the dividend if the divisor is 0.
#[test]
fn the_divisor_zero_gives_the_same_outputs_for_every_dividend() {
    for signed in [false, true] {
        let shape = Division::of_width(12, signed);
        let circuit = division(shape).unwrap();
        for_numbers(12, signed, 60, |[x, _], [share, _]| {
            let shares = split(&x, &Integer::zero(), [share, Integer::from(5)]);
            let outputs = evaluate(&circuit, shares.map(|shares| shares.bits(&shape)));
            assert_eq!(outputs[0].to_string(), "1".repeat(24));
            assert!(outputs.last().unwrap().get(0));
            assert!(!signed || !outputs[1].get(0));
        });
    }
}

/// The sign of the divisor must not show in a quotient of 0.
#[test]
fn zero_has_one_sign() {
    let shape = Division::of_width(8, true);
    let circuit = division(shape).unwrap();
    for divisor in [-128, -1, 1, 127] {
        let shares = split(
            &Integer::zero(),
            &Integer::from(divisor),
            [Integer::from(77), Integer::from(9)],
        );
        let outputs = evaluate(&circuit, shares.map(|shares| shares.bits(&shape)));
        assert_eq!(outputs[0].to_string(), "0".repeat(16));
        assert!(!outputs[1].get(0));
    }
}

#[test]
fn multiplication_of_every_width_equals_integer_multiplication() {
    for width in WIDTHS {
        for signed in [false, true] {
            let shape = Division::of_width(width, signed);
            let circuit = multiplication(width, signed).unwrap();
            for_numbers(width, signed, 25, |[x, y], shares| {
                let inputs = split(&x, &y, shares).map(|shares| shares.bits(&shape));
                let product = Integer::from_bits(&evaluate(&circuit, inputs)[0], signed);
                assert_eq!(product, x.times(&y), "{x} * {y}, {width} bits");
            });
        }
    }
}

#[test]
fn significant_bits_are_counted() {
    for width in [2, 7, 8, 33] {
        for signed in [false, true] {
            let circuit = significant_bits(width, signed).unwrap();
            for_numbers(width, signed, 60, |[value, share], _| {
                let rest = value.minus(&share);
                let outputs = evaluate(&circuit, [share, rest].map(|share| share.to_bits(width)));
                assert_eq!(outputs[0].len(), count_bits(width));
                assert_eq!(outputs[0].to_u128(), Some(value.bits().into()), "{value}");
                if signed {
                    assert_eq!(outputs[1].get(0), value.is_negative());
                }
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The cases include weighted sums near the maximum width, and weights that are all 0.
    #[test]
    fn weighted_averages_equal_integer_arithmetic(
        values in vec(any::<i16>(), 1..6),
        shares in vec(any::<u32>(), 10),
        weights in vec(prop_oneof![Just(0_u8), Just(255), any::<u8>()], 5),
        fraction in 0_usize..20,
        signed: bool,
    ) {
        let average = Average { periods: values.len(), value: 16, weight: 8, fraction, signed };
        let numbers: Vec<Integer> = (values.iter())
            .map(|&value| match signed {
                true => Integer::from(i128::from(value)),
                false => Integer::from(i128::from(value.cast_unsigned())),
            })
            .collect();
        let weights: Vec<Integer> =
            weights[..values.len()].iter().map(|&weight| Integer::from(i128::from(weight))).collect();
        let shares: Vec<Integer> =
            shares.iter().map(|&share| Integer::from(i128::from(share))).collect();
        let mut inputs = [Bits::new(), Bits::new()];
        for (numbers, width, shares) in [(&numbers, 16, &shares[..5]), (&weights, 8, &shares[5..])] {
            for (number, share) in numbers.iter().zip(shares) {
                inputs[0].extend([share.to_bits(width)]);
                inputs[1].extend([number.minus(share).to_bits(width)]);
            }
        }
        let outputs = evaluate(&weighted_average(average).unwrap(), inputs);
        let sum = |terms: Vec<Integer>| terms.iter().fold(Integer::zero(), |sum, term| sum.plus(term));
        let products = numbers.iter().zip(&weights).map(|(number, weight)| number.times(weight));
        let division = average.division();
        prop_assert_eq!(division.fraction, fraction);
        prop_assert!(to_u32(division.dividend) >= sum(products.clone().collect()).bits());
        let expected = in_the_clear(&division, &sum(products.collect()), &sum(weights.clone()));
        prop_assert_eq!(read_quotient(&outputs, division), Some(expected));
    }
}
