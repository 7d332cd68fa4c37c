//! Tests of the arithmetic circuits: interface, gate counts, and results compared with native
//! integers.

use proptest::prelude::*;
use transpute_circuit::{
    Bits, Circuit, Op,
    generators::{
        GeneratorError, MAX_NUMBER_BITS, add, divide, divide_signed, less_than, less_than_signed,
        millionaires, multiply, multiply_wide, subtract,
    },
};

fn run(circuit: &Circuit, x: u128, y: u128, width: usize) -> Vec<u128> {
    let mut bits = Bits::from_u128(x, width);
    bits.extend([Bits::from_u128(y, width)]);
    let output = circuit.evaluate(&bits).unwrap();
    (circuit.split_outputs(&output).iter())
        .map(|value| value.to_u128().unwrap())
        .collect()
}

fn check_all(x: u64, y: u64) -> Result<(), TestCaseError> {
    let (wide_x, wide_y) = (u128::from(x), u128::from(y));
    let (signed_x, signed_y) = (x as i64, y as i64);
    let results: [(Result<Circuit, GeneratorError>, &[u128]); 9] = [
        (add(64), &[x.wrapping_add(y).into()]),
        (subtract(64), &[x.wrapping_sub(y).into()]),
        (multiply(64), &[x.wrapping_mul(y).into()]),
        (multiply_wide(64), &[wide_x * wide_y]),
        (
            divide(64),
            &[
                x.checked_div(y).unwrap_or(u64::MAX).into(),
                x.checked_rem(y).unwrap_or(x).into(),
            ],
        ),
        (
            divide_signed(64),
            &[
                match (signed_x, signed_y) {
                    (0.., 0) => u64::MAX.into(),
                    (_, 0) => 1,
                    _ => u128::from(signed_x.wrapping_div(signed_y) as u64),
                },
                if y == 0 {
                    wide_x
                } else {
                    u128::from(signed_x.wrapping_rem(signed_y) as u64)
                },
            ],
        ),
        (less_than(64), &[u128::from(x < y)]),
        (less_than_signed(64), &[u128::from(signed_x < signed_y)]),
        (millionaires(64), &[u128::from(x > y)]),
    ];
    for (circuit, expected) in results {
        prop_assert_eq!(run(&circuit.unwrap(), wide_x, wide_y, 64), expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn results_agree_with_native_integers(x: u64, y: u64, narrow in 0_u32..64) {
        check_all(x, y >> narrow)?;
    }
}

#[test]
fn edge_cases_agree_with_native_integers() {
    let edges = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX];
    for x in edges {
        for y in edges {
            check_all(x, y).unwrap();
        }
    }
}

#[test]
fn counts_follow_the_formulas() {
    for n in [2, 8, 32, 64, 128] {
        let division = n * (n + 1) / 2 + 4 * n - 4;
        for (circuit, ands) in [
            (add(n), n - 1),
            (subtract(n), n - 1),
            (divide(n), division),
            (divide_signed(n), division + 4 * n - 4),
            (less_than(n), n),
            (less_than_signed(n), n),
            (millionaires(n), n),
        ] {
            assert_eq!(circuit.unwrap().count(Op::And), ands, "{n} bits");
        }
    }
}

#[test]
fn products_have_the_documented_and_counts() {
    for (n, low, wide) in [
        (8, 57, 120),
        (32, 975, 1_608),
        (64, 3_620, 5_229),
        (128, 12_595, 16_466),
    ] {
        assert_eq!(multiply(n).unwrap().count(Op::And), low);
        assert_eq!(multiply_wide(n).unwrap().count(Op::And), wide);
    }
}

#[test]
fn widths_out_of_range_are_rejected() {
    for bits in [0, MAX_NUMBER_BITS + 1, usize::MAX] {
        let expected = GeneratorError::OutOfRange {
            parameter: "number width in bits",
            min: 1,
            max: MAX_NUMBER_BITS,
            found: bits,
        };
        assert_eq!(multiply_wide(bits).unwrap_err(), expected);
        assert_eq!(add(bits).unwrap_err(), expected);
    }
}
