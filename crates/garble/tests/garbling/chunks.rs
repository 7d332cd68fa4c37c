//! Compares chunk boundaries with the documented rule, applied gate by gate.

use transpute_circuit::{BatchKind, Circuit, InputSplit, Program, generators};
use transpute_garble::{ChunkPlan, LANES, Scheme};

use crate::common::random_circuit;

/// Returns the documented cost of a gate in one instance, in bits.
fn cost(scheme: Scheme, kind: BatchKind) -> u64 {
    match (kind, scheme) {
        (BatchKind::Input, _) => 0,
        (BatchKind::Xor, Scheme::Prf) => 128,
        (BatchKind::Xor, _) => 0,
        (BatchKind::And, Scheme::HalfGates | Scheme::FixedKey) => 256,
        (BatchKind::And, Scheme::ThreeHalves) => 197,
        (BatchKind::And, Scheme::Prf) => 260,
    }
}

/// Returns the length of each chunk, and how many of the evaluator's inputs it reads.
fn gate_by_gate(
    program: &Program,
    split: &InputSplit,
    (scheme, lanes, limit): (Scheme, usize, usize),
) -> Vec<(usize, usize)> {
    let theirs: Vec<u32> = split.ranges(false).flatten().collect();
    let mut loads = program.loads().iter();
    let (mut chunks, mut sum, mut reads) = (Vec::new(), 0, 0);
    for batch in program.batches() {
        let cost = lanes as u64 * cost(scheme, batch.kind);
        for _ in 0..batch.len {
            if sum + cost > 8 * limit as u64 {
                chunks.push(((sum as usize).div_ceil(8), reads));
                (sum, reads) = (0, 0);
            }
            sum += cost;
            if batch.kind == BatchKind::Input {
                let load = loads.next().expect("a load for each input of a batch");
                reads += usize::from(theirs.contains(&load.input));
            }
        }
    }
    if sum > 0 {
        chunks.push(((sum as usize).div_ceil(8), reads));
    }
    chunks
}

fn check(circuit: &Circuit) {
    let program = Program::compile(circuit);
    let split = InputSplit::first_to_garbler(program.input_widths());
    for scheme in Scheme::ALL {
        for lanes in [1, LANES] {
            for limit in [64, 65, 100, 333, 1000, 4096, 65_536, 1 << 30] {
                let limit = limit * lanes;
                let plan = ChunkPlan::side_by_side(&program, scheme, limit, lanes).unwrap();
                let found: Vec<_> = plan.with_reads(&split).collect();
                let expected = gate_by_gate(&program, &split, (scheme, lanes, limit));
                assert_eq!(found, expected, "{scheme}, {lanes} lanes, {limit} bytes");
            }
        }
    }
}

#[test]
fn serial_circuits_are_cut_as_documented() {
    check(&generators::divide(16).unwrap());
    check(&generators::divide(1).unwrap());
}

#[test]
fn wide_circuits_are_cut_as_documented() {
    check(&generators::aes128());
}

#[test]
fn random_circuits_are_cut_as_documented() {
    for seed in 0..20 {
        check(&random_circuit(seed, 700));
    }
}
