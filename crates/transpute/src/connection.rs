//! A link on which any number of computations run.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use transpute_circuit::{Bits, InputSplit, Program};
use transpute_driver::{
    ConnectionHandle, Driven, DriverOptions, PreparedRun, RunOutcome, Running, drive,
};
use transpute_select::SchemeChoice;
use transpute_session::{Config, ConnectionConfig, Inputs, Role, RunReport, SessionError};
use transpute_transport::{Link, LinkInfo, LinkStats};

use crate::{
    Error, Evaluation, PathReport,
    path_watch::{Chosen, LOOK_INTERVAL, PathWatch},
    scheme,
};

/// A link to a peer on which any number of computations run, one after the other or at the same time,
/// without another handshake.
///
/// Made with [`Connecting::open`](crate::Connecting::open) on one side and
/// [`Listening::open`](crate::Listening::open) on the other. Once it is warm, a computation takes one
/// round trip from the evaluator's call to its output. The calls of both sides pair in order: the third
/// call to garble on one side with the third to evaluate on the other.
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
/// // Garbled and sent before the inputs are known.
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
    driven: Driven,
    link: LinkInfo,
    stats: LinkStats,
    run: Run,
    watch: Mutex<PathWatch>,
}

/// What is computed on a connection unless the handle calls for something else.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) role: Role,
    pub(crate) program: Arc<Program>,
    pub(crate) split: InputSplit,
    pub(crate) config: Config,
}

/// What a computation on a [`Connection`] gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The evaluations in order; empty for a party that learns no output.
    pub evaluations: Vec<Evaluation>,
    /// From the call, or from the inputs of a prepared run, until the last output was known.
    pub elapsed: Duration,
    /// Bytes by purpose, and how the oblivious transfers were done.
    pub report: RunReport,
}

impl Outcome {
    /// Returns all output bits of the first evaluation; none for a party that learns no output.
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
        // Some milliseconds of arithmetic, which would keep other tasks of this thread waiting.
        let making = tokio::task::spawn_blocking(move || {
            transpute_session::Connection::new(settings, encrypted)
        });
        let connection = making.await.map_err(|_| SessionError::Cancelled)?;
        let (info, stats) = (link.info().clone(), link.stats());
        let watch = PathWatch::new(chosen, info.transport, run.role, stats.clone());
        let (handle, driven) = drive(connection, link, options);
        Ok(Self {
            handle,
            driven,
            link: info,
            stats,
            run,
            watch: Mutex::new(watch),
        })
    }

    /// Computes with `input`: this party's input values concatenated. It may be called again before
    /// the first call is over. The peer is called when the future is first polled; who has several in
    /// hand and cares for their order calls with the [`handle`](Self::handle).
    ///
    /// # Errors
    /// Any [`Error`]; the connection goes on unless it is one of the link or the protocol.
    ///
    /// # Cancel safety
    /// Dropping the future cancels this computation and no other.
    pub async fn run(&self, input: Bits) -> Result<Outcome, Error> {
        self.run_batch(Box::new(vec![input])).await
    }

    /// Computes the whole batch set in [`Config::batch`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// Dropping the future cancels this computation and no other.
    pub async fn run_batch(&self, inputs: Box<dyn Inputs>) -> Result<Outcome, Error> {
        let outcome = self.wait(self.start(inputs)).await?;
        Ok(Outcome::new(&self.run.program, outcome))
    }

    /// Calls for a computation of the whole batch now, not when the future is first polled, so that several calls pair in order.
    /// [`wait`](Self::wait) is how to wait for one, so that the path is measured.
    pub fn start(&self, inputs: Box<dyn Inputs>) -> Running {
        self.handle.run(
            self.run.role,
            self.run.program.clone(),
            self.run.split.clone(),
            self.next_config().0,
            inputs,
        )
    }

    /// Returns the settings of the next computation. If this side connected and several garbling schemes are allowed, the one that is
    /// the fastest with what was measured last of the path is preferred, and the second value tells why.
    #[must_use]
    pub fn next_config(&self) -> (Config, Option<SchemeChoice>) {
        let mut config = self.run.config.clone();
        let path = self.watch().to_evaluator();
        let choice = scheme::prefer(&mut config, self.run.program.and_count(), path);
        (config, choice)
    }

    /// Waits for a computation, also one that the [`handle`](Self::handle) was called for, and looks at what the transport measures of
    /// the path, ten times a second and at the end. [`run`](Self::run) and [`run_batch`](Self::run_batch) do so.
    ///
    /// # Errors
    /// Any that ends the run or the connection.
    ///
    /// # Cancel safety
    /// Dropping the future cancels this computation and no other.
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

    /// Compares the path as it was measured last with the one that the transport was chosen by.
    #[must_use]
    pub fn path_report(&self) -> PathReport {
        self.watch().report()
    }

    fn watch(&self) -> MutexGuard<'_, PathWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the tables of a computation made and sent before its inputs are known; the peer must do the
    /// same. What then remains when the inputs come does not depend on the number of gates but for the
    /// time to evaluate them.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// Dropping the future cancels this computation and no other.
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

    /// Returns what computations of other circuits, and in the other role, are called for with.
    #[must_use]
    pub fn handle(&self) -> ConnectionHandle {
        self.handle.clone()
    }

    /// Describes the link: transport, addresses, peer, encryption.
    #[must_use]
    pub fn link(&self) -> &LinkInfo {
        &self.link
    }

    /// Returns a handle on the link's live figures: bytes so far, and what the transport knows of the path. It stays valid
    /// when the connection is closed.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        self.stats.clone()
    }

    /// Waits until all computations are over and closes the link.
    ///
    /// # Errors
    /// What ended the connection before.
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn close(self) -> Result<(), Error> {
        self.handle.close();
        Ok(self.driven.wait().await?)
    }
}

/// A computation whose tables are there and whose inputs are not. It can be used once.
#[derive(Debug)]
#[must_use = "dropping it cancels the computation"]
pub struct Prepared {
    run: PreparedRun,
    program: Arc<Program>,
}

impl Prepared {
    /// Computes with `input`.
    ///
    /// # Errors
    /// As [`Connection::run`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels this computation and no other.
    pub async fn run(self, input: Bits) -> Result<Outcome, Error> {
        self.run_batch(Box::new(vec![input])).await
    }

    /// Computes the whole batch.
    ///
    /// # Errors
    /// As [`Connection::run`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels this computation and no other.
    pub async fn run_batch(self, inputs: Box<dyn Inputs>) -> Result<Outcome, Error> {
        let Self { run, program } = self;
        finish(run.run(inputs), &program).await
    }
}

async fn finish(running: Running, program: &Program) -> Result<Outcome, Error> {
    Ok(Outcome::new(program, running.await?))
}
