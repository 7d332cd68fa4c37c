//! Tests of connections with base OT over ML-KEM-768.

use transpute_circuit::generators;
use transpute_ot::{BASE_COUNT, BaseOt, Extension};

use super::Pair;
use crate::{
    ConnectionConfig, FrameKind, SessionConnection, SessionError,
    error::Field,
    tests::frames,
    tests::{Setup, random_inputs},
};

fn config(extension: Extension, pool: u32) -> ConnectionConfig {
    ConnectionConfig {
        base_ot: BaseOt::MlKem768,
        extension,
        pool,
        ..ConnectionConfig::default()
    }
}

#[test]
fn runs_from_the_pool_and_direct_ones_give_the_outputs() {
    let aes = generators::aes128();
    let setup = Setup::new(&aes, random_inputs(&aes, 1, 1));
    for extension in Extension::ALL {
        for is_warm in [false, true] {
            let mut pair = Pair::with(3, &config(extension, 512));
            if is_warm {
                pair.rest();
            }
            let runs: Vec<_> = (0..5).map(|run| pair.call_both(run % 2, &setup)).collect();
            pair.rest();
            for (number, [garbler, evaluator]) in runs.into_iter().enumerate() {
                let garbling = number % 2;
                pair.check(garbling, garbler, &setup);
                pair.check(1 - garbling, evaluator, &setup);
            }
            pair.assert_alive();
        }
    }
}

#[test]
fn a_cold_run_of_few_bits_is_still_one_round_trip() {
    let aes = generators::aes128();
    let setup = Setup::new(&aes, random_inputs(&aes, 1, 1));
    let mut pair = Pair::with(2, &config(Extension::SoftSpoken4, 4096));
    let [_, evaluator] = pair.call_both(0, &setup);
    pair.exhaust(0);
    pair.exhaust(1);
    pair.arrive(0);
    pair.exhaust(0);
    pair.check_direct(evaluator, &setup);
}

#[test]
fn the_garblers_keys_are_answered_once() {
    let mut pair = Pair::with(4, &config(Extension::SoftSpoken4, 0));
    pair.rest();
    for end in [0, 1] {
        let lens: Vec<usize> = (pair.sent.iter())
            .filter(|(from, frame)| *from == end && frame.kind == FrameKind::OtSetup)
            .map(|(_, frame)| frame.payload.len() - 4)
            .collect();
        let base = BaseOt::MlKem768;
        let [keys, answer] = [base.receiver_len(BASE_COUNT), base.sender_len(BASE_COUNT)];
        assert_eq!(lens, [keys, answer]);
    }
    // A second answer is refused, although its length is right.
    let again = pair
        .sent
        .iter()
        .rfind(|(from, frame)| *from == 0 && frame.kind == FrameKind::OtSetup);
    let again = again.unwrap().1.clone();
    assert!(matches!(
        pair.sides[1].handle(again),
        Err(SessionError::Unexpected { .. })
    ));
}

#[test]
fn sides_with_another_base_part() {
    let mut sides = [BaseOt::MlKem768, BaseOt::Ristretto255].map(|base_ot| {
        let config = ConnectionConfig {
            base_ot,
            ..ConnectionConfig::default()
        };
        SessionConnection::new(config, true)
    });
    let mut out = Vec::new();
    sides[0].poll(&mut out, true).unwrap();
    let mut differ = |end: usize, bytes: &[u8]| -> Vec<u8> {
        let error = sides[end].handle(frames(bytes).remove(0)).unwrap_err();
        let SessionError::Disagreement {
            field,
            ours,
            theirs,
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(*field, Field::BaseOt);
        let mut names = ["ml-kem-768", "ristretto255"];
        names.rotate_left(end);
        assert_eq!([ours, theirs], names);
        sides[end].farewell(&error).unwrap()
    };
    // Side 1 has not sent its opening yet. It sends the opening and then the reason why it leaves.
    let words = differ(1, &out);
    differ(0, &words);
    // A peer whose settings agree also gets the reason.
    let mut third = SessionConnection::new(ConnectionConfig::default(), true);
    let reason = frames(&words).remove(1);
    assert!(matches!(
        third.handle(reason),
        Err(SessionError::RefusedByPeer(Field::BaseOt))
    ));
}
