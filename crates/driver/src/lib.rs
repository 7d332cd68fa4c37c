//! Drives a [`SessionConnection`] over a [`Link`] with Tokio.
//!
//! [`run`] drives a connection for a single run to its end. [`drive`] drives a connection for many
//! runs in the background and returns a [`ConnectionHandle`], on which an application starts runs.
//! [`serve`] does the same for a side that waits for the peer's calls.
//!
//! # Design
//!
//! A connection has two tasks and a thread: one task reads frames, one task writes buffers, and the
//! thread garbles and evaluates. Bounded queues between them let garbling, sending, receiving and
//! evaluating overlap, and propagate back-pressure. Commands reach the thread through a queue. Each
//! run returns its outcome through its own channel.
//!
//! Tables are not copied. The thread garbles them into a buffer that the writer writes and returns.
//! On the evaluator's side, the thread evaluates them in the buffer into which the reader has read
//! them. The buffer is then reused.
//!
//! # Examples
//!
//! Two parties add their inputs over an in-memory stream. The garbler has the input 2, and the
//! evaluator 40:
//!
//! ```
//! use std::sync::Arc;
//!
//! use tokio::io::{DuplexStream, duplex, split};
//! use transpute_circuit::{Bits, Builder, InputSplit, Program, UInt};
//! use transpute_driver::{DriverOptions, drive};
//! use transpute_session::{Config, ConnectionConfig, Role, SessionConnection};
//! use transpute_transport::{Link, LinkInfo};
//!
//! fn link(stream: DuplexStream) -> Link {
//!     let (reader, writer) = split(stream);
//!     Link::new(reader, writer, LinkInfo::new("memory", "", ""), None)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let circuit = Builder::build(|b| {
//!     let (x, y) = (b.input::<UInt<8>>(), b.input::<UInt<8>>());
//!     b.output(x + y);
//! })?;
//! let split = InputSplit::first_to_garbler(circuit.input_widths());
//! let program = Arc::new(Program::compile(&circuit));
//! let inputs = |number| Box::new(vec![Bits::from_u128(number, 8)]);
//!
//! let (left, right) = duplex(1 << 16);
//! let connection = || SessionConnection::new(ConnectionConfig::default(), false);
//! let (garbler, _end) = drive(connection(), link(left), DriverOptions::default());
//! let (evaluator, _other_end) = drive(connection(), link(right), DriverOptions::default());
//!
//! let (garbled, evaluated) = tokio::join!(
//!     garbler.run(Role::Garbler, program.clone(), split.clone(), Config::default(), inputs(2)),
//!     evaluator.run(Role::Evaluator, program, split, Config::default(), inputs(40)),
//! );
//! garbled?;
//! assert_eq!(evaluated?.outputs, [Bits::from_u128(42, 8)]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod activity;
mod engine;
mod handle;
mod options;
mod reader;
mod receive_buffer;
mod report;
mod send_buffer;
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
use transpute_session::{Output, RunId, SessionConnection, SessionError, SessionEvent};
use transpute_transport::Link;

use self::{
    activity::Activity,
    engine::{Engine, OnOutput},
    handle::{CallId, Command},
    reader::read_frames,
    writer::write_buffers,
};
pub use self::{
    handle::{ConnectionHandle, PreparedRun, RunOutcome, Running},
    options::DriverOptions,
    report::SingleRunReport,
};

/// Maximum number of received frames that wait for the computing thread.
const FRAMES_WAITING: usize = 8;

/// The result of a connection for a single run.
#[derive(Debug)]
pub struct SingleRunOutcome {
    /// The report of the run.
    pub report: SingleRunReport,
    /// The shutdown of the link, which is still in progress.
    pub closing: Closing,
}

/// The orderly shutdown of a link.
///
/// Dropping this value cuts the link, so the peer may not receive the last frame. Call
/// [`wait`](Self::wait) before the process exits.
#[derive(Debug)]
pub struct Closing {
    task: ConnectionTask,
    deadline: Instant,
}

impl Closing {
    /// Waits until the peer has received all frames, at most for [`DriverOptions::linger`].
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn wait(self) {
        // The outcome of the run is already known, so errors of the shutdown do not matter.
        let _ = timeout_at(self.deadline, self.task.wait()).await;
    }
}

/// The reader task and the writer task of a link. Dropping this value aborts both.
#[derive(Debug)]
struct Tasks {
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Tasks {
    /// Waits until both tasks have finished, at most until `deadline`.
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

/// Starts a thread with a name that executes `work`. It can be the `spawner` of
/// [`SessionConnection::single`].
///
/// # Errors
/// The error of the operating system.
pub fn spawn_thread(name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Drives a [connection for a single run](SessionConnection::single) to its end, and calls
/// `on_output` with each output of this party.
///
/// Outputs are final once this function has returned `Ok`.
///
/// # Errors
/// Any [`SessionError`]. If possible, the reason is sent to the peer before this function returns.
///
/// # Panics
/// Panics if called outside a Tokio runtime with time enabled.
///
/// # Cancel safety
/// Dropping the future cuts the link and ends the run.
pub async fn run(
    connection: SessionConnection,
    run: RunId,
    link: Link,
    options: DriverOptions,
    on_output: impl FnMut(Output) + Send + 'static,
) -> Result<SingleRunOutcome, SessionError> {
    let span = spans::connection(link.info());
    let (reader, writer) = link.into_parts();
    run_over(connection, run, reader, writer, options, on_output)
        .instrument(span)
        .await
}

async fn run_over(
    connection: SessionConnection,
    run: RunId,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
    on_output: impl FnMut(Output) + Send + 'static,
) -> Result<SingleRunOutcome, SessionError> {
    let begun = (run, Box::new(on_output) as OnOutput);
    let started = start(connection, reader, writer, options, None, Some(begun));
    let (_handle, task, running) = started;
    let outcome = match running {
        Some(running) => running.await,
        None => Err(SessionError::Cancelled),
    };
    let closing = Closing {
        task,
        deadline: Instant::now() + options.linger,
    };
    match outcome {
        Ok(outcome) => Ok(SingleRunOutcome {
            report: SingleRunReport::new(&outcome),
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

/// Drives `connection` over `link` in the background. Returns a handle that starts runs, and a
/// value that waits for the end of the connection.
///
/// The connection shuts down in order when all runs have ended and either the last handle was
/// dropped or [`ConnectionHandle::close`] was called.
///
/// # Panics
/// Panics if called outside a Tokio runtime with time enabled.
pub fn drive(
    connection: SessionConnection,
    link: Link,
    options: DriverOptions,
) -> (ConnectionHandle, ConnectionTask) {
    let span = spans::connection(link.info());
    let (reader, writer) = link.into_parts();
    span.in_scope(|| drive_over(connection, reader, writer, options))
}

/// Drives a connection like [`drive`], for a side that answers the peer's calls. The last returned
/// value receives the events [`SessionEvent::Opened`] and [`SessionEvent::Called`].
///
/// The connection computes on its own thread. It does not use a blocking thread of the runtime,
/// because a server may have more peers than the runtime has blocking threads.
///
/// # Panics
/// Panics if called outside a Tokio runtime with time enabled.
pub fn serve(
    connection: SessionConnection,
    link: Link,
    options: DriverOptions,
) -> (
    ConnectionHandle,
    ConnectionTask,
    mpsc::UnboundedReceiver<SessionEvent>,
) {
    let span = spans::connection(link.info());
    let (reader, writer) = link.into_parts();
    // The length of this channel is bounded, because the protocol limits the concurrent runs.
    let (sender, calls) = mpsc::unbounded_channel();
    let start = || start(connection, reader, writer, options, Some(sender), None);
    let (handle, task, _) = span.in_scope(start);
    (handle, task, calls)
}

fn drive_over(
    connection: SessionConnection,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
) -> (ConnectionHandle, ConnectionTask) {
    let (handle, task, _) = start(connection, reader, writer, options, None, None);
    (handle, task)
}

/// Starts the tasks and the thread in the current span. `begun` is a run that was called on
/// `connection` before. `calls` receives the peer's calls. If it is `Some`, the connection gets its
/// own thread.
fn start(
    connection: SessionConnection,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
    calls: Option<mpsc::UnboundedSender<SessionEvent>>,
    begun: Option<(RunId, OnOutput)>,
) -> (ConnectionHandle, ConnectionTask, Option<Running>) {
    let (frame_sender, frames) = mpsc::channel(FRAMES_WAITING);
    let (send_buffer, send_queue) = send_buffer::ring();
    let (command_sender, commands) = mpsc::unbounded_channel::<Command>();
    let activity = Activity::default();
    let tasks = Tasks {
        reader: tokio::spawn(
            read_frames(reader, frame_sender, options, activity.clone()).in_current_span(),
        ),
        writer: tokio::spawn(
            write_buffers(writer, send_queue, options, activity.clone()).in_current_span(),
        ),
    };
    let has_own_thread = calls.is_some();
    let span = Span::current();
    let mut engine = Engine::new(
        connection,
        frames,
        commands,
        send_buffer,
        calls,
        activity.clone(),
        span.clone(),
    );
    let handle = ConnectionHandle::new(command_sender, activity);
    let running = begun.map(|(run, on_output)| {
        let call_id: CallId = handle.take_call_id();
        let (done, outcome) = oneshot::channel();
        engine.register(run, call_id, on_output, done);
        handle.running(call_id, outcome)
    });
    let (end, computing) = oneshot::channel();
    let compute = move || {
        let _entered = span.entered();
        let result = engine.run();
        // Sending fails if the `ConnectionTask` was dropped.
        let _ = end.send(engine.finish(result, options.linger));
    };
    let mut computing = Computing::Thread(computing);
    if !has_own_thread {
        drop(tokio::task::spawn_blocking(compute));
    } else if let Err(error) = spawn_thread("connection", Box::new(compute)) {
        computing = Computing::Failed(Some(SessionError::Thread(error)));
    }
    let task = ConnectionTask {
        computing,
        tasks: Some(tasks),
        options,
    };
    (handle, task, running)
}

type Ended = Result<(), Arc<SessionError>>;

/// The source of a connection's result, which arrives when the computing thread ends.
#[derive(Debug)]
enum Computing {
    Thread(oneshot::Receiver<Ended>),
    /// The thread could not be started.
    Failed(Option<SessionError>),
}

/// A connection that is driven in the background. [`wait`](Self::wait) returns its result.
///
/// Dropping this value cuts the link.
#[derive(Debug)]
pub struct ConnectionTask {
    computing: Computing,
    tasks: Option<Tasks>,
    options: DriverOptions,
}

impl ConnectionTask {
    /// Waits for the end of the connection.
    ///
    /// # Errors
    /// The error that ended the connection, if it did not shut down in order. All its runs end with
    /// the same error.
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
        // If the error cannot be sent to the peer, waiting for the peer would only delay the
        // result.
        let peer_is_there = (error.as_ref()).is_none_or(|error| error.is_told());
        if let Some(tasks) = self.tasks.take().filter(|_| peer_is_there) {
            tasks.close(deadline).await;
        }
        match error {
            None => Ok(()),
            Some(error) => Err(SessionError::Connection(error)),
        }
    }
}
