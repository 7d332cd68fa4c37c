//! Tests of compilation.

mod check;

use proptest::prelude::*;

use super::{Batch, BatchKind, INVERT, Load, OutputBit, Program, compile::compile};
use crate::{
    Bits, Circuit, Gate, Op,
    testing::{Random, Shape, random_circuit},
};

fn assert_same(circuit: &Circuit, program: &Program, seed: u64) {
    program.check().unwrap();
    assert!(program.gates().len() <= circuit.count(Op::Xor) + circuit.count(Op::And));
    let mut random = Random(seed);
    for _ in 0..8 {
        let inputs = random.bits(circuit.input_bits() as usize);
        let expected = circuit.evaluate(&inputs).unwrap();
        assert_eq!(program.evaluate(&inputs).to_string(), expected.to_string());
    }
}

proptest! {
    #[test]
    fn programs_and_their_circuits_compute_the_same(
        seed: u64,
        input_widths in prop::collection::vec(0..20_u32, 0..4),
        output_widths in prop::collection::vec(0..20_u32, 0..4),
        gates in prop_oneof![8 => 0..300_u32, 1 => 0..20_000_u32],
        window in prop_oneof![1..5_usize, 5..200_usize, Just(1 << 16)],
    ) {
        let circuit = random_circuit(&Shape { seed, input_widths, output_widths, gates });
        let program = compile(&circuit, window);
        assert_same(&circuit, &program, seed);
        prop_assert_eq!(compile(&circuit, window).digest, program.digest);
    }
}

/// Compiles a circuit with two input bits, wires 0 and 1.
fn program(gates: &[(Op, u32, u32)], outputs: &[u32]) -> Program {
    let gates = gates.iter().map(|&(op, a, b)| Gate { op, a, b });
    let circuit = Circuit::new(
        vec![1, 1],
        vec![outputs.len() as u32],
        gates,
        outputs.to_vec(),
    );
    let circuit = circuit.unwrap();
    let program = Program::compile(&circuit);
    assert_same(&circuit, &program, 1);
    program
}

fn bit(slot: u32, invert: bool) -> OutputBit {
    OutputBit::Slot { slot, invert }
}

#[test]
fn constants_copies_and_negations_fold() {
    use {Op::*, OutputBit::Constant};
    // Wires 2 and 3 are constants, wire 4 is the negation of input 0, and wire 5 a copy of it.
    let base = [(Zero, 0, 0), (One, 0, 0), (Not, 0, 0), (Copy, 0, 0)];
    for (gate, expected) in [
        ((Xor, 0, 0), Constant(false)),
        ((Xor, 0, 5), Constant(false)),
        ((Xor, 0, 4), Constant(true)),
        ((Xor, 4, 2), bit(0, true)),
        ((Xor, 2, 1), bit(1, false)),
        ((Xor, 1, 3), bit(1, true)),
        ((Xor, 3, 4), bit(0, false)),
        ((Xor, 2, 3), Constant(true)),
        ((And, 0, 5), bit(0, false)),
        ((And, 4, 4), bit(0, true)),
        ((And, 4, 0), Constant(false)),
        ((And, 2, 1), Constant(false)),
        ((And, 1, 2), Constant(false)),
        ((And, 3, 1), bit(1, false)),
        ((And, 4, 3), bit(0, true)),
        ((And, 3, 3), Constant(true)),
        ((Not, 2, 0), Constant(true)),
        ((Not, 4, 0), bit(0, false)),
        ((Copy, 3, 0), Constant(true)),
    ] {
        let gates: Vec<_> = base.into_iter().chain([gate]).collect();
        let program = program(&gates, &[6]);
        assert_eq!(program.gates(), [], "{gate:?}");
        let OutputBit::Slot { slot, invert } = expected else {
            assert_eq!(program.outputs(), [expected], "{gate:?}");
            assert_eq!(program.loads(), [], "{gate:?}");
            continue;
        };
        // Each expectation above names the input bit, which is the only one loaded.
        assert_eq!(program.outputs(), [bit(0, invert)], "{gate:?}");
        let load = Load {
            input: slot,
            slot: 0,
        };
        assert_eq!(program.loads(), [load], "{gate:?}");
        assert_eq!(program.slot_count(), 1);
    }
}

#[test]
fn inversions_move_to_and_gates_and_outputs() {
    use Op::*;
    let gates = [(Not, 0, 0), (Xor, 2, 1), (And, 3, 2), (Not, 4, 0)];
    let program = program(&gates, &[3, 5]);
    let [xor, and] = program.gates() else {
        panic!("{:?}", program.gates());
    };
    assert_eq!((xor.a, xor.b), (0, 1));
    assert_eq!((and.a, and.b), (xor.out | INVERT, INVERT));
    assert_eq!(program.outputs(), [bit(xor.out, true), bit(and.out, true)]);
    assert_eq!((program.xor_count(), program.and_count()), (1, 1));
}

#[test]
fn gates_that_reach_no_output_are_dropped() {
    use Op::*;
    let program = program(&[(And, 0, 1), (Xor, 0, 1), (And, 2, 3)], &[3, 0, 3]);
    assert_eq!((program.xor_count(), program.and_count()), (1, 0));
    assert_eq!(
        program.outputs(),
        [bit(2, false), bit(0, false), bit(2, false)]
    );
}

#[test]
fn an_unread_input_has_no_slot() {
    let program = program(&[(Op::Not, 0, 0), (Op::And, 2, 2)], &[3]);
    assert_eq!(program.gates(), []);
    let gates = [(Op::And, 1, 2), (Op::Xor, 3, 2)].map(|(op, a, b)| Gate { op, a, b });
    let circuit = Circuit::new(vec![3], vec![1], gates, vec![4]).unwrap();
    let program = Program::compile(&circuit);
    assert_same(&circuit, &program, 1);
    let loads = [1, 2].map(|input| Load {
        input,
        slot: input - 1,
    });
    assert_eq!(program.loads(), loads);
    assert_eq!(program.slot_count(), 3);
}

#[test]
fn inputs_get_slots_in_the_window_that_reads_them_first() {
    // Each gate reads a further input. The program is compiled in windows of 4 gates.
    let gates = (0..99).map(|i| Gate {
        op: Op::And,
        a: i + 1,
        b: if i == 0 { 0 } else { 99 + i },
    });
    let circuit = Circuit::new(vec![100], vec![1], gates, vec![198]).unwrap();
    let program = compile(&circuit, 4);
    assert_same(&circuit, &program, 1);
    let loads = |batch: &Batch| (batch.kind == BatchKind::Input).then_some(batch.len);
    let loads: Vec<u32> = program.batches().iter().filter_map(loads).collect();
    assert_eq!(loads.len(), 25);
    assert_eq!(loads[..3], [5, 4, 4]);
    assert_eq!(program.loads().len(), 100);
    assert!(program.slot_count() <= 6, "{}", program.slot_count());
}

#[test]
fn an_input_that_is_an_output_keeps_its_slot() {
    let program = program(&[(Op::And, 0, 0)], &[1, 0, 2]);
    assert_eq!(program.loads().len(), 2);
    assert_eq!(
        program.outputs(),
        [bit(1, false), bit(0, false), bit(0, false)]
    );
}

#[test]
fn slots_of_dead_wires_are_reused() {
    // A chain of 10,000 gates that read one of two inputs and the previous gate.
    let gates = (0..10_000).map(|i| {
        let op = [Op::Xor, Op::And][i as usize % 2];
        let (a, b) = (i + 1, 0);
        Gate { op, a, b }
    });
    let circuit = Circuit::new(vec![1, 1], vec![1], gates, vec![10_001]).unwrap();
    let program = Program::compile(&circuit);
    assert_same(&circuit, &program, 1);
    assert_eq!(program.gates().len(), 10_000);
    assert_eq!(program.slot_count(), 3);
}

#[test]
fn a_wire_with_many_uses_lives_until_the_last_use() {
    // Each of 1,000 gates reads input 0. The program is compiled in windows of 7 gates.
    let gates = (0..1_000).map(|i| Gate {
        op: Op::Xor,
        a: 0,
        b: i + 1,
    });
    let circuit = Circuit::new(vec![1, 1], vec![2], gates, vec![1_001, 1_001]).unwrap();
    let program = compile(&circuit, 7);
    assert_same(&circuit, &program, 1);
    assert_eq!(
        program.gates().iter().filter(|gate| gate.a == 0).count(),
        1_000
    );
    assert_eq!(program.slot_count(), 3);
}

#[test]
fn independent_gates_share_a_batch() {
    let gates = (0..100).map(|i| Gate {
        op: [Op::Xor, Op::And][i as usize % 2],
        a: i,
        b: i + 100,
    });
    let circuit = Circuit::new(vec![200], vec![100], gates, (200..300).collect()).unwrap();
    let program = Program::compile(&circuit);
    assert_same(&circuit, &program, 1);
    let batch = |kind, len| Batch { kind, len };
    assert_eq!(
        program.batches(),
        [
            batch(BatchKind::Input, 200),
            batch(BatchKind::Xor, 50),
            batch(BatchKind::And, 50)
        ]
    );
}

#[test]
#[should_panic(expected = "input bits")]
fn evaluation_panics_on_missing_inputs() {
    let _ = program(&[], &[]).evaluate(&Bits::zeros(1));
}
