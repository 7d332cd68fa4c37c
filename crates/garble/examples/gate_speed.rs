//! Nanoseconds per AND gate for every scheme and back end.
//!
//! `cargo run --release -p transpute-garble --example gate_speed [circuit [scheme [back end]]]`

use std::{sync::Arc, time::Instant};

use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program, generators};
use transpute_garble::{Backend, Evaluator, Garbler, Label, Params, Scheme, Seed};

const CHUNK: usize = 64 * 1024;

/// AND gates to garble per measurement.
const GATES: u64 = 1_000_000;

/// Independent AND gates: every input of one party with every input of the other.
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

/// AND gates each of which needs the one before; the XOR keeps them from folding.
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

fn main() {
    let circuits = [
        ("wide", Program::compile(&wide())),
        ("aes-128", Program::compile(&generators::aes128())),
        ("chain", Program::compile(&chain())),
    ];
    // Arguments narrow the table down.
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let skip = |column: usize, name: &str| wanted.get(column).is_some_and(|wanted| wanted != name);
    println!("ns per AND gate: garble / evaluate");
    for (name, program) in circuits {
        if skip(0, name) {
            continue;
        }
        let program = Arc::new(program);
        let (ands, xors) = (program.and_count(), program.xor_count());
        println!(
            "{name}: {ands} AND, {xors} XOR, {} batches",
            program.batches().len()
        );
        for (scheme, period) in [
            (Scheme::HalfGates, 1),
            (Scheme::HalfGates, 1024),
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
                let (garble, evaluate) = measure(&program, scheme, period, backend);
                print!("  {backend} {garble:6.1} / {evaluate:5.1}");
            }
            println!();
        }
    }
}

/// Returns the fastest of many instances, so that other work on the machine does not count.
fn measure(program: &Arc<Program>, scheme: Scheme, period: u32, backend: Backend) -> (f64, f64) {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let params = Params::random(scheme, period, &mut rand::rng());
    let mut garbler = Garbler::new(program.clone(), &split, params, Seed::random(), backend)
        .expect("an available back end");
    let mut evaluator =
        Evaluator::new(program.clone(), &split, params, backend).expect("an available back end");
    let bits = Bits::zeros(split.garbler_bits());
    let (mut best_garble, mut best_evaluate) = (f64::MAX, f64::MAX);
    let mut chunk = Vec::with_capacity(CHUNK);
    for instance in 0..GATES / program.and_count() {
        let (mut labels, mut sent) = (Vec::new(), Vec::new());
        garbler.evaluator_zero_labels(instance, 0..split.evaluator_bits(), &mut labels);
        garbler.garbler_labels(instance, 0..bits.len(), &bits, &mut sent);
        let sent: Vec<Label> = (sent.as_chunks().0.iter())
            .map(|bytes| Label::from_bytes(*bytes))
            .collect();
        let sent = scheme.sends_garbler_labels().then_some(&sent[..]);
        evaluator
            .begin_instance(sent, &labels)
            .expect("the right labels");
        garbler.begin_instance(&bits).expect("the right inputs");
        let (mut garble, mut evaluate) = (0.0, 0.0);
        while !garbler.is_instance_done() {
            chunk.clear();
            let start = Instant::now();
            garbler
                .garble_chunk(CHUNK, &mut chunk)
                .expect("an unfinished instance");
            let between = Instant::now();
            evaluator
                .evaluate_chunk(&chunk, CHUNK)
                .expect("the next chunk");
            garble += (between - start).as_secs_f64();
            evaluate += between.elapsed().as_secs_f64();
        }
        let gates = program.and_count() as f64;
        best_garble = best_garble.min(garble * 1e9 / gates);
        best_evaluate = best_evaluate.min(evaluate * 1e9 / gates);
    }
    (best_garble, best_evaluate)
}
