//! The choice of a transport for a path and a workload, with predicted times and reasons.
//!
//! Modules:
//!
//! * `rule`, `paper`, `choose`: the default [`Rule`], the [`PaperRules`], and the [`ModelChooser`],
//!   which choose a transport
//! * `spec`, `order`: transports with their profiles, and orders of them
//! * `model`, `predict`, `law`, `fit`: the cost model: parameters, predicted times, the physics,
//!   fitting
//! * `path`, `workload`, `machine`: the inputs of a prediction
//! * `monitor`: changes of the path of a connection
//! * `scheme`: the choice of a garbling scheme
//!
//! This crate opens no sockets and reads no clock. It reads model files on request only.
//! docs/selection.md describes the rule, the model, and their errors.
//!
//! ```
//! use transpute_select::{Candidate, Chooser, End, PathEstimate, Rule, Workload};
//!
//! let path = PathEstimate::of_rtt(0.110)?;
//! let tables = Workload::transfer(End::Listener, 30_000_000);
//! let candidates = ["tcp", "quic", "rudp"].map(|name| Candidate::new(name).unwrap());
//! let choice = Rule.choose(&path, &tables, &candidates)?;
//! println!("{}: {}", choice.winner(), choice.reason);
//! # Ok::<(), transpute_select::SelectError>(())
//! ```
#![forbid(unsafe_code)]

mod choose;
mod error;
mod fit;
mod goodness;
mod law;
mod local;
mod machine;
mod model;
mod monitor;
mod order;
mod paper;
mod path;
mod predict;
mod rule;
mod scheme;
mod spec;
mod workload;

pub use choose::{Candidate, Choice, Chooser, ModelChooser, Ranked};
pub use error::SelectError;
pub use fit::{MIN_CELLS, Sample, fit};
pub use goodness::FitErrors;
pub use law::{Bound, lossy_window};
pub use machine::Machine;
pub use model::{Estimate, Fitted, Model, Parameters, RunSet};
pub use monitor::PathMonitor;
pub use paper::PaperRules;
pub use path::{
    DirectionEstimate, Kernel, MAX_RATE, MAX_RTT, MIN_RATE, PathEstimate, Seconds, Source,
    UdpStatus,
};
pub use predict::{Prediction, TimeParts};
pub use rule::Rule;
pub use scheme::{SchemeChoice, SchemeCost, SchemeTime, choose_scheme};
pub use spec::Spec;
pub use transpute_units::{Bandwidth, KnownDirection, KnownPath, Loss};
pub use workload::{End, Workload};
