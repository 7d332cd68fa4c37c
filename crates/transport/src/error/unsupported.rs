//! Errors of options that the transport or the system does not support. Binding and connecting
//! share them.

use std::io;

use thiserror::Error;

/// The error of a transport that can neither bind nor connect with its options.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnsupportedError {
    /// The kernel does not have the given congestion control, or does not allow this process to use
    /// it.
    #[error(
        "this system offers no congestion control {name:?}: it has {available}, and unprivileged processes may use {allowed} \
         (net.ipv4.tcp_allowed_congestion_control)"
    )]
    CongestionControl {
        /// The given name of a congestion control.
        name: String,
        /// The names of the kernel's congestion controls, separated by spaces. If the names cannot
        /// be read, this is a word in brackets.
        available: String,
        /// The names of the congestion controls that every process may use, in the same form as
        /// `available`.
        allowed: String,
        /// The system's error. For an unknown name, it is "no such file".
        os: io::Error,
    },
    /// The transport has no plaintext mode.
    #[error(
        "the transport {transport} is always encrypted; for a plaintext link use the transport {instead}"
    )]
    NoPlaintext {
        /// The name of the given transport.
        transport: &'static str,
        /// The name of a transport that supports plaintext.
        instead: &'static str,
    },
}
