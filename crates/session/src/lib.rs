//! The two-party protocol of Transpute: agreement on settings, oblivious transfer, streaming of
//! garbled tables, and outputs.
//!
//! [`SessionConnection`] is a state machine without I/O: it takes received frames and returns bytes
//! to send. It uses no sockets and no clocks. `transpute-driver` drives it over a link.
//! `docs/protocol.md` specifies the messages.
//!
//! # Security
//! The garbler's inputs and the authenticity of the output are protected against a **malicious**
//! evaluator. The evaluator's inputs are protected only against a **semi-honest** garbler, which
//! follows the protocol. The protocols are published. This implementation has not been audited. See
//! `docs/security.md`.
#![forbid(unsafe_code)]

mod channel;
mod config;
mod config_error;
mod connection;
mod credit;
mod error;
mod evaluator;
mod garbler;
mod hello;
mod helpers;
mod inputs;
mod layout;
mod masked_output;
mod ot;
mod ot_plan;
mod pieces;
mod plan;
mod queue;
mod report;
mod schemes;
mod session;
mod terms;
#[cfg(test)]
mod tests;
mod traffic;
mod transcript;
mod transfers;
mod wire;

pub use config::{Config, OutputPolicy, Role};
pub use config_error::ConfigError;
pub use connection::{
    Call, ConnectionConfig, Decline, OPEN_FRAME_LEN, OPEN_START, RunId, RunReport,
    SessionConnection, SessionEvent, is_open_start,
};
pub use error::{AbortReason, Field, SessionError};
pub use hello::Proposal;
pub use helpers::Spawner;
pub use inputs::{InputError, Inputs, Repeat, check_input};
pub use ot_plan::{OtChoice, OtPlan};
pub use plan::{OtPrediction, Planned};
pub use report::{Milestone, Output, Progress, Progressed, Traffic};
pub use schemes::SchemeSet;
pub(crate) use terms::SecretRng;
pub use traffic::ExpectedTraffic;
pub use transpute_units::KnownPath;
pub use wire::{Frame, FrameDecoder, FrameError, FrameKind, HEADER_LEN, MAX_PAYLOAD, read_header};
