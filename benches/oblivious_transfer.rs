//! Benchmarks of oblivious transfer: base OTs, OT extensions, and the masking of chosen messages.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use transpute::ot::{
    BASE_COUNT, BaseReceiver, BaseSender, CotReceiver, CotSender, Extension, MaskHash, OtError,
    SEGMENT_OTS, delta_choices,
};

const SID: [u8; 32] = [7; 32];
const NONCE: [u8; 32] = [1; 32];
const DELTA: u128 = 0x1234_5678_9abc_def1_0f0e_0d0c_0b0a_0909;

/// Number of OTs per call of the extension, which is the same as in a session.
const SEGMENT: usize = SEGMENT_OTS;

/// The challenge of the consistency check of an OT extension. In a session, it is a hash of the
/// transcript.
const CHALLENGE: [u8; 32] = [9; 32];

fn base(c: &mut Criterion) {
    let mut group = c.benchmark_group("base OT x128");
    let choices = delta_choices(DELTA);
    group.bench_function("receiver start", |b| {
        b.iter(|| BaseReceiver::start(&*choices, &NONCE, &mut rand::rng()));
    });
    group.bench_function("receiver finish", |b| {
        let (_, message) = BaseSender::start(&mut rand::rng());
        b.iter_batched(
            || BaseReceiver::start(&*choices, &NONCE, &mut rand::rng()).0,
            |receiver| receiver.finish(&SID, &message),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("sender finish", |b| {
        let (_, message) = BaseReceiver::start(&*choices, &NONCE, &mut rand::rng());
        b.iter_batched(
            || BaseSender::start(&mut rand::rng()).0,
            |sender| sender.finish(&SID, &NONCE, &message, BASE_COUNT),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("both", |b| {
        b.iter(|| {
            let (receiver, to_sender) = BaseReceiver::start(&*choices, &NONCE, &mut rand::rng());
            let (sender, to_receiver) = BaseSender::start(&mut rand::rng());
            let keys = receiver.finish(&SID, &to_receiver);
            (keys, sender.finish(&SID, &NONCE, &to_sender, BASE_COUNT))
        });
    });
    group.finish();
}

/// Returns the sender and the receiver of an OT extension, with random keys in place of the results
/// of base OTs.
fn ends(kind: Extension) -> (CotSender, CotReceiver) {
    let pairs: Vec<[u128; 2]> = (0..BASE_COUNT).map(|_| rand::random()).collect();
    let keys: Vec<u128> = (pairs.iter().enumerate())
        .map(|(index, pair)| pair[(DELTA >> index & 1) as usize])
        .collect();
    let (receiver, setup) = CotReceiver::new(kind, &pairs, &SID);
    let mut sender = CotSender::new(kind, DELTA, &keys, &SID);
    if !setup.is_empty() {
        sender
            .setup(&setup)
            .expect("the receiver's message has the right length");
    }
    (sender, receiver)
}

fn extension(c: &mut Criterion) {
    let choices: Vec<u64> = (0..SEGMENT / 64).map(|_| rand::random()).collect();
    for kind in Extension::ALL {
        let mut group = c.benchmark_group(kind.to_string());
        group.throughput(Throughput::Elements(SEGMENT as u64));
        let (mut sender, mut receiver) = ends(kind);
        let mut rng = rand::rng();
        let (mut message, mut check, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut receive = || {
            message.clear();
            check.clear();
            rows.clear();
            let segment = receiver.extend(&choices, SEGMENT, &mut rng, &mut message);
            segment.prove(&CHALLENGE, &mut check, &mut rows);
            (message.clone(), check.clone())
        };
        group.bench_function("receiver", |b| b.iter(&mut receive));
        // The receiver's message is fresh for each iteration, because the sender accepts no message
        // after a failed check. A valid check takes as long as a failed one.
        group.bench_function("sender", |b| {
            b.iter_batched(
                &mut receive,
                |(message, check)| {
                    let unchecked = sender.extend(SEGMENT, &message, &CHALLENGE)?;
                    let rows = sender.check(unchecked, &check)?;
                    sender.recycle(rows);
                    Ok::<_, OtError>(())
                },
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

fn masks(c: &mut Criterion) {
    let hash = MaskHash::new(&SID);
    let rows: Vec<u128> = (0..SEGMENT).map(|_| rand::random()).collect();
    let messages: Vec<[u128; 2]> = (0..SEGMENT).map(|_| rand::random()).collect();
    let mut group = c.benchmark_group("chosen messages");
    group.throughput(Throughput::Elements(SEGMENT as u64));
    let mut masked = Vec::new();
    group.bench_function("mask", |b| {
        b.iter(|| {
            masked.clear();
            hash.mask(0, &rows, DELTA, &messages, &mut masked);
        });
    });
    group.finish();
}

criterion_group!(benches, base, extension, masks);
criterion_main!(benches);
