//! Tests of the documented AND counts, of folding and pruning, and of the wire order.

use transpute_circuit::{Bit, Bits, Builder, Circuit, Int, Op, UInt, Word};

/// Returns the number of AND gates of an operation on two words of `width` bits.
fn ands(width: usize, operation: impl for<'b> Fn(&Word<'b>, &Word<'b>) -> Word<'b>) -> usize {
    Builder::build(|b| {
        let (x, y) = (b.input_word(width), b.input_word(width));
        b.output(operation(&x, &y));
    })
    .unwrap()
    .count(Op::And)
}

#[test]
fn operations_have_the_documented_and_counts() {
    for n in [2, 3, 7, 8, 32, 64, 100] {
        assert_eq!(ands(n, |x, y| x + y), n - 1);
        assert_eq!(ands(n, |x, y| x - y), n - 1);
        assert_eq!(ands(n, |x, _| -x), n - 2);
        assert_eq!(ands(n, |x, y| x & y), n);
        assert_eq!(ands(n, |x, y| x | y), n);
        assert_eq!(ands(n, |x, y| !(x ^ y)), 0);
        assert_eq!(ands(n, |x, _| (x << 3).rotate_left(5) >> 1), 0);
        assert_eq!(ands(n, |x, y| x.eq(y).into()), n - 1);
        assert_eq!(ands(n, |x, _| x.is_zero().into()), n - 1);
        assert_eq!(ands(n, |x, y| x.lt(y).into()), n);
        assert_eq!(ands(n, |x, y| x.ge(y).into()), n);
        assert_eq!(ands(n, |x, y| x.lt_signed(y).into()), n);
        assert_eq!(ands(n, |x, y| x.min(y)), 2 * n);
        assert_eq!(ands(n, |x, y| x.max(y)), 2 * n);
        assert_eq!(ands(n, |x, y| x.carrying_add(y).1.into()), n);
        assert_eq!(ands(n, |x, y| x.borrowing_sub(y).1.into()), n);
        let ones = n.count_ones() as usize;
        assert_eq!(ands(n, |x, _| x.count_ones()), n - ones);

        let quotient = n * (n + 1) / 2 + 2 * n - 3;
        assert_eq!(ands(n, |x, y| x / y), quotient);
        assert_eq!(ands(n, |x, y| x % y), quotient + 2 * n - 1);
        let both = ands(n, |x, y| {
            let (quotient, remainder) = x.div_rem(y);
            quotient.concat(&remainder)
        });
        assert_eq!(both, quotient + 2 * n - 1);
        let signed = ands(n, |x, y| x.div_rem_signed(y).0);
        assert_eq!(signed, quotient + 3 * n - 3);
        let signed = ands(n, |x, y| x.div_rem_signed(y).1);
        assert_eq!(signed, quotient + 2 * n - 1 + 3 * n - 3);
    }
    assert_eq!(ands(64, |x, y| x / y), 2_205);
}

/// Returns the number of AND gates of two products: the one modulo `2^width`, and the full one with
/// `2 * width` bits.
fn product_ands(width: usize) -> [usize; 2] {
    let low = ands(width, |x, y| x * y);
    let wide = ands(width, |x, y| {
        let (low, high) = x.widening_mul(y);
        low.concat(&high)
    });
    [low, wide]
}

#[test]
fn products_have_the_documented_and_counts() {
    for n in 2..=33 {
        let rows = [n * n - n + 1, 2 * n * n - n];
        let [low, wide] = product_ands(n);
        assert_eq!(low == rows[0], n < 32, "{n} bits: {low} AND");
        assert_eq!(wide == rows[1], n < 16, "{n} bits: {wide} AND");
        assert!(low <= rows[0] && wide <= rows[1]);
    }
    assert_eq!(product_ands(32), [975, 1_608]);
    assert_eq!(product_ands(64), [3_620, 5_229]);
    assert_eq!(product_ands(128), [12_595, 16_466]);
}

#[test]
fn sums_of_many_cost_one_addition_each() {
    for count in 1..=9 {
        let circuit = Builder::build(|b| b.output(Word::sum(&b.input_words(count, 16)))).unwrap();
        assert!(
            circuit.count(Op::And) <= 15 * (count - 1),
            "{count} numbers"
        );
    }
}

#[test]
fn typed_numbers_cost_the_same_as_words() {
    let circuit = Builder::build(|b| {
        let (x, y) = (b.input::<Int<16>>(), b.input::<Int<16>>());
        b.output(x.lt(&y));
        b.output(x.unsigned_abs());
    })
    .unwrap();
    assert_eq!(circuit.count(Op::And), 16 + 15);
}

#[test]
fn select_costs_one_and_per_bit() {
    let circuit = Builder::build(|b| {
        let (x, y) = (b.input::<UInt<20>>(), b.input::<UInt<20>>());
        b.output(b.input::<Bit<'_>>().select(&x, &y));
    })
    .unwrap();
    assert_eq!(circuit.count(Op::And), 20);
    assert_eq!(circuit.count(Op::Xor), 40);
}

#[test]
fn operations_on_constants_need_no_gates() {
    let circuit = Builder::build(|b| {
        let x = b.input::<Bit<'_>>();
        let (zero, one) = (b.bit(false), b.bit(true));
        b.output([x & zero, x & one, x | one, x | zero, x ^ zero, x ^ x, x & x]);
        b.output([x & !x, x | !x, x ^ !x, !!x, x.eq(x)]);
        let word = b.word(25, 5) * b.word(3, 5) + b.word(1, 5);
        b.output(word / 4);
    })
    .unwrap();
    assert_eq!((circuit.count(Op::And), circuit.count(Op::Xor)), (0, 0));
    assert_eq!(circuit.count(Op::Not), 0);
    for (x, folded, negated) in [(0, "0010000", "01101"), (1, "0111101", "01111")] {
        let output = circuit.evaluate(&Bits::from_u128(x, 1)).unwrap();
        let values = circuit.split_outputs(&output);
        assert_eq!(values[0].to_string(), folded);
        assert_eq!(values[1].to_string(), negated);
        assert_eq!(values[2].to_u128(), Some((25 * 3 + 1) % 32 / 4));
    }
}

#[test]
fn constants_make_operations_cheaper() {
    let with_constant = |constant: u128| {
        Builder::build(|b| b.output(b.input::<UInt<32>>() + constant))
            .unwrap()
            .count(Op::And)
    };
    assert_eq!(with_constant(0), 0);
    assert_eq!(with_constant(1), 30);
    assert_eq!(with_constant(1 << 31), 0);
}

#[test]
fn unused_gates_are_dropped() {
    let circuit = Builder::build(|b| {
        let (x, y) = (b.input::<UInt<32>>(), b.input::<UInt<32>>());
        let _unused = x * y / x;
        b.output(x ^ y);
    })
    .unwrap();
    assert_eq!(circuit.gate_count(), 32);
}

#[test]
fn negations_are_made_once() {
    let circuit = Builder::build(|b| {
        let [x, y, z] = b.input::<[Bit<'_>; 3]>();
        b.output([!x & y, !x & z, !x, !!!x]);
    })
    .unwrap();
    assert_eq!(circuit.count(Op::Not), 1);
}

#[test]
fn inputs_come_first_wherever_they_are_declared() {
    let circuit = Builder::build(|b| {
        let x = b.input::<UInt<4>>();
        let square = x * x;
        b.output(square);
        let y = b.input::<UInt<4>>();
        b.output(square + y);
        b.input::<Bit<'_>>();
        b.output(y);
    })
    .unwrap();
    assert_eq!(circuit.input_widths(), [4, 4, 1]);
    assert_eq!(circuit.output_widths(), [4, 4, 4]);
    let output = circuit.evaluate(&Bits::from_u128(0x53, 9)).unwrap();
    assert_eq!(output.to_hex(), "5e9");
}

#[test]
fn circuits_may_lack_inputs_or_outputs() {
    let empty = Builder::build(|_| ()).unwrap();
    assert_eq!((empty.gate_count(), empty.input_bits()), (0, 0));
    let constants = Builder::build(|b| b.output(b.word(6, 3))).unwrap();
    let output = constants.evaluate(&Bits::new()).unwrap();
    assert_eq!(output.to_u128(), Some(6));
}

fn panic_message(function: impl FnOnce() -> Circuit + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(function).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn width_mismatches_panic_with_a_message() {
    let message =
        panic_message(|| Builder::build(|b| b.output(b.input_word(3) + b.input_word(4))).unwrap());
    assert!(message.contains("width mismatch: operands of 3 and 4 bits"));
    let message = panic_message(|| Builder::build(|b| b.output(UInt::<8>::new(b, 256))).unwrap());
    assert!(message.contains("width mismatch: 256 does not fit in 8 bits"));
    let message = panic_message(|| {
        Builder::build(|b| {
            let choice = b.input::<Bit<'_>>();
            b.output(choice.select(&b.input_word(3), &b.input_word(4)));
        })
        .unwrap()
    });
    assert!(message.contains("width mismatch: select between 3 and 4 bits"));
}
