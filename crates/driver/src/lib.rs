//! Drives a [`Connection`] over a [`Link`] with Tokio.
//!
//! Three parts work at the same time: a task that reads frames, a task that writes bytes, and a
//! blocking thread that garbles and evaluates. Bounded queues between them let garbling, sending,
//! receiving and evaluating overlap and pass back-pressure on. Calls come to the thread over a queue; the outcome of a run goes
//! back over a channel of its own.
//!
//! Tables are not copied on their way. They are garbled into a buffer that goes to the writer as it
//! is and comes back when it is written; they are evaluated in the buffer that the reader has read
//! them into, which is read into again when that is done.
#![forbid(unsafe_code)]

mod activity;
mod engine;
mod handle;
mod inbox;
mod options;
mod outbox;
mod reader;
mod report;
mod spans;
#[cfg(test)]
mod tests;
mod writer;

use std::{io, sync::Arc, thread::Builder};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tracing::{Instrument, Span};
use transpute_session::{Connection, Event, Output, RunId, SessionError};
use transpute_transport::Link;

use self::{
    activity::Activity,
    engine::{Engine, OnOutput},
    handle::{Command, Ticket},
    reader::read_frames,
    writer::write_buffers,
};
pub use self::{
    handle::{ConnectionHandle, PreparedRun, RunOutcome, Running},
    options::DriverOptions,
    report::Report,
};

/// Frames that may wait for the computing thread.
const FRAMES_WAITING: usize = 8;

/// A completed run of a connection for one run.
#[derive(Debug)]
pub struct Outcome {
    /// What it did.
    pub report: Report,
    /// The link on its way down.
    pub closing: Closing,
}

/// The orderly end of a link.
///
/// Dropping it cuts the link, which may lose the last message to the peer; [`wait`](Self::wait)
/// before leaving the program.
#[derive(Debug)]
pub struct Closing {
    driven: Driven,
    deadline: Instant,
}

impl Closing {
    /// Waits until the peer has everything, at most [`DriverOptions::linger`].
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn wait(self) {
        // Whatever goes wrong now, the run is over and its outcome known.
        let _ = timeout_at(self.deadline, self.driven.wait()).await;
    }
}

/// The two tasks of a link; they end with this value.
#[derive(Debug)]
struct Tasks {
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Tasks {
    /// Waits until the peer has everything.
    async fn close(mut self, deadline: Instant) {
        let _ = timeout_at(deadline, &mut self.writer).await;
        let _ = timeout_at(deadline, &mut self.reader).await;
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
    }
}

/// Starts a thread for [`Connection::single`].
///
/// # Errors
/// Those of the operating system.
pub fn spawn_thread(name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Drives a [connection for one run](Connection::single) to its end; `on_output` is called with each output this party learns.
///
/// Outputs are final once this function has returned `Ok`.
///
/// # Errors
/// Any [`SessionError`]. The peer is told why, where it can be, before this returns.
///
/// # Panics
/// If called outside a Tokio runtime with time enabled.
///
/// # Cancel safety
/// Dropping the future cuts the link and ends the run.
pub async fn run(
    connection: Connection,
    run: RunId,
    link: Link,
    options: DriverOptions,
    on_output: impl FnMut(Output) + Send + 'static,
) -> Result<Outcome, SessionError> {
    let span = spans::connection(link.info());
    let (reader, writer) = link.into_parts();
    run_over(connection, run, reader, writer, options, on_output)
        .instrument(span)
        .await
}

async fn run_over(
    connection: Connection,
    run: RunId,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
    on_output: impl FnMut(Output) + Send + 'static,
) -> Result<Outcome, SessionError> {
    let begun = (run, Box::new(on_output) as OnOutput);
    let started = start(connection, reader, writer, options, None, Some(begun));
    let (_handle, driven, running) = started;
    let outcome = match running {
        Some(running) => running.await,
        None => Err(SessionError::Cancelled),
    };
    let closing = Closing {
        driven,
        deadline: Instant::now() + options.linger,
    };
    match outcome {
        Ok(outcome) => Ok(Outcome {
            report: Report::new(&outcome),
            closing,
        }),
        Err(error) => {
            closing.wait().await;
            Err(match error {
                SessionError::Connection(error) => {
                    Arc::try_unwrap(error).unwrap_or_else(SessionError::Connection)
                }
                error => error,
            })
        }
    }
}

/// Drives `connection` over `link` in the background while there are handles or runs; the
/// second value returns how it ended.
///
/// The connection closes in good order when the last handle is dropped or
/// [`ConnectionHandle::close`] was called, and all runs are over.
///
/// # Panics
/// If called outside a Tokio runtime with time enabled.
pub fn drive(
    connection: Connection,
    link: Link,
    options: DriverOptions,
) -> (ConnectionHandle, Driven) {
    let span = spans::connection(link.info());
    let (reader, writer) = link.into_parts();
    span.in_scope(|| drive_over(connection, reader, writer, options))
}

/// Drives a connection as [`drive`] does, for a side that waits for calls of the peer: the last
/// value returns [`Event::Opened`] and [`Event::Called`]. It computes on a thread of its own and not on
/// one of the runtime's for blocking work, of which there may be fewer than peers.
///
/// # Panics
/// As [`drive`].
pub fn attend(
    connection: Connection,
    link: Link,
    options: DriverOptions,
) -> (ConnectionHandle, Driven, mpsc::UnboundedReceiver<Event>) {
    let span = spans::connection(link.info());
    let (reader, writer) = link.into_parts();
    // Bounded: the peer begins no more runs than may be under way.
    let (sender, calls) = mpsc::unbounded_channel();
    let start = || start(connection, reader, writer, options, Some(sender), None);
    let (handle, driven, _) = span.in_scope(start);
    (handle, driven, calls)
}

fn drive_over(
    connection: Connection,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
) -> (ConnectionHandle, Driven) {
    let (handle, driven, _) = start(connection, reader, writer, options, None, None);
    (handle, driven)
}

/// Starts the tasks and the thread in the present span. `begun` is a run that was called for before.
fn start(
    connection: Connection,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
    calls: Option<mpsc::UnboundedSender<Event>>,
    begun: Option<(RunId, OnOutput)>,
) -> (ConnectionHandle, Driven, Option<Running>) {
    let (frame_sender, frames) = mpsc::channel(FRAMES_WAITING);
    let (outbox, outlet) = outbox::ring();
    let (commands, orders) = mpsc::unbounded_channel::<Command>();
    let activity = Activity::default();
    let tasks = Tasks {
        reader: tokio::spawn(
            read_frames(reader, frame_sender, options, activity.clone()).in_current_span(),
        ),
        writer: tokio::spawn(
            write_buffers(writer, outlet, options, activity.clone()).in_current_span(),
        ),
    };
    let has_own_thread = calls.is_some();
    let span = Span::current();
    let mut engine = Engine::new(
        connection,
        frames,
        orders,
        outbox,
        calls,
        activity.clone(),
        span.clone(),
    );
    let handle = ConnectionHandle::new(commands, activity);
    let running = begun.map(|(run, on_output)| {
        let ticket: Ticket = handle.ticket();
        let (done, outcome) = oneshot::channel();
        engine.follow(run, ticket, on_output, done);
        handle.running(ticket, outcome)
    });
    let (end, computing) = oneshot::channel();
    let compute = move || {
        let _entered = span.entered();
        let result = engine.run();
        // Nobody may wait for it any more.
        let _ = end.send(engine.finish(result, options.linger));
    };
    let mut computing = Computing::Thread(computing);
    if !has_own_thread {
        drop(tokio::task::spawn_blocking(compute));
    } else if let Err(error) = spawn_thread("connection", Box::new(compute)) {
        computing = Computing::Failed(Some(SessionError::Thread(error)));
    }
    let driven = Driven {
        computing,
        tasks: Some(tasks),
        options,
    };
    (handle, driven, running)
}

type Ended = Result<(), Arc<SessionError>>;

/// Where a connection computes.
#[derive(Debug)]
enum Computing {
    Thread(oneshot::Receiver<Ended>),
    /// There was no thread to be had.
    Failed(Option<SessionError>),
}

/// A connection that is driven in the background.
///
/// Dropping it cuts the link.
#[derive(Debug)]
pub struct Driven {
    computing: Computing,
    tasks: Option<Tasks>,
    options: DriverOptions,
}

impl Driven {
    /// Waits until the connection is over.
    ///
    /// # Errors
    /// What ended it, if it was not closed; all its runs end with the same.
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn wait(mut self) -> Result<(), SessionError> {
        let result = match &mut self.computing {
            Computing::Thread(end) => end.await,
            Computing::Failed(error) => {
                let error = error.take().unwrap_or(SessionError::Cancelled);
                return Err(SessionError::Connection(Arc::new(error)));
            }
        };
        let deadline = Instant::now() + self.options.linger;
        let error = match result {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(Arc::new(SessionError::Cancelled)),
        };
        // A peer that is gone cannot be waited for.
        let is_there = (error.as_ref()).is_none_or(|error| error.is_told());
        if let Some(tasks) = self.tasks.take().filter(|_| is_there) {
            tasks.close(deadline).await;
        }
        match error {
            None => Ok(()),
            Some(error) => Err(SessionError::Connection(error)),
        }
    }
}
