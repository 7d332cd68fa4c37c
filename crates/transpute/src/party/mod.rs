//! One party of a computation: its settings, and connecting or listening.

mod connecting;
mod network;
mod protocol;
mod run;

use std::sync::{Arc, Mutex};

use transpute_circuit::{Bits, Circuit, InputSplit, Program};
use transpute_driver::DriverOptions;
use transpute_select::{End, Workload};
use transpute_session::{Config, ConnectionConfig, Progress, Role, check_input};

pub use connecting::Connecting;
pub(crate) use run::Why;

use crate::{Error, Listening, workload::Computation};
use network::Network;

/// One party of a computation.
///
/// Create it with [`Party::garbler`] or [`Party::evaluator`]. Change its settings with the methods
/// that return `Self`. Then reach the peer with [`connect`](Self::connect) or
/// [`listen`](Self::listen).
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
    /// The expected number of runs of a connection, and how many of them are active at a time.
    runs: (u64, u64),
    /// The callback of [`Party::on_progress`]. The mutex makes [`Party`] `Sync`, so that references
    /// to it can be held across an `await`.
    on_progress: Mutex<Option<ProgressCallback>>,
}

type ProgressCallback = Box<dyn FnOnce(Progress) + Send>;

impl Party {
    /// Creates the party that garbles `circuit`.
    #[must_use]
    pub fn garbler(circuit: &Circuit) -> Self {
        Self::new(Role::Garbler, Arc::new(Program::compile(circuit)))
    }

    /// Creates the party that evaluates `circuit`.
    #[must_use]
    pub fn evaluator(circuit: &Circuit) -> Self {
        Self::new(Role::Evaluator, Arc::new(Program::compile(circuit)))
    }

    /// Creates a party from a compiled circuit.
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
    /// Returns [`Error::Split`] if [`garbler_inputs`](Self::garbler_inputs) contains the number of
    /// an input value that the circuit does not have.
    pub fn split(&self) -> Result<InputSplit, Error> {
        let widths = self.program.input_widths();
        Ok(match &self.garbler_inputs {
            Some(values) => InputSplit::new(widths, values)?,
            None => InputSplit::first_to_garbler(widths),
        })
    }

    /// Returns the workload of the expected runs, for the choice of a transport. `end` is this
    /// party's end of the link.
    ///
    /// # Errors
    /// Returns [`Error::Split`] as [`split`](Self::split) does. Returns [`Error::Workload`] if a
    /// figure of the workload is out of range.
    pub fn workload(&self, end: End) -> Result<Workload, Error> {
        Ok(self.computation(end)?.workload()?)
    }

    /// Returns the properties of the expected runs, such as their bytes. `end` is this party's end
    /// of the link.
    ///
    /// # Errors
    /// Returns [`Error::Split`] as [`split`](Self::split) does.
    pub fn computation(&self, end: End) -> Result<Computation, Error> {
        let garbler = match (self.role, end) {
            (Role::Garbler, end) => end,
            (Role::Evaluator, End::Connector) => End::Listener,
            (Role::Evaluator, End::Listener) => End::Connector,
        };
        let split = self.split()?;
        let (runs, at_once) = self.runs;
        let one = Computation::new(&self.program, &split, &self.config, garbler);
        Ok((one.repeated(runs, at_once)).encrypted(self.network.is_encrypted()))
    }

    /// Sets the `address` (`host:port`) of the listening peer. The party connects when
    /// [`Connecting::run`] or another method of [`Connecting`] is called.
    #[must_use]
    pub fn connect(self, address: impl Into<String>) -> Connecting {
        Connecting {
            party: self,
            address: address.into(),
        }
    }

    /// Checks that `input` has as many bits as this party's input values.
    pub(crate) fn check_input(&self, input: &Bits) -> Result<(), Error> {
        let split = self.split()?;
        let width = match self.role {
            Role::Garbler => split.garbler_bits(),
            Role::Evaluator => split.evaluator_bits(),
        };
        Ok(check_input(input, 0, width)?)
    }

    /// Starts to listen at `address` (`host:port`; with port 0, the system chooses a free port).
    ///
    /// # Errors
    /// Returns [`Error::Unprotected`] if the party has neither an identity and a pinned peer nor
    /// plaintext enabled. Returns [`Error::Split`] as [`split`](Self::split) does. Returns
    /// [`Error::Transport`] if the party cannot listen or its [`offer`](Self::offer) contains a
    /// transport that is not registered.
    pub async fn listen(self, address: &str) -> Result<Listening, Error> {
        self.split()?;
        let security = self.network.security()?;
        let (listener, reason) = self.network.listen(address, &security).await?;
        Ok(Listening::new(self, listener, reason))
    }
}
