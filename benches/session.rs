//! Whole sessions between two parties in one program, over loopback TCP: connecting, oblivious
//! transfer, tables, output.

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use transpute::{
    Bits, Config, Identity, InputSplit, Party, Program, Repeat, Role, circuit::generators,
};

/// Both parties from start to end; returns when both are done.
async fn run(program: &Arc<Program>, batch: u64, encrypted: bool) {
    let (alice, bob) = keys();
    let (alice_is, bob_is) = (alice.fingerprint(), bob.fingerprint());
    let party = |role, identity, peer| {
        let party = Party::new(role, program.clone()).config(Config {
            batch,
            ..Config::default()
        });
        if encrypted {
            party.identity(identity).peer(peer)
        } else {
            party.plaintext()
        }
    };
    let split = InputSplit::first_to_garbler(program.input_widths());
    let listening = party(Role::Garbler, alice, bob_is)
        .listen("127.0.0.1:0")
        .await
        .expect("loopback can be listened on");
    let connecting = party(Role::Evaluator, bob, alice_is).connect(listening.local_address());
    let input = |bits| Box::new(Repeat(Bits::zeros(bits)));
    let (garbler, evaluator) = tokio::join!(
        listening.run_batch(input(split.garbler_bits())),
        connecting.run_batch(input(split.evaluator_bits())),
    );
    garbler.expect("the garbler's side succeeds");
    evaluator.expect("the evaluator's side succeeds");
}

fn keys() -> (Identity, Identity) {
    let key = || Identity::generate().expect("the system has randomness");
    (key(), key())
}

fn sessions(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("the system has threads");
    let candidates = generators::min_of_candidates(25_000, 20, Default::default())
        .expect("25,000 candidates are within the bounds of the generator");
    for (name, circuit, batch) in [
        ("aes-128", generators::aes128(), 1),
        ("aes-128 x1000", generators::aes128(), 1000),
        ("mincut", candidates, 1),
    ] {
        let program = Arc::new(Program::compile(&circuit));
        let mut group = c.benchmark_group(format!("session/{name}"));
        group.sample_size(10);
        group.throughput(Throughput::Elements(program.and_count() * batch));
        for (link, encrypted) in [("plaintext", false), ("tls", true)] {
            group.bench_function(link, |b| {
                b.iter(|| runtime.block_on(run(&program, batch, encrypted)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, sessions);
criterion_main!(benches);
