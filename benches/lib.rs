//! Circuits and helpers shared by the benchmarks. Run them with `cargo bench -p transpute-benches`.
#![forbid(unsafe_code)]

use std::sync::Arc;

use transpute::{
    Bits, Circuit, InputSplit, Program,
    circuit::{Gate, Op, generators},
    garble::Backend,
};

/// A compiled circuit to measure.
pub struct Subject {
    /// The name in reports.
    pub name: &'static str,
    /// The circuit.
    pub program: Arc<Program>,
    /// The owners of the inputs; input value 0 is the garbler's.
    pub split: InputSplit,
    /// Whether instances are measured one at a time, even if they could be garbled side by side.
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

    /// Returns an input of the garbler that is all zeros.
    #[must_use]
    pub fn garbler_bits(&self) -> Bits {
        Bits::zeros(self.split.garbler_bits())
    }
}

/// Returns the AES back end to measure: the one that the environment names, else the fastest.
///
/// # Panics
/// If the environment names a back end that is unknown or that this CPU does not support.
#[must_use]
pub fn backend() -> Backend {
    Backend::best().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the circuits to garble: small and large ones, serial ones, and one with independent
/// gates.
///
/// # Panics
/// If a generator rejects its own documented parameters.
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
/// If `ands` is 2^29 or more.
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
