//! Tests of values, constants, error messages and hostile sources.

use std::{sync::mpsc, thread, time::Duration};

use garble_lang::literal::Literal;
use proptest::prelude::*;
use transpute_circuit::Bits;
use transpute_language::{
    CompileOptions, Compiled, LanguageError, MAX_SOURCE_BYTES, Panics, compile,
};

fn compiled(source: &str) -> Compiled {
    compile(source, &CompileOptions::default()).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn refused(source: &str) -> String {
    let error = compile(source, &CompileOptions::default()).unwrap_err();
    error.to_string()
}

fn bits(text: &str) -> Bits {
    let digits = text.bytes().filter(|&byte| byte != b' ');
    digits.map(|byte| byte == b'1').collect()
}

#[test]
fn values_start_with_the_first_element_and_its_least_significant_bit() {
    let source = "
        struct Pair { small: u8, flag: bool }
        enum Kind { None, One(u8), Two }
        pub fn main(a: [u8; 2], pair: Pair, kind: Kind) -> (Pair, [u8; 2], Kind, i16) {
            (pair, [a[1], a[0]], kind, -2i16)
        }";
    let compiled = compiled(source);
    assert_eq!(compiled.inputs, ["a: [u8; 2]", "pair: Pair", "kind: Kind"]);
    assert_eq!(compiled.circuit.input_widths(), [16, 9, 10]);
    assert_eq!(compiled.outputs, ["(Pair, [u8; 2], Kind, i16)"]);
    // 3 and 5; 1 and true; variant 1 with the field 1, most significant bit first.
    let inputs = "11000000 10100000  10000000 1  10 00000001";
    let expected = "10000000 1  10100000 11000000  10 00000001  0111111111111111";
    let output = compiled.circuit.evaluate(&bits(inputs)).unwrap();
    assert_eq!(output, bits(expected));
}

#[test]
fn fields_of_structs_are_in_the_order_of_their_declaration() {
    let source = "
        struct Outer { z: u8, inner: [Inner; 2], a: bool }
        struct Inner { y: bool, x: u8 }
        pub fn main(outer: Outer, other: u8) -> (u8, bool, Inner, bool) {
            (outer.z ^ other, outer.inner[0].y, outer.inner[1], outer.a)
        }";
    let circuit = compiled(source).circuit;
    assert_eq!(circuit.input_widths(), [27, 8]);
    let inputs = "11100000 1 00000000 0 01010000 0  00000001";
    let output = circuit.evaluate(&bits(inputs)).unwrap();
    assert_eq!(output, bits("11100001 1 0 01010000 0"));
}

#[test]
fn a_single_array_is_a_value_for_each_element() {
    let compiled = compiled("pub fn main(bids: [u16; 3]) -> u16 { bids[0] ^ bids[1] ^ bids[2] }");
    assert_eq!(compiled.circuit.input_widths(), [16, 16, 16]);
    assert_eq!(compiled.inputs[2], "bids[2]: u16");
}

#[test]
fn values_without_bits_and_constant_results_are_converted() {
    let compiled =
        compiled("pub fn main(a: (), _b: [u8; 0]) -> (bool, (), bool) { (true, a, false) }");
    assert_eq!(compiled.circuit.input_widths(), [0, 0]);
    let output = compiled.circuit.evaluate(&bits("")).unwrap();
    assert_eq!(output, bits("10"));
}

#[test]
fn functions_and_constants_are_selected_by_name() {
    let source = "
        const LENGTH: usize = HOST::LENGTH;
        const BONUS: i16 = GUEST::BONUS;
        pub fn main(x: u8) -> u8 { x }
        pub fn total(x: [i16; LENGTH], y: i16) -> i16 {
            let mut sum = y + BONUS;
            for element in x { sum = sum + element; }
            sum
        }";
    let options = |constants: &[(&str, &str)]| {
        let mut options = CompileOptions::default();
        options.function = "total".to_owned();
        options.constants = (constants.iter())
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        options.panics = Panics::Ignore;
        options
    };
    let given = options(&[("HOST::LENGTH", "3"), ("GUEST::BONUS", "-7")]);
    let compiled = compile(source, &given).unwrap();
    assert_eq!(compiled.circuit.input_widths(), [48, 16]);
    let sum = |numbers: [i16; 4]| {
        let bits = numbers
            .iter()
            .rev()
            .fold(0, |all, &n| all << 16 | u128::from(n.cast_unsigned()));
        compiled
            .circuit
            .evaluate(&Bits::from_u128(bits, 64))
            .unwrap()
    };
    let expected = Bits::from_u128(u128::from((10_i16 + 20 - 300 + 4 - 7).cast_unsigned()), 16);
    assert_eq!(sum([10, 20, -300, 4]), expected);

    for (constants, fragment) in [
        (
            &[("HOST::LENGTH", "3")][..],
            "3:28: no value is given for GUEST::BONUS",
        ),
        (
            &[("HOST::LENGTH", "-3")],
            "constant HOST::LENGTH: \"-3\" is not a usize",
        ),
        (&[("HOST::LENGTH", "x(")], "is not a usize"),
        (
            &[("HOST::WIDTH", "3")],
            "constant HOST::WIDTH: the program does not declare it",
        ),
        (&[("LENGTH", "3")], "constant LENGTH: expected PARTY::NAME"),
        (
            &[("HOST::LENGTH", "3"), ("HOST::LENGTH", "3")],
            "is given twice",
        ),
    ] {
        let error = compile(source, &options(constants))
            .unwrap_err()
            .to_string();
        assert!(error.contains(fragment), "{error}");
    }
    let mut unknown = CompileOptions::default();
    unknown.function = "mean".to_owned();
    let error = compile(source, &unknown).unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no function \"mean\"; there are main, total"
    );
}

#[test]
fn errors_have_a_line_and_a_column() {
    for (source, message) in [
        ("pub fn main(x: u8) -> u8 {\n  x + y\n}", "2:7: "),
        ("pub fn main(x: u8) -> u16 { x }", "1:28: "),
        ("pub fn main(x: u8) -> u8 {", "1:1: "),
        ("pub fn main(x: u8) -> u8 { x # x }", "1:30: "),
        ("", "there is no function \"main\"; there are "),
        ("pub fn main() -> u8 { 1u8 }", "1:1: "),
        (
            "fn f(x: u8) -> u8 { x }\npub fn main(x: u8) -> u8 { x }",
            "1:1: ",
        ),
        ("pub fn main(x: u8) -> u8 { main(x) }", "1:1: "),
        (
            "struct A { b: [B; 2] }\nenum B { C(A), D }\npub fn main(x: u8) -> u8 { x }",
            "type ",
        ),
        (
            "pub fn main(x: [u8; 18446744073709551615], y: u8) -> u8 { y }",
            "a value of type [u8; 18446744073709551615] has more than 16777216 bits",
        ),
    ] {
        let error = refused(source);
        assert!(error.starts_with(message), "{source}: {error}");
        assert!(!error.contains('\n') && error.len() < 400, "{error}");
    }
    let many = refused("pub fn main(x: u8) -> u8 { a }\npub fn f(x: u8) -> u8 { b }");
    assert!(many.starts_with("1:"), "{many}");
    assert!(many.ends_with("(and one more mistake)"), "{many}");
}

#[test]
fn a_panic_of_the_compiler_is_an_error() {
    // The compiler divides by zero on an assignment to an element without bits.
    let source = "pub fn main(x: u8) -> u8 { let mut a = [[0u8; 0]; 2]; a[1] = [0u8; 0]; x }";
    let error = compile(source, &CompileOptions::default()).unwrap_err();
    assert!(matches!(error, LanguageError::Fault(_)), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("the compiler of the language failed: ")
    );

    let long = " ".repeat(MAX_SOURCE_BYTES + 1);
    assert!(matches!(
        compile(&long, &CompileOptions::default()),
        Err(LanguageError::TooLong { .. })
    ));
}

#[test]
fn deep_sources_do_not_overflow_the_stack() {
    let around = |open: &str, inside: &str, close: &str| {
        let depth = (MAX_SOURCE_BYTES - 100) / (open.len() + close.len());
        format!(
            "pub fn main(x: u8) -> u8 {{ {}{inside}{} }}",
            open.repeat(depth),
            close.repeat(depth)
        )
    };
    for (source, is_taken) in [
        (around("!", "x", ""), true),
        (around("x ^ ", "x", ""), true),
        (around("/* ", "x", " */"), false),
        (around("if true { x } else ", "{ x }", ""), true),
        (around("(", "x", ")"), false),
        (around("[", "x", "]"), false),
    ] {
        let compiled = compile(&source, &CompileOptions::default());
        let start: String = source.chars().take(60).collect();
        assert_eq!(compiled.is_ok(), is_taken, "{start}: {compiled:?}");
    }
}

/// Evaluates a program with the compiler's own evaluator and as a converted circuit.
fn evaluated(source: &str, x: u16, y: i16) -> (Option<u64>, Vec<u128>) {
    use garble_lang::token::{SignedNumType, UnsignedNumType};

    let program = garble_lang::compile(source).unwrap();
    let mut evaluator = program.evaluator();
    evaluator.set_u16(x);
    evaluator.set_i16(y);
    let output = evaluator.run().unwrap();
    let theirs = output.into_literal().ok().map(|literal| match literal {
        Literal::NumUnsigned(number, UnsignedNumType::U32) => number,
        Literal::NumSigned(number, SignedNumType::I32) => number as u64 & 0xffff_ffff,
        other => panic!("{other}"),
    });
    let circuit = compiled(source).circuit;
    let inputs = u128::from(y.cast_unsigned()) << 16 | u128::from(x);
    let ours = circuit.evaluate(&Bits::from_u128(inputs, 32)).unwrap();
    let ours = circuit.split_outputs(&ours);
    let number = |value: &Bits| {
        (value.iter().enumerate()).fold(0, |number, (index, bit)| number | u128::from(bit) << index)
    };
    (theirs, ours.iter().map(number).collect())
}

/// Compiles on another thread. If the compiler does not terminate within the timeout, the test
/// fails and reports the source.
fn compile_with_timeout(source: &str) -> Result<Compiled, LanguageError> {
    let (sender, receiver) = mpsc::channel();
    let owned = source.to_owned();
    // After a timeout the receiver is gone, so sending may fail.
    thread::spawn(move || drop(sender.send(compile(&owned, &CompileOptions::default()))));
    let compiled = receiver.recv_timeout(Duration::from_secs(120));
    compiled.unwrap_or_else(|_| panic!("the compiler does not terminate on {source:?}"))
}

/// Returns the largest number in a text as its number of digits and its digits. Such pairs are
/// ordered like the numbers.
fn largest_number(text: &str) -> (usize, &str) {
    (text.split(|c: char| !c.is_ascii_digit()))
        .map(|digits| (digits.len(), digits))
        .max()
        .unwrap_or_default()
}

#[test]
fn unterminated_comments_are_errors() {
    let main = "pub fn main(x: u8) -> u8 { x }";
    for (source, at) in [
        (format!("{main}\n  /* the end"), "2:3"),
        ("/*".to_owned(), "1:1"),
    ] {
        let error = compile_with_timeout(&source).unwrap_err().to_string();
        assert_eq!(error, format!("{at}: this comment is not terminated"));
    }
    compiled(&format!("/* /* the end */ */ {main} // /*"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_time: 600_000, ..ProptestConfig::default() })]

    #[test]
    fn circuits_agree_with_the_evaluator_of_the_language(
        x: u16, y: i16, op in prop::sample::select(vec!["+", "-", "*", "/", "%", "^", "&", "|"]), signed: bool,
    ) {
        let ty = if signed { "i32" } else { "u32" };
        let source = format!(
            "pub fn main(x: u16, y: i16) -> {ty} {{ ((x as {ty}) {op} (y as {ty})) + 5{ty} }}"
        );
        let (theirs, ours) = evaluated(&source, x, y);
        match theirs {
            Some(number) => {
                prop_assert_eq!(ours[0], u128::from(number));
                prop_assert!(ours.get(1).is_none_or(|&panicked| panicked == 0));
            }
            None => prop_assert_eq!(ours[1], 1),
        }
    }

    #[test]
    fn random_sources_terminate_without_a_crash(source in "(pub |fn |main|struct |enum |const |let |mut |if |else |for |in |match |[a-f]|u8|u16|bool|usize|[0-9]|::|->|=>|\\.\\.|[ \n(){}\\[\\],;:+*/=<>!&|^#\"'_-]){0,60}") {
        let _ = compile_with_timeout(&source);
    }

    // No digits are inserted, because a larger loop bound could make the compiler run for
    // arbitrarily long.
    #[test]
    fn mutated_programs_terminate_without_a_crash(at in 0_usize..900, length in 0_usize..8, text in "[ -/:-~\n]{0,6}") {
        let whole = include_str!("../../../examples/programs/survey_histogram.garble.rs");
        let start = at.min(whole.len());
        let end = (start + length).min(whole.len());
        let spoiled = format!("{}{text}{}", &whole[..start], &whole[end..]);
        // Cases in which a deletion joins digits to a larger number are skipped for the same
        // reason.
        prop_assume!(largest_number(&spoiled) <= largest_number(whole));
        if let Err(error) = compile_with_timeout(&spoiled) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
