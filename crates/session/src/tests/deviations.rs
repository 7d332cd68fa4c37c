//! Tests of deviating evaluators, which must be detected before they learn anything.

use transpute_circuit::{Circuit, Gate, Op};
use transpute_garble::Scheme;
use transpute_ot::{Extension, OtError};

use super::{Ends, Pair, Setup, random_inputs};
use crate::{FrameKind, OtChoice, OutputPolicy, Role, SessionError, session::Core};

/// Number of transfers of one evaluation, and number of AND gates. Each gate is an output.
const TRANSFERS: u32 = 64;

/// Returns the setup in which the attack is easiest. Every output depends on one input bit of the
/// evaluator, so each transfer can be used to guess other bits of delta.
fn setup(scheme: Scheme, kind: Extension) -> Setup {
    let gates = (0..TRANSFERS).map(|i| Gate {
        op: Op::And,
        a: i,
        b: TRANSFERS + i,
    });
    let outputs = (2 * TRANSFERS..3 * TRANSFERS).collect();
    let circuit = Circuit::new(vec![TRANSFERS; 2], vec![TRANSFERS], gates, outputs).unwrap();
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 1, 5));
    setup.config.scheme = scheme;
    setup.config.ot = OtChoice::Extension(kind);
    setup.config.output = OutputPolicy::Both;
    setup
}

fn run(setup: &Setup, change: fn(&mut [u8])) -> Ends {
    let mut pair = Pair::new(setup, setup);
    let Core::Evaluator(core) = &mut pair.sides[1].single.session().0 else {
        panic!("the second side evaluates");
    };
    core.deviate(change);
    pair.run(&mut |_, frame| vec![frame])
}

/// Flips the choice bit of each transfer in two groups of columns. If the garbler does not detect
/// it, the evaluator learns the bits of delta in these columns.
fn flip_two_groups_per_transfer(corrections: &mut [u8]) {
    // Each group has 32 bytes: one block of 128 transfers, and one block that is sacrificed for the
    // check.
    let groups = corrections.len() / 32;
    for transfer in 0..TRANSFERS as usize {
        for group in [2 * transfer % groups, (2 * transfer + 1) % groups] {
            corrections[32 * group + transfer / 8] ^= 1 << (transfer % 8);
        }
    }
}

fn flip_nothing(_: &mut [u8]) {}

/// The attack flips one choice bit in each of the 128 columns. If it succeeded, the evaluator would
/// learn all of delta in one run. With delta, it could compute the garbler's inputs and forge any
/// output.
#[test]
fn flipped_columns_are_caught_before_anything_is_revealed() {
    for scheme in Scheme::ALL {
        for kind in Extension::ALL {
            let setup = setup(scheme, kind);
            let ends = run(&setup, flip_two_groups_per_transfer);
            let is_caught = matches!(
                ends.garbler,
                Err(SessionError::Ot(OtError::ColumnCheckFailed))
            );
            assert!(is_caught, "{scheme} {kind}: {:?}", ends.garbler);
            assert!(ends.evaluator.is_err());
            for (role, frame) in &ends.delivered {
                let reveals = matches!(frame.kind, FrameKind::OtReply | FrameKind::Decode);
                assert!(*role == Role::Evaluator || !reveals, "{:?}", frame.kind);
            }
            // The same code without flipped bits must succeed. So the flipped bits cause the error
            // above.
            let honest = run(&setup, flip_nothing);
            assert!(honest.garbler.is_ok() && honest.evaluator.is_ok());
        }
    }
}

/// The garbler sends the decoding information of an evaluation only after the check of all its
/// transfers. The check of the second segment is dropped here.
#[test]
fn an_output_is_decoded_only_after_the_check_of_its_transfers() {
    for kind in Extension::ALL {
        // 200 evaluations have 12,800 transfers. They need two segments.
        let mut setup = setup(Scheme::HalfGates, kind);
        setup.inputs = random_inputs(&setup.circuit, 200, 6);
        setup.config.batch = 200;
        let (mut checks, mut decoded) = (0, 0);
        let ends = Pair::new(&setup, &setup).run(&mut |role, frame| {
            match (role, frame.kind) {
                (Role::Evaluator, FrameKind::OtCheck) => {
                    checks += 1;
                    if checks == 2 {
                        return vec![];
                    }
                }
                (Role::Garbler, FrameKind::Decode) => {
                    assert!(checks > 0, "decoded before any check");
                    decoded += 1;
                }
                _ => {}
            }
            vec![frame]
        });
        assert!(checks >= 2 && ends.garbler.is_err());
        // The number of evaluations in groups of eight whose transfers are all in the first segment
        // of 8,064 transfers.
        assert_eq!(decoded, 8064 / 64 / 8 * 8, "{kind}");
    }
}
