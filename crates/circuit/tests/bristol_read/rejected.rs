//! Files that the reader rejects.

use transpute_circuit::{
    BristolError,
    bristol::{self, Format, Found, ParseLimits, Position, Problem},
};

use crate::{Trickle, XOR, parse};

/// Checks that a text is rejected at the given line and column.
#[track_caller]
fn assert_rejected(text: &str, line: u64, column: u64, expected: Problem) {
    // The result must not depend on how many bytes a read returns.
    for result in [
        parse(text),
        bristol::read(
            Trickle::new(text),
            text.len() as u64,
            &ParseLimits::default(),
        ),
    ] {
        match result {
            Err(BristolError::Invalid { position, problem }) => {
                assert_eq!(problem, expected, "in {text:?}");
                assert_eq!(position, Position { line, column }, "in {text:?}");
            }
            other => panic!("{other:?} for {text:?}"),
        }
    }
}

fn unexpected(expected: &'static str, found: Found) -> Problem {
    Problem::Unexpected { expected, found }
}

#[test]
fn malformed_headers_are_rejected() {
    use Found::*;
    let word = |text: &str| Word(text.to_owned());
    assert_rejected("", 1, 1, unexpected("the number of gates", EndOfFile));
    assert_rejected(" \n\n ", 3, 2, unexpected("the number of gates", EndOfFile));
    assert_rejected("// 1 3", 1, 7, unexpected("the number of gates", EndOfFile));
    assert_rejected("/ 1 3", 1, 2, unexpected("a second '/'", Byte(b' ')));
    assert_rejected("1\n", 1, 2, unexpected("the number of wires", EndOfLine));
    assert_rejected(
        "1 3 4\n",
        1,
        5,
        unexpected("the end of the line", Number(4)),
    );
    assert_rejected("1 XOR\n", 1, 3, unexpected("a number", word("XOR")));
    assert_rejected(
        "1 -3\n",
        1,
        3,
        unexpected("a number or an operation", Byte(b'-')),
    );
    assert_rejected("1 3x\n", 1, 4, unexpected("a digit or a blank", Byte(b'x')));
    assert_rejected(
        "1 \u{e9}\n",
        1,
        3,
        unexpected("a number or an operation", Byte(0xc3)),
    );
    assert_rejected(
        "1 3\n",
        2,
        1,
        unexpected("the widths of the inputs", EndOfFile),
    );
    assert_rejected(
        "1 3\n// no\n",
        2,
        1,
        unexpected("a number or an operation", Byte(b'/')),
    );
    assert_rejected(
        "1 3\n1 2\n",
        3,
        1,
        unexpected("the widths of the outputs or a gate", EndOfFile),
    );
    assert_rejected(
        "1 3\n1 2 3\n",
        3,
        1,
        unexpected("the widths of the outputs or a gate", EndOfFile),
    );
    let old = "the bits of two inputs and one output";
    assert_rejected("1 3\n1 2\n2 1 0 1 2 XOR", 2, 4, unexpected(old, EndOfLine));
    assert_rejected(
        "1 3\n1 1 1 1\n2 1 0 1 2 XOR",
        2,
        7,
        unexpected(old, Number(1)),
    );
    let count = |what, expected, found| Problem::ValueCount {
        what,
        expected,
        found,
    };
    assert_rejected("1 3\n3 1 1\n1 1\n", 2, 1, count("input", 3, 2));
    assert_rejected("1 3\n2 1 1\n 1 1 1\n", 3, 2, count("output", 1, 2));
    assert_rejected("1 3\n2 1 1\n2 1 0 1 2\n", 3, 1, count("output", 2, 4));
}

#[test]
fn numbers_out_of_range_are_rejected() {
    assert_rejected("1 2147483649\n", 1, 3, Problem::NumberTooLarge);
    assert_rejected(
        "1 99999999999999999999999999\n",
        1,
        3,
        Problem::NumberTooLarge,
    );
    assert_rejected(
        "1 3\n2 1 1\n1 1\n2 1 0 4294967296 2 XOR\n",
        4,
        7,
        Problem::NumberTooLarge,
    );
    let found = 1 << 31;
    assert_rejected(
        "1 2147483648\n1 2\n1 1\n",
        1,
        3,
        Problem::TooManyWires { found },
    );
}

#[test]
fn inconsistent_headers_are_rejected() {
    let wires = |expected, found| Problem::WireCount { expected, found };
    // The first header states fewer wires than inputs and gates. The second one states more wires
    // than inputs and gates.
    assert_rejected("1 2\n2 1 1\n1 1\n2 1 0 1 2 XOR\n", 1, 3, wires(3, 2));
    assert_rejected("1 4\n2 1 1\n1 1\n2 1 0 1 3 XOR\n", 1, 3, wires(3, 4));
    // The undefined wire is an output.
    let text = "1 5\n2 1 1\n2 1 2\n2 1 0 1 4 XOR\n";
    assert_rejected(text, 3, 3, Problem::UndefinedOutput { wire: 2 });
    assert_rejected(
        "1 4\n1 1 1\n2 1 0 1 2 XOR\n",
        2,
        5,
        Problem::UndefinedOutput { wire: 3 },
    );
    let missing = |expected, found| Problem::MissingGates { expected, found };
    assert_rejected("2 4\n2 1 1\n1 1\n2 1 0 1 2 XOR\n", 5, 1, missing(2, 1));
    assert_rejected("2 4\n1 1 1\n2 1 0 1 2 XOR", 3, 14, missing(2, 1));
    let trailing = |gates| Problem::TrailingText { gates };
    assert_rejected(&format!("{XOR} 1 1 2 3 INV"), 6, 2, trailing(1));
    assert_rejected(&format!("{XOR}\n#"), 7, 1, trailing(1));
    assert_rejected("0 2\n1 1 1\n2 1 0 1 2 XOR\n", 3, 1, trailing(0));
    let outputs = |found, wires| Problem::TooManyOutputs { found, wires };
    assert_rejected("1 3\n2 1 1\n2 2 2\n2 1 0 1 2 XOR\n", 3, 5, outputs(4, 3));
    assert_rejected("1 3\n1 1 4\n2 1 0 1 2 XOR\n", 2, 5, outputs(4, 3));
}

#[test]
fn short_files_cannot_allocate_much_memory() {
    let text = "2000000000 2000000002\n1 2\n1 1\n";
    let short = |outputs| Problem::FileTooShort {
        outputs,
        bytes: text.len() as u64,
    };
    assert_rejected(text, 1, 12, short(2_000_000_000));
    let inputs = |found, limit| Problem::TooManyInputs { found, limit };
    let text = "0 2000000000\n2 1 2000000000\n1 1\n";
    assert_rejected(text, 2, 5, inputs(2_000_000_001, 1 << 24));
    let text = "1 3\n2 2 1\n1 1\n2 1 0 1 3 XOR\n";
    let mut limits = ParseLimits::default();
    limits.input_bits = 2;
    let error = bristol::read(text.as_bytes(), text.len() as u64, &limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2, column 5: the circuit has at least 3 input bits, the limit is 2"
    );
    let text = "0 2147483648\n1 2147483648\n1 1\n";
    let mut limits = ParseLimits::default();
    limits.input_bits = u32::MAX;
    let error = bristol::read(text.as_bytes(), u64::MAX, &limits).unwrap_err();
    assert!(
        error.to_string().contains("at most 2^31 - 1 wires"),
        "{error}"
    );
    let text = format!("1 3\n{}", "1 ".repeat(bristol::MAX_NUMBERS_PER_LINE + 1));
    let column = 2 * bristol::MAX_NUMBERS_PER_LINE as u64 + 1;
    let error = parse(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("line 2, column {column}: a line has at most 4194304 numbers")
    );
}

/// Checks that a gate line is rejected after a Fashion header with two inputs and two gates.
#[track_caller]
fn assert_gate_rejected(gate: &str, column: u64, problem: Problem) {
    assert_rejected(
        &format!("2 4\n2 1 1\n1 1\n{gate}\n"),
        4,
        column,
        problem.clone(),
    );
    assert_rejected(
        &format!("2 4\n2 1 1\n1 1\n1 1 0 2 INV\n\n{gate}\n"),
        6,
        column,
        problem,
    );
}

#[test]
fn gates_of_the_wrong_shape_are_rejected() {
    use Found::*;
    let arity = |operation: &str, expected, found| Problem::Arity {
        operation: operation.to_owned(),
        expected,
        found,
    };
    assert_gate_rejected("1 1 0 3 XOR", 1, arity("XOR", [2, 1], [1, 1]));
    assert_gate_rejected("2 2 0 1 3 3 AND", 3, arity("AND", [2, 1], [2, 2]));
    assert_gate_rejected("2 1 0 1 3 INV", 1, arity("INV", [1, 1], [2, 1]));
    assert_gate_rejected("2 1 0 1 3 NOT", 1, arity("NOT", [1, 1], [2, 1]));
    assert_gate_rejected("2 1 0 1 3 EQ", 1, arity("EQ", [1, 1], [2, 1]));
    assert_gate_rejected("1 2 0 1 3 EQW", 3, arity("EQW", [1, 1], [1, 2]));
    assert_gate_rejected("3 2 0 1 0 3 3 MAND", 1, arity("MAND", [4, 2], [3, 2]));
    assert_gate_rejected("0 0 MAND", 1, arity("MAND", [2, 1], [0, 0]));
    let huge = arity("MAND", [u32::MAX, 1 << 31], [1 << 31, 1 << 31]);
    assert_gate_rejected("2147483648 2147483648 0 MAND", 1, huge);
    let count = |expected, found| Problem::OperandCount { expected, found };
    assert_gate_rejected("2 1 0 3 XOR", 9, count(3, 2));
    assert_gate_rejected("2 1 0 1 2 3 XOR", 11, count(3, 4));
    assert_gate_rejected("1 1 3 INV", 7, count(2, 1));
    assert_gate_rejected("4 2 0 1 0 1 3 MAND", 15, count(6, 5));
    let sizes = "the numbers of inputs and outputs of the gate";
    assert_gate_rejected("XOR", 1, unexpected(sizes, Word("XOR".to_owned())));
    assert_gate_rejected("2 XOR", 3, unexpected(sizes, Word("XOR".to_owned())));
    assert_gate_rejected("2 1 0 1 3", 10, unexpected("an operation", EndOfLine));
    assert_gate_rejected(
        "2 1 0 1 3 XOR 2",
        15,
        unexpected("the end of the line", Byte(b'2')),
    );
    assert_gate_rejected(
        "2 1 0 1 3 XOR #",
        15,
        unexpected("the end of the line", Byte(b'#')),
    );
    assert_gate_rejected(
        "2 1 0 1 +3 XOR",
        9,
        unexpected("a number or an operation", Byte(b'+')),
    );
    assert_gate_rejected(
        "2 1 0 1 3XOR",
        10,
        unexpected("a digit or a blank", Byte(b'X')),
    );
    assert_gate_rejected("1 1 2 3 EQ", 5, Problem::BadConstant { found: 2 });
}

#[test]
fn unknown_operations_are_rejected() {
    let unknown = |found: &str, format| Problem::UnknownOperation {
        found: found.to_owned(),
        format,
    };
    for name in ["OR", "xor", "Xor", "XORR", "XO", "NAND"] {
        assert_gate_rejected(
            &format!("2 1 0 1 3 {name}"),
            11,
            unknown(name, Format::Fashion),
        );
    }
    let long = "A".repeat(1_000_000);
    assert_gate_rejected(
        &format!("2 1 0 1 3 {long}"),
        11,
        unknown(&long[..16], Format::Fashion),
    );
    for name in ["EQ", "EQW", "MAND", "FOO"] {
        let text = format!("1 3\n1 1 1\n\n1 1 0 2 {name}\n");
        assert_rejected(&text, 4, 9, unknown(name, Format::Old));
    }
}

#[test]
fn invalid_wires_are_rejected() {
    let range = |wire| Problem::WireRange { wire, wires: 4 };
    let undefined = |wire| Problem::UndefinedWire { wire };
    let redefined = |wire| Problem::RedefinedWire { wire };
    assert_gate_rejected("2 1 4 1 3 XOR", 5, range(4));
    assert_gate_rejected("2 1 0 2147483648 3 XOR", 7, range(1 << 31));
    assert_gate_rejected("2 1 0 1 4 XOR", 9, range(4));
    assert_gate_rejected("2 1 3 1 2 XOR", 5, undefined(3));
    assert_gate_rejected("2 1 0 3 2 AND", 7, undefined(3));
    assert_gate_rejected("1 1 3 3 INV", 5, undefined(3));
    assert_gate_rejected("1 1 3 3 EQW", 5, undefined(3));
    assert_gate_rejected("2 1 0 1 1 XOR", 9, redefined(1));
    assert_gate_rejected("1 1 0 0 EQ", 7, redefined(0));
    assert_rejected(
        "2 4\n2 1 1\n1 1\n1 1 0 3 INV\n1 1 0 3 INV\n",
        5,
        7,
        redefined(3),
    );
    // Gates of a MAND must not read each other's outputs, and must not define a wire twice.
    assert_gate_rejected("4 2 0 3 1 1 3 2 MAND", 7, undefined(3));
    assert_rejected(
        "1 4\n2 1 1\n1 1\n4 2 0 1 1 1 3 3 MAND\n",
        4,
        15,
        redefined(3),
    );
    assert_rejected("1 4\n2 1 1\n1 1\n4 2 0 1 1 1 3 4 MAND\n", 4, 15, range(4));
}
