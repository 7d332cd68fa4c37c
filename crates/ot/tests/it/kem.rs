//! Tests of base OT over ML-KEM-768: agreement of keys, binding of keys, and rejection of malformed
//! messages.

use crate::common::{TestRng, hex};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use transpute_ot::{
    BASE_COUNT, KemReceiver, KemSender, OtError, delta_choices, kem_receiver_len, kem_sender_len,
};

const SID: [u8; 32] = [3; 32];
const BINDING: &[u8] = b"hello nonce of the receiver's party";

/// Length of an encoded element, in bytes.
const KEY_LEN: usize = 1184;
/// Length of a ciphertext, in bytes.
const CIPHERTEXT_LEN: usize = 1088;

type Pairs = Vec<[u128; 2]>;

fn start(choices: &[bool], seed: u64) -> (KemReceiver, Vec<u8>) {
    let (receiver, message) = KemReceiver::start(choices, BINDING, &mut TestRng::new(seed));
    assert_eq!(message.len(), kem_receiver_len(choices.len()));
    (receiver, message)
}

fn answer(message: &[u8], count: usize, seed: u64) -> Result<(Pairs, Vec<u8>), OtError> {
    let mut rng = TestRng::new(!seed);
    let (pairs, answer) = KemSender::answer(&SID, BINDING, message, count, &mut rng)?;
    assert_eq!(answer.len(), kem_sender_len(count));
    Ok((pairs.to_vec(), answer))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_receiver_gets_the_chosen_key_and_not_the_other(
        choices in prop::collection::vec(any::<bool>(), 0..6),
        seed in any::<u64>(),
    ) {
        let (receiver, message) = start(&choices, seed);
        let (pairs, answer) = answer(&message, choices.len(), seed).unwrap();
        let keys = receiver.finish(&SID, &answer).unwrap();
        prop_assert_eq!(keys.len(), choices.len());
        let mut all = pairs.as_flattened().to_vec();
        for ((key, pair), &choice) in keys.iter().zip(&pairs).zip(&choices) {
            prop_assert_eq!(*key, pair[usize::from(choice)]);
            prop_assert_ne!(*key, pair[usize::from(!choice)]);
        }
        all.sort_unstable();
        all.dedup();
        prop_assert_eq!(all.len(), 2 * choices.len());
    }

    /// A changed byte in the receiver's message is rejected, or leaves the receiver without any of
    /// the sender's keys.
    #[test]
    fn a_changed_receiver_message_is_rejected_or_gives_other_keys(
        at in 0..kem_receiver_len(2),
        flip in 1..=255_u8,
        choices in prop::array::uniform2(any::<bool>()),
    ) {
        let (receiver, mut message) = start(&choices, 1);
        message[at] ^= flip;
        match answer(&message, 2, 1) {
            Err(error) => {
                let is_invalid = matches!(error, OtError::InvalidKey { index, .. } if index == at / KEY_LEN);
                prop_assert!(is_invalid, "{error}");
            }
            Ok((pairs, answer)) => {
                for key in receiver.finish(&SID, &answer).unwrap().iter() {
                    prop_assert!(!pairs.as_flattened().contains(key));
                }
            }
        }
    }

    #[test]
    fn a_changed_sender_message_gives_other_keys(
        at in 0..kem_sender_len(2),
        flip in 1..=255_u8,
        choices in prop::array::uniform2(any::<bool>()),
    ) {
        let (receiver, message) = start(&choices, 2);
        let (pairs, mut answer) = answer(&message, 2, 2).unwrap();
        answer[at] ^= flip;
        for key in receiver.finish(&SID, &answer).unwrap().iter() {
            prop_assert!(!pairs.as_flattened().contains(key));
        }
    }
}

#[test]
fn keys_are_bound_to_session_and_nonce() {
    let (_, message) = start(&[false, true], 5);
    let run = |sid: &[u8; 32], binding: &[u8]| {
        let (receiver, _) = start(&[false, true], 5);
        let mut rng = TestRng::new(6);
        let (pairs, answer) = KemSender::answer(sid, binding, &message, 2, &mut rng).unwrap();
        (
            pairs.to_vec(),
            receiver.finish(&SID, &answer).unwrap().to_vec(),
        )
    };
    let (pairs, keys) = run(&SID, BINDING);
    assert_eq!(keys, [pairs[0][0], pairs[1][1]]);
    for (pairs, keys) in [
        run(&[4; 32], BINDING),
        run(&SID, b"another nonce"),
        run(&SID, b""),
    ] {
        for key in keys {
            assert!(!pairs.as_flattened().contains(&key));
        }
    }
}

#[test]
fn identical_elements_in_all_instances_give_unrelated_keys() {
    let (_, mut message) = start(&[false; 4], 7);
    let first = message[..KEY_LEN].to_vec();
    for part in message.chunks_mut(KEY_LEN) {
        part.copy_from_slice(&first);
    }
    let (pairs, _) = answer(&message, 4, 7).unwrap();
    let mut keys = pairs.as_flattened().to_vec();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 8);
}

#[test]
fn swapped_instances_and_branches_give_other_keys() {
    for (len, by) in [(4 * KEY_LEN, 2 * KEY_LEN), (2 * KEY_LEN, KEY_LEN)] {
        let (receiver, mut message) = start(&[false, false], 8);
        message[..len].rotate_left(by);
        let (pairs, answer) = answer(&message, 2, 8).unwrap();
        for key in receiver.finish(&SID, &answer).unwrap().iter() {
            assert!(!pairs.as_flattened().contains(key));
        }
    }
}

#[test]
fn swapped_ciphertexts_give_other_keys() {
    let (receiver, message) = start(&[false, true], 9);
    let (pairs, mut answer) = answer(&message, 2, 9).unwrap();
    answer[..2 * CIPHERTEXT_LEN].rotate_left(CIPHERTEXT_LEN);
    for key in receiver.finish(&SID, &answer).unwrap().iter() {
        assert!(!pairs.as_flattened().contains(key));
    }
}

#[test]
fn malformed_messages_are_rejected() {
    let (_, good) = start(&[false, true], 10);
    for index in 0..4 {
        let mut message = good.clone();
        message[index * KEY_LEN..][..3].fill(0xff);
        assert_eq!(
            answer(&message, 2, 10).err(),
            Some(OtError::InvalidKey {
                message: "ML-KEM base OT receiver message",
                index
            })
        );
    }
    for found in [
        0,
        1,
        2 * KEY_LEN,
        4 * KEY_LEN - 1,
        4 * KEY_LEN + 1,
        6 * KEY_LEN,
    ] {
        let mut message = good.clone();
        message.resize(found, 0);
        assert_eq!(
            answer(&message, 2, 10).err(),
            Some(OtError::WrongLength {
                message: "ML-KEM base OT receiver message",
                expected: 4 * KEY_LEN,
                found
            })
        );
    }
    // No number of instances overflows the expected length or causes an allocation.
    assert!(answer(&good, usize::MAX, 10).is_err());
    for found in [
        0,
        2 * CIPHERTEXT_LEN,
        4 * CIPHERTEXT_LEN - 1,
        4 * CIPHERTEXT_LEN + 1,
    ] {
        let (receiver, _) = start(&[false, true], 10);
        assert_eq!(
            receiver.finish(&SID, &vec![0; found]).err(),
            Some(OtError::WrongLength {
                message: "ML-KEM base OT sender message",
                expected: 4 * CIPHERTEXT_LEN,
                found
            })
        );
    }
}

#[test]
fn messages_do_not_depend_visibly_on_the_choices() {
    // Checks the means of coefficients 0 and 767 and of one bit of the seed, in both elements.
    const RUNS: usize = 300;
    for choice in [false, true] {
        let (_, message) = start(&[choice; RUNS], 11);
        for place in 0..2 {
            let elements = message
                .chunks(2 * KEY_LEN)
                .map(|m| &m[place * KEY_LEN..][..KEY_LEN]);
            let mut sums = [0.0; 3];
            for m in elements {
                sums[0] += f64::from(u16::from(m[0]) | u16::from(m[1] & 15) << 8);
                sums[1] += f64::from(u16::from(m[1150] >> 4) | u16::from(m[1151]) << 4);
                sums[2] += f64::from(m[KEY_LEN - 1] & 1);
            }
            let runs = RUNS as f64;
            for (sum, mean, deviation) in [
                (sums[0], 1664.0, 961.0),
                (sums[1], 1664.0, 961.0),
                (sums[2], 0.5, 0.5),
            ] {
                let sigmas = (sum / runs - mean).abs() / (deviation / runs.sqrt());
                assert!(sigmas < 5.0, "{sigmas} deviations, place {place}");
            }
        }
    }
}

#[test]
fn the_wire_format_has_not_changed() {
    let delta = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
    let (receiver, message) = start(&*delta_choices(delta), 2024);
    let (pairs, answer) = answer(&message, BASE_COUNT, 2024).unwrap();
    let keys = receiver.finish(&SID, &answer).unwrap();
    let mut hash = Sha256::new().chain_update(&message).chain_update(&answer);
    for (i, (key, pair)) in keys.iter().zip(&pairs).enumerate() {
        assert_eq!(*key, pair[(delta >> i & 1) as usize]);
        hash.update(pair[0].to_le_bytes());
        hash.update(pair[1].to_le_bytes());
    }
    assert_eq!(
        hex(&hash.finalize()),
        "6cc4f60ef60aa3e5f3e1c701f25c983e6c881967628fd5f5aac97f7026d466f2"
    );
}
