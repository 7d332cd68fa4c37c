//! The computing thread.

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
    Connection, Event, Frame, Milestone, Output, Progress, Progressed, RunId, SessionError,
};

use crate::{
    activity::Activity,
    handle::{Command, RunOutcome, Ticket},
    outbox::Outbox,
    spans::RunSpan,
};

/// Is called with each output of a run.
pub(crate) type OnOutput = Box<dyn FnMut(Output) + Send>;

type Received = Result<Frame, SessionError>;

/// A connection with what comes to it and goes from it.
pub(super) struct Engine {
    connection: Connection,
    frames: mpsc::Receiver<Received>,
    orders: mpsc::UnboundedReceiver<Command>,
    out: Outbox,
    handle: Handle,
    runs: HashMap<RunId, Waiting>,
    tickets: HashMap<Ticket, RunId>,
    /// The receiver of the calls of the peer.
    calls: Option<mpsc::UnboundedSender<Event>>,
    activity: Activity,
    span: Span,
    /// Whether the first frames, which the peer waits for, have been handed to the writer.
    has_opened: bool,
}

/// Who waits for a run.
struct Waiting {
    ticket: Ticket,
    span: RunSpan,
    started: Instant,
    /// Until the last output.
    elapsed: Option<Duration>,
    outputs: Vec<Bits>,
    on_output: Option<OnOutput>,
    progress: Option<Progress>,
    milestones: [Option<Duration>; Milestone::COUNT],
    prepared: Option<oneshot::Sender<Result<(), SessionError>>>,
    done: oneshot::Sender<Result<RunOutcome, SessionError>>,
}

impl Waiting {
    fn new(
        ticket: Ticket,
        span: RunSpan,
        done: oneshot::Sender<Result<RunOutcome, SessionError>>,
    ) -> Self {
        Self {
            ticket,
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

/// The reason why a wait ended.
enum Woken {
    Frame(Option<Received>),
    Order(Option<Command>),
    Sent,
}

impl Engine {
    /// Must be called within the runtime of the tasks at the other ends.
    pub(super) fn new(
        connection: Connection,
        frames: mpsc::Receiver<Received>,
        orders: mpsc::UnboundedReceiver<Command>,
        out: Outbox,
        calls: Option<mpsc::UnboundedSender<Event>>,
        activity: Activity,
        span: Span,
    ) -> Self {
        Self {
            connection,
            frames,
            orders,
            out,
            handle: Handle::current(),
            runs: HashMap::new(),
            tickets: HashMap::new(),
            calls,
            activity,
            span,
            has_opened: false,
        }
    }

    /// Follows a run that was called for on the connection before it is driven.
    pub(super) fn follow(
        &mut self,
        run: RunId,
        ticket: Ticket,
        on_output: OnOutput,
        done: oneshot::Sender<Result<RunOutcome, SessionError>>,
    ) {
        let span = RunSpan::open(&self.span, run);
        let mut waiting = Waiting::new(ticket, span, done);
        waiting.on_output = Some(on_output);
        waiting.progress = self.connection.progress(run);
        self.tickets.insert(ticket, run);
        self.runs.insert(run, waiting);
    }

    /// Runs the connection to its end.
    pub(super) fn run(&mut self) -> Result<(), SessionError> {
        loop {
            self.take_orders()?;
            if self.connection.hears_while_working() {
                self.take_frame()?;
            }
            let may_send = !self.out.has_enough();
            let progressed = self.connection.poll(&mut self.out.bytes, may_send)?;
            self.note_events();
            // The peer can do nothing before it has the first frames.
            let opens = !self.has_opened && !self.connection.is_opening();
            self.has_opened |= opens;
            if opens || self.out.has_enough() || progressed != Progressed::Worked {
                self.out.try_send();
            }
            match progressed {
                Progressed::Worked => {}
                // There may be more to send now that there is room.
                Progressed::Idle if !may_send && !self.out.has_enough() => {}
                Progressed::Idle => {
                    if !self.take_frame()? && !self.connection.settle()? {
                        self.wait()?;
                    }
                }
                Progressed::Finished => {
                    if self.out.is_waiting() {
                        self.handle.block_on(self.out.send());
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Tells the peer and all who wait how it ended.
    pub(super) fn finish(
        &mut self,
        result: Result<(), SessionError>,
        patience: Duration,
    ) -> Result<(), Arc<SessionError>> {
        let error = match result {
            Ok(()) => Arc::new(SessionError::Closed),
            Err(ref error) => {
                if let Some(words) = self.connection.farewell(error) {
                    self.out.bytes.extend_from_slice(&words);
                    let out = &mut self.out;
                    // Where the writer is gone, the runtime may be too.
                    if out.is_waiting() {
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
        for (_, waiting) in self.runs.drain() {
            let reason = || SessionError::Connection(error.clone());
            if let Some(prepared) = waiting.prepared {
                let _ = prepared.send(Err(reason()));
            }
            let _ = waiting.done.send(Err(reason()));
        }
        self.orders.close();
        if failed { Err(error) } else { Ok(()) }
    }

    /// Takes the calls that are here.
    fn take_orders(&mut self) -> Result<(), SessionError> {
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.obey(order)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => {
                    self.connection.close();
                    return Ok(());
                }
            }
        }
    }

    fn obey(&mut self, order: Command) -> Result<(), SessionError> {
        match order {
            Command::Call {
                ticket,
                role,
                call,
                prepared,
                done,
            } => match self.connection.call(role, call) {
                Ok(run) => {
                    let span = RunSpan::open(&self.span, run);
                    let mut waiting = Waiting::new(ticket, span, done);
                    waiting.prepared = prepared;
                    self.tickets.insert(ticket, run);
                    self.runs.insert(run, waiting);
                }
                Err(SessionError::Closed) => {
                    let _ = done.send(Err(SessionError::Closed));
                }
                Err(error) => return Err(error),
            },
            Command::Provide { ticket, inputs } => {
                if let Some(run) = self.tickets.get(&ticket) {
                    if let Some(waiting) = self.runs.get_mut(run) {
                        waiting.started = Instant::now();
                    }
                    self.connection.provide(*run, inputs)?;
                }
            }
            Command::Cancel(ticket) => {
                if let Some(run) = self.tickets.get(&ticket) {
                    self.connection.cancel(*run);
                }
            }
            Command::Decline(role, why) => match self.connection.decline(role, why) {
                // The peer hears of that.
                Ok(()) | Err(SessionError::Closed) => {}
                Err(error) => return Err(error),
            },
            Command::Close => self.connection.close(),
        }
        Ok(())
    }

    /// Takes a frame that is here, if any is and it may be taken; says whether it did.
    fn take_frame(&mut self) -> Result<bool, SessionError> {
        if !self.connection.wants_input() {
            return Ok(false);
        }
        match self.frames.try_recv() {
            Ok(frame) => {
                // Milliseconds of oblivious transfer may follow, for which the peer need not wait.
                self.out.try_send();
                self.connection.handle(frame?).map(|()| true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(SessionError::Cancelled),
        }
    }

    /// Waits until a frame or a call arrives or, where bytes are left to send, the network takes them.
    fn wait(&mut self) -> Result<(), SessionError> {
        let is_writing = self.out.is_waiting();
        let wants_input = self.connection.wants_input() || !is_writing;
        let may_order = !self.orders.is_closed() || !self.orders.is_empty();
        let (frames, orders, out) = (&mut self.frames, &mut self.orders, &mut self.out);
        self.activity.set_waiting(true);
        let woken = self.handle.block_on(async {
            tokio::select! {
                biased;
                // A writer that is gone tells nothing: why is for the reader to find out.
                true = out.send(), if is_writing => Woken::Sent,
                order = orders.recv(), if may_order => Woken::Order(order),
                frame = frames.recv(), if wants_input => Woken::Frame(frame),
                else => Woken::Frame(frames.recv().await),
            }
        });
        self.activity.set_waiting(false);
        match woken {
            Woken::Sent => Ok(()),
            Woken::Order(Some(order)) => self.obey(order),
            Woken::Order(None) => {
                self.orders.close();
                self.connection.close();
                Ok(())
            }
            Woken::Frame(Some(frame)) => self.connection.handle(frame?),
            Woken::Frame(None) => Err(SessionError::Cancelled),
        }
    }

    fn note_events(&mut self) {
        while let Some(event) = self.connection.next_event() {
            match event {
                event @ (Event::Opened | Event::Called(..)) => {
                    // Nobody listens where runs are only called for from here.
                    if let Some(calls) = &self.calls {
                        let _ = calls.send(event);
                    }
                }
                Event::Reached(run, milestone) => {
                    if let Some(waiting) = self.runs.get_mut(&run) {
                        let now = waiting.started.elapsed();
                        waiting.milestones[milestone as usize] = Some(now);
                        waiting.span.reach(milestone, now);
                        if let Some(progress) = &waiting.progress {
                            progress.reach(milestone, now);
                        }
                    }
                }
                Event::Output(run, output) => {
                    if let Some(waiting) = self.runs.get_mut(&run) {
                        waiting.elapsed = Some(waiting.started.elapsed());
                        match &mut waiting.on_output {
                            Some(on_output) => on_output(output),
                            None => waiting.outputs.push(output.bits),
                        }
                    }
                }
                Event::Prepared(run) => {
                    let waiting = self.runs.get_mut(&run);
                    if let Some(prepared) = waiting.and_then(|waiting| waiting.prepared.take()) {
                        let _ = prepared.send(Ok(()));
                    }
                }
                Event::Ended(run, result) => {
                    let Some(waiting) = self.runs.remove(&run) else {
                        continue;
                    };
                    self.tickets.remove(&waiting.ticket);
                    let elapsed = waiting.started.elapsed();
                    let outcome = result.map(|report| RunOutcome {
                        outputs: waiting.outputs,
                        report,
                        elapsed: waiting.elapsed.unwrap_or(elapsed),
                        ended: elapsed,
                        milestones: waiting.milestones,
                    });
                    match (waiting.prepared, outcome) {
                        // It failed before it was ready: whoever waits for that hears why.
                        (Some(prepared), Err(error)) => {
                            let _ = prepared.send(Err(error));
                        }
                        (_, outcome) => {
                            let _ = waiting.done.send(outcome);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}
