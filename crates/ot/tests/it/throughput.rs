//! Measurements for a release build on one core: `cargo test --release -p transpute-ot throughput
//! -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use crate::common::{TestRng, extension};
use transpute_ot::{
    BASE_COUNT, BaseReceiver, BaseSender, Extension, KemReceiver, KemSender, MaskHash, SEGMENT_OTS,
    delta_choices,
};

/// Number of measurements, the shortest of which counts. Other load on the machine does not disturb
/// all of many short measurements.
const ROUNDS: usize = 301;

/// Returns the shortest time, in which other load disturbed the measurement least.
fn best(seconds: Vec<f64>) -> f64 {
    seconds.into_iter().fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-ot throughput -- --ignored --nocapture"]
fn base_ot() {
    let choices = delta_choices(0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978);
    let steps: Vec<[f64; 4]> = (0..ROUNDS)
        .map(|_| {
            let mut rng = TestRng::new(1);
            let start = Instant::now();
            let (receiver, to_sender) = BaseReceiver::start(&*choices, b"nonce", &mut rng);
            let started = start.elapsed();
            let (sender, to_receiver) = BaseSender::start(&mut rng);
            let sent = start.elapsed();
            black_box(receiver.finish(&[1; 32], &to_receiver).unwrap());
            let received = start.elapsed();
            let pairs = sender.finish(&[1; 32], b"nonce", &to_sender, BASE_COUNT);
            black_box(pairs.unwrap());
            let end = start.elapsed();
            [started, sent - started, received - sent, end - received].map(|d| d.as_secs_f64())
        })
        .collect();
    let names = [
        "receiver start",
        "sender start",
        "receiver finish",
        "sender finish",
    ];
    for (i, name) in names.iter().enumerate() {
        let ms = 1e3 * best(steps.iter().map(|step| step[i]).collect());
        println!("128 base OTs, {name}: {ms:.2} ms");
    }
    let ms = 1e3 * best(steps.iter().map(|step| step.iter().sum()).collect());
    println!("128 base OTs, both sides: {ms:.2} ms");
}

#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-ot throughput -- --ignored --nocapture"]
fn kem_base_ot() {
    let choices = delta_choices(0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978);
    let steps: Vec<[f64; 3]> = (0..ROUNDS / 4)
        .map(|_| {
            let mut rng = TestRng::new(1);
            let start = Instant::now();
            let (receiver, to_sender) = KemReceiver::start(&*choices, b"nonce", &mut rng);
            let started = start.elapsed();
            let answer =
                KemSender::answer(&[1; 32], b"nonce", &to_sender, BASE_COUNT, &mut rng).unwrap();
            let answered = start.elapsed();
            black_box(receiver.finish(&[1; 32], &answer.1).unwrap());
            let end = start.elapsed();
            [started, answered - started, end - answered].map(|d| d.as_secs_f64())
        })
        .collect();
    for (i, name) in ["receiver start", "sender answer", "receiver finish"]
        .iter()
        .enumerate()
    {
        let ms = 1e3 * best(steps.iter().map(|step| step[i]).collect());
        println!("128 base OTs over ML-KEM-768, {name}: {ms:.2} ms");
    }
    let ms = 1e3 * best(steps.iter().map(|step| step.iter().sum()).collect());
    println!("128 base OTs over ML-KEM-768, both sides: {ms:.2} ms");
}

#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-ot throughput -- --ignored --nocapture"]
fn cot() {
    for kind in Extension::ALL {
        for chunk in [128, 4096, SEGMENT_OTS] {
            let total = 1 << 16;
            let choices = vec![0x0123_4567_89ab_cdef; chunk / 64];
            let (mut sender, mut receiver) = extension(kind, u128::MAX / 3, &[1; 32]);
            let (mut message, mut proof, mut t) = (Vec::new(), Vec::new(), Vec::new());
            let mut rng = rand::rng();
            let mut seconds = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                let mut sums = [0.0; 2];
                for _ in 0..total / chunk {
                    message.clear();
                    proof.clear();
                    t.clear();
                    let start = Instant::now();
                    let segment = receiver.extend(&choices, chunk, &mut rng, &mut message);
                    segment.prove(&[7; 32], &mut proof, &mut t);
                    let middle = start.elapsed();
                    let rows = sender.extend(chunk, &message, &[7; 32]).unwrap();
                    let rows = sender.check(rows, &proof).unwrap();
                    sums[0] += middle.as_secs_f64();
                    sums[1] += (start.elapsed() - middle).as_secs_f64();
                    black_box((&*rows, &t));
                    sender.recycle(rows);
                }
                for (all, sum) in seconds.iter_mut().zip(sums) {
                    all.push(sum);
                }
            }
            let [receiver, sender] = seconds.map(best);
            let [receiver, sender, both] =
                [receiver, sender, receiver + sender].map(|seconds| total as f64 / seconds / 1e6);
            println!(
                "{kind:>12}, {chunk:>5} OTs per call: receiver {receiver:>6.1} MOT/s, \
                 sender {sender:>6.1} MOT/s, both on one core {both:>6.1} MOT/s"
            );
        }
    }
}

#[test]
#[ignore = "measures; run by hand: cargo test --release -p transpute-ot throughput -- --ignored --nocapture"]
fn mask() {
    let hash = MaskHash::new(&[1; 32]);
    let mut values = vec![7; 1 << 13];
    let seconds = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            hash.hash(0, black_box(&mut values));
            start.elapsed().as_secs_f64()
        })
        .collect();
    let rate = |seconds| values.len() as f64 / best(seconds) / 1e6;
    println!("mask hash: {:.1} M/s", rate(seconds));

    let messages = vec![[1, 2]; values.len()];
    let mut masked = Vec::new();
    let seconds = (0..ROUNDS)
        .map(|_| {
            masked.clear();
            let start = Instant::now();
            hash.mask(0, black_box(&values), 3, &messages, &mut masked);
            start.elapsed().as_secs_f64()
        })
        .collect();
    println!("masked pairs: {:.1} M/s", rate(seconds));

    let choices = vec![0x0123_4567_89ab_cdef; values.len() / 64];
    let mut messages = Vec::new();
    let seconds = (0..ROUNDS)
        .map(|_| {
            messages.clear();
            let start = Instant::now();
            hash.unmask(0, black_box(&values), &choices, &masked, &mut messages);
            start.elapsed().as_secs_f64()
        })
        .collect();
    println!("unmasked messages: {:.1} M/s", rate(seconds));
}
