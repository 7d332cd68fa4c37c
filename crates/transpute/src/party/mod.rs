//! One party of a computation, step by step.

mod connecting;
mod network;
mod protocol;
mod run;

use std::sync::{Arc, Mutex};

use transpute_circuit::{Circuit, InputSplit, Program};
use transpute_driver::DriverOptions;
use transpute_select::{End, Workload};
use transpute_session::{Config, ConnectionConfig, Progress, Role};

pub use connecting::Connecting;
pub(crate) use run::Why;

use crate::{Error, Listening, workload::Computation};
use network::Network;

/// One party of a computation.
///
/// [`Party::garbler`] and [`Party::evaluator`] make it, the methods that return `Self` change its
/// settings, and [`connect`](Self::connect) or [`listen`](Self::listen) bring it to its peer.
///
/// Defaults: scheme `half-gates`; input value 0 belongs to the garbler and all others to the
/// evaluator; the evaluator learns the output; the link is encrypted; the transport is chosen
/// automatically. Identities and addresses aside, both parties must have the same settings.
pub struct Party {
    role: Role,
    program: Arc<Program>,
    garbler_inputs: Option<Vec<usize>>,
    network: Network,
    config: Config,
    connection: ConnectionConfig,
    driver: DriverOptions,
    /// The expected number of runs of a connection, and how many of them run at a time.
    runs: (u64, u64),
    /// A mutex makes [`Party`] `Sync`, which references held across an `await` need.
    on_progress: Mutex<Option<ProgressCallback>>,
}

type ProgressCallback = Box<dyn FnOnce(Progress) + Send>;

impl Party {
    /// Makes the party that garbles `circuit`.
    #[must_use]
    pub fn garbler(circuit: &Circuit) -> Self {
        Self::new(Role::Garbler, Arc::new(Program::compile(circuit)))
    }

    /// Makes the party that evaluates `circuit`.
    #[must_use]
    pub fn evaluator(circuit: &Circuit) -> Self {
        Self::new(Role::Evaluator, Arc::new(Program::compile(circuit)))
    }

    /// Makes a party from a compiled circuit.
    #[must_use]
    pub fn new(role: Role, program: Arc<Program>) -> Self {
        Self {
            role,
            program,
            garbler_inputs: None,
            network: Network::default(),
            config: Config::default(),
            connection: ConnectionConfig::default(),
            driver: DriverOptions::default(),
            runs: (1, 1),
            on_progress: Mutex::new(None),
        }
    }

    /// Returns the compiled circuit.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn settings(&self) -> &Config {
        &self.config
    }

    pub(crate) fn connection_settings(&self) -> &ConnectionConfig {
        &self.connection
    }

    pub(crate) fn driver_settings(&self) -> &DriverOptions {
        &self.driver
    }

    /// Returns the owner of each input value.
    ///
    /// # Errors
    /// [`Error::Split`] if [`garbler_inputs`](Self::garbler_inputs) contains a value that does not
    /// exist.
    pub fn split(&self) -> Result<InputSplit, Error> {
        let widths = self.program.input_widths();
        Ok(match &self.garbler_inputs {
            Some(values) => InputSplit::new(widths, values)?,
            None => InputSplit::first_to_garbler(widths),
        })
    }

    /// Describes the runs for the choice of a transport. `end` is this party's end of the link.
    ///
    /// # Errors
    /// [`Error::Split`]; [`Error::Workload`] if the figures are out of range.
    pub fn workload(&self, end: End) -> Result<Workload, Error> {
        Ok(self.computation(end)?.workload()?)
    }

    /// Describes the runs. `end` is this party's end of the link.
    ///
    /// # Errors
    /// [`Error::Split`].
    pub fn computation(&self, end: End) -> Result<Computation, Error> {
        let garbler = match (self.role, end) {
            (Role::Garbler, end) => end,
            (Role::Evaluator, End::Connector) => End::Listener,
            (Role::Evaluator, End::Listener) => End::Connector,
        };
        let split = self.split()?;
        let (runs, at_once) = self.runs;
        Ok(Computation::new(&self.program, &split, &self.config, garbler).repeated(runs, at_once))
    }

    /// Returns a party that connects to a listening peer at `address` (`host:port`) when it runs.
    #[must_use]
    pub fn connect(self, address: impl Into<String>) -> Connecting {
        Connecting {
            party: self,
            address: address.into(),
        }
    }

    /// Starts to listen at `address` (`host:port`; port 0 lets the system choose).
    ///
    /// # Errors
    /// [`Error::Unprotected`]; [`Error::Split`]; [`Error::Transport`], also if an
    /// [`offer`](Self::offer) contains a transport that is not registered.
    pub async fn listen(self, address: &str) -> Result<Listening, Error> {
        self.split()?;
        let security = self.network.security()?;
        let (listener, reason) = self.network.listen(address, &security).await?;
        Ok(Listening::new(self, listener, reason))
    }
}
