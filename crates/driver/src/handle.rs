//! Handles of a connection and its runs, for applications.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use transpute_circuit::{Bits, InputSplit, Program};
use transpute_session::{Call, Config, Decline, Inputs, Milestone, Role, RunReport, SessionError};

use crate::activity::Activity;

/// The number of a call in this process: it has no meaning to the peer.
pub(super) type Ticket = u64;

/// What goes to the computing thread.
pub(super) enum Command {
    Call {
        ticket: Ticket,
        role: Role,
        call: Call,
        /// Hears when a prepared run is ready.
        prepared: Option<oneshot::Sender<Result<(), SessionError>>>,
        done: oneshot::Sender<Result<RunOutcome, SessionError>>,
    },
    Provide {
        ticket: Ticket,
        inputs: Box<dyn Inputs>,
    },
    Cancel(Ticket),
    Decline(Role, Decline),
    Close,
}

/// A connection, to call for runs on. Clones call on the same connection.
///
/// Calls of one role pair with the peer's calls of the other in the order in which each side makes
/// them: the third run that one side garbles is the third that the other evaluates.
#[derive(Clone, Debug)]
pub struct ConnectionHandle {
    commands: mpsc::UnboundedSender<Command>,
    tickets: Arc<AtomicU64>,
    activity: Activity,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The outputs of each evaluation, all output values concatenated; empty for a party that learns
    /// none.
    pub outputs: Vec<Bits>,
    /// What it did.
    pub report: RunReport,
    /// From the call, or from the inputs of a prepared run, until the last output was known; to the
    /// end of the run for a party that learns none.
    pub elapsed: Duration,
    /// From the call, or from the inputs of a prepared run, to the end of the run.
    pub ended: Duration,
    /// When each [`Milestone`] was passed, likewise.
    pub milestones: [Option<Duration>; Milestone::COUNT],
}

impl ConnectionHandle {
    pub(super) fn new(commands: mpsc::UnboundedSender<Command>, activity: Activity) -> Self {
        Self {
            commands,
            tickets: Arc::default(),
            activity,
        }
    }

    /// Garbles `program`. The call is made now, not when the future is first polled.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run, and no other.
    pub fn garble(
        &self,
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
        inputs: Box<dyn Inputs>,
    ) -> Running {
        self.run(Role::Garbler, program, split, config, inputs)
    }

    /// Evaluates `program`. The call is made now, not when the future is first polled.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run, and no other.
    pub fn evaluate(
        &self,
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
        inputs: Box<dyn Inputs>,
    ) -> Running {
        self.run(Role::Evaluator, program, split, config, inputs)
    }

    /// Runs `program` in one of the roles, as [`garble`](Self::garble) and
    /// [`evaluate`](Self::evaluate).
    pub fn run(
        &self,
        role: Role,
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
        inputs: Box<dyn Inputs>,
    ) -> Running {
        let call = Call::new(program, split, config);
        self.call(role, call.with_inputs(inputs), None)
    }

    /// Prepares a run, before the inputs are known: its tables are garbled and sent. The other side
    /// must prepare it too.
    ///
    /// # Errors
    /// [`SessionError::PreparedFull`], and any that ends the run or the connection.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run, and no other.
    pub async fn prepare(
        &self,
        role: Role,
        program: Arc<Program>,
        split: InputSplit,
        config: Config,
    ) -> Result<PreparedRun, SessionError> {
        let (prepared, is_prepared) = oneshot::channel();
        let call = Call::new(program, split, config);
        let running = self.call(role, call, Some(prepared));
        is_prepared.await.unwrap_or(Err(SessionError::Closed))?;
        Ok(PreparedRun { running })
    }

    /// Answers the peer's call for a run without calling for it: of the next run in this role, as a call
    /// would be.
    pub fn decline(&self, role: Role, why: Decline) {
        let _ = self.commands.send(Command::Decline(role, why));
    }

    /// Says whether this side has had nothing to compute at any time since the last call on any clone
    /// of this handle: it waited for the peer to send or to take something, or for calls.
    #[must_use]
    pub fn has_waited(&self) -> bool {
        self.activity.has_waited()
    }

    /// Returns how many bytes of oblivious transfers, labels, tables and outputs the link has carried in
    /// both directions, parts of unfinished messages included. Other messages do not count: a peer can
    /// send any number of those and compute nothing.
    #[must_use]
    pub fn carried_bytes(&self) -> u64 {
        self.activity.carried()
    }

    /// Makes no further calls: the connection ends when all runs have.
    pub fn close(&self) {
        // If nobody hears it, it is over.
        let _ = self.commands.send(Command::Close);
    }

    fn call(
        &self,
        role: Role,
        call: Call,
        prepared: Option<oneshot::Sender<Result<(), SessionError>>>,
    ) -> Running {
        let ticket = self.ticket();
        let (done, outcome) = oneshot::channel();
        let _ = self.commands.send(Command::Call {
            ticket,
            role,
            call,
            prepared,
            done,
        });
        self.running(ticket, outcome)
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.tickets.fetch_add(1, Relaxed)
    }

    pub(super) fn running(
        &self,
        ticket: Ticket,
        outcome: oneshot::Receiver<Result<RunOutcome, SessionError>>,
    ) -> Running {
        Running {
            ticket,
            outcome,
            commands: self.commands.clone(),
            is_over: false,
        }
    }
}

/// A run under way. Dropping it cancels the run.
#[derive(Debug)]
#[must_use = "dropping it cancels the run"]
pub struct Running {
    ticket: Ticket,
    outcome: oneshot::Receiver<Result<RunOutcome, SessionError>>,
    commands: mpsc::UnboundedSender<Command>,
    is_over: bool,
}

impl Future for Running {
    type Output = Result<RunOutcome, SessionError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = std::task::ready!(Pin::new(&mut self.outcome).poll(context));
        self.is_over = true;
        Poll::Ready(outcome.unwrap_or(Err(SessionError::Closed)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.commands.send(Command::Cancel(self.ticket));
        }
    }
}

/// A run whose tables are there and whose inputs are not. It can be used once; dropping it cancels
/// the run.
#[derive(Debug)]
#[must_use = "dropping it cancels the run"]
pub struct PreparedRun {
    running: Running,
}

impl PreparedRun {
    /// Gives the run its inputs. That is done now, not when the future is first polled.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run, and no other.
    pub fn run(self, inputs: Box<dyn Inputs>) -> Running {
        let _ = self.running.commands.send(Command::Provide {
            ticket: self.running.ticket,
            inputs,
        });
        self.running
    }
}
