//! Tests of a side that answers the calls of the other, or declines them.

use transpute_circuit::Program;

use super::Pair;
use crate::{
    AbortReason, Decline, Field, FrameDecoder, Role, SessionConnection, SessionError,
    tests::{Setup, chain, random_inputs},
};

fn setup() -> Setup {
    let circuit = chain(60);
    Setup::new(&circuit, random_inputs(&circuit, 2, 9))
}

#[test]
fn a_side_hears_once_what_the_other_calls_for_and_answers() {
    let setup = setup();
    for seed in 0..8 {
        let mut pair = Pair::new(seed);
        let theirs: Vec<_> = (0..3)
            .map(|_| pair.call(1, Role::Evaluator, &setup))
            .collect();
        pair.rest();
        assert_eq!(pair.called[0].len(), 3);
        for (index, (run, proposal)) in pair.called[0].iter().enumerate() {
            assert_eq!(
                (run.role(), run.number()),
                (Role::Garbler, index as u32 + 1)
            );
            let proposal = proposal.unwrap();
            assert_eq!(proposal.circuit, *Program::compile(&setup.circuit).digest());
            assert_eq!((proposal.batch, proposal.is_prepared), (2, false));
        }
        let first = pair.call(0, Role::Garbler, &setup);
        pair.sides[0]
            .decline(Role::Garbler, Decline::Field(Field::Circuit))
            .unwrap();
        let third = pair.call(0, Role::Garbler, &setup);
        pair.rest();
        pair.assert_alive();
        for (end, run) in [(0, first), (1, theirs[0]), (0, third), (1, theirs[2])] {
            pair.check(end, run, &setup);
        }
        assert!(matches!(
            pair.done(1, theirs[1]).end,
            Some(Err(SessionError::RefusedByPeer(Field::Circuit)))
        ));
        // A run that was called here first causes no event.
        pair.call(0, Role::Garbler, &setup);
        pair.call(1, Role::Evaluator, &setup);
        pair.rest();
        assert_eq!((pair.called[0].len(), pair.called[1].len()), (3, 0));
        for side in &mut pair.sides {
            side.close();
        }
        pair.rest();
        assert_eq!(pair.finished, [true; 2]);
    }
}

#[test]
fn a_call_that_was_cancelled_leaves_no_hole() {
    let setup = setup();
    let mut pair = Pair::new(3);
    let theirs = pair.call(1, Role::Evaluator, &setup);
    pair.sides[1].cancel(theirs);
    let next = pair.call(1, Role::Evaluator, &setup);
    pair.rest();
    assert_eq!(pair.called[0].len(), 2);
    assert!(
        pair.called[0]
            .iter()
            .all(|(run, _)| run.role() == Role::Garbler)
    );
    pair.sides[0]
        .decline(Role::Garbler, Decline::Reason(AbortReason::Busy))
        .unwrap();
    let ours = pair.call(0, Role::Garbler, &setup);
    pair.rest();
    pair.assert_alive();
    pair.check(0, ours, &setup);
    pair.check(1, next, &setup);
}

#[test]
fn who_is_turned_away_learns_why() {
    let mut decoder = FrameDecoder::new();
    let words = SessionConnection::refusal(false, AbortReason::Busy);
    decoder.buffer().extend_from_slice(&words);
    let mut peer = SessionConnection::new(crate::ConnectionConfig::default(), false);
    peer.handle(decoder.next_frame().unwrap().unwrap()).unwrap();
    let error = peer.handle(decoder.next_frame().unwrap().unwrap());
    assert!(matches!(
        error,
        Err(SessionError::PeerAborted(AbortReason::Busy))
    ));
    assert_eq!(decoder.next_frame().unwrap(), None);
}
