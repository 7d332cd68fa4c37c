//! Circuits made to order: ciphers, hashes, minimum cuts and integer arithmetic.
//!
//! Every generator documents its input and output values, their bit order, and its AND gates. All
//! are written with the public [`Builder`](crate::Builder).

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

/// Why a circuit cannot be made to order.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum GeneratorError {
    /// A parameter is outside its range.
    #[error("{parameter} must be from {min} to {max}, not {found}")]
    OutOfRange {
        /// Name of the parameter, in words.
        parameter: &'static str,
        /// The lowest value allowed.
        min: usize,
        /// The highest value allowed.
        max: usize,
        /// The value given.
        found: usize,
    },
    /// The circuit is too large to be represented.
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

/// Unwraps a circuit without parameters.
fn fixed(circuit: Result<Circuit, CircuitError>) -> Circuit {
    // Only 2^31 wires make a build fail; a circuit without parameters has the same number each
    // time, below 200,000, and is built in the tests.
    circuit.expect("a fixed circuit is small")
}
