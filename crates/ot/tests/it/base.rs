//! Tests of base OT: agreement of keys, binding of keys, and rejection of malformed messages.

use crate::common::{TestRng, hex};
use sha2::{Digest, Sha256};
use transpute_ot::{
    BASE_COUNT, BASE_SENDER_LEN, BaseReceiver, BaseSender, OtError, base_receiver_len,
    delta_choices, mask_pair, unmask_pair,
};

const SID: [u8; 32] = [3; 32];
const BINDING: &[u8] = b"hello nonce of the receiver's party";

/// An encoding that is not canonical: the field element p.
const NOT_CANONICAL: [u8; 32] = {
    let mut bytes = [0xff; 32];
    bytes[0] = 0xed;
    bytes[31] = 0x7f;
    bytes
};

/// A negative field element, which does not encode a Ristretto255 point.
const NEGATIVE: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[0] = 1;
    bytes
};

const IDENTITY: [u8; 32] = [0; 32];

struct Exchange {
    receiver: BaseReceiver,
    sender: BaseSender,
    to_sender: Vec<u8>,
    to_receiver: [u8; BASE_SENDER_LEN],
}

fn exchange(choices: &[bool], seed: u64) -> Exchange {
    let mut rng = TestRng::new(seed);
    let (receiver, to_sender) = BaseReceiver::start(choices, BINDING, &mut rng);
    let (sender, to_receiver) = BaseSender::start(&mut rng);
    assert_eq!(to_sender.len(), base_receiver_len(choices.len()));
    Exchange {
        receiver,
        sender,
        to_sender,
        to_receiver,
    }
}

/// Returns the sender's result for a receiver message that was changed in transit.
fn send(
    seed: u64,
    change: impl FnOnce(&mut Vec<u8>),
    count: usize,
) -> Result<Vec<[u128; 2]>, OtError> {
    let Exchange {
        sender,
        mut to_sender,
        ..
    } = exchange(&vec![false; count], seed);
    change(&mut to_sender);
    Ok(sender.finish(&SID, BINDING, &to_sender, count)?.to_vec())
}

#[test]
fn the_receiver_gets_the_chosen_key_and_not_the_other() {
    let patterns: [fn(usize) -> bool; 4] = [|_| false, |_| true, |i| i % 2 == 0, |i| i % 3 == 0];
    // With 48 or more OTs the receiver uses a table.
    for count in [0, 1, 2, 17, 47, 48] {
        for (seed, pattern) in patterns.iter().enumerate() {
            let choices: Vec<bool> = (0..count).map(pattern).collect();
            let e = exchange(&choices, seed as u64);
            let keys = e.receiver.finish(&SID, &e.to_receiver).unwrap();
            let pairs = e.sender.finish(&SID, BINDING, &e.to_sender, count).unwrap();
            assert_eq!((keys.len(), pairs.len()), (count, count));
            for ((key, pair), &choice) in keys.iter().zip(pairs.iter()).zip(&choices) {
                assert_eq!(*key, pair[usize::from(choice)]);
                assert_ne!(*key, pair[usize::from(!choice)]);
            }
        }
    }
}

#[test]
fn all_choices_of_four_instances_work() {
    for bits in 0..16_u32 {
        let choices: Vec<bool> = (0..4).map(|i| bits >> i & 1 == 1).collect();
        let e = exchange(&choices, u64::from(bits));
        let keys = e.receiver.finish(&SID, &e.to_receiver).unwrap();
        let pairs = e.sender.finish(&SID, BINDING, &e.to_sender, 4).unwrap();
        for i in 0..4 {
            assert_eq!(keys[i], pairs[i][usize::from(choices[i])]);
        }
    }
}

#[test]
fn a_direct_ot_carries_chosen_messages() {
    let choices = [true, false, true];
    let e = exchange(&choices, 1);
    let keys = e.receiver.finish(&SID, &e.to_receiver).unwrap();
    let pairs = e.sender.finish(&SID, BINDING, &e.to_sender, 3).unwrap();
    for (i, &choice) in choices.iter().enumerate() {
        let messages = [100 + i as u128, 200 + i as u128];
        let masked = mask_pair(pairs[i], messages);
        assert_ne!(masked, messages);
        assert_eq!(
            unmask_pair(keys[i], choice, masked),
            messages[usize::from(choice)]
        );
        assert_ne!(
            unmask_pair(keys[i], !choice, masked),
            messages[usize::from(!choice)]
        );
    }
}

#[test]
fn keys_are_bound_to_session_nonce_and_both_messages() {
    let run = |sid: [u8; 32], binding: &[u8]| {
        let e = exchange(&[false, true], 5);
        let keys = e.receiver.finish(&SID, &e.to_receiver).unwrap().to_vec();
        let pairs = e.sender.finish(&sid, binding, &e.to_sender, 2).unwrap();
        (keys, pairs.to_vec())
    };
    let (keys, pairs) = run(SID, BINDING);
    assert_eq!(keys, [pairs[0][0], pairs[1][1]]);
    for (_, other) in [
        run([4; 32], BINDING),
        run(SID, b"another nonce"),
        run(SID, b""),
    ] {
        let all = other.as_flattened();
        assert!(!all.contains(&keys[0]) && !all.contains(&keys[1]));
    }

    // The second instance is replaced: the transcript, and thereby every key, changes.
    let other = exchange(&[false, false], 6).to_sender;
    let changed = send(5, |message| message[64..].copy_from_slice(&other[64..]), 2).unwrap();
    assert!(!changed.as_flattened().contains(&keys[0]));

    // A receiver with another sender point derives other keys.
    let e = exchange(&[false, true], 5);
    let wrong = e
        .receiver
        .finish(&SID, &exchange(&[], 9).to_receiver)
        .unwrap();
    assert_ne!(wrong[..], keys[..]);
}

#[test]
fn identical_points_in_all_instances_give_unrelated_keys() {
    // A malicious receiver may repeat points to learn whether keys repeat: all instances are equal,
    // and both points of every instance are equal.
    for width in [64, 32] {
        let pairs = send(
            7,
            |message| {
                let first = message[..width].to_vec();
                for part in message.chunks_mut(width) {
                    part.copy_from_slice(&first);
                }
            },
            8,
        )
        .unwrap();
        let mut keys = pairs.as_flattened().to_vec();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 16);
    }
}

#[test]
fn swapped_instances_and_branches_give_other_keys() {
    let e = exchange(&[false, false], 8);
    let keys = e.receiver.finish(&SID, &e.to_receiver).unwrap();
    let swaps: [fn(&mut Vec<u8>); 2] = [
        |m| m.rotate_left(64),
        |m| {
            m[..64].rotate_left(32);
        },
    ];
    for swap in swaps {
        let Exchange {
            sender,
            mut to_sender,
            ..
        } = exchange(&[false, false], 8);
        swap(&mut to_sender);
        let pairs = sender.finish(&SID, BINDING, &to_sender, 2).unwrap();
        for key in keys.iter() {
            assert!(!pairs.as_flattened().contains(key));
        }
    }
}

#[test]
fn malformed_receiver_messages_are_rejected() {
    let put =
        |at: usize, point: [u8; 32]| send(1, |m| m[32 * at..][..32].copy_from_slice(&point), 2);
    let message = "base OT receiver message";
    for index in 0..4 {
        for bad in [NOT_CANONICAL, NEGATIVE, [0xff; 32]] {
            assert_eq!(
                put(index, bad),
                Err(OtError::InvalidPoint { message, index })
            );
        }
        assert_eq!(
            put(index, IDENTITY),
            Err(OtError::IdentityPoint { message, index })
        );
    }
    for len in [0, 64, 127, 129, 192] {
        assert_eq!(
            send(1, |m| m.resize(len, 0), 2),
            Err(OtError::WrongLength {
                message,
                expected: 128,
                found: len
            })
        );
    }
}

#[test]
fn malformed_sender_messages_are_rejected() {
    let finish = |bytes: &[u8]| exchange(&[true], 1).receiver.finish(&SID, bytes).err();
    let message = "base OT sender message";
    for bad in [NOT_CANONICAL, NEGATIVE] {
        assert_eq!(
            finish(&bad),
            Some(OtError::InvalidPoint { message, index: 0 })
        );
    }
    assert_eq!(
        finish(&IDENTITY),
        Some(OtError::IdentityPoint { message, index: 0 })
    );
    for len in [0, 31, 33] {
        assert_eq!(
            finish(&vec![0; len]),
            Some(OtError::WrongLength {
                message,
                expected: 32,
                found: len
            })
        );
    }
}

#[test]
fn messages_do_not_depend_visibly_on_the_choices() {
    // Checks the bits of both points, for choice 0 and choice 1: no position may be biased.
    const RUNS: usize = 200;
    for choice in [false, true] {
        let message = exchange(&[choice; RUNS], 11).to_sender;
        // Bit 255 is constant because encodings are below 2^255; bit 0 is constant because they are
        // even.
        for bit in (1..255).step_by(7).chain((257..511).step_by(7)) {
            let ones = message
                .chunks(64)
                .filter(|m| m[bit / 8] >> (bit % 8) & 1 == 1)
                .count() as f64;
            let sigmas = (ones - RUNS as f64 / 2.0).abs() / (RUNS as f64 / 4.0).sqrt();
            assert!(sigmas < 5.0, "bit {bit} is set {ones} times of {RUNS}");
        }
    }
}

#[test]
fn the_wire_format_has_not_changed() {
    let delta = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
    let e = exchange(&*delta_choices(delta), 2024);
    let keys = e.receiver.finish(&SID, &e.to_receiver).unwrap();
    let pairs = e
        .sender
        .finish(&SID, BINDING, &e.to_sender, BASE_COUNT)
        .unwrap();
    let mut hash = Sha256::new()
        .chain_update(&e.to_sender)
        .chain_update(e.to_receiver);
    for (i, (key, pair)) in keys.iter().zip(pairs.iter()).enumerate() {
        assert_eq!(*key, pair[(delta >> i & 1) as usize]);
        hash.update(pair[0].to_le_bytes());
        hash.update(pair[1].to_le_bytes());
    }
    assert_eq!(
        hex(&hash.finalize()),
        "968832655ef2e900e0b1e0fadc3ae1f2f1babe326b430385b5765f873532d5be"
    );
}
