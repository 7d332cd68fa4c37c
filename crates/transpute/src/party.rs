//! One party of a computation, step by step.

mod connecting;

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use tokio::task::JoinHandle;
use transpute_circuit::{Circuit, InputSplit, Program};
use transpute_driver::DriverOptions;
use transpute_garble::Scheme;
use transpute_ot::BaseOt;
use transpute_select::{Chooser, End, Workload};
use transpute_session::{
    Call, Config, ConnectionConfig, Inputs, OtChoice, OutputPolicy, Progress, Role, RunId,
    SchemeSet, SessionError,
};
use transpute_transport::{
    Fingerprint, Identity, Link, Registry, Security, Transport, TransportError, auto::Offer,
};

pub use connecting::Connecting;

use crate::{
    Choice, Connection, Error, Evaluation, Listening, Report, Results,
    auto::{Auto, Selection},
    choice::Chosen,
    connection::Run,
    known::known_path,
    path_watch, scheme,
    scheme::PathToEvaluator,
    workload::Computation,
};

/// One party of a computation.
///
/// Made with [`Party::garbler`] or [`Party::evaluator`], refined by the methods that return
/// `Self`, and brought to its peer with [`connect`](Self::connect) or [`listen`](Self::listen).
///
/// If nothing else is said: scheme `half-gates`, input value 0 belongs to the garbler and all
/// others to the evaluator, the evaluator learns the output, the link is encrypted, and the
/// transport is chosen automatically. Both parties must say the same about everything but
/// identities and addresses.
pub struct Party {
    role: Role,
    program: Arc<Program>,
    garbler_inputs: Option<Vec<usize>>,
    config: Config,
    identity: Option<Arc<Identity>>,
    peers: Vec<Fingerprint>,
    plaintext: bool,
    registry: Registry,
    choice: Choice,
    chooser: Option<Arc<dyn Chooser>>,
    offer: Option<Offer>,
    patience: Duration,
    driver: DriverOptions,
    connection: ConnectionConfig,
    /// How many runs a connection is for, and how many at a time.
    runs: (u64, u64),
    /// In a mutex so that a reference to this can be held where a task may move to another thread.
    on_progress: Mutex<Option<Watch>>,
}

/// Hears of the live counters.
type Watch = Box<dyn FnOnce(Progress) + Send>;

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

    /// Makes a party from a circuit that is compiled already.
    #[must_use]
    pub fn new(role: Role, program: Arc<Program>) -> Self {
        Self {
            role,
            program,
            garbler_inputs: None,
            config: Config::default(),
            identity: None,
            peers: Vec::new(),
            plaintext: false,
            registry: crate::auto::registry(),
            choice: Choice::Auto,
            chooser: None,
            offer: None,
            patience: Duration::ZERO,
            driver: DriverOptions::default(),
            connection: ConnectionConfig::default(),
            runs: (1, 1),
            on_progress: Mutex::new(None),
        }
    }

    /// Sets the key that this party proves to hold; an [`Arc`] of one that is used elsewhere too will do.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<Arc<Identity>>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the key that the peer must prove to hold. Called again, adds another that will do.
    #[must_use]
    pub fn peer(mut self, fingerprint: Fingerprint) -> Self {
        self.peers.push(fingerprint);
        self
    }

    /// Does without encryption and authentication; the peer must ask for the same.
    ///
    /// # Security
    /// Anyone on the path can read masked and unmasked traffic and take the place of either party.
    #[must_use]
    pub fn plaintext(mut self) -> Self {
        self.plaintext = true;
        self
    }

    /// Wishes for a transport, by name or [`Choice::Auto`].
    #[must_use]
    pub fn transport(mut self, choice: impl Into<Choice>) -> Self {
        self.choice = choice.into();
        self
    }

    /// Sets the chooser of the transport, with [`Choice::Auto`], when this party connects. Default: [`Rule`](transpute_select::Rule).
    #[must_use]
    pub fn chooser(mut self, chooser: Arc<dyn Chooser>) -> Self {
        self.chooser = Some(chooser);
        self
    }

    /// Sets among which transports the peer may choose, with [`Choice::Auto`], when this party listens. Default: all that are built in
    /// and registered.
    #[must_use]
    pub fn offer(mut self, offer: Offer) -> Self {
        self.offer = Some(offer);
        self
    }

    /// Sets the transports to choose from, in place of the built-in ones.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Sets which input values are the garbler's, counted from 0.
    #[must_use]
    pub fn garbler_inputs(mut self, values: impl Into<Vec<usize>>) -> Self {
        self.garbler_inputs = Some(values.into());
        self
    }

    /// Sets the garbling scheme: this one and no other.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.config.scheme = scheme;
        self.config.other_schemes = SchemeSet::EMPTY;
        self
    }

    /// Allows several garbling schemes, such as [`SchemeSet::RECOMMENDED`]. The party that connects chooses one that both allow, by
    /// what it knows of the path. Nothing changes if the set is empty.
    #[must_use]
    pub fn schemes(mut self, allowed: SchemeSet) -> Self {
        if let Some(first) = allowed.iter().next() {
            self.config.scheme = first;
            self.config.other_schemes = allowed;
        }
        self
    }

    /// Sets who learns the outputs.
    #[must_use]
    pub fn output_to(mut self, policy: OutputPolicy) -> Self {
        self.config.output = policy;
        self
    }

    /// Sets how the evaluator's inputs are transferred.
    #[must_use]
    pub fn oblivious_transfer(mut self, choice: OtChoice) -> Self {
        self.config.ot = choice;
        self
    }

    /// Sets what public-key oblivious transfer rests on, in single runs and on connections for many;
    /// both parties must have the same. Default: Ristretto255.
    #[must_use]
    pub fn base_ot(mut self, base: BaseOt) -> Self {
        self.config.base_ot = base;
        self.connection.base_ot = base;
        self
    }

    /// Sets on how many threads this party garbles or evaluates a batch. Default: one, besides that
    /// of the network.
    #[must_use]
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.config.threads = threads;
        self
    }

    /// Sets everything the protocol can be told at once.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets how long to try again while the peer refuses connections, for instance because it has
    /// not started yet. Default: not at all.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the timing of the driver.
    #[must_use]
    pub fn driver_options(mut self, options: DriverOptions) -> Self {
        self.driver = options;
        self
    }

    /// Sets the limits of a connection for any number of computations, and its pool of oblivious
    /// transfers; see [`Connecting::open`] and [`Listening::open`](crate::Listening::open).
    #[must_use]
    pub fn connection_config(mut self, config: ConnectionConfig) -> Self {
        self.connection = config;
        self
    }

    /// Sets how many computations a connection for any number of them is likely to be used for, `at_once` of them under way at a
    /// time: a transport that takes longer to come up may be the better one for many. Default: one.
    #[must_use]
    pub fn expect_runs(mut self, runs: u64, at_once: u64) -> Self {
        self.runs = (runs, at_once);
        self
    }

    /// Calls `watch` with the live counters when the protocol starts.
    #[must_use]
    pub fn on_progress(mut self, watch: impl FnOnce(Progress) + Send + 'static) -> Self {
        self.on_progress = Mutex::new(Some(Box::new(watch)));
        self
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

    /// Returns which input values belong to whom.
    ///
    /// # Errors
    /// [`Error::Split`] if [`garbler_inputs`](Self::garbler_inputs) named one that does not exist.
    pub fn split(&self) -> Result<InputSplit, Error> {
        let widths = self.program.input_widths();
        Ok(match &self.garbler_inputs {
            Some(values) => InputSplit::new(widths, values)?,
            None => InputSplit::first_to_garbler(widths),
        })
    }

    /// Describes the run for choosing a transport, `end` being this party's.
    ///
    /// # Errors
    /// [`Error::Split`]; [`Error::Workload`] for figures that no run has.
    pub fn workload(&self, end: End) -> Result<Workload, Error> {
        Ok(self.computation(end)?.workload()?)
    }

    /// Describes the run, `end` being this party's.
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

    /// Will connect to a listening peer at `address` (`host:port`) when run.
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
    /// [`Error::Unprotected`], [`Error::Split`], [`Error::Transport`], also if an [`offer`](Self::offer) names what is not registered.
    pub async fn listen(self, address: &str) -> Result<Listening, Error> {
        self.split()?;
        let security = self.security()?;
        let (listener, reason) = match self.choice.among(&self.registry)? {
            Chosen::Fixed(transport, reason) => {
                (transport.listen(address, &security).await?, reason)
            }
            Chosen::Automatic(mut auto) => {
                if let Some(offer) = &self.offer {
                    for name in offer.names() {
                        self.registry.get(name)?;
                    }
                    auto.offer = offer.clone();
                }
                (
                    auto.listen(address, &security).await?,
                    "chosen by the party that connected".to_owned(),
                )
            }
        };
        Ok(Listening::new(self, listener, reason))
    }

    fn security(&self) -> Result<Security, Error> {
        if self.plaintext {
            return Ok(Security::Plaintext);
        }
        let identity = (self.identity.clone()).ok_or(Error::Unprotected("identity"))?;
        if self.peers.is_empty() {
            return Err(Error::Unprotected("fingerprint of the peer"));
        }
        Ok(Security::tls(identity, self.peers.clone()))
    }

    /// Sets what the link is for, and the chooser.
    fn prepare(&self, auto: Auto) -> Result<Auto, Error> {
        Ok(Auto {
            workload: self.workload(End::Connector)?,
            chooser: self.chosen_chooser(),
            ..auto
        })
    }

    /// Begins to make what does not depend on the peer, oblivious transfer's first message above all,
    /// while this party gets connected.
    pub(crate) fn get_ready(&self, inputs: Box<dyn Inputs>) -> Result<Ready, Error> {
        let (role, program, split) = (self.role, self.program.clone(), self.split()?);
        let (config, encrypted) = (self.config.clone(), !self.plaintext);
        let call = Call {
            program,
            split,
            config,
            inputs: Some(inputs),
        };
        let spawner = Some(transpute_driver::spawn_thread as transpute_session::Spawner);
        let making = move || transpute_session::Connection::single(role, call, encrypted, spawner);
        Ok(Ready {
            connection: tokio::task::spawn_blocking(making),
            encrypted,
        })
    }

    /// Makes a link one for any number of computations.
    pub(crate) async fn stand(mut self, link: Link, why: Why) -> Result<Connection, Error> {
        let split = self.split()?;
        self.runs = (1, 1);
        let run = self.workload(End::Connector);
        let chosen = match (why.selection, run) {
            (Some(selection), Ok(run)) => Some(path_watch::Chosen {
                selection,
                chooser: (self.chosen_chooser()),
                run,
            }),
            _ => None,
        };
        Connection::new(
            link,
            self.connection,
            self.driver,
            Run {
                role: self.role,
                program: self.program,
                split,
                config: self.config,
            },
            chosen,
        )
        .await
    }

    /// Returns what chooses the transport.
    fn chosen_chooser(&self) -> Arc<dyn Chooser> {
        let default = || Arc::new(transpute_select::Rule) as Arc<dyn Chooser>;
        self.chooser.clone().unwrap_or_else(default)
    }

    pub(crate) async fn run_over(
        self,
        link: Link,
        mut why: Why,
        ready: Ready,
    ) -> Result<Results, Error> {
        let info = link.info().clone();
        if info.encrypted != ready.encrypted {
            let [ours, theirs] = match ready.encrypted {
                true => ["TLS", "plaintext"],
                false => ["plaintext", "TLS"],
            };
            return Err(TransportError::SecurityMismatch { ours, theirs }.into());
        }
        let stats = link.stats();
        let (role, batch) = (self.role, self.config.batch);
        let made = ready.connection.await;
        let (mut connection, run) = made.unwrap_or(Err(SessionError::Cancelled))?;
        let chooser = self.chosen_chooser();
        let before = stats.snapshot();
        if let Some(selection) = &mut why.selection {
            selection.update(&*chooser, &before.path);
        }
        let path = known_path(&info, &before, why.selection.as_deref(), role);
        let mut config = self.config.clone();
        let known = PathToEvaluator::of(path.as_ref(), why.selection.as_deref(), role);
        let choice = scheme::prefer(&mut config, self.program.and_count(), known);
        if path.is_some() || choice.is_some() {
            // Another plan or scheme than was begun with takes milliseconds.
            let planning = move || {
                connection.prefer_scheme(run, config.scheme)?;
                if let Some(path) = path {
                    connection.set_path(run, path)?;
                }
                Ok(connection)
            };
            let planned = tokio::task::spawn_blocking(planning).await;
            connection = planned.unwrap_or(Err(SessionError::Cancelled))?;
        }
        let watch = (self.on_progress.into_inner()).unwrap_or_else(PoisonError::into_inner);
        if let (Some(watch), Some(progress)) = (watch, connection.progress(run)) {
            watch(progress);
        }
        let (sender, outputs) = mpsc::channel();
        let outcome = transpute_driver::run(connection, run, link, self.driver, move |output| {
            // The receiver lives until the run has ended.
            let _ = sender.send(output.bits);
        })
        .await?;
        // The path is looked at while the connection is there, the bytes when the last of them have left.
        let mut path = stats.snapshot();
        if let Some(selection) = &mut why.selection {
            selection.update(&*chooser, &path.path);
        }
        outcome.closing.wait().await;
        path.bytes_sent = stats.bytes_sent();
        path.bytes_received = stats.bytes_received();
        Ok(Results {
            evaluations: Evaluation::all(&self.program, outputs.try_iter()),
            report: Report {
                role,
                reason: why.reason,
                selection: why.selection,
                scheme: choice,
                link: info,
                path,
                session: outcome.report,
                and_gates: self.program.and_count(),
                xor_gates: self.program.xor_count(),
                batch,
            },
        })
    }
}

/// A connection for one run that is being made.
pub(crate) struct Ready {
    connection: JoinHandle<Result<(transpute_session::Connection, RunId), SessionError>>,
    /// Whether it takes its link to be encrypted.
    encrypted: bool,
}

/// Why a transport was taken.
pub(crate) struct Why {
    pub(crate) reason: String,
    pub(crate) selection: Option<Box<Selection>>,
}
