//! Tests of correlated OT: the correlation for all variants, sizes, choice patterns and sequences
//! of calls; rejection of malformed messages; golden transcripts.

use crate::common::{TestRng, challenge, dealt_keys, extension, hex, receive, send};
use proptest::prelude::*;
use rand::TryRng;
use sha2::{Digest, Sha256};
use transpute_ot::{
    BASE_COUNT, BaseReceiver, BaseSender, CotReceiver, CotSender, Extension, OtError, SEGMENT_OTS,
    delta_choices,
};

const SID: [u8; 32] = [9; 32];
const DELTA: u128 = 0xfedc_ba98_7654_3210_f0e1_d2c3_b4a5_9687;

fn random_words(n: usize, seed: u64) -> Vec<u64> {
    let mut rng = TestRng::new(seed);
    (0..n.div_ceil(64))
        .map(|_| rng.try_next_u64().unwrap())
        .collect()
}

fn bit(words: &[u64], i: usize) -> bool {
    words[i / 64] >> (i % 64) & 1 == 1
}

/// Runs one segment on both sides, appends the rows to `q` and `t`, and returns the messages.
fn call(
    ends: &mut (CotSender, CotReceiver),
    choices: &[u64],
    n: usize,
    q: &mut Vec<u128>,
    t: &mut Vec<u128>,
) -> Vec<u8> {
    let sent = send(&mut ends.1, choices, n, q.len() as u64);
    assert_eq!(sent.corrections.len(), ends.1.kind().corrections_len(n));
    assert_eq!(sent.check.len(), ends.1.kind().check_len());
    q.extend(receive(&mut ends.0, n, &sent.corrections, &sent.check).unwrap());
    t.extend(&sent.t);
    [sent.corrections, sent.check].concat()
}

/// Runs as many segments as `n` OTs need.
fn call_many(
    ends: &mut (CotSender, CotReceiver),
    choices: &[u64],
    n: usize,
    q: &mut Vec<u128>,
    t: &mut Vec<u128>,
) {
    for (i, choices) in choices.chunks(SEGMENT_OTS / 64).enumerate() {
        call(ends, choices, SEGMENT_OTS.min(n - i * SEGMENT_OTS), q, t);
    }
}

fn check(q: &[u128], t: &[u128], choices: &[u64], delta: u128) {
    assert_eq!(q.len(), t.len());
    for (i, (q, t)) in q.iter().zip(t).enumerate() {
        let expected = if bit(choices, i) { q ^ delta } else { *q };
        assert!(*t == expected, "OT {i}");
    }
}

#[test]
fn the_correlation_holds_for_every_size_and_pattern() {
    for kind in Extension::ALL {
        for n in [1, 127, 128, 129, 4096, SEGMENT_OTS - 1, SEGMENT_OTS] {
            let words = n.div_ceil(64);
            let patterns = [
                vec![0; words],
                vec![u64::MAX; words],
                vec![0x5555_5555_5555_5555; words],
                random_words(n, n as u64),
            ];
            for choices in patterns {
                let mut ends = extension(kind, DELTA, &SID);
                let (mut q, mut t) = (Vec::new(), Vec::new());
                call(&mut ends, &choices, n, &mut q, &mut t);
                assert_eq!(t.len(), n);
                check(&q, &t, &choices, DELTA);
            }
        }
    }
}

#[test]
fn the_correlation_holds_for_many_ots_and_extreme_offsets() {
    let n = 100_000;
    let choices = random_words(n, 1);
    for kind in Extension::ALL {
        for delta in [0, 1, u128::MAX, DELTA] {
            let mut ends = extension(kind, delta, &SID);
            let (mut q, mut t) = (Vec::new(), Vec::new());
            call_many(&mut ends, &choices, n, &mut q, &mut t);
            check(&q, &t, &choices, delta);
            // All rows must be different.
            q.sort_unstable();
            q.dedup();
            assert_eq!(q.len(), n);
        }
    }
}

#[test]
fn a_sequence_of_segments_never_repeats_a_row() {
    for kind in Extension::ALL {
        let mut ends = extension(kind, DELTA, &SID);
        let (mut q, mut t, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (seed, n) in [1, 128, 129, 8063, 8064, 64, 4096].into_iter().enumerate() {
            let choices = random_words(n, seed as u64);
            let start = q.len();
            call(&mut ends, &choices, n, &mut q, &mut t);
            check(&q[start..], &t[start..], &choices, DELTA);
        }
        all.extend_from_slice(&t);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), t.len());
    }
}

#[test]
fn from_base_ot_to_correlated_ot() {
    let mut rng = TestRng::new(6);
    let (receiver, to_sender) = BaseReceiver::start(&*delta_choices(DELTA), b"nonce", &mut rng);
    let (sender, to_receiver) = BaseSender::start(&mut rng);
    let keys = receiver.finish(&SID, &to_receiver).unwrap();
    let pairs = sender
        .finish(&SID, b"nonce", &to_sender, BASE_COUNT)
        .unwrap();
    for kind in Extension::ALL {
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        let (receiver, setup) = CotReceiver::new(kind, &pairs, &SID);
        sender.setup(&setup).unwrap();
        let choices = random_words(300, 2);
        let (mut q, mut t) = (Vec::new(), Vec::new());
        call(&mut (sender, receiver), &choices, 300, &mut q, &mut t);
        check(&q, &t, &choices, DELTA);
    }
}

#[test]
fn sessions_over_the_same_base_ots_are_unrelated() {
    for kind in Extension::ALL {
        let rows = |sid| {
            let (mut q, mut t) = (Vec::new(), Vec::new());
            let message = call(
                &mut extension(kind, DELTA, &sid),
                &[0; 4],
                256,
                &mut q,
                &mut t,
            );
            (q, message)
        };
        let ((q1, m1), (q2, m2)) = (rows(SID), rows([10; 32]));
        assert!(q1.iter().all(|row| !q2.contains(row)));
        // Compare the corrections block by block. The choices of the sacrificed block are the same
        // in both sessions.
        let blocks = kind.corrections_len(256) / 16;
        let (m1, m2) = (m1.chunks(16).take(blocks), m2.chunks(16).take(blocks));
        assert!(m1.zip(m2).all(|(block, other)| block != other));

        // Parties with different session ids fail the checks.
        let (keys, pairs) = dealt_keys(DELTA, 1);
        assert!(outcome(kind, &keys, &pairs, &[10; 32]).is_err());
    }
}

/// Runs the setup and one segment between parties whose arguments may differ; returns the sender's
/// rows.
fn outcome(
    kind: Extension,
    keys: &[u128],
    pairs: &[[u128; 2]],
    receiver_sid: &[u8; 32],
) -> Result<Vec<u128>, OtError> {
    let mut sender = CotSender::new(kind, DELTA, keys, &SID);
    let (mut receiver, setup) = CotReceiver::new(kind, pairs, receiver_sid);
    sender.setup(&setup)?;
    let sent = send(&mut receiver, &[0; 4], 256, 1);
    receive(&mut sender, 256, &sent.corrections, &sent.check)
}

#[test]
fn a_wrong_key_fails_a_check() {
    for kind in Extension::ALL {
        let (mut keys, pairs) = dealt_keys(DELTA, 1);
        keys[77] ^= 1;
        let expected = match kind {
            Extension::Iknp => OtError::ColumnCheckFailed,
            _ => OtError::TreeCheckFailed,
        };
        assert_eq!(outcome(kind, &keys, &pairs, &SID), Err(expected));
    }
}

#[test]
fn choices_past_the_end_do_not_reach_the_wire() {
    for kind in Extension::ALL {
        let message = |choices: &[u64]| {
            let sent = send(&mut extension(kind, DELTA, &SID).1, choices, 65, 1);
            (sent.corrections, sent.check)
        };
        assert_eq!(message(&[7, 1]), message(&[7, u64::MAX, 5]));
    }
}

#[test]
fn malformed_messages_are_rejected() {
    for kind in Extension::ALL {
        let (mut sender, mut receiver) = extension(kind, DELTA, &SID);
        let sent = send(&mut receiver, &[5, 6, 7], 129, 1);
        let mut message = sent.corrections.clone();
        let expected = message.len();
        for found in [0, 1, expected / 2, expected - 1, expected + 1, 2 * expected] {
            message.resize(found, 0);
            assert_eq!(
                receive(&mut sender, 129, &message, &sent.check),
                Err(OtError::WrongLength {
                    message: "OT extension message",
                    expected,
                    found
                })
            );
        }
        // A number of OTs out of range is rejected before any allocation.
        for found in [0, SEGMENT_OTS + 1, usize::MAX] {
            let refused = receive(&mut sender, found, &message, &sent.check);
            assert_eq!(
                refused,
                Err(OtError::SegmentSize {
                    max: SEGMENT_OTS,
                    found
                })
            );
        }
        let expected = kind.check_len();
        for found in [0, 16, expected - 1, expected + 1] {
            let (mut sender, mut receiver) = extension(kind, DELTA, &SID);
            let mut sent = send(&mut receiver, &[5, 6, 7], 129, 1);
            sent.check.resize(found, 0);
            assert_eq!(
                receive(&mut sender, 129, &sent.corrections, &sent.check),
                Err(OtError::WrongLength {
                    message: "OT extension check",
                    expected,
                    found
                })
            );
        }
    }
}

#[test]
fn setup_happens_once_and_first() {
    for kind in Extension::ALL {
        let (keys, pairs) = dealt_keys(DELTA, 1);
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        let (_, mut setup) = CotReceiver::new(kind, &pairs, &SID);
        let early = sender.extend(1, &vec![0; kind.corrections_len(1)], &[0; 32]);
        if kind == Extension::Iknp {
            assert!(early.is_ok());
            assert_eq!(sender.setup(&[]), Ok(()));
            assert!(sender.setup(&[0; 32]).is_err());
        } else {
            assert_eq!(early.err(), Some(OtError::SetupMissing));
            setup.push(0);
            assert!(matches!(
                sender.setup(&setup),
                Err(OtError::WrongLength { .. })
            ));
            setup.pop();
            assert_eq!(sender.setup(&setup), Ok(()));
            assert_eq!(sender.setup(&setup), Err(OtError::SetupRepeated));
        }
    }
}

#[test]
fn messages_and_rows_are_balanced() {
    // For constant choices, every bit position of 10^4 rows is balanced, within 5 standard
    // deviations.
    let n = 10_112;
    for kind in Extension::ALL {
        for choices in [vec![0; n / 64], vec![u64::MAX; n / 64]] {
            let mut ends = extension(kind, DELTA, &SID);
            let (mut q, mut t) = (Vec::new(), Vec::new());
            let mut message = Vec::new();
            for choices in choices.chunks(SEGMENT_OTS / 64) {
                let n = 64 * choices.len();
                message.extend(call(&mut ends, choices, n, &mut q, &mut t));
            }
            let balanced = |ones: u32, of: usize| {
                let half = of as f64 / 2.0;
                assert!(
                    (f64::from(ones) - half).abs() < 5.0 * (half / 2.0).sqrt(),
                    "{ones} ones of {of}"
                );
            };
            for i in 0..128 {
                balanced(q.iter().map(|row| (row >> i & 1) as u32).sum(), n);
                balanced(t.iter().map(|row| (row >> i & 1) as u32).sum(), n);
            }
            let ones = message.iter().map(|byte| byte.count_ones()).sum();
            balanced(ones, 8 * message.len());
        }
    }
}

#[test]
fn the_wire_format_has_not_changed() {
    let golden = [
        "4474dd004b2373c4b00c5dde0fe5ad21d9e7aeda3b46704e4d88cc0cc0e9c175",
        "390dcbe7fd3b1f13dd36569c9f2fe867681c5fea622cdeb646478f200af5917e",
        "313f65d80f5c3bdae9c6dd65a5f6314ecf1a7c3a8e1303ceb090b975baaa4712",
        "8a55dc7003d77fdef881b17d5c2d748d710801552444284f2b1bcb1eb0a026e0",
    ];
    let hashes = Extension::ALL.map(|kind| {
        let (keys, pairs) = dealt_keys(DELTA, 7);
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        let (receiver, setup) = CotReceiver::new(kind, &pairs, &SID);
        sender.setup(&setup).unwrap();
        let mut ends = (sender, receiver);
        let mut hash = Sha256::new().chain_update(setup);
        for n in [129, 8000] {
            let choices = random_words(n, 8);
            let (mut q, mut t) = (Vec::new(), Vec::new());
            hash.update(call(&mut ends, &choices, n, &mut q, &mut t));
            check(&q, &t, &choices, DELTA);
            t.iter().for_each(|row| hash.update(row.to_le_bytes()));
        }
        hex(&hash.finalize())
    });
    assert_eq!(hashes, golden);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_sequence_of_segments_is_correlated(
        kind in prop::sample::select(&Extension::ALL[..]),
        delta: u128,
        sizes in prop::collection::vec(1_usize..700, 1..6),
        seed: u64,
    ) {
        let mut ends = extension(kind, delta, &SID);
        for (i, n) in sizes.into_iter().enumerate() {
            let choices = random_words(n, seed.wrapping_add(i as u64));
            let (mut q, mut t) = (Vec::new(), Vec::new());
            call(&mut ends, &choices, n, &mut q, &mut t);
            check(&q, &t, &choices, delta);
        }
    }

    #[test]
    fn any_bytes_of_the_right_length_fail_a_check(
        kind in prop::sample::select(&Extension::ALL[..]),
        bytes in prop::collection::vec(any::<u8>(), 6144),
    ) {
        let (keys, pairs) = dealt_keys(DELTA, 1);
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        let setup = sender.setup(&bytes[..kind.setup_len()]);
        if kind != Extension::Iknp {
            prop_assert_eq!(&setup, &Err(OtError::TreeCheckFailed));
            // The sender has failed, so it rejects a valid setup message too.
            prop_assert_eq!(sender.setup(&CotReceiver::new(kind, &pairs, &SID).1), setup);
            sender = CotSender::new(kind, DELTA, &keys, &SID);
            sender.setup(&CotReceiver::new(kind, &pairs, &SID).1).unwrap();
        }
        let corrections = &bytes[..kind.corrections_len(200)];
        let failed = receive(&mut sender, 200, corrections, &bytes[..kind.check_len()]);
        prop_assert_eq!(failed, Err(OtError::ColumnCheckFailed));
        let again = sender.extend(200, corrections, &challenge(corrections));
        prop_assert_eq!(again.err(), Some(OtError::ColumnCheckFailed));
    }
}
