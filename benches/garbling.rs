//! Benchmarks of garbling and evaluation, in AND gates per second by scheme and circuit. Further
//! benchmarks measure the peak throughput of the CPU's AES units, the compilation of circuits, and
//! the reading of circuit files and compiled programs.
//!
//! An instance is one evaluation of a batch. As in a session with many evaluations, instances are
//! garbled side by side if the program allows it. Benchmarks whose names end in `-alone` garble one
//! instance at a time.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use transpute::{
    Bits, Program, Scheme,
    circuit::{Circuit, ProgramCache, SourceKey, bristol, generators},
    garble::{Evaluator, Garbler, Label, Params, Seed, lanes},
};
use transpute_benches::{Subject, backend, subjects};
use transpute_garble::ceiling::Ceiling;

const CHUNK_BYTES: usize = 64 << 10;

/// Measures AES in blocks per second: encryption under one key, and key expansion with encryption
/// of one or two blocks per key, as half gates need it. Garbling and evaluation cannot encrypt more
/// blocks per second.
fn ceilings(c: &mut Criterion) {
    const ROUNDS: u64 = 1000;
    let mut group = c.benchmark_group("ceiling");
    for what in [
        Ceiling::OneKey,
        Ceiling::FreshKeysTwoBlocks,
        Ceiling::FreshKeysOneBlock,
    ] {
        let backend = backend();
        let run = || {
            what.run(backend, ROUNDS)
                .expect("the back end is available")
        };
        group.throughput(Throughput::Elements(run()));
        group.bench_function(format!("{what:?}"), |b| b.iter(run));
    }
    group.finish();
}

/// A circuit, the parameters of its garbling, and the number of instances garbled side by side.
struct Setup<'a> {
    subject: &'a Subject,
    params: Params,
    lanes: usize,
}

impl Setup<'_> {
    fn garbler(&self) -> Garbler {
        let Subject { program, split, .. } = self.subject;
        Garbler::new(
            program.clone(),
            split,
            self.params,
            Seed::random(),
            backend(),
        )
        .expect("the parameters are valid and the back end is available")
    }

    fn bits(&self) -> Vec<Bits> {
        vec![self.subject.garbler_bits(); self.lanes]
    }

    /// Garbles instances side by side, and calls `each` with each chunk of tables. `chunk` is the
    /// buffer for all chunks.
    fn garble(&self, garbler: &mut Garbler, chunk: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
        garbler
            .begin_side_by_side(&self.bits())
            .expect("the last instances are done");
        while !garbler.is_instance_done() {
            chunk.clear();
            garbler
                .garble_chunk(CHUNK_BYTES, chunk)
                .expect("the instances are not done");
            each(chunk);
        }
        for _ in 0..self.lanes {
            garbler.take_outputs().expect("the instances are done");
        }
    }

    /// Begins the evaluation of the next instances, of which the first has number `first`. All
    /// input bits are 0.
    fn begin(&self, garbler: &Garbler, evaluator: &mut Evaluator, first: u64) {
        let (mut own, mut bytes) = (Vec::new(), Vec::new());
        for (instance, bits) in (first..).zip(self.bits()) {
            garbler.evaluator_zero_labels(
                instance,
                0..self.subject.split.evaluator_bits(),
                &mut own,
            );
            garbler.garbler_labels(instance, 0..bits.len(), &bits, &mut bytes);
        }
        let (theirs, _) = bytes.as_chunks::<16>();
        let theirs = theirs.iter().map(|label| Label::from_bytes(*label));
        let theirs: Vec<Label> = theirs.collect();
        let sends = self.params.scheme.sends_garbler_labels();
        evaluator
            .begin_side_by_side(self.lanes, sends.then_some(&theirs), &own)
            .expect("the labels are those of the circuit");
    }

    fn evaluator(&self) -> Evaluator {
        let Subject { program, split, .. } = self.subject;
        Evaluator::new(program.clone(), split, self.params, backend())
            .expect("the parameters are valid")
    }

    /// Garbles and evaluates `lanes` instances in each of `rounds` rounds. Returns the time that
    /// the evaluation took. Each chunk is evaluated directly after it was garbled. It is then in
    /// the CPU caches, like a chunk that a session has just received.
    fn evaluate(&self, rounds: u64) -> Duration {
        let (mut garbler, mut evaluator) = (self.garbler(), self.evaluator());
        let (mut chunk, mut spent) = (Vec::new(), Duration::ZERO);
        for round in 0..rounds {
            self.begin(&garbler, &mut evaluator, round * self.lanes as u64);
            self.garble(&mut garbler, &mut chunk, |chunk| {
                let started = Instant::now();
                evaluator
                    .evaluate_chunk(chunk, CHUNK_BYTES)
                    .expect("the chunk is the next one");
                spent += started.elapsed();
            });
            for _ in 0..self.lanes {
                black_box(evaluator.take_outputs().expect("the instances are done"));
            }
        }
        spent
    }
}

fn gates(c: &mut Criterion) {
    for subject in subjects() {
        for (scheme, period) in [
            (Scheme::HalfGates, 1),
            (Scheme::HalfGates, 8),
            (Scheme::FixedKey, 1),
            (Scheme::ThreeHalves, 1),
            (Scheme::Prf, 1),
        ] {
            let lanes = if subject.alone {
                1
            } else {
                lanes(&subject.program, CHUNK_BYTES, u64::MAX)
            };
            let setup = Setup {
                subject: &subject,
                params: Params::random(scheme, period, &mut rand::rng()),
                lanes,
            };
            let name = match period {
                1 => format!("{}/{scheme}", subject.name),
                _ => format!("{}/{scheme}-{period}", subject.name),
            };
            let mut group = c.benchmark_group(name);
            group.throughput(Throughput::Elements(
                subject.program.and_count() * lanes as u64,
            ));

            let mut garbler = setup.garbler();
            let mut chunk = Vec::new();
            group.bench_function("garble", |b| {
                b.iter(|| {
                    setup.garble(&mut garbler, &mut chunk, |chunk| {
                        black_box(chunk);
                    });
                });
            });

            group.bench_function("evaluate", |b| {
                b.iter_custom(|rounds| setup.evaluate(rounds))
            });
            group.finish();
        }
    }
}

fn circuits() -> [(&'static str, Circuit); 3] {
    let mincut = generators::min_of_candidates(25_000, 20, Default::default());
    [
        ("aes-128", generators::aes128()),
        ("sha-256", generators::sha256_compression()),
        ("mincut", mincut.expect("the benchmark of the paper")),
    ]
}

fn compile(c: &mut Criterion) {
    let mut group = c.benchmark_group("compile");
    for (name, circuit) in circuits() {
        group.throughput(Throughput::Elements(circuit.gate_count() as u64));
        group.bench_function(name, |b| b.iter(|| Program::compile(black_box(&circuit))));
    }
    group.finish();
}

fn parse(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse");
    for (name, circuit) in circuits() {
        let mut text = Vec::new();
        circuit
            .write(&mut text, bristol::Format::Fashion, &Default::default())
            .expect("Bristol Fashion can represent every circuit");
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| Circuit::parse(black_box(&text)).expect("a written circuit can be read"));
        });
    }
    group.finish();
}

/// Measures loading a compiled program, with all checks, from a file in the page cache.
fn load(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let cache = ProgramCache::new(folder.path());
    let mut group = c.benchmark_group("load");
    for (name, circuit) in circuits() {
        let key = SourceKey::of(name.as_bytes());
        let program = Program::compile(&circuit);
        cache
            .store(&key, &program)
            .expect("the directory is writable");
        group.throughput(Throughput::Bytes(program.to_bytes().len() as u64));
        group.bench_function(name, |b| b.iter(|| cache.load(black_box(&key))));
    }
    group.finish();
}

criterion_group!(benches, ceilings, gates, compile, parse, load);
criterion_main!(benches);
