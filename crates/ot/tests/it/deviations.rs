//! Tests with a malicious receiver, which corrects columns with different choices and computes the
//! best possible check. It passes only by guessing bits of the sender's offset, at the rate that
//! theory predicts.

use rand::TryRng;
use sha2::{Digest, Sha256};
use transpute_ot::{CotReceiver, CotSender, Extension, OtError};

use crate::common::{TestRng, challenge, dealt_keys, receive, send};

const SID: [u8; 32] = [5; 32];

fn draw(rng: &mut TestRng, below: usize) -> usize {
    (rng.try_next_u64().unwrap() % below as u64) as usize
}

fn draw_block(rng: &mut TestRng) -> u128 {
    u128::from(rng.try_next_u64().unwrap()) << 64 | u128::from(rng.try_next_u64().unwrap())
}

/// Multiplies in GF(2^128) by the schoolbook method.
fn mul(mut a: u128, b: u128) -> u128 {
    let mut product = 0;
    for i in 0..128 {
        product ^= a * (b >> i & 1);
        a = (a << 1) ^ ((a >> 127) * 0x87);
    }
    product
}

/// Returns the challenge element of a segment, as documented in docs/protocol.md.
fn element(kind: Extension, segment: u64, corrections: &[u8]) -> u128 {
    let hash = Sha256::new()
        .chain_update(b"transpute OT column check v1")
        .chain_update([kind.code()])
        .chain_update(SID)
        .chain_update(segment.to_le_bytes())
        .chain_update(challenge(corrections))
        .finalize();
    u128::from_le_bytes(hash[..16].try_into().unwrap())
}

/// Returns the hash of a column in which only bit `row` is set.
fn hash_of_bit(element: u128, row: usize, blocks: usize) -> u128 {
    (row / 128 + 1..blocks).fold(1 << (row % 128), |product, _| mul(product, element))
}

fn add_at(message: &mut [u8], block: usize, value: u128) {
    let bytes = &mut message[16 * block..][..16];
    let sum = u128::from_le_bytes(bytes.try_into().unwrap()) ^ value;
    bytes.copy_from_slice(&sum.to_le_bytes());
}

fn ready(kind: Extension, delta: u128, seed: u64) -> (CotSender, CotReceiver) {
    let (keys, pairs) = dealt_keys(delta, seed);
    let mut sender = CotSender::new(kind, delta, &keys, &SID);
    let (receiver, setup) = CotReceiver::new(kind, &pairs, &SID);
    sender.setup(&setup).unwrap();
    (sender, receiver)
}

/// Extends honestly by `before` segments, then by one in which the choice of one row is flipped in
/// some groups. A deviation has the group, the row, and the receiver's guess of the group's bits of
/// `delta`.
fn deviate(
    kind: Extension,
    delta: u128,
    before: u64,
    n: usize,
    deviations: &[(usize, usize, u128)],
    rng: &mut TestRng,
) -> Result<Vec<u128>, OtError> {
    let (mut sender, mut receiver) = ready(kind, delta, rng.try_next_u64().unwrap());
    for i in 0..before {
        let sent = send(&mut receiver, &[i; 2], 128, i);
        receive(&mut sender, 128, &sent.corrections, &sent.check).unwrap();
    }
    let choices: Vec<u64> = (0..n.div_ceil(64))
        .map(|_| rng.try_next_u64().unwrap())
        .collect();
    let blocks = n.div_ceil(128) + 1;
    let mut corrections = Vec::new();
    let segment = receiver.extend(&choices, n, rng, &mut corrections);
    for (group, row, _) in deviations {
        add_at(
            &mut corrections,
            group * blocks + row / 128,
            1 << (row % 128),
        );
    }
    let (mut check, mut t) = (Vec::new(), Vec::new());
    segment.prove(&challenge(&corrections), &mut check, &mut t);
    let element = element(kind, before, &corrections);
    for (group, row, guess) in deviations {
        let hash = hash_of_bit(element, *row, blocks);
        add_at(&mut check, 1 + group, mul(hash, *guess));
    }
    receive(&mut sender, n, &corrections, &check)
}

#[test]
fn ten_thousand_deviations_pass_only_by_guessing() {
    const TRIALS: [(Extension, usize); 4] = [
        (Extension::Iknp, 4000),
        (Extension::SoftSpoken2, 3000),
        (Extension::SoftSpoken4, 2500),
        (Extension::SoftSpoken8, 500),
    ];
    let mut rng = TestRng::new(2026);
    for (kind, trials) in TRIALS {
        let k = usize::from(kind.code());
        let (mut passed, mut mean, mut variance) = (0, 0.0, 0.0);
        for _ in 0..trials {
            let delta = draw_block(&mut rng);
            let n = 1 + draw(&mut rng, 300);
            let before = draw(&mut rng, 2) as u64;
            // Most cases deviate in one group, which has the best chance to pass. Some deviate in
            // many.
            let count = [1, 1, 1, 1, 2, 2, 3, 128 / k][draw(&mut rng, 8)];
            let first = draw(&mut rng, 128 / k);
            let deviations: Vec<_> = (0..count)
                .map(|i| {
                    // Rows include the padding and the sacrificed block.
                    let row = draw(&mut rng, (n.div_ceil(128) + 1) * 128);
                    let guess = draw(&mut rng, 1 << k) as u128;
                    ((first + i) % (128 / k), row, guess)
                })
                .collect();
            let is_right = deviations
                .iter()
                .all(|(group, _, guess)| delta >> (group * k) & ((1 << k) - 1) == *guess);
            match deviate(kind, delta, before, n, &deviations, &mut rng) {
                Ok(_) => {
                    assert!(
                        is_right,
                        "{kind}: accepted with a wrong guess: {deviations:?}"
                    );
                    passed += 1;
                }
                Err(error) => {
                    assert!(!is_right, "{kind}: refused with the right guess");
                    assert_eq!(error, OtError::ColumnCheckFailed);
                }
            }
            let rate = 0.5_f64.powi((count * k) as i32);
            mean += rate;
            variance += rate * (1.0 - rate);
        }
        let sigmas = (f64::from(passed) - mean) / variance.sqrt();
        assert!(
            sigmas.abs() < 4.0,
            "{kind}: {passed} of {trials} passed where theory says {mean:.1}"
        );
    }
}

#[test]
fn every_changed_bit_of_the_messages_is_detected() {
    // The setup message is not covered: of the two corrections of a level, the sender reads only
    // one.
    let delta = 0xfedc_ba98_7654_3210_f0e1_d2c3_b4a5_9687;
    for kind in Extension::ALL {
        let lens = [kind.corrections_len(1), kind.check_len()];
        for (message, len) in lens.into_iter().enumerate() {
            for bit in (0..8 * len).step_by(13) {
                let (mut sender, mut receiver) = ready(kind, delta, 3);
                let sent = send(&mut receiver, &[1], 1, 1);
                let mut messages = [sent.corrections, sent.check];
                messages[message][bit / 8] ^= 1 << (bit % 8);
                let [corrections, check] = messages;
                let refused = receive(&mut sender, 1, &corrections, &check);
                assert_eq!(refused, Err(OtError::ColumnCheckFailed), "{kind} {bit}");
            }
        }
    }
}

#[test]
fn a_failed_check_ends_the_sender() {
    for kind in Extension::ALL {
        let (mut sender, mut receiver) = ready(kind, 77, 3);
        let mut first = send(&mut receiver, &[1], 64, 1);
        let second = send(&mut receiver, &[1], 64, 2);
        first.check[40] ^= 1;
        let failed = Err(OtError::ColumnCheckFailed);
        let (corrections, check) = (&first.corrections, &first.check);
        assert_eq!(receive(&mut sender, 64, corrections, check), failed);
        // After a failed check, the sender rejects a correct segment too.
        let (corrections, check) = (&second.corrections, &second.check);
        assert_eq!(receive(&mut sender, 64, corrections, check), failed);
    }
}

#[test]
fn a_check_belongs_to_its_segment() {
    for kind in Extension::ALL {
        let (mut sender, mut receiver) = ready(kind, 77, 3);
        let first = send(&mut receiver, &[1], 64, 1);
        let second = send(&mut receiver, &[1], 64, 1);
        let swapped = receive(&mut sender, 64, &first.corrections, &second.check);
        assert_eq!(swapped, Err(OtError::ColumnCheckFailed));
    }
}
