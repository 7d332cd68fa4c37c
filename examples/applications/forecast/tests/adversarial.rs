//! Tests of invalid messages. They are rejected without a panic or an endless wait.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use transpute::Role;

use super::protocols::{block_on, key, link, task};
use crate::{
    baseline::{self, Finished, Key, Task},
    division::{Approach, Division, Shares},
    integer::Integer,
    wire::{Channel, Kind, ProtocolError},
};

/// A function that changes a message, which consists of header and payload.
type Tamper = fn(&mut Vec<u8>);

/// Forwards messages and changes one of them. Returns the number of messages.
async fn carry(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    which: Option<usize>,
    tamper: Tamper,
) -> usize {
    for index in 0.. {
        let mut header = [0; 5];
        if from.read_exact(&mut header).await.is_err() {
            let _ = to.shutdown().await;
            return index;
        }
        let [_, len @ ..] = header;
        let mut message = header.to_vec();
        message.resize(5 + u32::from_le_bytes(len) as usize, 0);
        from.read_exact(&mut message[5..]).await.unwrap();
        if which == Some(index) {
            tamper(&mut message);
        }
        if to.write_all(&message).await.is_err() {
            return index + 1;
        }
    }
    0
}

fn shares() -> Shares {
    let [dividend, divisor] = [100, 6].map(Integer::from);
    Shares { dividend, divisor }
}

/// Runs both parties and changes message number `which` of the party `from`. Returns both results
/// and the number of messages of that party.
fn tampered(
    task: Task,
    from: Role,
    which: usize,
    tamper: Tamper,
) -> ([Result<Finished, ProtocolError>; 2], usize) {
    let ((one, ours), (other, theirs)) = (duplex(1 << 16), duplex(1 << 16));
    let (from_garbler, to_garbler) = split(ours);
    let (from_evaluator, to_evaluator) = split(theirs);
    let of = |role| (role == from).then_some(which);
    let (garbler, evaluator, garblers, evaluators) = block_on(async {
        tokio::join!(
            baseline::run(link(one), Role::Garbler, task, shares(), Key::OfPeer),
            baseline::run(
                link(other),
                Role::Evaluator,
                task,
                shares(),
                key(task.key_bits)
            ),
            carry(from_garbler, to_evaluator, of(Role::Garbler), tamper),
            carry(from_evaluator, to_garbler, of(Role::Evaluator), tamper),
        )
    });
    let sent = if from == Role::Garbler {
        garblers
    } else {
        evaluators
    };
    ([garbler, evaluator], sent)
}

/// Runs each protocol many times, and changes one message of one party in each run. Returns the
/// results of the parties that received a changed message.
fn tamper_with_all(tamper: Tamper) -> Vec<Result<Finished, ProtocolError>> {
    let mut all = Vec::new();
    for approach in [Approach::Fast, Approach::Newton] {
        let task = task(approach, Division::of_width(8, false));
        for from in [Role::Garbler, Role::Evaluator] {
            for which in 0.. {
                let ([garbler, evaluator], sent) = tampered(task, from, which, tamper);
                if sent <= which {
                    assert!(garbler.is_ok() && evaluator.is_ok());
                    break;
                }
                all.push(if from == Role::Garbler {
                    evaluator
                } else {
                    garbler
                });
            }
        }
    }
    assert!(all.len() > 30, "{} messages", all.len());
    all
}

#[test]
fn messages_of_another_kind_are_refused() {
    for received in tamper_with_all(|message| message[0] = 99) {
        let error = received.unwrap_err();
        assert!(
            matches!(error, ProtocolError::Kind { found: 99, .. }),
            "{error}"
        );
    }
}

#[test]
fn announced_lengths_are_checked_before_memory_is_allocated() {
    let oversized = |message: &mut Vec<u8>| message[1..5].fill(0xff);
    for received in tamper_with_all(oversized) {
        let error = received.unwrap_err();
        let expected = u32::MAX as usize;
        assert!(
            matches!(error, ProtocolError::Length { found, .. } if found == expected),
            "{error}"
        );
    }
    let empty = |message: &mut Vec<u8>| {
        message.truncate(5);
        message[1..5].fill(0);
    };
    for received in tamper_with_all(empty) {
        let error = received.unwrap_err();
        assert!(
            matches!(error, ProtocolError::Length { found: 0, .. }),
            "{error}"
        );
    }
}

#[test]
fn invalid_payloads_are_rejected() {
    for fill in [
        (|message: &mut Vec<u8>| message[5..].fill(0xff)) as Tamper,
        |message| message[5..].fill(0x80),
    ] {
        let all = tamper_with_all(fill);
        let refused = all.iter().filter(|received| received.is_err()).count();
        // A changed masked share, or a changed share of the output, can be valid, because any
        // number below the modulus is.
        assert!(refused + 8 >= all.len(), "{refused} of {}", all.len());
    }
}

#[test]
fn differing_parameters_are_reported_to_both() {
    let division = Division::of_width(8, false);
    let ours = task(Approach::Fast, division);
    let others = [
        (
            "the approach (1 fast, 2 newton)",
            Task {
                approach: Approach::Newton,
                ..ours
            },
        ),
        (
            "the sign bit of numbers (1 if they have one)",
            Task {
                division: Division {
                    signed: true,
                    ..division
                },
                ..ours
            },
        ),
        (
            "the width of the dividend",
            Task {
                division: Division {
                    dividend: 9,
                    ..division
                },
                ..ours
            },
        ),
        (
            "the width of the divisor",
            Task {
                division: Division {
                    divisor: 9,
                    ..division
                },
                ..ours
            },
        ),
        (
            "the number of bits after the point",
            Task {
                division: Division {
                    fraction: 9,
                    ..division
                },
                ..ours
            },
        ),
        (
            "the size of the key",
            Task {
                key_bits: 192,
                ..ours
            },
        ),
    ];
    for (expected, theirs) in others {
        let (one, other) = duplex(1 << 16);
        let (garbler, evaluator) = block_on(async {
            tokio::join!(
                baseline::run(link(one), Role::Garbler, ours, shares(), Key::OfPeer),
                baseline::run(
                    link(other),
                    Role::Evaluator,
                    theirs,
                    shares(),
                    key(theirs.key_bits)
                ),
            )
        });
        for error in [garbler.unwrap_err(), evaluator.unwrap_err()] {
            let field = match error {
                ProtocolError::Disagreement { field, .. } => field,
                other => panic!("{other}"),
            };
            assert_eq!(field, expected);
        }
    }
}

#[test]
fn a_peer_that_disconnects_is_detected() {
    let task = task(Approach::Newton, Division::of_width(8, false));
    let (one, other) = duplex(1 << 16);
    let error = block_on(async {
        let leaving = async {
            let mut channel = Channel::new(link(other));
            channel.receive(Kind::Hello, 51).await.unwrap();
        };
        let garbler = baseline::run(link(one), Role::Garbler, task, shares(), Key::OfPeer);
        tokio::join!(garbler, leaving).0.unwrap_err()
    });
    assert!(matches!(error, ProtocolError::Transport(_)), "{error}");
}

#[test]
fn an_invalid_key_is_rejected_by_the_peer() {
    let task = task(Approach::Fast, Division::of_width(8, false));
    let even = |message: &mut Vec<u8>| message[5] &= 0xfe;
    let ([garbler, _], _) = tampered(task, Role::Evaluator, 1, even);
    let error = garbler.unwrap_err();
    assert!(matches!(error, ProtocolError::Paillier(_)), "{error}");
}
