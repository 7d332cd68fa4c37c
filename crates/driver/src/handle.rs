//! Handles of a connection and of its runs, for applications.

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

/// The number of a call among those of one connection's handles. It is not sent to the peer.
pub(super) type CallId = u64;

/// A command to the computing thread.
pub(super) enum Command {
    Call {
        call_id: CallId,
        role: Role,
        call: Box<Call>,
        /// Receives the result of the preparation.
        prepared: Option<oneshot::Sender<Result<(), SessionError>>>,
        done: oneshot::Sender<Result<RunOutcome, SessionError>>,
    },
    Provide {
        call_id: CallId,
        inputs: Box<dyn Inputs>,
    },
    Cancel(CallId),
    Decline(Role, Decline),
    Close,
}

/// A handle of a connection, for starting runs. Clones refer to the same connection.
///
/// The calls of one role pair with the peer's calls of the other role, in the order in which each
/// side makes them. For example, the third run that one side garbles is the third run that the
/// other side evaluates.
#[derive(Clone, Debug)]
pub struct ConnectionHandle {
    commands: mpsc::UnboundedSender<Command>,
    next_call_id: Arc<AtomicU64>,
    activity: Activity,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The outputs of each evaluation: its output values, concatenated. Empty for a party that
    /// learns no outputs.
    pub outputs: Vec<Bits>,
    /// The report of the protocol: payload bytes by purpose, and the kind of oblivious transfer.
    pub report: RunReport,
    /// Time from the call to the last output. For a prepared run, the time starts when its inputs
    /// are provided. For a party without outputs, it ends with the run.
    pub elapsed: Duration,
    /// Time from the start of [`elapsed`](Self::elapsed) to the end of the run.
    pub ended: Duration,
    /// Time from the start of [`elapsed`](Self::elapsed) to each [`Milestone`]. `None` if the run
    /// did not reach the milestone.
    pub milestones: [Option<Duration>; Milestone::COUNT],
}

impl ConnectionHandle {
    pub(super) fn new(commands: mpsc::UnboundedSender<Command>, activity: Activity) -> Self {
        Self {
            commands,
            next_call_id: Arc::default(),
            activity,
        }
    }

    /// Starts a run in which this side garbles or evaluates `program`. The run starts immediately,
    /// not when the future is first polled.
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run. Other runs of the connection continue.
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

    /// Prepares a run before the inputs are known: its tables are garbled and sent. The peer must
    /// prepare the same run.
    ///
    /// # Errors
    /// Returns [`SessionError::PreparedFull`] if the tables of all prepared runs exceed the agreed
    /// limit, and any error that ends the run or the connection.
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run. Other runs of the connection continue.
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

    /// Declines the peer's next run in which this side would have the given role. This takes the
    /// place of a call for that run.
    pub fn decline(&self, role: Role, why: Decline) {
        let _ = self.commands.send(Command::Decline(role, why));
    }

    /// Returns whether the computing thread has waited at any time since the last call of this
    /// method on any clone of this handle. It waits for frames, for room to send, or for calls.
    #[must_use]
    pub fn has_waited(&self) -> bool {
        self.activity.has_waited()
    }

    /// Returns the number of bytes of oblivious transfers, labels, tables and outputs that the link
    /// has carried in both directions together. It includes bytes of unfinished frames. It excludes
    /// other kinds of frames, because a peer can send any number of them without computing.
    #[must_use]
    pub fn carried_bytes(&self) -> u64 {
        self.activity.carried()
    }

    /// Rejects further calls of this side. The connection closes when all runs have ended.
    pub fn close(&self) {
        // Sending fails only if the connection has already ended.
        let _ = self.commands.send(Command::Close);
    }

    fn call(
        &self,
        role: Role,
        call: Call,
        prepared: Option<oneshot::Sender<Result<(), SessionError>>>,
    ) -> Running {
        let call_id = self.take_call_id();
        let (done, outcome) = oneshot::channel();
        let _ = self.commands.send(Command::Call {
            call_id,
            role,
            call: Box::new(call),
            prepared,
            done,
        });
        self.running(call_id, outcome)
    }

    pub(super) fn take_call_id(&self) -> CallId {
        self.next_call_id.fetch_add(1, Relaxed)
    }

    pub(super) fn running(
        &self,
        call_id: CallId,
        outcome: oneshot::Receiver<Result<RunOutcome, SessionError>>,
    ) -> Running {
        Running {
            call_id,
            outcome,
            commands: self.commands.clone(),
            is_over: false,
        }
    }
}

/// A running computation. Dropping it cancels the run.
#[derive(Debug)]
#[must_use = "dropping it cancels the run"]
pub struct Running {
    call_id: CallId,
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
            let _ = self.commands.send(Command::Cancel(self.call_id));
        }
    }
}

/// A run whose tables are transferred and whose inputs are not known yet. Dropping it cancels the
/// run.
#[derive(Debug)]
#[must_use = "dropping it cancels the run"]
pub struct PreparedRun {
    running: Running,
}

impl PreparedRun {
    /// Provides the inputs and starts the run. The inputs are sent immediately, not when the future
    /// is first polled.
    ///
    /// # Cancel safety
    /// Dropping the future cancels this run. Other runs of the connection continue.
    pub fn run(self, inputs: Box<dyn Inputs>) -> Running {
        let _ = self.running.commands.send(Command::Provide {
            call_id: self.running.call_id,
            inputs,
        });
        self.running
    }
}
