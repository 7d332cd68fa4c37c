//! Garbling and evaluating: AND gates per second by scheme and circuit, and compiling programs.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use transpute::{
    Backend, Program, Scheme,
    circuit::generators,
    garble::{Evaluator, Garbler, Label, Params, Seed},
};
use transpute_benches::{Subject, subjects};

const CHUNK: usize = 64 << 10;

fn garbler(subject: &Subject, params: Params) -> Garbler {
    Garbler::new(
        subject.program.clone(),
        &subject.split,
        params,
        Seed::random(),
        Backend::best(),
    )
    .expect("the parameters are valid and the back end is available")
}

/// Garbles one instance; the tables end up in `tables`, chunk by chunk.
fn garble(subject: &Subject, garbler: &mut Garbler, tables: &mut Vec<Vec<u8>>) {
    garbler
        .begin_instance(&subject.garbler_bits())
        .expect("the last instance is done");
    let mut chunks = tables.iter_mut();
    while !garbler.is_instance_done() {
        let mut spare = Vec::new();
        let out = chunks.next().unwrap_or(&mut spare);
        out.clear();
        garbler
            .garble_chunk(CHUNK, out)
            .expect("the instance is not done");
        black_box(&out);
        if !spare.is_empty() {
            tables.push(spare);
            chunks = [].iter_mut();
        }
    }
    garbler.take_outputs().expect("the instance is done");
}

fn gates(c: &mut Criterion) {
    for subject in subjects() {
        for scheme in Scheme::ALL {
            let params = Params::random(scheme, 1, &mut rand::rng());
            let mut group = c.benchmark_group(format!("{}/{scheme}", subject.name));
            group.throughput(Throughput::Elements(subject.program.and_count()));

            let mut source = garbler(&subject, params);
            let mut tables = Vec::new();
            garble(&subject, &mut source, &mut tables);
            group.bench_function("garble", |b| {
                b.iter(|| garble(&subject, &mut source, &mut tables));
            });

            // The tables and labels of instance 0 serve every measured evaluation: each starts
            // from a fresh evaluator, whose making is not measured.
            let mut source = garbler(&subject, params);
            let mut tables = Vec::new();
            garble(&subject, &mut source, &mut tables);
            let mut own = Vec::new();
            source.evaluator_zero_labels(0, 0..subject.split.evaluator_bits(), &mut own);
            let theirs = garbler_labels(&subject, &source);
            let theirs = scheme.sends_garbler_labels().then_some(&theirs[..]);
            group.bench_function("evaluate", |b| {
                b.iter_batched(
                    || {
                        let mut evaluator = Evaluator::new(
                            subject.program.clone(),
                            &subject.split,
                            params,
                            Backend::best(),
                        )
                        .expect("the parameters are valid");
                        evaluator
                            .begin_instance(theirs, &own)
                            .expect("the labels are those of the circuit");
                        evaluator
                    },
                    |mut evaluator| {
                        for chunk in &tables {
                            evaluator
                                .evaluate_chunk(chunk, CHUNK)
                                .expect("the chunk is the next one");
                        }
                        evaluator
                    },
                    BatchSize::LargeInput,
                );
            });
            group.finish();
        }
    }
}

fn garbler_labels(subject: &Subject, garbler: &Garbler) -> Vec<Label> {
    let bits = subject.garbler_bits();
    let mut bytes = Vec::new();
    garbler.garbler_labels(0, 0..bits.len(), &bits, &mut bytes);
    let (labels, _) = bytes.as_chunks::<16>();
    labels
        .iter()
        .map(|label| Label::from_bytes(*label))
        .collect()
}

fn compile(c: &mut Criterion) {
    let mut group = c.benchmark_group("compile");
    for (name, circuit) in [
        ("aes-128", generators::aes128()),
        ("sha-256", generators::sha256_compression()),
    ] {
        group.throughput(Throughput::Elements(circuit.gate_count() as u64));
        group.bench_function(name, |b| b.iter(|| Program::compile(black_box(&circuit))));
    }
    group.finish();
}

criterion_group!(benches, gates, compile);
criterion_main!(benches);
