//! Tests of parties whose proposals differ.

use transpute_circuit::InputSplit;
use transpute_garble::Scheme;
use transpute_ot::BaseOt;

use super::{Pair, Setup, chain, random_inputs};
use crate::{OutputPolicy, Role, SessionError, error::Field};

/// Checks that both sides report the field, or learn it from the peer.
fn check(field: Field, change: impl FnOnce(&mut Setup)) {
    let circuit = chain(50);
    let ours = Setup::new(&circuit, random_inputs(&circuit, 2, 1));
    let mut theirs = ours.clone();
    change(&mut theirs);
    let ends = Pair::new(&ours, &theirs).run(&mut |_, frame| vec![frame]);
    for role in [Role::Garbler, Role::Evaluator] {
        match ends.of(role) {
            Err(SessionError::Disagreement { field: found, .. })
            | Err(SessionError::RefusedByPeer(found)) => assert_eq!(*found, field, "{role}"),
            other => panic!("{role} ended with {other:?} instead of refusing the {field}"),
        }
    }
}

#[test]
fn every_term_must_be_the_same() {
    check(Field::Circuit, |setup| setup.circuit = chain(51));
    check(Field::InputSplit, |setup| {
        setup.split = InputSplit::new(setup.circuit.input_widths(), &[1]).unwrap();
    });
    check(Field::Scheme, |setup| setup.config.scheme = Scheme::Prf);
    check(Field::RekeyPeriod, |setup| setup.config.rekey_period = 8);
    check(Field::BaseOt, |setup| {
        setup.config.base_ot = BaseOt::MlKem768;
    });
    check(Field::Output, |setup| {
        setup.config.output = OutputPolicy::Both;
    });
    check(Field::Batch, |setup| {
        setup.config.batch = 1;
        setup.inputs.truncate(1);
    });
    check(Field::ChunkLen, |setup| setup.config.chunk_len = 128);
    check(Field::OutputCheck, |setup| {
        setup.config.output_check = false;
    });
    check(Field::Encryption, |setup| setup.encrypted = true);
}

#[test]
fn two_of_the_same_role_part() {
    let circuit = chain(50);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    for role in [Role::Garbler, Role::Evaluator] {
        let pair = Pair::with_roles(setup.start(role, 1), setup.start(role, 2));
        let ends = pair.run(&mut |_, frame| vec![frame]);
        for end in [ends.garbler, ends.evaluator] {
            assert!(
                matches!(
                    end,
                    Err(SessionError::Disagreement {
                        field: Field::Role,
                        ..
                    } | SessionError::RefusedByPeer(Field::Role))
                ),
                "{end:?}"
            );
        }
    }
}

#[test]
fn a_different_split_of_the_same_widths_is_noticed() {
    use transpute_circuit::{Circuit, Gate, Op};
    let gate = Gate {
        op: Op::And,
        a: 0,
        b: 1,
    };
    let circuit = Circuit::new(vec![1, 1], vec![1], [gate], vec![2]).unwrap();
    let ours = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    let mut theirs = ours.clone();
    theirs.split = InputSplit::new(&[1, 1], &[1]).unwrap();
    let ends = Pair::new(&ours, &theirs).run(&mut |_, frame| vec![frame]);
    assert!(matches!(
        ends.garbler,
        Err(SessionError::Disagreement {
            field: Field::InputSplit,
            ..
        })
    ));
}

#[test]
fn another_version_is_refused_by_name() {
    let circuit = chain(5);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 1, 1));
    let ends = Pair::new(&setup, &setup).run(&mut |_, mut frame| {
        if frame.kind == crate::FrameKind::Open {
            let mut payload = frame.payload.to_vec();
            payload[4] = 13;
            frame.payload = payload.into();
        }
        vec![frame]
    });
    assert!(matches!(
        ends.evaluator,
        Err(SessionError::Disagreement { field: Field::Version, theirs, .. }) if theirs == "13"
    ));
}
