//! The entries of the catalogue, which [`entries`](super::entries) returns.

use super::{Entry, Example, Failure};
use crate::{
    Circuit,
    generators::{self, CandidatesOptions, ExactMinCutOptions, MinimumShape, XorProfile},
};

pub(super) static ENTRIES: &[Entry] = &[
    Entry {
        name: "aes128",
        parameters: "",
        summary: "AES-128 encryption of one block, key schedule included",
        inputs: &["key, 128 bits", "plaintext, 128 bits"],
        outputs: &["ciphertext, 128 bits"],
        example: Example {
            spec: "aes128",
            inputs: &[
                "000102030405060708090a0b0c0d0e0f",
                "00112233445566778899aabbccddeeff",
            ],
            outputs: &["69c4e0d86a7b0430d8cdb78070b4c55a"],
        },
        make: |_| Ok(generators::aes128()),
    },
    Entry {
        name: "aes192",
        parameters: "",
        summary: "AES-192 encryption of one block, key schedule included",
        inputs: &["key, 192 bits", "plaintext, 128 bits"],
        outputs: &["ciphertext, 128 bits"],
        example: Example {
            spec: "aes192",
            inputs: &[
                "000102030405060708090a0b0c0d0e0f1011121314151617",
                "00112233445566778899aabbccddeeff",
            ],
            outputs: &["dda97ca4864cdfe06eaf70a0ec0d7191"],
        },
        make: |_| Ok(generators::aes192()),
    },
    Entry {
        name: "aes256",
        parameters: "",
        summary: "AES-256 encryption of one block, key schedule included",
        inputs: &["key, 256 bits", "plaintext, 128 bits"],
        outputs: &["ciphertext, 128 bits"],
        example: Example {
            spec: "aes256",
            inputs: &[
                "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                "00112233445566778899aabbccddeeff",
            ],
            outputs: &["8ea2b7ca516745bfeafc49904b496089"],
        },
        make: |_| Ok(generators::aes256()),
    },
    Entry {
        name: "sha256",
        parameters: "",
        summary: "SHA-256 compression of one block, without padding",
        inputs: &["block, 512 bits", "state, 256 bits"],
        outputs: &["next state, 256 bits"],
        example: Example {
            spec: "sha256",
            inputs: &[
                "61626380000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000018",
                "6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19",
            ],
            outputs: &["ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
        },
        make: |_| Ok(generators::sha256_compression()),
    },
    Entry {
        name: "sha256",
        parameters: "<bytes>[+<bytes>...]",
        summary: "SHA-256 of a message of fixed length, in one part or more",
        inputs: &["each part of the message, 8 bits a byte"],
        outputs: &["digest, 256 bits"],
        example: Example {
            spec: "sha256:2+1",
            inputs: &["6162", "63"],
            outputs: &["ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
        },
        make: sha256_message,
    },
    Entry {
        name: "min-of-candidates",
        parameters: "<count>x<bits>[,chain][,paper]",
        summary: "the minimum of many numbers, half of them from each party",
        inputs: &[
            "the first half of the numbers, the first lowest",
            "the other numbers",
        ],
        outputs: &["the minimum"],
        example: Example {
            spec: "min-of-candidates:3x4",
            inputs: &["1", "32"],
            outputs: &["1"],
        },
        make: min_of_candidates,
    },
    Entry {
        name: "mincut",
        parameters: "",
        summary: "the minimum of 25,000 numbers of 20 bits: the MinCut benchmark of Transputation",
        inputs: &["12,500 numbers of 20 bits", "12,500 numbers of 20 bits"],
        outputs: &["the minimum, 20 bits"],
        example: Example {
            spec: "mincut",
            inputs: &[],
            outputs: &[],
        },
        make: |_| {
            Ok(generators::min_of_candidates(
                25_000,
                20,
                CandidatesOptions::default(),
            )?)
        },
    },
    Entry {
        name: "exact-min-cut",
        parameters: "<vertices>x<bits>[,shared][,argmin][,folded]",
        summary: "the minimum cut of a complete graph with private weights",
        inputs: &[
            "weights of the first half of the edges (0,1), (0,2), ..., or a share of all weights",
            "weights of the other edges, or the other share of all weights",
        ],
        outputs: &[
            "weight of the cut",
            "with argmin: one side of it, a bit for each vertex but the last",
        ],
        example: Example {
            spec: "exact-min-cut:3x4,argmin",
            inputs: &["21", "3"],
            outputs: &["03", "1"],
        },
        make: exact_min_cut,
    },
    Entry {
        name: "add",
        parameters: "<bits>",
        summary: "the sum, modulo 2^bits",
        inputs: &["a number", "a number"],
        outputs: &["the sum"],
        example: Example {
            spec: "add:16",
            inputs: &["0fff", "0001"],
            outputs: &["1000"],
        },
        make: |text| Ok(generators::add(number(text)?)?),
    },
    Entry {
        name: "sub",
        parameters: "<bits>",
        summary: "the difference, modulo 2^bits",
        inputs: &["a number", "a number"],
        outputs: &["the first number less the second"],
        example: Example {
            spec: "sub:16",
            inputs: &["1000", "0001"],
            outputs: &["0fff"],
        },
        make: |text| Ok(generators::subtract(number(text)?)?),
    },
    Entry {
        name: "mul",
        parameters: "<bits>",
        summary: "the product, modulo 2^bits",
        inputs: &["a number", "a number"],
        outputs: &["the product"],
        example: Example {
            spec: "mul:16",
            inputs: &["00ff", "0101"],
            outputs: &["ffff"],
        },
        make: |text| Ok(generators::multiply(number(text)?)?),
    },
    Entry {
        name: "mul-wide",
        parameters: "<bits>",
        summary: "the whole product of unsigned numbers",
        inputs: &["a number", "a number"],
        outputs: &["the product, twice as wide"],
        example: Example {
            spec: "mul-wide:8",
            inputs: &["ff", "ff"],
            outputs: &["fe01"],
        },
        make: |text| Ok(generators::multiply_wide(number(text)?)?),
    },
    Entry {
        name: "div",
        parameters: "<bits>",
        summary: "quotient and remainder of unsigned numbers; x / 0 is all ones",
        inputs: &["dividend", "divisor"],
        outputs: &["quotient", "remainder"],
        example: Example {
            spec: "div:16",
            inputs: &["03e8", "0007"],
            outputs: &["008e", "0006"],
        },
        make: |text| Ok(generators::divide(number(text)?)?),
    },
    Entry {
        name: "div-signed",
        parameters: "<bits>",
        summary: "quotient, rounded toward zero, and remainder of signed numbers",
        inputs: &["dividend", "divisor"],
        outputs: &["quotient", "remainder"],
        example: Example {
            spec: "div-signed:16",
            inputs: &["fc18", "0007"],
            outputs: &["ff72", "fffa"],
        },
        make: |text| Ok(generators::divide_signed(number(text)?)?),
    },
    Entry {
        name: "millionaires",
        parameters: "<bits>",
        summary: "whether the first party has more",
        inputs: &["a number", "a number"],
        outputs: &["1 if the first number is greater"],
        example: Example {
            spec: "millionaires:32",
            inputs: &["000f4241", "000f4240"],
            outputs: &["1"],
        },
        make: |text| Ok(generators::millionaires(number(text)?)?),
    },
];

fn sha256_message(text: &str) -> Result<Circuit, Failure> {
    let parts: Result<Vec<usize>, Failure> = text.split('+').map(number).collect();
    Ok(generators::sha256_of_parts(&parts?)?)
}

fn min_of_candidates(text: &str) -> Result<Circuit, Failure> {
    let mut options = CandidatesOptions::default();
    let (count, width) = pair_and_options(text, |option| {
        match option {
            "chain" => options.shape = MinimumShape::Chain,
            "paper" => options.xor = XorProfile::Paper,
            _ => return Err(Failure::Syntax),
        }
        Ok(())
    })?;
    Ok(generators::min_of_candidates(count, width, options)?)
}

fn exact_min_cut(text: &str) -> Result<Circuit, Failure> {
    let mut options = ExactMinCutOptions::default();
    let (vertices, width) = pair_and_options(text, |option| {
        match option {
            "shared" => options.shared = true,
            "argmin" => options.argmin = true,
            "folded" => options.folded = true,
            _ => return Err(Failure::Syntax),
        }
        Ok(())
    })?;
    Ok(generators::exact_min_cut(vertices, width, options)?)
}

/// Parses `<number>x<number>[,<option>...]`. Returns the two numbers, and passes each option to the
/// function `option`.
fn pair_and_options(
    text: &str,
    option: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(usize, usize), Failure> {
    let mut parts = text.split(',');
    let (first, second) =
        (parts.next().and_then(|pair| pair.split_once('x'))).ok_or(Failure::Syntax)?;
    parts.try_for_each(option)?;
    Ok((number(first)?, number(second)?))
}

/// Parses a decimal number. A number over `usize::MAX` becomes `usize::MAX`, which the generators
/// reject as out of range.
fn number(text: &str) -> Result<usize, Failure> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::Syntax);
    }
    Ok(text.parse().unwrap_or(usize::MAX))
}
