//! What the server asks of whoever knows circuits and the cost model.
//!
//! The testbed runs the program and knows nothing of what is in it; transports and sessions are tested with the testbed. So the
//! program that serves the page brings this along.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{row::Environment, scenario::Scenario};

/// What is counted of a circuit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CircuitFacts {
    /// AND gates.
    pub and_gates: u64,
    /// XOR gates.
    pub xor_gates: u64,
    /// Bits of each input value; the first one is the garbler's.
    pub input_widths: Vec<u32>,
    /// Bits of each output value.
    pub output_widths: Vec<u32>,
}

/// A circuit that comes with the program.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltIn {
    /// Its name without parameters.
    pub name: String,
    /// What follows the name and a colon, for people.
    pub parameters: String,
    /// What it computes.
    pub summary: String,
    /// The name with parameters, as an example.
    pub example: String,
    /// What each input value is.
    pub inputs: Vec<String>,
    /// What each output value is.
    pub outputs: Vec<String>,
}

/// Where a circuit comes from.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Source {
    /// The program, by this name.
    BuiltIn(String),
    /// An upload: a file in the server's folder, which never changes.
    Upload(PathBuf),
}

/// A transport that can be run.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportEntry {
    /// Its name.
    pub name: String,
    /// Whether the model predicts it.
    pub is_predictable: bool,
    /// Whether it is compared unless the user says otherwise.
    pub is_usual: bool,
}

/// What is to be predicted.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The circuit.
    pub source: &'a Source,
    /// The garbling scheme.
    pub scheme: &'a str,
    /// Evaluations in a run.
    pub batch: u64,
    /// The path.
    pub scenario: &'a Scenario,
    /// What is in force on paths of this machine unless a scenario has its own, if it is known.
    pub environment: Option<&'a Environment>,
    /// Transports to compare.
    pub transports: &'a [String],
}

/// What is predicted of all transports together.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What is known of the path, for people.
    pub path: String,
    /// What would be chosen; nothing if nothing can be used.
    pub pick: Option<String>,
    /// Why, for people.
    pub reason: String,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// Each transport that can be used, best first.
    pub ranking: Vec<Estimate>,
    /// The others, and why they cannot.
    pub excluded: Vec<(String, String)>,
    /// Bytes of protocol messages from garbler to evaluator.
    pub garbler_bytes: u64,
    /// Bytes of protocol messages from evaluator to garbler.
    pub evaluator_bytes: u64,
    /// Round trips from connected to output.
    pub round_trips: f64,
    /// AND gates of one evaluation.
    pub and_gates: u64,
}

/// What is predicted of a transport. Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Which one.
    pub transport: String,
    /// From the first packet of the set-up to the output.
    pub seconds: f64,
    /// With about 80 % probability it is between these.
    pub interval: (f64, f64),
    /// What bounds the rate, for people.
    pub bound: String,
    /// What the time is made of, by name.
    pub parts: Vec<(&'static str, f64)>,
}

/// Knows circuits and the cost model. Problems are one line for people.
pub trait Oracle: Send + Sync + 'static {
    /// Returns what the program is called with its version.
    fn program(&self) -> String;

    /// Returns the circuits that come with the program.
    fn circuits(&self) -> Vec<BuiltIn>;

    /// Returns the garbling schemes, the usual one first.
    fn schemes(&self) -> Vec<String>;

    /// Returns the transports.
    fn transports(&self) -> Vec<TransportEntry>;

    /// Counts a circuit.
    ///
    /// # Errors
    /// Why there is none.
    fn count(&self, source: &Source) -> Result<CircuitFacts, String>;

    /// Predicts.
    ///
    /// # Errors
    /// Why that cannot be predicted.
    fn predict(&self, question: Question<'_>) -> Result<Answer, String>;
}
