//! The error type for hosts.

use thiserror::Error;

/// The reason why a host of a matrix cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostError {
    /// The list of hosts or the address has an invalid form.
    #[error("{flag}: expected {expected}, got {got:?}")]
    Invalid {
        /// The flag of the command that has the text.
        flag: &'static str,
        /// The valid form.
        expected: &'static str,
        /// The given text.
        got: String,
    },
    /// ssh cannot connect or log in, or lost the connection.
    #[error("{host}: ssh failed: {reason}")]
    Ssh {
        /// The ssh destination.
        host: String,
        /// The message of ssh, in one line.
        reason: String,
    },
    /// A command on the host did not have the expected result.
    #[error("{host}: expected {expected}, got {got:?}")]
    Unexpected {
        /// The ssh destination.
        host: String,
        /// The expected result.
        expected: String,
        /// The result.
        got: String,
    },
    /// The evaluator cannot measure the path to the garbler.
    #[error("no path from {evaluator} to {garbler} at {address}: {reason}")]
    NoPath {
        /// The ssh destination of the garbler.
        garbler: String,
        /// The ssh destination of the evaluator.
        evaluator: String,
        /// The address to which the evaluator connected.
        address: String,
        /// The message of the party that failed, in one line.
        reason: String,
    },
}
