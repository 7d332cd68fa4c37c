//! Connections for any number of runs.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use transpute_circuit::{Bits, InputSplit, Program};
use transpute_driver::{
    ConnectionHandle, ConnectionTask, DriverOptions, PreparedRun, RunOutcome, Running, drive,
};
use transpute_select::SchemeChoice;
use transpute_session::{Config, ConnectionConfig, Inputs, Role, RunReport, SessionError};
use transpute_transport::{Link, LinkInfo, LinkStats};

use crate::{
    Error, Evaluation, PathReport,
    path_watch::{Chosen, LOOK_INTERVAL, PathWatch},
    scheme,
};

/// A connection to a peer for any number of runs, in sequence or concurrently, without another
/// handshake.
///
/// [`Connecting::open`](crate::Connecting::open) makes it on one side, and
/// [`Listening::open`](crate::Listening::open) on the other. After the first run, a run takes one
/// round trip from the evaluator's call to its output. The calls of both sides pair in order: for
/// example, one side's third call to garble pairs with the other side's third call to evaluate.
///
/// # Examples
/// ```
/// use transpute::{Bits, Builder, Party, UInt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let circuit = Builder::build(|b| {
///     let (x, y) = (b.input::<UInt<16>>(), b.input::<UInt<16>>());
///     b.output(x + y);
/// })?;
/// let listening = Party::garbler(&circuit).plaintext().listen("127.0.0.1:0").await?;
/// let connecting = Party::evaluator(&circuit)
///     .plaintext()
///     .connect(listening.local_address());
/// let (garbler, evaluator) = tokio::join!(listening.open(), connecting.open());
/// let (garbler, evaluator) = (garbler?, evaluator?);
///
/// for value in [1, 20, 300] {
///     let (ours, theirs) = tokio::join!(
///         garbler.run(Bits::from_u128(value, 16)),
///         evaluator.run(Bits::from_u128(4000, 16)),
///     );
///     ours?;
///     assert_eq!(theirs?.bits(), Bits::from_u128(4000 + value, 16));
/// }
///
/// // Tables are garbled and sent before the inputs are known.
/// let (ours, theirs) = tokio::join!(garbler.prepare(), evaluator.prepare());
/// let (ours, theirs) = tokio::join!(
///     ours?.run(Bits::from_u128(5, 16)),
///     theirs?.run(Bits::from_u128(6, 16)),
/// );
/// ours?;
/// assert_eq!(theirs?.bits(), Bits::from_u128(11, 16));
///
/// let (sent, received) = (garbler.stats(), evaluator.stats());
/// let (ours, theirs) = tokio::join!(garbler.close(), evaluator.close());
/// ours?;
/// theirs?;
/// assert_eq!(sent.bytes_sent(), received.bytes_received());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connection {
    handle: ConnectionHandle,
    task: ConnectionTask,
    link: LinkInfo,
    stats: LinkStats,
    run: Run,
    watch: Mutex<PathWatch>,
}

/// The computation that [`Connection::run`] executes. [`Connection::handle`] can run others.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) role: Role,
    pub(crate) program: Arc<Program>,
    pub(crate) split: InputSplit,
    pub(crate) config: Config,
}

/// The outcome of a run on a [`Connection`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The evaluations, in order. Empty for a party that learns no output.
    pub evaluations: Vec<Evaluation>,
    /// Time from the call to the last output. For a prepared run, the time starts when its inputs
    /// are provided. For a party without outputs, it ends with the run.
    pub elapsed: Duration,
    /// The report of the protocol: payload bytes by purpose, and the kind of oblivious transfer.
    pub report: RunReport,
}

impl Outcome {
    /// Returns all output bits of the first evaluation, or no bits for a party that learns no
    /// output.
    #[must_use]
    pub fn bits(&self) -> Bits {
        Evaluation::first_bits(&self.evaluations)
    }

    pub(crate) fn new(program: &Program, outcome: RunOutcome) -> Self {
        Self {
            evaluations: Evaluation::all(program, outcome.outputs),
            elapsed: outcome.elapsed,
            report: outcome.report,
        }
    }
}

impl Connection {
    pub(crate) async fn new(
        link: Link,
        settings: ConnectionConfig,
        options: DriverOptions,
        run: Run,
        chosen: Option<Chosen>,
    ) -> Result<Self, Error> {
        let encrypted = link.info().encrypted;
        // Opening a connection computes base OTs. This takes milliseconds, which would delay other
        // tasks of this thread.
        let making = tokio::task::spawn_blocking(move || {
            transpute_session::SessionConnection::new(settings, encrypted)
        });
        let connection = making.await.map_err(|_| SessionError::Cancelled)?;
        let (info, stats) = (link.info().clone(), link.stats());
        let watch = PathWatch::new(chosen, info.transport, run.role, stats.clone());
        let (handle, task) = drive(connection, link, options);
        Ok(Self {
            handle,
            task,
            link: info,
            stats,
            run,
            watch: Mutex::new(watch),
        })
    }

    /// Runs the computation once. `input` contains this party's input values, concatenated. Several
    /// runs may be active at the same time. A run starts when its future is first polled. To fix
    /// the order of several runs, use [`start`](Self::start).
    ///
    /// # Errors
    /// Any [`Error`]. The connection stays usable unless the link or the protocol failed.
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run only.
    pub async fn run(&self, input: Bits) -> Result<Outcome, Error> {
        self.run_batch(Box::new(vec![input])).await
    }

    /// Runs the computation once for a whole batch: [`Config::batch`] evaluations.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run only.
    pub async fn run_batch(&self, inputs: Box<dyn Inputs>) -> Result<Outcome, Error> {
        let outcome = self.wait(self.start(inputs)).await?;
        Ok(Outcome::new(&self.run.program, outcome))
    }

    /// Starts a run of the whole batch immediately, not when the result is first polled. So the
    /// order of the calls is the order of the runs. Wait for the run with [`wait`](Self::wait),
    /// which also measures the path.
    pub fn start(&self, inputs: Box<dyn Inputs>) -> Running {
        self.handle.run(
            self.run.role,
            self.run.program.clone(),
            self.run.split.clone(),
            self.next_config().0,
            inputs,
        )
    }

    /// Returns the settings of the next run. If this side connected and allows several garbling
    /// schemes, the settings prefer the scheme that is fastest on the path as measured last. The
    /// second value is the choice of that scheme, with its reason.
    #[must_use]
    pub fn next_config(&self) -> (Config, Option<SchemeChoice>) {
        let mut config = self.run.config.clone();
        let path = self.watch().as_evaluator();
        let choice = scheme::prefer(&mut config, self.run.program.and_count(), &path);
        (config, choice)
    }

    /// Waits for a run that [`start`](Self::start) or the [`handle`](Self::handle) has started.
    /// While it waits, it samples the transport's measurements of the path ten times a second.
    /// [`run`](Self::run) and [`run_batch`](Self::run_batch) call this method.
    ///
    /// # Errors
    /// The error that ended the run or the connection.
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run only.
    pub async fn wait(&self, mut running: Running) -> Result<RunOutcome, SessionError> {
        let start = Instant::now() + LOOK_INTERVAL;
        let mut looks = interval_at(start, LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                outcome = &mut running => {
                    self.watch().look();
                    return outcome;
                }
                _ = looks.tick() => self.watch().look_at_rate(),
            }
        }
    }

    /// Compares the path as measured last with the path for which the transport was chosen.
    #[must_use]
    pub fn path_report(&self) -> PathReport {
        self.watch().report()
    }

    fn watch(&self) -> MutexGuard<'_, PathWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares a run: garbles and sends its tables before its inputs are known. The peer must
    /// prepare the same run. The traffic after the inputs are known does not depend on the number
    /// of gates. Only the time to evaluate the gates does.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run only.
    pub async fn prepare(&self) -> Result<Prepared, Error> {
        let run = self
            .handle
            .prepare(
                self.run.role,
                self.run.program.clone(),
                self.run.split.clone(),
                self.next_config().0,
            )
            .await?;
        Ok(Prepared {
            run,
            program: self.run.program.clone(),
        })
    }

    /// Returns a handle that can also run other circuits on this connection, in either role.
    #[must_use]
    pub fn handle(&self) -> ConnectionHandle {
        self.handle.clone()
    }

    /// Describes the link: transport, addresses, peer, encryption.
    #[must_use]
    pub fn link(&self) -> &LinkInfo {
        &self.link
    }

    /// Returns a handle on the live counters of the link and its measurements of the path. It stays
    /// valid after the connection is closed.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        self.stats.clone()
    }

    /// Waits until all runs have ended and closes the link.
    ///
    /// # Errors
    /// The error that had already ended the connection.
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn close(self) -> Result<(), Error> {
        self.handle.close();
        Ok(self.task.wait().await?)
    }
}

/// A prepared run: its tables are transferred, and its inputs are not known yet.
#[derive(Debug)]
#[must_use = "dropping it cancels the run"]
pub struct Prepared {
    run: PreparedRun,
    program: Arc<Program>,
}

impl Prepared {
    /// Runs the computation with `input`, this party's input values concatenated.
    ///
    /// # Errors
    /// See [`Connection::run`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run only.
    pub async fn run(self, input: Bits) -> Result<Outcome, Error> {
        self.run_batch(Box::new(vec![input])).await
    }

    /// Runs all evaluations of the batch. `inputs` provides this party's inputs of each.
    ///
    /// # Errors
    /// See [`Connection::run`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run only.
    pub async fn run_batch(self, inputs: Box<dyn Inputs>) -> Result<Outcome, Error> {
        let Self { run, program } = self;
        finish(run.run(inputs), &program).await
    }
}

async fn finish(running: Running, program: &Program) -> Result<Outcome, Error> {
    Ok(Outcome::new(program, running.await?))
}
