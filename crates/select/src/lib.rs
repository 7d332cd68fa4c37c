//! Predicting every transport's run time on a path, choosing one, and saying why.
//!
//! [`Auto`] connects and measures, and caches are files. The rest has no I/O: it takes what is known of a path
//! ([`PathEstimate`]) and of a computation ([`Workload`]), and computes with a fitted [`Model`] how long each transport
//! would take, which one a [`Chooser`] picks, why, how sure that is, and
//! [whether measuring more could change it](Settlement). docs/selection.md describes the model and how well it does.
//!
//! ```
//! use transpute_select::{Candidate, Chooser, End, ModelChooser, PathEstimate, Workload};
//!
//! let path = PathEstimate::of_rtt(0.110)?;
//! let tables = Workload::transfer(End::Listener, 30_000_000)?;
//! let candidates = ["tcp", "quic", "rudp"].map(|name| Candidate::new(name).unwrap());
//! let choice = ModelChooser::default().choose(&path, &tables, &candidates)?;
//! println!("{}: {}", choice.winner(), choice.reason);
//! # Ok::<(), transpute_select::SelectError>(())
//! ```
#![forbid(unsafe_code)]

mod auto;
mod cache;
mod candidate;
mod choose;
mod cost;
mod error;
mod explain;
mod files;
mod fit;
mod law;
mod linear;
mod loss;
mod machine;
mod machines;
mod model;
mod monitor;
mod path;
mod plausible;
mod protocol;
mod rules;
mod scheme;
mod settle;
mod spec;
mod terms;
mod workload;

pub use auto::{Auto, Probed, Selection};
pub use cache::{Cache, FRESH_FOR};
pub use candidate::{Candidate, Setup};
pub use choose::{Bias, Choice, Chooser, ModelChooser, Named, Ranked};
pub use cost::{Plan, Prices};
pub use error::SelectError;
pub use explain::{Explanation, Row};
pub use fit::{Goodness, MIN_SAMPLES, Sample, fit};
pub use law::{Bound, Shape, lossy_window};
pub use loss::Loss;
pub use machine::Machine;
pub use machines::{MachineCache, MachineKey};
pub use model::{Excess, Factors, Fitted, Model, Prediction, RunSet, Spread, TimeParts};
pub use monitor::{
    LossCount, MeasuredPath, NOISE_DEVIATIONS, PathMonitor, WORSE_LOSS, WORSE_RATE, Worse,
};
pub use path::{
    Direction, Kernel, MAX_RATE, MAX_RTT_S, MIN_RATE, PathEstimate, Rate, Rtt, Source, Udp,
};
pub use protocol::{ProtocolRun, Transfers};
pub use rules::PaperRules;
pub use scheme::{
    ASSUMED_RATE, SchemeChoice, SchemeCost, SchemeLimit, SchemeQuestion, SchemeRate, SchemeTime,
    choose_scheme,
};
pub use settle::{Settlement, Unknown};
pub use spec::{Family, FirstFlight, Law, Spec};
pub use workload::{End, Parts, Workload};
