//! Tests against widely used circuit files, which are not in this repository.
//!
//! `TRANSPUTE_CIRCUITS=<folder> cargo xtask slow-tests` reads `aes_128.txt` and `sha256.txt`
//! (Bristol Fashion) from that folder.

use std::path::PathBuf;

use transpute_circuit::{
    Bits, Circuit, Op, Program,
    bristol::{self, Format, ParseLimits, WriteOptions},
};

/// Opens a reference circuit, and checks that it survives writing and reading.
fn open(name: &str) -> Circuit {
    let folder = std::env::var_os("TRANSPUTE_CIRCUITS").expect("TRANSPUTE_CIRCUITS is a folder");
    let parsed = bristol::open(PathBuf::from(folder).join(name), &ParseLimits::default()).unwrap();
    assert_eq!(parsed.format, Format::Fashion);
    let mut text = Vec::new();
    let options = WriteOptions::default();
    parsed
        .circuit
        .write(&mut text, Format::Fashion, &options)
        .unwrap();
    assert!(Circuit::parse(&text).unwrap() == parsed.circuit);
    parsed.circuit
}

/// Evaluates the circuit and its program on hexadecimal input values.
fn evaluate(circuit: &Circuit, inputs: &[&str]) -> String {
    let mut bits = Bits::new();
    bits.extend(
        inputs
            .iter()
            .map(|text| Bits::from_hex(text, text.len() * 4).unwrap()),
    );
    let expected = circuit.evaluate(&bits).unwrap();
    let program = Program::compile(circuit);
    program.check().unwrap();
    assert_eq!(program.evaluate(&bits).to_hex(), expected.to_hex());
    expected.to_hex()
}

#[test]
#[ignore = "needs TRANSPUTE_CIRCUITS: cargo xtask slow-tests"]
fn aes_128_is_that_of_fips_197() {
    let aes = open("aes_128.txt");
    assert_eq!(
        (aes.count(Op::And), aes.count(Op::Xor), aes.count(Op::Not)),
        (6_400, 28_176, 2_087)
    );
    for (key, plaintext, ciphertext) in [
        // FIPS 197, appendix C.1 and appendix B.
        (
            "000102030405060708090a0b0c0d0e0f",
            "00112233445566778899aabbccddeeff",
            "69c4e0d86a7b0430d8cdb78070b4c55a",
        ),
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "3243f6a8885a308d313198a2e0370734",
            "3925841d02dc09fbdc118597196a0b32",
        ),
    ] {
        assert_eq!(evaluate(&aes, &[key, plaintext]), ciphertext);
    }
}

#[test]
#[ignore = "needs TRANSPUTE_CIRCUITS: cargo xtask slow-tests"]
fn sha_256_is_that_of_fips_180() {
    let sha = open("sha256.txt");
    assert_eq!((sha.count(Op::And), sha.count(Op::Xor)), (22_573, 110_644));
    let start = "6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19";
    let abc = format!("61626380{}18", "0".repeat(118));
    assert_eq!(
        evaluate(&sha, &[&abc, start]),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(
        evaluate(&sha, &[&"0".repeat(128), &"0".repeat(64)]),
        "7ca51614425c3ba8ce54dd2fc2020ae7b6e574d198136d0fae7e26ccbf0be7a6"
    );
}
