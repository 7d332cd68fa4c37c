//! Tests of the baseline protocols between two parties in this process. The keys are short, so that
//! the tests are fast, and not secure.

use proptest::{prelude::*, test_runner::TestRunner};
use tokio::io::{DuplexStream, duplex};
use transpute::{
    Role,
    transport::{Link, LinkInfo},
};

use super::{in_the_clear, number, split};
use crate::{
    baseline::{self, Finished, Key, Task},
    division::{Approach, Division, Quotient, Shares, WIDTHS, to_u32},
    fast,
    integer::Integer,
    newton,
    paillier::tests::small_key,
    wire::ProtocolError,
};

/// Creates a link over one end of an in-memory pipe.
pub(super) fn link(stream: DuplexStream) -> Link {
    let mut info = LinkInfo::new("pipe", "", "");
    info.encrypted = true;
    let (reader, writer) = tokio::io::split(stream);
    Link::new(reader, writer, info, None)
}

pub(super) fn key(bits: u32) -> Key {
    Key::Secret(Box::new(small_key(bits)))
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// Runs both parties. `shares` has the garbler's shares first. Returns the results in the same
/// order.
fn run(task: Task, shares: [Shares; 2]) -> Result<[Finished; 2], ProtocolError> {
    let (one, other) = duplex(1 << 16);
    let [garblers, evaluators] = shares;
    let (garbler, evaluator) = block_on(async {
        tokio::join!(
            baseline::run(link(one), Role::Garbler, task, garblers, Key::OfPeer),
            baseline::run(
                link(other),
                Role::Evaluator,
                task,
                evaluators,
                key(task.key_bits.max(128))
            ),
        )
    });
    Ok([garbler?, evaluator?])
}

pub(super) fn task(approach: Approach, division: Division) -> Task {
    let needed = match approach {
        Approach::Newton => newton::key_bits(&division),
        _ => fast::key_bits(&division),
    };
    Task {
        approach,
        division,
        key_bits: needed.next_multiple_of(64).max(128),
    }
}

/// Runs both parties. Checks that the quotient of each differs from the exact one by at most
/// `slack`.
fn check(task: Task, numbers: [Integer; 2], shares: [Shares; 2], slack: i128) {
    let [x, y] = numbers;
    let [garbler, evaluator] = run(task, shares).unwrap();
    assert_eq!(garbler.quotient, evaluator.quotient);
    match (garbler.quotient, in_the_clear(&task.division, &x, &y)) {
        (Quotient::Value(found), Quotient::Value(expected)) => {
            let difference = found.minus(&expected).magnitude();
            let allowed = Integer::from(slack);
            assert!(
                difference <= allowed,
                "{x} / {y}: {found}, not {expected}; {task:?}"
            );
        }
        (found, expected) => assert_eq!(found, expected, "{x} / {y}; {task:?}"),
    }
}

fn for_divisions(approach: Approach, slack: i128, cases: impl Fn(usize) -> u32) {
    for width in WIDTHS {
        for signed in [false, true] {
            let task = task(approach, Division::of_width(width, signed));
            let numbers = [number(width, signed), number(width, signed)];
            let shares = [number(width + 64, true), number(width + 64, true)];
            let mut runner = TestRunner::new(ProptestConfig::with_cases(cases(width)));
            let result = runner.run(&(numbers, shares), |(numbers, random)| {
                let shares = split(&numbers[0], &numbers[1], random);
                check(task, numbers, shares, slack);
                Ok(())
            });
            result.unwrap();
        }
    }
}

#[test]
fn fast_division_equals_integer_division() {
    for_divisions(Approach::Fast, 0, |_| 12);
}

#[test]
fn newton_division_is_off_by_at_most_one() {
    for_divisions(Approach::Newton, 1, |width| if width > 48 { 2 } else { 5 });
}

#[test]
fn extremes_and_zeros_are_divided() {
    for approach in [Approach::Fast, Approach::Newton] {
        let slack = i128::from(approach == Approach::Newton);
        for signed in [false, true] {
            let division = Division::of_width(8, signed);
            let ends = if signed { [-128, 127] } else { [0, 255] };
            for x in [ends[0], ends[1], 0, 1] {
                for y in [ends[0], ends[1], 0, 1, 2] {
                    let numbers = [x, y].map(Integer::from);
                    let random = [1_000, -77].map(Integer::from);
                    let shares = split(&numbers[0], &numbers[1], random);
                    check(task(approach, division), numbers, shares, slack);
                }
            }
        }
    }
}

#[test]
fn different_widths_are_divided() {
    for approach in [Approach::Fast, Approach::Newton] {
        for (dividend, divisor, fraction) in [(12, 4, 16), (20, 9, 0), (6, 11, 3)] {
            let division = Division {
                dividend,
                divisor,
                fraction,
                signed: false,
            };
            for (x, y) in [
                (1, 1),
                ((1 << dividend) - 1, 3),
                (37, (1 << divisor) - 1),
                (0, 5),
            ] {
                let numbers = [x, y].map(Integer::from);
                let shares = split(&numbers[0], &numbers[1], [5, 6].map(Integer::from));
                let slack = i128::from(approach == Approach::Newton);
                check(task(approach, division), numbers, shares, slack);
            }
        }
    }
}

#[test]
fn iterations_follow_the_logarithm_of_the_width() {
    let iterations = WIDTHS.map(|width| newton::iterations(&Division::of_width(width, false)));
    assert_eq!(iterations, [4, 5, 5, 5, 5, 6, 6, 6, 7, 8]);
}

#[test]
fn short_keys_and_long_shares_are_rejected() {
    let division = Division::of_width(32, false);
    let shares = || {
        split(
            &Integer::from(6),
            &Integer::from(3),
            [1, 1].map(Integer::from),
        )
    };
    for approach in [Approach::Fast, Approach::Newton] {
        let short = Task {
            key_bits: 64,
            ..task(approach, division)
        };
        let error = run(short, shares()).unwrap_err();
        assert!(
            matches!(error, ProtocolError::KeyTooShort { found: 64, .. }),
            "{error}"
        );
        let long = Integer::power_of_two(to_u32(division.width()) + 65);
        let shares = split(
            &Integer::from(6),
            &Integer::from(3),
            [long, Integer::from(1)],
        );
        let error = run(task(approach, division), shares).unwrap_err();
        assert!(
            matches!(error, ProtocolError::ShareTooLong { limit: 96, .. }),
            "{error}"
        );
    }
}
