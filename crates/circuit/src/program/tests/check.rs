//! Tests of the digest, and of programs that break an invariant.

use super::{bit, program};
use crate::{
    Op,
    program::{Batch, BatchKind, INVERT, OutputBit, Program, ProgramError, ProgramGate},
};

type Change = fn(&mut Program);
type Expected = fn(&ProgramError) -> bool;

/// Returns a program with gates of both kinds, an inversion and a constant output.
fn sample() -> Program {
    use Op::*;
    let gates = [
        (Not, 0, 0),
        (And, 2, 1),
        (Xor, 3, 1),
        (And, 4, 0),
        (One, 0, 0),
    ];
    program(&gates, &[4, 5, 6])
}

#[test]
fn the_digest_matches_the_documented_encoding() {
    // Computed independently from the documented words: 2 1 1, 1 3, 4, 4 and 10 5 4 5, 2 and 0 0, 1
    // 1, 3 and three times a, b, out (0 inverted, 1, 2; 2, 1, 3; 3, 0, 1), 6, 2, 2^32 - 1.
    let hex: String = sample()
        .digest()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        hex,
        "15b922ece8883c136594a05239c61a12a2605de83b4cd11cd98f4df1f3b6b0ae"
    );
}

#[test]
fn the_digest_covers_everything() {
    let changes: [Change; 14] = [
        |p| p.input_widths = vec![2],
        |p| p.input_widths.push(0),
        |p| p.output_widths = vec![1, 2],
        |p| p.slot_count += 1,
        |p| p.gates[0].a ^= INVERT,
        |p| p.gates[0].b += 1,
        |p| p.gates[2].out += 1,
        |p| p.gates.swap(0, 2),
        |p| p.batches[1].kind = BatchKind::Xor,
        |p| p.loads.swap(0, 1),
        |p| p.loads[0].slot = 1,
        |p| p.outputs[0] = bit(0, true),
        |p| p.outputs[2] = OutputBit::Constant(false),
        |p| p.outputs.truncate(2),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut program = sample();
        change(&mut program);
        assert_ne!(program.compute_digest(), program.digest, "change {index}");
    }
}

#[test]
fn every_broken_invariant_is_detected() {
    use ProgramError::*;
    let and = BatchKind::And;
    assert_eq!(
        sample()
            .batches()
            .iter()
            .map(|b| b.kind)
            .collect::<Vec<_>>(),
        [BatchKind::Input, and, BatchKind::Xor, and]
    );
    let cases: [(Change, Expected); 21] = [
        (
            |p| p.output_widths[0] += 1,
            |e| {
                matches!(
                    e,
                    Widths {
                        what: "output bits",
                        expected: 4,
                        found: 3
                    }
                )
            },
        ),
        (
            |p| p.slot_count = 99,
            |e| {
                matches!(
                    e,
                    Widths {
                        expected: 5,
                        found: 99,
                        ..
                    }
                )
            },
        ),
        (
            |p| p.input_widths[0] = INVERT,
            |e| {
                matches!(
                    e,
                    Widths {
                        what: "input bits at most",
                        ..
                    }
                )
            },
        ),
        (
            |p| p.loads.truncate(1),
            |e| {
                matches!(
                    e,
                    BatchLengths {
                        what: "loads",
                        expected: 1,
                        found: 2
                    }
                )
            },
        ),
        (
            |p| p.loads[1].input = 2,
            |e| {
                matches!(
                    e,
                    InputRange {
                        load: 1,
                        input: 2,
                        inputs: 2
                    }
                )
            },
        ),
        (
            |p| p.loads[1].input = 0,
            |e| matches!(e, LoadedTwice { load: 1, input: 0 }),
        ),
        (
            |p| p.loads[1].slot = 99,
            |e| {
                matches!(
                    e,
                    LoadRange {
                        load: 1,
                        slot: 99,
                        ..
                    }
                )
            },
        ),
        (
            |p| p.loads[1].slot = 0,
            |e| matches!(e, DependentLoad { load: 1, slot: 0 }),
        ),
        (
            |p| p.batches.rotate_left(1),
            |e| matches!(e, Undefined { gate: 0, .. }),
        ),
        (
            |p| p.batches[1].len = 2,
            |e| {
                matches!(
                    e,
                    BatchLengths {
                        what: "gates",
                        expected: 3,
                        found: 4
                    }
                )
            },
        ),
        (
            |p| p.batches[1].len = 0,
            |e| {
                matches!(
                    e,
                    BatchLengths {
                        what: "gates",
                        expected: 3,
                        found: 0
                    }
                )
            },
        ),
        (
            |p| p.and_count = 9,
            |e| {
                matches!(
                    e,
                    Count {
                        kind: BatchKind::And,
                        expected: 2,
                        found: 9
                    }
                )
            },
        ),
        (
            |p| p.gates[0].a = 99,
            |e| {
                matches!(
                    e,
                    SlotRange {
                        gate: 0,
                        slot: 99,
                        ..
                    }
                )
            },
        ),
        (
            |p| p.gates[2].out = 99,
            |e| {
                matches!(
                    e,
                    SlotRange {
                        gate: 2,
                        slot: 99,
                        ..
                    }
                )
            },
        ),
        (|p| p.slot_count += 1, |e| matches!(e, Digest)),
        (
            |p| {
                p.slot_count += 1;
                p.gates[0].a = p.slot_count - 1
            },
            |e| matches!(e, Undefined { gate: 0, .. }),
        ),
        (
            |p| p.gates[1].b |= INVERT,
            |e| matches!(e, InvertedXor { gate: 1 }),
        ),
        (
            |p| p.gates[1].out = p.gates[1].a,
            |e| matches!(e, Dependent { gate: 1, .. }),
        ),
        (
            |p| {
                p.batches.truncate(1);
                p.batches.push(Batch {
                    kind: BatchKind::And,
                    len: 3,
                });
                p.and_count = 3;
                p.xor_count = 0
            },
            |e| matches!(e, Dependent { gate: 0, slot: 1 }),
        ),
        (
            |p| p.outputs[0] = bit(99, false),
            |e| matches!(e, Output { bit: 0, slot: 99 }),
        ),
        (|p| p.digest[0] ^= 1, |e| matches!(e, Digest)),
    ];
    for (index, (change, matches)) in cases.iter().enumerate() {
        let mut program = sample();
        change(&mut program);
        let error = program.check().unwrap_err();
        assert!(matches(&error), "case {index}: {error}");
    }
}

#[test]
fn dependent_gates_in_a_batch_are_detected() {
    let gate = |a, b, out| ProgramGate { a, b, out };
    for (gates, expected) in [
        ([gate(0, 1, 2), gate(0, 1, 3)], Ok(())),
        (
            [gate(0, 1, 2), gate(0, 1, 2)],
            Err(ProgramError::Dependent { gate: 1, slot: 2 }),
        ),
        (
            [gate(0, 1, 2), gate(0, 1, 0)],
            Err(ProgramError::Dependent { gate: 0, slot: 0 }),
        ),
        (
            [gate(0, 1, 2), gate(2, 1, 3)],
            Err(ProgramError::Dependent { gate: 1, slot: 2 }),
        ),
        (
            [gate(0, 3, 2), gate(0, 1, 3)],
            Err(ProgramError::Dependent { gate: 0, slot: 3 }),
        ),
        (
            [gate(0, 1, 2), gate(0, 3, 2)],
            Err(ProgramError::Dependent { gate: 1, slot: 2 }),
        ),
        (
            [gate(0, 0, 2), gate(0, 3, 1)],
            Err(ProgramError::Undefined { gate: 1, slot: 3 }),
        ),
    ] {
        let mut program = sample();
        program.gates = gates.to_vec();
        program.batches.truncate(1);
        program.batches.push(Batch {
            kind: BatchKind::And,
            len: 2,
        });
        (program.and_count, program.xor_count, program.slot_count) = (2, 0, 4);
        program.outputs.fill(OutputBit::Constant(true));
        program.digest = program.compute_digest();
        assert_eq!(program.check(), expected);
    }
}
