//! The thread that drives the state machine of a connection: it garbles, evaluates and handles
//! frames.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{self, error::TryRecvError},
        oneshot,
    },
    time::timeout,
};
use tracing::Span;
use transpute_circuit::Bits;
use transpute_session::{
    Frame, Milestone, Output, Progress, Progressed, RunId, SessionConnection, SessionError,
    SessionEvent,
};

use crate::{
    activity::Activity,
    handle::{CallId, Command, RunOutcome},
    send_buffer::SendBuffer,
    spans::RunSpan,
};

/// A callback for each output of a run.
pub(crate) type OnOutput = Box<dyn FnMut(Output) + Send>;

type Received = Result<Frame, SessionError>;

/// The computing thread's state: a connection, with its incoming frames, commands and send buffers.
pub(super) struct Engine {
    connection: SessionConnection,
    frames: mpsc::Receiver<Received>,
    commands: mpsc::UnboundedReceiver<Command>,
    out: SendBuffer,
    handle: Handle,
    runs: HashMap<RunId, PendingRun>,
    call_ids: HashMap<CallId, RunId>,
    /// The channel on which the application receives the peer's calls. `None` if it does not answer
    /// calls of the peer.
    calls: Option<mpsc::UnboundedSender<SessionEvent>>,
    activity: Activity,
    span: Span,
    /// Whether the first frames of the connection were passed to the writer. The peer waits for
    /// them.
    has_opened: bool,
}

/// The caller's side of a run: its channels, its span and its measurements.
struct PendingRun {
    call_id: CallId,
    span: RunSpan,
    started: Instant,
    /// Time from the call to the last output.
    elapsed: Option<Duration>,
    outputs: Vec<Bits>,
    on_output: Option<OnOutput>,
    progress: Option<Progress>,
    milestones: [Option<Duration>; Milestone::COUNT],
    prepared: Option<oneshot::Sender<Result<(), SessionError>>>,
    done: oneshot::Sender<Result<RunOutcome, SessionError>>,
}

impl PendingRun {
    fn new(
        call_id: CallId,
        span: RunSpan,
        done: oneshot::Sender<Result<RunOutcome, SessionError>>,
    ) -> Self {
        Self {
            call_id,
            span,
            started: Instant::now(),
            elapsed: None,
            outputs: Vec::new(),
            on_output: None,
            progress: None,
            milestones: [None; Milestone::COUNT],
            prepared: None,
            done,
        }
    }
}

/// The event that ended a wait of the computing thread.
enum Wakeup {
    Frame(Option<Received>),
    Command(Option<Command>),
    Sent,
}

impl Engine {
    /// Creates an engine. Call it within the Tokio runtime of the reader and the writer.
    pub(super) fn new(
        connection: SessionConnection,
        frames: mpsc::Receiver<Received>,
        commands: mpsc::UnboundedReceiver<Command>,
        out: SendBuffer,
        calls: Option<mpsc::UnboundedSender<SessionEvent>>,
        activity: Activity,
        span: Span,
    ) -> Self {
        Self {
            connection,
            frames,
            commands,
            out,
            handle: Handle::current(),
            runs: HashMap::new(),
            call_ids: HashMap::new(),
            calls,
            activity,
            span,
            has_opened: false,
        }
    }

    /// Registers a run that was called on the connection before the engine started.
    pub(super) fn register(
        &mut self,
        run: RunId,
        call_id: CallId,
        on_output: OnOutput,
        done: oneshot::Sender<Result<RunOutcome, SessionError>>,
    ) {
        let span = RunSpan::open(&self.span, run);
        let mut pending = PendingRun::new(call_id, span, done);
        pending.on_output = Some(on_output);
        pending.progress = self.connection.progress(run);
        self.call_ids.insert(call_id, run);
        self.runs.insert(run, pending);
    }

    /// Drives the connection to its end.
    pub(super) fn run(&mut self) -> Result<(), SessionError> {
        loop {
            self.execute_commands()?;
            if self.connection.hears_while_working() {
                self.take_frame()?;
            }
            let may_send = !self.out.should_flush();
            let progressed = self.connection.poll(&mut self.out.bytes, may_send)?;
            self.dispatch_events();
            // The peer cannot start before it has the first frames, so they are sent without delay.
            let opens = !self.has_opened && !self.connection.is_opening();
            self.has_opened |= opens;
            if opens || self.out.should_flush() || progressed != Progressed::Worked {
                self.out.try_send();
            }
            match progressed {
                Progressed::Worked => {}
                // `may_send` was false, and the buffer has room again, so the connection is polled
                // again.
                Progressed::Idle if !may_send && !self.out.should_flush() => {}
                Progressed::Idle => {
                    if !self.take_frame()? && !self.connection.settle()? {
                        self.wait()?;
                    }
                }
                Progressed::Finished => {
                    if self.out.can_send() {
                        self.handle.block_on(self.out.send());
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Reports the result of the connection to the peer and to all callers of pending runs.
    /// `patience` limits the time to pass the last frames to the writer.
    pub(super) fn finish(
        &mut self,
        result: Result<(), SessionError>,
        patience: Duration,
    ) -> Result<(), Arc<SessionError>> {
        let error = match result {
            Ok(()) => Arc::new(SessionError::Closed),
            Err(ref error) => {
                if let Some(last_frames) = self.connection.farewell(error) {
                    self.out.bytes.extend_from_slice(&last_frames);
                    let out = &mut self.out;
                    // Waiting requires the runtime. If the writer has stopped, the runtime may have
                    // stopped too.
                    if out.can_send() {
                        let _ =
                            (self.handle).block_on(async { timeout(patience, out.send()).await });
                    }
                }
                match result {
                    Err(error) => Arc::new(error),
                    Ok(()) => return Ok(()),
                }
            }
        };
        let failed = !matches!(*error, SessionError::Closed) || !self.runs.is_empty();
        for (_, pending) in self.runs.drain() {
            let reason = || SessionError::Connection(error.clone());
            if let Some(prepared) = pending.prepared {
                let _ = prepared.send(Err(reason()));
            }
            let _ = pending.done.send(Err(reason()));
        }
        self.commands.close();
        if failed { Err(error) } else { Ok(()) }
    }

    /// Handles all queued commands.
    fn execute_commands(&mut self) -> Result<(), SessionError> {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.execute(command)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => {
                    self.connection.close();
                    return Ok(());
                }
            }
        }
    }

    fn execute(&mut self, command: Command) -> Result<(), SessionError> {
        match command {
            Command::Call {
                call_id,
                role,
                call,
                prepared,
                done,
            } => match self.connection.call(role, *call) {
                Ok(run) => {
                    let span = RunSpan::open(&self.span, run);
                    let mut pending = PendingRun::new(call_id, span, done);
                    pending.prepared = prepared;
                    self.call_ids.insert(call_id, run);
                    self.runs.insert(run, pending);
                }
                Err(SessionError::Closed) => {
                    let _ = done.send(Err(SessionError::Closed));
                }
                Err(error) => return Err(error),
            },
            Command::Provide { call_id, inputs } => {
                if let Some(run) = self.call_ids.get(&call_id) {
                    if let Some(pending) = self.runs.get_mut(run) {
                        pending.started = Instant::now();
                    }
                    self.connection.provide(*run, inputs)?;
                }
            }
            Command::Cancel(call_id) => {
                if let Some(run) = self.call_ids.get(&call_id) {
                    self.connection.cancel(*run);
                }
            }
            Command::Decline(role, why) => match self.connection.decline(role, why) {
                // On a closed connection, the peer needs no refusal: it receives `Close` or the end
                // of the link.
                Ok(()) | Err(SessionError::Closed) => {}
                Err(error) => return Err(error),
            },
            Command::Close => self.connection.close(),
        }
        Ok(())
    }

    /// Handles the next frame if one is queued and the connection accepts input. Returns whether it
    /// did.
    fn take_frame(&mut self) -> Result<bool, SessionError> {
        if !self.connection.wants_input() {
            return Ok(false);
        }
        match self.frames.try_recv() {
            Ok(frame) => {
                // Handling a frame of oblivious transfer may take milliseconds, so the buffered
                // bytes are sent first.
                self.out.try_send();
                self.connection.handle(frame?).map(|()| true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(SessionError::Cancelled),
        }
    }

    /// Waits for a frame or a command or, if bytes are left to send, for room in the writer's
    /// queue.
    fn wait(&mut self) -> Result<(), SessionError> {
        let is_writing = self.out.can_send();
        let wants_input = self.connection.wants_input() || !is_writing;
        let accepts_commands = !self.commands.is_closed() || !self.commands.is_empty();
        let (frames, commands, out) = (&mut self.frames, &mut self.commands, &mut self.out);
        self.activity.set_waiting(true);
        let wakeup = self.handle.block_on(async {
            tokio::select! {
                biased;
                // If the writer has stopped, this branch is disabled. The reader reports the error.
                true = out.send(), if is_writing => Wakeup::Sent,
                command = commands.recv(), if accepts_commands => Wakeup::Command(command),
                frame = frames.recv(), if wants_input => Wakeup::Frame(frame),
                else => Wakeup::Frame(frames.recv().await),
            }
        });
        self.activity.set_waiting(false);
        match wakeup {
            Wakeup::Sent => Ok(()),
            Wakeup::Command(Some(command)) => self.execute(command),
            Wakeup::Command(None) => {
                self.commands.close();
                self.connection.close();
                Ok(())
            }
            Wakeup::Frame(Some(frame)) => self.connection.handle(frame?),
            Wakeup::Frame(None) => Err(SessionError::Cancelled),
        }
    }

    fn dispatch_events(&mut self) {
        while let Some(event) = self.connection.next_event() {
            match event {
                event @ (SessionEvent::Opened | SessionEvent::Called(..)) => {
                    // Only an application that answers calls of the peer receives these events.
                    if let Some(calls) = &self.calls {
                        let _ = calls.send(event);
                    }
                }
                SessionEvent::Reached(run, milestone) => {
                    if let Some(pending) = self.runs.get_mut(&run) {
                        let now = pending.started.elapsed();
                        pending.milestones[milestone as usize] = Some(now);
                        pending.span.reach(milestone, now);
                        if let Some(progress) = &pending.progress {
                            progress.reach(milestone, now);
                        }
                    }
                }
                SessionEvent::Output(run, output) => {
                    if let Some(pending) = self.runs.get_mut(&run) {
                        pending.elapsed = Some(pending.started.elapsed());
                        match &mut pending.on_output {
                            Some(on_output) => on_output(output),
                            None => pending.outputs.push(output.bits),
                        }
                    }
                }
                SessionEvent::Prepared(run) => {
                    let pending = self.runs.get_mut(&run);
                    if let Some(prepared) = pending.and_then(|pending| pending.prepared.take()) {
                        let _ = prepared.send(Ok(()));
                    }
                }
                SessionEvent::Ended(run, result) => {
                    let Some(pending) = self.runs.remove(&run) else {
                        continue;
                    };
                    self.call_ids.remove(&pending.call_id);
                    let elapsed = pending.started.elapsed();
                    let outcome = result.map(|report| RunOutcome {
                        outputs: pending.outputs,
                        report,
                        elapsed: pending.elapsed.unwrap_or(elapsed),
                        ended: elapsed,
                        milestones: pending.milestones,
                    });
                    match (pending.prepared, outcome) {
                        // The run failed before it was prepared, so the caller of `prepare` gets
                        // the error.
                        (Some(prepared), Err(error)) => {
                            let _ = prepared.send(Err(error));
                        }
                        (_, outcome) => {
                            let _ = pending.done.send(outcome);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}
