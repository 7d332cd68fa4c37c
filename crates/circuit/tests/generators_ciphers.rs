//! Compares the AES and SHA-256 circuits with published test vectors and a reference
//! implementation.

use sha2::{Digest, Sha256};
use transpute_circuit::{
    Bits, Circuit, Op,
    generators::{
        GeneratorError, MAX_MESSAGE_BYTES, aes128, aes192, aes256, sha256, sha256_compression,
        sha256_of_parts,
    },
};

/// Evaluates a circuit on hexadecimal input values and returns the first output value.
fn run(circuit: &Circuit, inputs: &[&str]) -> String {
    assert_eq!(inputs.len(), circuit.input_widths().len());
    let mut bits = Bits::new();
    for (text, &width) in inputs.iter().zip(circuit.input_widths()) {
        bits.extend([Bits::from_hex(text, width as usize).unwrap()]);
    }
    circuit.evaluate(&bits).unwrap().to_hex()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn aes_passes_fips_197_appendix_c() {
    let plaintext = "00112233445566778899aabbccddeeff";
    let key: String = hex(&(0..32).collect::<Vec<u8>>());
    for (circuit, digits, ciphertext) in [
        (aes128(), 32, "69c4e0d86a7b0430d8cdb78070b4c55a"),
        (aes192(), 48, "dda97ca4864cdfe06eaf70a0ec0d7191"),
        (aes256(), 64, "8ea2b7ca516745bfeafc49904b496089"),
    ] {
        assert_eq!(run(&circuit, &[&key[..digits], plaintext]), ciphertext);
        assert_eq!(circuit.input_widths(), [4 * digits as u32, 128]);
    }
}

#[test]
fn aes_128_passes_fips_197_appendix_b_and_sp_800_38a() {
    let circuit = aes128();
    let key = "2b7e151628aed2a6abf7158809cf4f3c";
    for (plaintext, ciphertext) in [
        (
            "3243f6a8885a308d313198a2e0370734",
            "3925841d02dc09fbdc118597196a0b32",
        ),
        (
            "6bc1bee22e409f96e93d7e117393172a",
            "3ad77bb40d7a3660a89ecaf32466ef97",
        ),
        (
            "ae2d8a571e03ac9c9eb76fac45af8e51",
            "f5d3d58503b9699de785895a96fdbaaf",
        ),
        (
            "30c81c46a35ce411e5fbc1191a0a52ef",
            "43b1cd7f598ece23881b00e3ed030688",
        ),
        (
            "f69f2445df4f9b17ad2b417be66c3710",
            "7b0c785e27e8ad3f8223207104725dd4",
        ),
    ] {
        assert_eq!(run(&circuit, &[key, plaintext]), ciphertext);
    }
}

#[test]
fn aes_192_and_256_pass_sp_800_38a() {
    let plaintext = "6bc1bee22e409f96e93d7e117393172a";
    let key = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
    let ciphertext = "bd334f1d6e45f25ff712a214571fa5cc";
    assert_eq!(run(&aes192(), &[key, plaintext]), ciphertext);
    let key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
    let ciphertext = "f3eed1bdb5d2a03c064b5a7e3db181f8";
    assert_eq!(run(&aes256(), &[key, plaintext]), ciphertext);
}

/// Returns the largest number of AND gates on a path.
fn and_depth(circuit: &Circuit) -> u32 {
    let mut depths = vec![0_u32; circuit.input_bits() as usize];
    for gate in circuit.gates() {
        let (a, b) = (gate.a as usize, gate.b as usize);
        depths.push(match gate.op {
            Op::And => depths[a].max(depths[b]) + 1,
            Op::Xor => depths[a].max(depths[b]),
            Op::Not | Op::Copy => depths[a],
            Op::Zero | Op::One => 0,
        });
    }
    depths.into_iter().max().unwrap_or(0)
}

#[test]
fn aes_has_the_documented_counts() {
    for (circuit, ands, depth) in [
        (aes128(), 6_400, 60),
        (aes192(), 7_168, 72),
        (aes256(), 8_832, 84),
    ] {
        assert_eq!(circuit.count(Op::And), ands);
        assert_eq!(and_depth(&circuit), depth);
    }
}

#[test]
fn compression_passes_known_answers() {
    let circuit = sha256_compression();
    assert_eq!(circuit.count(Op::And), 22_397);
    assert_eq!(and_depth(&circuit), 1_607);
    assert_eq!(
        run(&circuit, &[&"0".repeat(128), &"0".repeat(64)]),
        "7ca51614425c3ba8ce54dd2fc2020ae7b6e574d198136d0fae7e26ccbf0be7a6"
    );
    let initial = "6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19";
    let abc = format!("61626380{}18", "0".repeat(118));
    assert_eq!(run(&circuit, &[&abc, initial]), ABC);
    // The 56-byte message of FIPS 180-4 needs two blocks.
    let first = format!("{}8000000000000000", hex(MESSAGE_56));
    let second = format!("{}1c0", "0".repeat(125));
    let state = run(&circuit, &[&first, initial]);
    assert_eq!(run(&circuit, &[&second, &state]), DIGEST_56);
}

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const MESSAGE_56: &[u8] = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
const DIGEST_56: &str = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";

#[test]
fn messages_hash_to_the_published_digests() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(run(&sha256(0).unwrap(), &[""]), empty);
    assert_eq!(run(&sha256(3).unwrap(), &["616263"]), ABC);
    assert_eq!(run(&sha256(56).unwrap(), &[&hex(MESSAGE_56)]), DIGEST_56);
}

#[test]
fn messages_of_all_paddings_agree_with_the_reference() {
    // Message bytes: the low bytes of a linear congruential generator.
    let message: Vec<u8> = (0..1000_u32)
        .scan(1_u32, |state, _| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((*state >> 24) as u8)
        })
        .collect();
    for length in [1, 54, 55, 57, 63, 64, 65, 119, 120, 1000] {
        let circuit = sha256(length).unwrap();
        let expected = hex(&Sha256::digest(&message[..length]));
        assert_eq!(run(&circuit, &[&hex(&message[..length])]), expected);
        let blocks = (length + 9).div_ceil(64);
        assert!(circuit.count(Op::And) <= 22_397 * blocks);
    }
}

#[test]
fn parts_are_concatenated() {
    let circuit = sha256_of_parts(&[2, 0, 1]).unwrap();
    assert_eq!(circuit.input_widths(), [16, 0, 8]);
    assert_eq!(run(&circuit, &["6162", "", "63"]), ABC);
}

#[test]
fn messages_over_the_limit_are_rejected() {
    let too_long = MAX_MESSAGE_BYTES + 1;
    let expected = GeneratorError::OutOfRange {
        parameter: "message bytes",
        min: 0,
        max: MAX_MESSAGE_BYTES,
        found: too_long,
    };
    assert_eq!(sha256(too_long).unwrap_err(), expected);
    assert!(sha256_of_parts(&[usize::MAX, 1]).is_err());
}
