//! Tests of written circuit files, and of circuits that a format cannot represent.

use std::io;

use transpute_circuit::{
    Circuit, Gate, Op,
    bristol::{Format, WriteError, WriteOptions},
};

fn circuit(
    inputs: &[u32],
    gates: &[(Op, u32, u32)],
    output_widths: &[u32],
    outputs: &[u32],
) -> Circuit {
    let gates = gates.iter().map(|&(op, a, b)| Gate { op, a, b });
    Circuit::new(
        inputs.to_vec(),
        output_widths.to_vec(),
        gates,
        outputs.to_vec(),
    )
    .unwrap()
}

fn write(circuit: &Circuit, format: Format, group_ands: bool) -> Result<String, WriteError> {
    let mut text = Vec::new();
    let mut options = WriteOptions::default();
    options.group_ands = group_ands;
    circuit.write(&mut text, format, &options)?;
    Ok(String::from_utf8(text).unwrap())
}

/// Returns a circuit with all operations. Wire 4 is both an output and an operand. Input 0 is an
/// output too. Two outputs are wire 9.
fn sample() -> Circuit {
    use Op::*;
    let gates = [
        (Xor, 0, 1),
        (And, 3, 2),
        (Not, 4, 0),
        (Copy, 5, 0),
        (Zero, 0, 0),
        (One, 0, 0),
        (Xor, 4, 8),
    ];
    circuit(&[1, 2], &gates, &[2, 2], &[9, 4, 0, 9])
}

#[test]
fn bristol_fashion_has_the_outputs_last() {
    assert_eq!(
        write(&sample(), Format::Fashion, false).unwrap(),
        "9 12\n2 1 2\n2 2 2\n\n\
        2 1 0 1 3 XOR\n2 1 3 2 9 AND\n1 1 9 4 INV\n1 1 4 5 EQW\n1 1 0 6 EQ\n1 1 1 7 EQ\n\
        2 1 9 7 8 XOR\n1 1 0 10 EQW\n1 1 8 11 EQW\n"
    );
}

#[test]
fn the_old_format_replaces_copies_and_constants() {
    use Op::*;
    let gates = [(Copy, 1, 0), (Zero, 0, 0), (One, 0, 0), (Xor, 2, 4)];
    let circuit = circuit(&[1, 1], &gates, &[4], &[3, 0, 5, 5]);
    let text = write(&circuit, Format::Old, true).unwrap();
    assert_eq!(
        text,
        "10 12\n1 1 4\n\n\
        1 1 1 4 INV\n1 1 4 2 INV\n2 1 0 0 8 XOR\n2 1 0 0 5 XOR\n1 1 5 3 INV\n2 1 2 3 10 XOR\n\
        1 1 0 6 INV\n1 1 6 9 INV\n1 1 10 7 INV\n1 1 7 11 INV\n"
    );
    let read = Circuit::parse(text.as_bytes()).unwrap();
    for bits in ["00", "01", "10", "11"] {
        let bits = transpute_circuit::Bits::from_binary(bits, 2).unwrap();
        assert_eq!(
            read.evaluate(&bits).unwrap().to_string(),
            circuit.evaluate(&bits).unwrap().to_string()
        );
    }
}

#[test]
fn the_old_format_has_a_width_for_each_party_and_the_output() {
    let one_party = circuit(&[2], &[(Op::Xor, 0, 1)], &[1], &[2]);
    assert_eq!(
        write(&one_party, Format::Old, false).unwrap(),
        "1 3\n2 0 1\n\n2 1 0 1 2 XOR\n"
    );
    let nothing = circuit(&[], &[], &[], &[]);
    assert_eq!(
        write(&nothing, Format::Old, false).unwrap(),
        "0 0\n0 0 0\n\n"
    );
}

#[test]
fn wires_keep_their_numbers_if_outputs_are_last() {
    let identity = circuit(&[1, 1], &[], &[2], &[0, 1]);
    assert_eq!(
        write(&identity, Format::Fashion, false).unwrap(),
        "0 2\n2 1 1\n1 2\n\n"
    );
    let swapped = circuit(&[1, 1], &[], &[2], &[1, 0]);
    assert_eq!(
        write(&swapped, Format::Fashion, false).unwrap(),
        "2 4\n2 1 1\n1 2\n\n1 1 1 2 EQW\n1 1 0 3 EQW\n"
    );
}

#[test]
fn runs_of_independent_ands_become_mands() {
    use Op::*;
    let gates = [
        (And, 0, 1),
        (And, 1, 1),
        (And, 0, 0),
        // This gate reads the output of the previous one, so a new run of one gate starts here.
        (And, 4, 0),
        (And, 5, 4),
        (And, 2, 0),
        (Xor, 0, 1),
        (And, 0, 1),
    ];
    let circuit = circuit(&[2], &gates, &[1], &[9]);
    let text = write(&circuit, Format::Fashion, true).unwrap();
    assert_eq!(
        text,
        "5 10\n1 2\n1 1\n\n\
        6 3 0 1 0 1 1 0 2 3 4 MAND\n2 1 4 0 5 AND\n4 2 5 2 4 0 6 7 MAND\n\
        2 1 0 1 8 XOR\n2 1 0 1 9 AND\n"
    );
    assert_eq!(Circuit::parse(text.as_bytes()).unwrap(), circuit);
}

#[test]
fn long_runs_are_split() {
    let gates: Vec<_> = (0..100_000).map(|_| (Op::And, 0, 1)).collect();
    let circuit = circuit(&[2], &gates, &[1], &[100_001]);
    let text = write(&circuit, Format::Fashion, true).unwrap();
    assert_eq!(
        text.lines().filter(|line| line.ends_with("MAND")).count(),
        2
    );
    assert_eq!(Circuit::parse(text.as_bytes()).unwrap(), circuit);
    let text = write(&circuit, Format::Fashion, false).unwrap();
    assert_eq!(Circuit::parse(text.as_bytes()).unwrap(), circuit);
}

#[test]
fn circuits_that_do_not_fit_the_old_format_are_rejected() {
    let refused = |circuit: &Circuit| write(circuit, Format::Old, false).unwrap_err().to_string();
    assert_eq!(
        refused(&circuit(&[1, 1, 1], &[], &[1], &[0])),
        "old format has at most 2 input values, the circuit has 3"
    );
    assert_eq!(
        refused(&circuit(&[1], &[], &[1, 1], &[0, 0])),
        "old format has at most 1 output values, the circuit has 2"
    );
    let constant = circuit(&[0], &[(Op::One, 0, 0)], &[1], &[0]);
    assert!(matches!(
        write(&constant, Format::Old, false),
        Err(WriteError::Constant)
    ));
}

#[test]
fn a_full_disk_is_an_io_error() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let result = sample().write(Full, Format::Fashion, &WriteOptions::default());
    assert!(
        matches!(result, Err(WriteError::Io(error)) if error.kind() == io::ErrorKind::StorageFull)
    );
}
