//! Files that the reader accepts.

use transpute_circuit::{
    Bits, Gate, Op,
    bristol::{self, Format, ParseLimits},
};

use crate::{Trickle, XOR, parse};

#[test]
fn every_operation_of_bristol_fashion_is_read() {
    let text = "8 13\n2 1 2\n2 3 1\n\n\
        2 1 0 1 3 XOR\n2 1 3 2 4 AND\n1 1 4 5 INV\n1 1 5 6 NOT\n\
        1 1 0 7 EQ\n1 1 1 8 EQ\n1 1 6 9 EQW\n6 3 0 1 9 2 3 8 10 11 12 MAND\n";
    let parsed = parse(text).unwrap();
    assert_eq!(parsed.format, Format::Fashion);
    let circuit = parsed.circuit;
    assert_eq!(circuit.input_widths(), [1, 2]);
    assert_eq!(circuit.output_widths(), [3, 1]);
    assert_eq!(circuit.outputs(), [9, 10, 11, 12]);
    let gate = |op, a, b| Gate { op, a, b };
    assert_eq!(
        circuit.gates().collect::<Vec<_>>(),
        [
            gate(Op::Xor, 0, 1),
            gate(Op::And, 3, 2),
            gate(Op::Not, 4, 0),
            gate(Op::Not, 5, 0),
            gate(Op::Zero, 0, 0),
            gate(Op::One, 0, 0),
            gate(Op::Copy, 6, 0),
            gate(Op::And, 0, 2),
            gate(Op::And, 1, 3),
            gate(Op::And, 9, 8),
        ]
    );
}

#[test]
fn the_old_format_is_read() {
    // A half adder with its inner wires numbered in reverse.
    let text = "4 6\n1 1 2\n2 1 0 1 3 AND\n1 1 3 2 INV\n1 1 2 4 NOT\n2 1 0 1 5 XOR";
    let parsed = parse(text).unwrap();
    assert_eq!(parsed.format, Format::Old);
    assert_eq!(parsed.circuit.input_widths(), [1, 1]);
    assert_eq!(parsed.circuit.output_widths(), [2]);
    for (inputs, outputs) in [("00", "00"), ("01", "01"), ("10", "01"), ("11", "10")] {
        let inputs = Bits::from_binary(inputs, 2).unwrap();
        assert_eq!(
            parsed.circuit.evaluate(&inputs).unwrap().to_string(),
            outputs
        );
    }
}

#[test]
fn a_party_without_input_is_dropped_in_the_old_format_only() {
    let circuit = parse("1 3\n2 0 1\n\n2 1 0 1 2 XOR\n").unwrap().circuit;
    assert_eq!(circuit.input_widths(), [2]);
    let circuit = parse("1 3\n0 2 1\n\n2 1 0 1 2 XOR\n").unwrap().circuit;
    assert_eq!(circuit.input_widths(), [2]);
    let circuit = parse("1 3\n2 0 2\n1 1\n\n2 1 0 1 2 XOR\n").unwrap().circuit;
    assert_eq!(circuit.input_widths(), [0, 2]);
}

#[test]
fn blanks_and_comments_do_not_change_the_circuit() {
    let expected = parse(XOR).unwrap();
    for text in [
        "1 3\n2 1 1\n1 1\n2 1 0 1 2 XOR",
        "1 3\r\n2 1 1\r\n1 1\r\n\r\n2 1 0 1 2 XOR\r\n",
        "\n\n  1\t3  \n\n2 1 1 \t \n\n\n1 1\n \n\t2  1 0   1 2 XOR  \r\n\n\n",
        "// a comment\n  //\n\n// 1 2 3 ///\n1 3\n2 1 1\n1 1\n2 1 0 1 2 XOR\n",
        "01 003\n2 1 1\n1 1\n2 1 0 1 2 XOR\n",
    ] {
        assert_eq!(parse(text).unwrap(), expected, "{text:?}");
        let read = bristol::read(
            Trickle::new(text),
            text.len() as u64,
            &ParseLimits::default(),
        );
        assert_eq!(read.unwrap(), expected, "{text:?}");
    }
    let padded = format!("1 3\n2 1 1{}\n1 1\n2 1 0 1 2 XOR\n", " ".repeat(1_000_000));
    assert_eq!(parse(&padded).unwrap(), expected);
}

#[test]
fn circuits_without_gates_are_read() {
    let parsed = parse("0 2\n1 2\n1 2\n").unwrap();
    assert_eq!(
        (parsed.format, parsed.circuit.outputs()),
        (Format::Fashion, &[0, 1][..])
    );
    let parsed = parse("0 2\n1 1 1").unwrap();
    assert_eq!(
        (parsed.format, parsed.circuit.outputs()),
        (Format::Old, &[1][..])
    );
    let parsed = parse("1 1\n0\n1 1\n1 1 1 0 EQ\n").unwrap();
    assert_eq!(
        parsed.circuit.evaluate(&Bits::new()).unwrap().to_string(),
        "1"
    );
}

#[test]
fn gates_that_read_one_wire_twice_are_read() {
    let circuit = parse("2 3\n1 1\n1 2\n2 1 0 0 1 XOR\n2 1 0 0 2 AND\n")
        .unwrap()
        .circuit;
    let outputs = circuit
        .evaluate(&Bits::from_binary("1", 1).unwrap())
        .unwrap();
    assert_eq!(outputs.to_string(), "01");
}
