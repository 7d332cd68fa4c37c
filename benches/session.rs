//! Benchmarks of sessions between two parties in one process over loopback TCP, from the connection
//! to the outputs.
//!
//! As in the `transpute` command, each party has a Tokio runtime with one thread, and garbles or
//! evaluates on another thread.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use transpute::{
    Bits, Config, Fingerprint, Identity, InputSplit, Party, Program, Role, circuit::generators,
    session::Repeat,
};

/// One benchmark: the program that both parties run, the number of evaluations in its batch, and
/// whether the connection is encrypted with TLS.
struct Case {
    program: Arc<Program>,
    batch: u64,
    encrypted: bool,
}

impl Case {
    fn party(&self, role: Role, identity: Identity, peer: Fingerprint) -> Party {
        let mut config = Config::default();
        config.batch = self.batch;
        let party = Party::new(role, self.program.clone())
            .transport("tcp")
            .config(config);
        if self.encrypted {
            party.identity(identity).peer(peer)
        } else {
            party.plaintext()
        }
    }

    /// Runs one session: sets up the connection, executes the batch at both parties, and closes the
    /// connection.
    fn run(&self) {
        let [alice, bob] = [(); 2].map(|()| Identity::generate().expect("there is randomness"));
        let (alice_is, bob_is) = (alice.fingerprint(), bob.fingerprint());
        let split = InputSplit::first_to_garbler(self.program.input_widths());
        let input = |bits| Box::new(Repeat(Bits::zeros(bits)));
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                block_on(async {
                    let party = self.party(Role::Garbler, alice, bob_is);
                    let listening = party.listen("127.0.0.1:0").await;
                    let listening = listening.expect("loopback accepts a listener");
                    sender
                        .send(listening.local_address())
                        .expect("the other party waits for it");
                    let results = listening.run_batch(input(split.garbler_bits())).await;
                    results.expect("the garbler's side succeeds");
                });
            });
            block_on(async {
                let address = receiver.recv().expect("the other party listens");
                let party = self.party(Role::Evaluator, bob, alice_is).connect(address);
                let results = party.run_batch(input(split.evaluator_bits())).await;
                results.expect("the evaluator's side succeeds");
            });
        });
    }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system can create a runtime")
        .block_on(future);
}

fn sessions(c: &mut Criterion) {
    let candidates = generators::min_of_candidates(25_000, 20, Default::default())
        .expect("25,000 candidates are within the bounds of the generator");
    for (name, circuit, batch) in [
        ("aes-128", generators::aes128(), 1),
        ("aes-128 x1000", generators::aes128(), 1000),
        ("mincut x10", candidates, 10),
    ] {
        let program = Arc::new(Program::compile(&circuit));
        let mut group = c.benchmark_group(format!("session/{name}"));
        group.sample_size(10);
        group.throughput(Throughput::Elements(program.and_count() * batch));
        for (link, encrypted) in [("plaintext", false), ("tls", true)] {
            let case = Case {
                program: program.clone(),
                batch,
                encrypted,
            };
            group.bench_function(link, |b| b.iter(|| case.run()));
        }
        group.finish();
    }
}

criterion_group!(benches, sessions);
criterion_main!(benches);
