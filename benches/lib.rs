//! Circuits and helpers shared by the benchmarks. Run them with `cargo bench -p transpute-benches`.
#![forbid(unsafe_code)]

use std::sync::Arc;

use transpute::{
    Bits, Circuit, InputSplit, Program,
    circuit::{Gate, Op, generators},
    garble::Backend,
};

/// A compiled circuit whose garbling is measured.
pub struct Subject {
    /// The name of the circuit in the benchmark's report.
    pub name: &'static str,
    /// The compiled circuit.
    pub program: Arc<Program>,
    /// The owners of the input values. Input value 0 is the garbler's, and all others are the
    /// evaluator's.
    pub split: InputSplit,
    /// Whether evaluations are garbled one at a time, even if the program allows garbling them side
    /// by side.
    pub alone: bool,
}

impl Subject {
    fn new(name: &'static str, circuit: &Circuit) -> Self {
        Self {
            name,
            program: Arc::new(Program::compile(circuit)),
            split: InputSplit::first_to_garbler(circuit.input_widths()),
            alone: false,
        }
    }

    fn alone(name: &'static str, circuit: &Circuit) -> Self {
        Self {
            alone: true,
            ..Self::new(name, circuit)
        }
    }

    /// Returns input bits for the garbler, all of them 0.
    #[must_use]
    pub fn garbler_bits(&self) -> Bits {
        Bits::zeros(self.split.garbler_bits())
    }
}

/// Returns the AES back end to measure: the one that the environment variable `TRANSPUTE_AES`
/// names, or the fastest if the variable is not set.
///
/// # Panics
/// Panics if the variable names a back end that is unknown or that this CPU does not support.
#[must_use]
pub fn backend() -> Backend {
    Backend::best().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the circuits to garble: small and large ones, ones with long chains of dependent AND
/// gates, and one whose AND gates are independent.
///
/// # Panics
/// Panics if a generator rejects parameters that are in its documented range.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let mincut = generators::min_of_candidates(25_000, 20, Default::default())
        .expect("25,000 candidates are within the bounds of the generator");
    let divider = generators::divide(64).expect("64 bits are within the bounds of the generator");
    vec![
        Subject::new("aes-128", &generators::aes128()),
        Subject::new("sha-256", &generators::sha256_compression()),
        Subject::new("mincut", &mincut),
        Subject::alone("mincut-alone", &mincut),
        Subject::new("div-64", &divider),
        Subject::alone("div-64-alone", &divider),
        Subject::alone("aes-128-alone", &generators::aes128()),
        Subject::new("independent", &independent(1 << 16)),
    ]
}

/// Returns a circuit of `ands` independent AND gates, whose XOR is the output bit.
///
/// # Panics
/// Panics if `ands` is so large that the circuit would have 2^31 wires or more.
#[must_use]
pub fn independent(ands: u32) -> Circuit {
    let width = 256;
    let mut gates: Vec<Gate> = (0..ands)
        .map(|index| Gate {
            op: Op::And,
            a: index % width,
            b: width + (index / width + index) % width,
        })
        .collect();
    let first = 2 * width;
    let mut sum = first;
    for index in 1..ands {
        gates.push(Gate {
            op: Op::Xor,
            a: sum,
            b: first + index,
        });
        sum = first + ands + index - 1;
    }
    Circuit::new(vec![width, width], vec![1], gates, vec![sum])
        .expect("every operand is defined before its gate")
}
