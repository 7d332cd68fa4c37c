//! Compares the operations of the number types with native integers.

use proptest::prelude::*;
use transpute_circuit::{Bit, Bits, Builder, Circuit, Int, UInt, Word};

/// Evaluates a circuit on numbers and returns its output values.
fn run(circuit: &Circuit, inputs: &[u128]) -> Vec<u128> {
    let mut bits = Bits::new();
    for (&value, &width) in inputs.iter().zip(circuit.input_widths()) {
        bits.extend([Bits::from_u128(value, width as usize)]);
    }
    let output = circuit.evaluate(&bits).unwrap();
    (circuit.split_outputs(&output).iter())
        .map(|value| value.to_u128().unwrap())
        .collect()
}

fn mask(width: usize) -> u128 {
    u128::MAX >> (128 - width)
}

fn sign_extend(value: u128, width: usize) -> i128 {
    ((value << (128 - width)) as i128) >> (128 - width)
}

/// Returns a circuit of all operations of [`Word`] on two numbers, in the order of
/// `expected_of_words`.
fn all_operations(width: usize) -> Circuit {
    Builder::build(|b| {
        let (x, y) = (b.input_word(width), b.input_word(width));
        for word in [&x + &y, &x - &y, &x * &y, &x / &y, &x % &y] {
            b.output(word);
        }
        for word in [&x & &y, &x | &y, &x ^ &y, !&x, -&x, x.min(&y), x.max(&y)] {
            b.output(word);
        }
        for bit in [x.eq(&y), x.ne(&y), x.lt(&y), x.le(&y), x.gt(&y), x.ge(&y)] {
            b.output(bit);
        }
        b.output(x.lt_signed(&y));
        b.output(x.is_zero());
        b.output(x.carrying_add(&y).1);
        b.output(x.borrowing_sub(&y).1);
        let (quotient, remainder) = x.div_rem_signed(&y);
        b.output(quotient);
        b.output(remainder);
        b.output(x.count_ones());
        b.output(Word::sum(&[x.clone(), y.clone(), x.clone(), y, x]));
    })
    .unwrap()
}

fn expected_of_words(width: usize, x: u128, y: u128) -> Vec<u128> {
    let m = mask(width);
    let (sx, sy) = (sign_extend(x, width), sign_extend(y, width));
    let signed_quotient = match (sx, sy) {
        (0.., 0) => -1,
        (_, 0) => 1,
        _ => sx.wrapping_div(sy),
    };
    let signed_remainder = if sy == 0 { sx } else { sx.wrapping_rem(sy) };
    let mut expected = vec![
        x.wrapping_add(y) & m,
        x.wrapping_sub(y) & m,
        x.wrapping_mul(y) & m,
        x.checked_div(y).unwrap_or(m),
        x.checked_rem(y).unwrap_or(x),
        x & y,
        x | y,
        x ^ y,
        !x & m,
        x.wrapping_neg() & m,
        x.min(y),
        x.max(y),
    ];
    let bits = [
        x == y,
        x != y,
        x < y,
        x <= y,
        x > y,
        x >= y,
        sx < sy,
        x == 0,
        x > m - y,
        x < y,
    ];
    expected.extend(bits.map(u128::from));
    expected.extend([
        signed_quotient as u128 & m,
        signed_remainder as u128 & m,
        u128::from(x.count_ones()) & m,
        x.wrapping_mul(3).wrapping_add(y.wrapping_mul(2)) & m,
    ]);
    expected
}

#[test]
fn narrow_words_agree_on_all_numbers() {
    for width in 1..=5 {
        let circuit = all_operations(width);
        for x in 0..=mask(width) {
            for y in 0..=mask(width) {
                let expected = expected_of_words(width, x, y);
                assert_eq!(run(&circuit, &[x, y]), expected, "{x}, {y} in {width} bits");
            }
        }
    }
}

#[test]
fn wide_words_agree_on_edge_cases() {
    for width in [31, 64, 65, 128] {
        let circuit = all_operations(width);
        let top = 1 << (width - 1);
        let edges = [0, 1, 2, top - 1, top, top + 1, mask(width) - 1, mask(width)];
        for x in edges {
            for y in edges {
                let expected = expected_of_words(width, x, y);
                assert_eq!(run(&circuit, &[x, y]), expected, "{x}, {y} in {width} bits");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn words_of_any_width_agree(width in 1_usize..=128, x: u128, y: u128, narrow in 0_u32..128) {
        let (x, y) = (x & mask(width), (y >> narrow) & mask(width));
        prop_assert_eq!(run(&all_operations(width), &[x, y]), expected_of_words(width, x, y));
    }

    #[test]
    fn widening_products_agree(x: u128, y: u128, width in 1_usize..=64) {
        let (x, y) = (x & mask(width), y & mask(width));
        let circuit = Builder::build(|b| {
            let (low, high) = b.input_word(width).widening_mul(&b.input_word(width));
            b.output(low);
            b.output(high);
        })
        .unwrap();
        prop_assert_eq!(run(&circuit, &[x, y]), [(x * y) & mask(width), (x * y) >> width]);
    }

    #[test]
    fn products_of_all_widths_agree(x: u128, y: u128) {
        // These widths cover both multiplication methods and all ways of halving.
        for width in 14..=40 {
            let (x, y) = (x & mask(width), y & mask(width));
            let circuit = Builder::build(|b| {
                let (x, y) = (b.input_word(width), b.input_word(width));
                let (low, high) = x.widening_mul(&y);
                b.output(low.concat(&high));
                b.output(x * y);
            })
            .unwrap();
            prop_assert_eq!(run(&circuit, &[x, y]), [x * y, (x * y) & mask(width)]);
        }
    }

    #[test]
    fn shifts_and_rotations_agree(x: u64, distance in 0_usize..200) {
        let circuit = Builder::build(|b| {
            let x = b.input::<UInt<64>>();
            b.output(x << distance);
            b.output(x >> distance);
            b.output(x.as_int() >> distance);
            b.output(x.rotate_left(distance));
            b.output(x.rotate_right(distance));
        })
        .unwrap();
        let clipped = distance.min(63) as u32;
        let shift = |value: u64| if distance < 64 { value } else { 0 };
        let turn = (distance % 64) as u32;
        let expected = [
            shift(x << clipped),
            shift(x >> clipped),
            (x as i64 >> clipped) as u64,
            x.rotate_left(turn),
            x.rotate_right(turn),
        ];
        prop_assert_eq!(run(&circuit, &[x.into()]), expected.map(u128::from));
    }
}

#[test]
fn typed_numbers_agree_on_all_bytes_of_a_sample() {
    let unsigned = Builder::build(|b| {
        let (x, y) = (b.input::<UInt<8>>(), b.input::<UInt<8>>());
        b.output([x + y, x - y, x * y, x / y, x % y, x.min(&y), x.max(&y)]);
        b.output([x.lt(&y), x.le(&y), x.gt(&y), x.ge(&y)]);
        let mut z = x;
        z += y;
        z ^= x;
        b.output((z, x + 200, &x * 3, x.resize::<12>(), x.resize::<5>()));
    })
    .unwrap();
    let signed = Builder::build(|b| {
        let (x, y) = (b.input::<Int<8>>(), b.input::<Int<8>>());
        b.output([x + y, x - y, x * y, x / y, x % y, x.min(&y), x.max(&y), -x]);
        b.output([x.lt(&y), x.le(&y), x.gt(&y), x.ge(&y), x.is_negative()]);
        b.output((x + -100, x.resize::<12>(), x.resize::<5>()));
        b.output(x.unsigned_abs());
    })
    .unwrap();
    for x in 0..=255_u8 {
        for y in (0..=255_u8).step_by(5).chain([1, 2, 127, 128]) {
            let all = pack(&[
                (x.wrapping_add(y).into(), 8),
                (x.wrapping_sub(y).into(), 8),
                (x.wrapping_mul(y).into(), 8),
                (x.checked_div(y).unwrap_or(255).into(), 8),
                (x.checked_rem(y).unwrap_or(x).into(), 8),
                (x.min(y).into(), 8),
                (x.max(y).into(), 8),
            ]);
            let order = pack(&[x < y, x <= y, x > y, x >= y].map(|bit| (u128::from(bit), 1)));
            let more = pack(&[
                ((x.wrapping_add(y) ^ x).into(), 8),
                (x.wrapping_add(200).into(), 8),
                (x.wrapping_mul(3).into(), 8),
                (x.into(), 12),
                (u128::from(x & 31), 5),
            ]);
            let inputs = [x.into(), y.into()];
            assert_eq!(run(&unsigned, &inputs), [all, order, more], "{x}, {y}");

            let (x, y) = (x as i8, y as i8);
            let quotient = match (x, y) {
                (0.., 0) => -1,
                (_, 0) => 1,
                _ => x.wrapping_div(y),
            };
            let remainder = if y == 0 { x } else { x.wrapping_rem(y) };
            let all = [
                x.wrapping_add(y),
                x.wrapping_sub(y),
                x.wrapping_mul(y),
                quotient,
                remainder,
                x.min(y),
                x.max(y),
                x.wrapping_neg(),
            ];
            let order = [x < y, x <= y, x > y, x >= y, x < 0].map(|bit| (u128::from(bit), 1));
            let more = [
                (x.wrapping_add(-100) as u8 as u128, 8),
                (i16::from(x) as u128 & 0xfff, 12),
                (x as u128 & 31, 5),
            ];
            let expected = [
                pack(&all.map(|value| (value as u8 as u128, 8))),
                pack(&order),
                pack(&more),
                x.unsigned_abs().into(),
            ];
            assert_eq!(run(&signed, &inputs), expected, "{x}, {y}");
        }
    }
}

/// Concatenates numbers of the given widths, the first one lowest.
fn pack(fields: &[(u128, usize)]) -> u128 {
    (fields.iter().rev()).fold(0, |all, &(value, width)| all << width | value)
}

#[test]
fn a_bit_selects_between_collections() {
    let circuit = Builder::build(|b| {
        let choice = b.input::<Bit<'_>>();
        let (x, y) = (
            b.input::<([UInt<3>; 2], Bit<'_>)>(),
            b.input::<([UInt<3>; 2], Bit<'_>)>(),
        );
        b.output(choice.select(&x, &y));
        let (words, others) = (b.input_words(2, 5), b.input_words(2, 5));
        b.output(choice.select(&words, &others));
    })
    .unwrap();
    assert_eq!(circuit.input_widths(), [1, 7, 7, 10, 10]);
    assert_eq!(run(&circuit, &[1, 0x55, 0x2a, 0x3aa, 7]), [0x55, 0x3aa]);
    assert_eq!(run(&circuit, &[0, 0x55, 0x2a, 0x3aa, 7]), [0x2a, 7]);
}
