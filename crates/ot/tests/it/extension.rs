//! Correlated OT: the correlation on both ends for every variant, size, choice pattern and
//! sequence of calls; refusal of malformed messages; a golden transcript.

use crate::common::{TestRng, dealt_keys, extension, hex};
use proptest::prelude::*;
use rand::TryRng;
use sha2::{Digest, Sha256};
use transpute_ot::{
    BASE_COUNT, BaseReceiver, BaseSender, CotReceiver, CotSender, Extension, OtError, STRIPE_OTS,
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

/// One call on both ends; appends to `q` and `t` and returns the message.
fn call(
    ends: &mut (CotSender, CotReceiver),
    choices: &[u64],
    n: usize,
    q: &mut Vec<u128>,
    t: &mut Vec<u128>,
) -> Vec<u8> {
    let mut message = Vec::new();
    ends.1.extend(choices, n, &mut message, t);
    assert_eq!(message.len(), ends.1.kind().message_len(n));
    ends.0.extend(n, &message, q).unwrap();
    message
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
        for n in [0, 1, 127, 128, 129, 4096, STRIPE_OTS, STRIPE_OTS + 1] {
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
            call(&mut ends, &choices, n, &mut q, &mut t);
            check(&q, &t, &choices, delta);
            // Rows never repeat.
            q.sort_unstable();
            q.dedup();
            assert_eq!(q.len(), n);
        }
    }
}

#[test]
fn a_sequence_of_calls_never_repeats_a_row() {
    for kind in Extension::ALL {
        let mut ends = extension(kind, DELTA, &SID);
        let (mut q, mut t, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (seed, n) in [1, 128, 0, 129, 8191, 8193, 64, 4096]
            .into_iter()
            .enumerate()
        {
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
fn whole_blocks_give_the_same_ots_in_any_split() {
    let n = 3 * STRIPE_OTS;
    let choices = random_words(n, 4);
    for kind in [Extension::Iknp, Extension::SoftSpoken4] {
        let (mut q, mut t) = (Vec::new(), Vec::new());
        call(
            &mut extension(kind, DELTA, &SID),
            &choices,
            n,
            &mut q,
            &mut t,
        );
        let mut ends = extension(kind, DELTA, &SID);
        let (mut q2, mut t2) = (Vec::new(), Vec::new());
        for words in choices.chunks(4096 / 64) {
            call(&mut ends, words, 4096, &mut q2, &mut t2);
        }
        assert!(q == q2 && t == t2);
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
        assert!(
            m1.chunks(16)
                .all(|block| m2.chunks(16).all(|other| block != other))
        );

        // Parties that disagree on the session have no correlation.
        let (keys, pairs) = dealt_keys(DELTA, 1);
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        let (receiver, setup) = CotReceiver::new(kind, &pairs, &[10; 32]);
        sender.setup(&setup).unwrap();
        let (mut q, mut t) = (Vec::new(), Vec::new());
        call(&mut (sender, receiver), &[0; 4], 256, &mut q, &mut t);
        assert!(q.iter().zip(&t).all(|(q, t)| q != t));
    }
}

#[test]
fn a_wrong_key_or_correction_spoils_the_correlation() {
    for kind in Extension::ALL {
        let (mut keys, pairs) = dealt_keys(DELTA, 1);
        keys[77] ^= 1;
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        let (receiver, setup) = CotReceiver::new(kind, &pairs, &SID);
        sender.setup(&setup).unwrap();
        let (mut q, mut t) = (Vec::new(), Vec::new());
        call(&mut (sender, receiver), &[0; 4], 256, &mut q, &mut t);
        assert_ne!(q, t);
    }
}

#[test]
fn choices_past_the_end_do_not_reach_the_wire() {
    for kind in Extension::ALL {
        let message = |choices: &[u64]| {
            let (mut message, mut t) = (Vec::new(), Vec::new());
            extension(kind, DELTA, &SID)
                .1
                .extend(choices, 65, &mut message, &mut t);
            message
        };
        assert_eq!(message(&[7, 1]), message(&[7, u64::MAX, 5]));
    }
}

#[test]
fn malformed_messages_are_refused() {
    for kind in Extension::ALL {
        let (mut sender, mut receiver) = extension(kind, DELTA, &SID);
        let (mut message, mut t) = (Vec::new(), Vec::new());
        receiver.extend(&[5, 6, 7], 129, &mut message, &mut t);
        let expected = message.len();
        let mut q = vec![1];
        for found in [0, 1, expected / 2, expected - 1, expected + 1, 2 * expected] {
            message.resize(found, 0);
            assert_eq!(
                sender.extend(129, &message, &mut q),
                Err(OtError::WrongLength {
                    message: "OT extension message",
                    expected,
                    found
                })
            );
        }
        // A peer that claims an absurd number is refused before anything is allocated.
        assert!(sender.extend(usize::MAX, &message, &mut q).is_err());
        assert_eq!(q, [1]);
    }
}

#[test]
fn setup_happens_once_and_first() {
    for kind in Extension::ALL {
        let (keys, pairs) = dealt_keys(DELTA, 1);
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        let (_, mut setup) = CotReceiver::new(kind, &pairs, &SID);
        let early = sender.extend(0, &[], &mut Vec::new());
        if kind == Extension::Iknp {
            assert_eq!(early, Ok(()));
            assert_eq!(sender.setup(&[]), Ok(()));
            assert!(sender.setup(&[0; 32]).is_err());
        } else {
            assert_eq!(early, Err(OtError::SetupMissing));
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
    // Per bit position over 10^4 OTs, with constant choices: no bias beyond 5 sigma.
    let n = 10_112;
    for kind in Extension::ALL {
        for choices in [vec![0; n / 64], vec![u64::MAX; n / 64]] {
            let mut ends = extension(kind, DELTA, &SID);
            let (mut q, mut t) = (Vec::new(), Vec::new());
            let message = call(&mut ends, &choices, n, &mut q, &mut t);
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
        "8ae6676d1ee094f21dacda0178081c7e2d641da43246fc98230271dd36c4eea7",
        "1daa613a9b8d29a3afa768fd001a38708e909ba1f333db4b60b62720c4577899",
        "e475b3470855722d675bda5d1960bd6de314476783c0011d91b52f266d98bf69",
        "193918edcb59af8ddf9d5c84b534961e2ba82713dc6ae7fab91be7dcaf522a0c",
    ];
    let hashes = Extension::ALL.map(|kind| {
        let (keys, pairs) = dealt_keys(DELTA, 7);
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        let (receiver, setup) = CotReceiver::new(kind, &pairs, &SID);
        sender.setup(&setup).unwrap();
        let mut ends = (sender, receiver);
        let mut hash = Sha256::new().chain_update(setup);
        for n in [129, 8500] {
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
    fn any_sequence_of_calls_is_correlated(
        kind in prop::sample::select(&Extension::ALL[..]),
        delta: u128,
        sizes in prop::collection::vec(0_usize..700, 1..6),
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
    fn any_bytes_of_the_right_length_are_survived(
        kind in prop::sample::select(&Extension::ALL[..]),
        bytes in prop::collection::vec(any::<u8>(), 4096),
    ) {
        let (keys, _) = dealt_keys(DELTA, 1);
        let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
        sender.setup(&bytes[..kind.setup_len()]).unwrap();
        let mut q = Vec::new();
        sender.extend(200, &bytes[..kind.message_len(200)], &mut q).unwrap();
        prop_assert_eq!(q.len(), 200);
    }
}
