//! Parameterized circuits: ciphers, hashes, minimum cuts and integer arithmetic.
//!
//! Every generator documents its input and output values, their bit order, and its number of AND
//! gates. All generators use the public [`Builder`](crate::Builder).

use std::ops::RangeInclusive;

use thiserror::Error;

use crate::{Circuit, CircuitError};

mod aes;
mod arithmetic;
mod candidates;
mod min_cut;
mod sbox;
mod sha256;

pub use aes::{aes128, aes192, aes256};
pub use arithmetic::{
    MAX_NUMBER_BITS, add, divide, divide_signed, less_than, less_than_signed, millionaires,
    multiply, multiply_wide, subtract,
};
pub use candidates::{
    CandidatesOptions, MAX_CANDIDATE_BITS, MinimumShape, XorProfile, min_of_candidates,
};
pub use min_cut::{ExactMinCutOptions, MAX_VERTICES, MAX_WEIGHT_BITS, exact_min_cut};
pub use sha256::{MAX_MESSAGE_BYTES, sha256, sha256_compression, sha256_of_parts};

/// The reason why a circuit cannot be generated.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum GeneratorError {
    /// A parameter is outside its range.
    #[error("{parameter} must be from {min} to {max}, not {found}")]
    OutOfRange {
        /// The name of the parameter, for error messages.
        parameter: &'static str,
        /// The smallest valid value.
        min: usize,
        /// The largest valid value.
        max: usize,
        /// The value that the caller passed.
        found: usize,
    },
    /// The circuit would have 2^31 wires or more.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
}

fn check(
    parameter: &'static str,
    found: usize,
    range: RangeInclusive<usize>,
) -> Result<(), GeneratorError> {
    if range.contains(&found) {
        return Ok(());
    }
    Err(GeneratorError::OutOfRange {
        parameter,
        min: *range.start(),
        max: *range.end(),
        found,
    })
}

/// Unwraps the build result of a circuit without parameters, which cannot fail.
fn fixed(circuit: Result<Circuit, CircuitError>) -> Circuit {
    // A build fails only at 2^31 wires. Circuits without parameters have fewer than 200,000 wires,
    // and tests build each of them.
    circuit.expect("a fixed circuit is small")
}
