//! Tests that random circuits can be written and read back. For random and mutated files, the
//! reader returns a circuit or an error, but does not panic.

use proptest::prelude::*;

use super::{BristolError, Format, ParseLimits, Parsed, WriteOptions, read};
use crate::{
    Circuit, Op, Program,
    testing::{Random, Shape, random_circuit},
};

fn write(circuit: &Circuit, format: Format, group_ands: bool) -> Vec<u8> {
    let mut text = Vec::new();
    circuit
        .write(&mut text, format, &WriteOptions { group_ands })
        .unwrap();
    text
}

/// Reads a circuit with a low limit on input bits, which bounds the memory that the test needs.
fn read_small(bytes: &[u8]) -> Result<Parsed, BristolError> {
    read(
        bytes,
        bytes.len() as u64,
        &ParseLimits {
            input_bits: 1 << 12,
        },
    )
}

/// Checks the properties of every circuit that the reader accepts.
fn assert_bounded(bytes: &[u8], parsed: &Parsed) {
    let circuit = &parsed.circuit;
    assert!(circuit.gate_count() <= bytes.len() / 6);
    assert!(circuit.input_bits() <= 1 << 12);
    let inputs = Random(bytes.len() as u64).bits(circuit.input_bits() as usize);
    let expected = circuit.evaluate(&inputs).unwrap();
    let program = Program::compile(circuit);
    program.check().unwrap();
    assert_eq!(program.evaluate(&inputs).to_string(), expected.to_string());
}

fn shape(max_gates: u32) -> impl Strategy<Value = Shape> {
    (
        any::<u64>(),
        prop::collection::vec(0..9_u32, 0..4),
        prop::collection::vec(0..9_u32, 0..4),
        0..max_gates,
    )
        .prop_map(|(seed, input_widths, output_widths, gates)| Shape {
            seed,
            input_widths,
            output_widths,
            gates,
        })
}

proptest! {
    #[test]
    fn written_circuits_are_read_back(shape in shape(200), group_ands: bool) {
        let circuit = random_circuit(&shape);
        let text = write(&circuit, Format::Fashion, group_ands);
        let parsed = read_small(&text).unwrap();
        prop_assert_eq!(parsed.format, Format::Fashion);
        prop_assert_eq!(parsed.circuit.input_widths(), circuit.input_widths());
        prop_assert_eq!(parsed.circuit.output_widths(), circuit.output_widths());
        let mut random = Random(shape.seed);
        for _ in 0..4 {
            let inputs = random.bits(circuit.input_bits() as usize);
            prop_assert_eq!(
                parsed.circuit.evaluate(&inputs).unwrap(),
                circuit.evaluate(&inputs).unwrap()
            );
        }
        // A second round trip changes neither the circuit nor the text.
        prop_assert_eq!(
            &read_small(&write(&parsed.circuit, Format::Fashion, !group_ands)).unwrap().circuit,
            &parsed.circuit
        );
        prop_assert_eq!(write(&parsed.circuit, Format::Fashion, group_ands), text);
    }

    #[test]
    fn circuits_written_in_the_old_format_are_read_back(mut shape in shape(200)) {
        shape.input_widths.truncate(2);
        shape.output_widths.truncate(1);
        shape.input_widths.push(1);
        shape.input_widths.rotate_right(1);
        shape.input_widths.truncate(2);
        let circuit = random_circuit(&shape);
        let parsed = read_small(&write(&circuit, Format::Old, false)).unwrap();
        prop_assert_eq!(parsed.format, Format::Old);
        prop_assert_eq!(parsed.circuit.count(Op::Copy), 0);
        prop_assert_eq!(parsed.circuit.count(Op::Zero) + parsed.circuit.count(Op::One), 0);
        let mut random = Random(shape.seed);
        for _ in 0..4 {
            let inputs = random.bits(circuit.input_bits() as usize);
            prop_assert_eq!(
                parsed.circuit.evaluate(&inputs).unwrap(),
                circuit.evaluate(&inputs).unwrap()
            );
        }
    }

    /// The reader accepts any numbering of the inner wires and returns the same circuit.
    #[test]
    fn any_numbering_of_inner_wires_is_read(shape in shape(60)) {
        let circuit = random_circuit(&shape);
        let text = String::from_utf8(write(&circuit, Format::Fashion, false)).unwrap();
        let parsed = read_small(text.as_bytes()).unwrap().circuit;
        let outputs = parsed.outputs().len() as u32;
        let (first, end) = (parsed.input_bits(), parsed.wire_count().saturating_sub(outputs));
        // Reverses the numbers of all wires between inputs and outputs.
        let turn = |wire: u32| if wire >= first && wire < end { first + end - 1 - wire } else { wire };
        let mut turned = String::new();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            for (index, word) in words.iter().enumerate() {
                let is_wire = number > 3 && index >= 2 && index + 1 < words.len();
                let is_literal = words.last() == Some(&"EQ") && index == 2;
                if is_wire && !is_literal {
                    turned += &format!("{} ", turn(word.parse().unwrap()));
                } else {
                    turned += &format!("{word} ");
                }
            }
            turned.push('\n');
        }
        prop_assert_eq!(read_small(turned.as_bytes()).unwrap().circuit, parsed);
    }

    #[test]
    fn random_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(parsed) = read_small(&bytes) {
            assert_bounded(&bytes, &parsed);
        }
    }

    #[test]
    fn random_words_are_read_or_rejected(
        words in prop::collection::vec(
            prop_oneof![
                8 => (0..6_u32).prop_map(|n| n.to_string()),
                1 => any::<u32>().prop_map(|n| n.to_string()),
                4 => prop::sample::select(vec!["XOR", "AND", "INV", "NOT", "EQ", "EQW", "MAND", "//"])
                    .prop_map(str::to_owned),
                4 => Just("\n".to_owned()),
            ],
            0..60,
        )
    ) {
        let text = words.join(" ");
        if let Ok(parsed) = read_small(text.as_bytes()) {
            assert_bounded(text.as_bytes(), &parsed);
        }
    }

    #[test]
    fn mutated_files_are_read_or_rejected(
        shape in shape(30),
        old: bool,
        edits in prop::collection::vec((any::<u32>(), 0..4_u8, any::<u8>()), 1..4),
    ) {
        let circuit = random_circuit(&shape);
        let format = if old && shape.input_widths.len() <= 2
            && shape.output_widths.len() <= 1
            && circuit.input_bits() > 0
        {
            Format::Old
        } else {
            Format::Fashion
        };
        let mut bytes = write(&circuit, format, shape.seed % 2 == 0);
        for (place, kind, byte) in edits {
            let place = place as usize % bytes.len();
            let byte = b"0123456789 \n/XORANDINVEQWM"[byte as usize % 26];
            match kind {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => drop(bytes.remove(place)),
                _ => bytes.truncate(place + 1),
            }
            if bytes.is_empty() {
                break;
            }
        }
        if let Ok(parsed) = read_small(&bytes) {
            assert_bounded(&bytes, &parsed);
        }
    }
}
