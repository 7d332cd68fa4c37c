//! Measures the time per AND gate for every scheme and back end.
//!
//! ```text
//! cargo run --release -p transpute-garble --features ceiling \
//!     --example gate_speed [circuit [scheme [back end]]]
//! ```

use std::{sync::Arc, time::Instant};

use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program, generators};
use transpute_garble::{
    Backend, Evaluator, Garbler, Label, Params, Scheme, Seed, ceiling::Ceiling, lanes,
};

const CHUNK_BYTES: usize = 64 * 1024;

/// Minimum number of AND gates to garble per measurement, in all instances together.
const MIN_GATES: u64 = 1_000_000;

/// Returns a circuit of independent AND gates: every input bit of one party with every input bit of
/// the other.
fn wide() -> Circuit {
    let side = 160;
    let gates = (0..side * side).map(|i| Gate {
        op: Op::And,
        a: i / side,
        b: side + i % side,
    });
    let outputs = (2 * side..2 * side + side * side).collect();
    Circuit::new(vec![side, side], vec![side * side], gates, outputs).expect("a valid circuit")
}

/// Returns a chain of AND gates, each of which depends on the previous one. XOR gates between them
/// prevent constant folding of the chain.
fn chain() -> Circuit {
    let (length, mut gates) = (10_000, Vec::new());
    let mut last = 0;
    for i in 0..length {
        gates.push(Gate {
            op: Op::And,
            a: last,
            b: 64 + i % 64,
        });
        gates.push(Gate {
            op: Op::Xor,
            a: 128 + 2 * i,
            b: i % 64,
        });
        last = 128 + 2 * i + 1;
    }
    Circuit::new(vec![64, 64], vec![1], gates, vec![last]).expect("a valid circuit")
}

/// Returns the MinCut benchmark of *Transputation*: 1.0 million AND and 2.5 million XOR gates.
fn mincut() -> Circuit {
    generators::min_of_candidates(25_000, 20, Default::default()).expect("a valid circuit")
}

fn main() {
    let circuits = [
        ("wide", Program::compile(&wide())),
        ("aes-128", Program::compile(&generators::aes128())),
        ("chain", Program::compile(&chain())),
        (
            "sha-256",
            Program::compile(&generators::sha256_compression()),
        ),
        (
            "div-64",
            Program::compile(&generators::divide(64).expect("64 bits are allowed")),
        ),
        ("mincut", Program::compile(&mincut())),
    ];
    // The arguments select a circuit, a scheme and a back end.
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let skip = |column: usize, name: &str| wanted.get(column).is_some_and(|wanted| wanted != name);
    ceilings();
    println!("ns per AND gate: garble / evaluate");
    for (name, program) in circuits {
        if skip(0, name) {
            continue;
        }
        let program = Arc::new(program);
        let (ands, xors) = (program.and_count(), program.xor_count());
        println!(
            "{name}: {ands} AND, {xors} XOR, {} batches, {} slots",
            program.batches().len(),
            program.slot_count()
        );
        for (scheme, period) in [
            (Scheme::HalfGates, 1),
            (Scheme::HalfGates, 8),
            (Scheme::FixedKey, 1),
            (Scheme::ThreeHalves, 1),
            (Scheme::Prf, 1),
        ] {
            if skip(1, &scheme.to_string()) {
                continue;
            }
            print!("  {:<12} P={period:<5}", scheme.to_string());
            for backend in Backend::available() {
                if skip(2, &backend.to_string()) {
                    continue;
                }
                print!("  {backend}");
                for lanes in [1, lanes(&program, CHUNK_BYTES, u64::MAX)] {
                    let (garble, evaluate) = measure(&program, scheme, period, backend, lanes);
                    print!("  {garble:5.2} / {evaluate:5.2}");
                }
            }
            println!();
        }
    }
}

/// Prints the peak throughput of the AES units, which bounds the speed of half gates.
fn ceilings() {
    const ROUNDS: u64 = 20_000;
    for backend in Backend::available() {
        if backend == Backend::Portable {
            continue;
        }
        print!("{backend}:");
        for what in [
            Ceiling::OneKey,
            Ceiling::FreshKeysTwoBlocks,
            Ceiling::FreshKeysOneBlock,
        ] {
            let mut best = f64::MAX;
            for _ in 0..50 {
                let start = Instant::now();
                let blocks = what.run(backend, ROUNDS).expect("an available back end");
                best = best.min(start.elapsed().as_secs_f64() * 1e9 / blocks as f64);
            }
            print!("  {what:?} {:.3} G blocks/s", 1.0 / best);
        }
        println!();
    }
}

/// Returns the time per AND gate of the fastest instance, so that other load on the machine has
/// little effect.
fn measure(
    program: &Arc<Program>,
    scheme: Scheme,
    period: u32,
    backend: Backend,
    lanes: usize,
) -> (f64, f64) {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let params = Params::random(scheme, period, &mut rand::rng());
    let mut garbler = Garbler::new(program.clone(), &split, params, Seed::random(), backend)
        .expect("an available back end");
    let mut evaluator =
        Evaluator::new(program.clone(), &split, params, backend).expect("an available back end");
    let bits = Bits::zeros(split.garbler_bits());
    let (mut best_garble, mut best_evaluate) = (f64::MAX, f64::MAX);
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    let bits = vec![bits; lanes];
    for group in 0..(MIN_GATES / program.and_count() / lanes as u64).max(5) {
        let (mut labels, mut sent) = (Vec::new(), Vec::new());
        for (instance, bits) in (group * lanes as u64..).zip(&bits) {
            garbler.evaluator_zero_labels(instance, 0..split.evaluator_bits(), &mut labels);
            garbler.garbler_labels(instance, 0..bits.len(), bits, &mut sent);
        }
        let sent: Vec<Label> = (sent.as_chunks().0.iter())
            .map(|bytes| Label::from_bytes(*bytes))
            .collect();
        let sent = scheme.sends_garbler_labels().then_some(&sent[..]);
        evaluator
            .begin_side_by_side(lanes, sent, &labels)
            .expect("the right labels");
        garbler.begin_side_by_side(&bits).expect("the right inputs");
        let (mut garble, mut evaluate) = (0.0, 0.0);
        while !garbler.is_instance_done() {
            chunk.clear();
            let start = Instant::now();
            garbler
                .garble_chunk(CHUNK_BYTES, &mut chunk)
                .expect("an unfinished instance");
            let between = Instant::now();
            evaluator
                .evaluate_chunk(&chunk, CHUNK_BYTES)
                .expect("the next chunk");
            garble += (between - start).as_secs_f64();
            evaluate += between.elapsed().as_secs_f64();
        }
        let gates = (program.and_count() * lanes as u64) as f64;
        best_garble = best_garble.min(garble * 1e9 / gates);
        best_evaluate = best_evaluate.min(evaluate * 1e9 / gates);
    }
    (best_garble, best_evaluate)
}
