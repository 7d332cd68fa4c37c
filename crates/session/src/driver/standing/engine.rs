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
use transpute_circuit::Bits;

use super::handle::{Command, RunOutcome, Ticket};
use crate::{
    Connection, Event, Frame, Progressed, RunId, SessionError,
    driver::{activity::Activity, outbox::Outbox},
};

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
    /// Who hears what the peer calls for.
    calls: Option<mpsc::UnboundedSender<Event>>,
    activity: Activity,
}

/// Who waits for a run.
struct Waiting {
    ticket: Ticket,
    started: Instant,
    /// Until the last output.
    elapsed: Option<Duration>,
    outputs: Vec<Bits>,
    prepared: Option<oneshot::Sender<Result<(), SessionError>>>,
    done: oneshot::Sender<Result<RunOutcome, SessionError>>,
}

/// What a wait came to.
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
        }
    }

    /// Runs the connection to its end.
    pub(super) fn run(&mut self) -> Result<(), SessionError> {
        loop {
            self.take_orders()?;
            self.take_frame()?;
            let may_send = !self.out.has_enough();
            let progressed = self.connection.poll(&mut self.out.bytes, may_send)?;
            self.note_events();
            if self.out.has_enough() || progressed != Progressed::Worked {
                self.out.try_send();
            }
            match progressed {
                Progressed::Worked => {}
                // There may be more to send now that there is room.
                Progressed::Idle if !may_send && !self.out.has_enough() => {}
                Progressed::Idle => self.wait()?,
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
            } => {
                let waiting = Waiting {
                    ticket,
                    started: Instant::now(),
                    elapsed: None,
                    outputs: Vec::new(),
                    prepared,
                    done,
                };
                match self.connection.call(role, call) {
                    Ok(run) => {
                        self.tickets.insert(ticket, run);
                        self.runs.insert(run, waiting);
                    }
                    Err(SessionError::Closed) => {
                        let _ = waiting.done.send(Err(SessionError::Closed));
                    }
                    Err(error) => return Err(error),
                }
            }
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

    /// Takes a frame that is here, if any is and it may be taken.
    fn take_frame(&mut self) -> Result<(), SessionError> {
        if !self.connection.wants_input() {
            return Ok(());
        }
        match self.frames.try_recv() {
            Ok(frame) => self.connection.handle(frame?),
            Err(TryRecvError::Empty) => Ok(()),
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
                Event::Output(run, output) => {
                    if let Some(waiting) = self.runs.get_mut(&run) {
                        waiting.elapsed = Some(waiting.started.elapsed());
                        waiting.outputs.push(output.bits);
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
            }
        }
    }
}
