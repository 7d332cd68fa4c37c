//! The two-party protocol of Transpute: agreement, oblivious transfer, streamed garbled tables,
//! outputs.
//!
//! [`Session`] is a pure state machine: frames in, bytes out, no sockets and no clock. [`run`]
//! drives one over a [`Link`](transpute_transport::Link). The messages are described in
//! `docs/protocol.md`.
//!
//! # Security
//! The garbler's inputs and the output's authenticity are protected against a **malicious**
//! evaluator; the evaluator's inputs only against a **semi-honest** garbler, which follows the
//! protocol. Implemented from published protocols, not audited; see `docs/security.md`.
#![forbid(unsafe_code)]

mod channel;
mod config;
mod config_error;
mod driver;
mod error;
mod evaluator;
mod garbler;
mod hello;
mod helpers;
mod inputs;
mod layout;
mod lead;
mod masked_output;
mod ot;
mod ot_plan;
mod pieces;
mod plan;
mod queue;
mod report;
mod schemes;
mod session;
mod standing;
mod terms;
#[cfg(test)]
mod tests;
mod traffic;
mod transcript;
mod transfers;
mod wire;

pub use config::{Config, OutputPolicy, Role};
pub use config_error::ConfigError;
pub use driver::{
    Closing, ConnectionHandle, DriverOptions, Outcome, PreparedRun, RunOutcome, Running, Standing,
    attend, run, stand,
};
pub use error::{AbortReason, Field, SessionError};
pub use hello::{HELLO_START, Proposal, is_hello_start};
pub use inputs::{InputError, Inputs, Repeat};
pub use ot_plan::{OtChoice, OtPlan};
pub use plan::{Costs, KnownPath, Planned, Prediction, Question, plan};
pub use report::{Milestone, Output, Progress, Progressed, Report, Traffic};
pub use schemes::SchemeSet;
pub use session::Session;
pub use standing::{
    Call, Connection, ConnectionConfig, Decline, Event, OPEN_START, RunId, RunReport, is_open_start,
};
pub(crate) use terms::SecretRng;
pub use traffic::ExpectedTraffic;
pub use wire::{Frame, FrameDecoder, FrameError, FrameKind, MAX_PAYLOAD};
