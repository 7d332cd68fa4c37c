//! Tests of every approach, compared with integer division.

mod adversarial;
mod circuits;
mod programs;
mod protocols;

use proptest::prelude::*;

use crate::{
    division::{Division, Quotient, Shares, to_u32},
    integer::Integer,
};

#[path = "../../processes.rs"]
mod processes;

/// Runs one party in a child process that another test starts. This is not a test by itself.
#[test]
#[ignore = "child of two_processes_divide_in_every_way"]
fn party_process() {
    processes::act(|arguments| async { programs::run(arguments).await });
}

fn in_the_clear(division: &Division, dividend: &Integer, divisor: &Integer) -> Quotient {
    let scaled = dividend.shifted_left(to_u32(division.fraction));
    match scaled.divided_by(divisor) {
        Some((quotient, _)) => Quotient::Value(quotient),
        None => Quotient::DivisorIsZero,
    }
}

/// Generates numbers of `width` bits: random numbers of any length, 0, the minimum and the maximum.
fn number(width: usize, signed: bool) -> impl Strategy<Value = Integer> {
    let random = (any::<[u128; 2]>(), 0..=width).prop_map(|(words, bits)| {
        let low = Integer::new(false, &words[0].into());
        let high = Integer::new(false, &words[1].into());
        // The shift makes numbers of every length equally likely. Without it, most would have
        // nearly the full width.
        low.plus(&high.shifted_left(128))
            .shifted_right(to_u32(256 - bits))
    });
    let power = Integer::power_of_two(to_u32(width));
    let extremes = vec![
        Integer::from(0),
        Integer::from(1),
        power.minus(&Integer::from(1)),
        power.shifted_right(1),
        power.shifted_right(1).minus(&Integer::from(1)),
    ];
    prop_oneof![2 => random.boxed(), 1 => proptest::sample::select(extremes).boxed()].prop_map(
        move |value| match signed {
            true => Integer::from_bits(&value.to_bits(width), true),
            false => value,
        },
    )
}

/// Splits a dividend and a divisor, with `random` as the first party's shares.
fn split(dividend: &Integer, divisor: &Integer, random: [Integer; 2]) -> [Shares; 2] {
    let [x, y] = random;
    let rest = Shares {
        dividend: dividend.minus(&x),
        divisor: divisor.minus(&y),
    };
    let random = Shares {
        dividend: x,
        divisor: y,
    };
    [random, rest]
}
