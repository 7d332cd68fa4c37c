//! Drives a [`Session`] over a [`Link`].
//!
//! Three parts work side by side: a task that reads frames, a task that writes bytes, and a
//! blocking thread that garbles or evaluates. Bounded queues between them let garbling, sending,
//! receiving and evaluating overlap and pass back-pressure on.
//!
//! Tables are not copied on their way. They are garbled into a buffer that goes to the writer as it
//! is and comes back when it is written; they are evaluated in the buffer that the reader has read
//! them into, which is read into again when that is done.

mod activity;
mod engine;
mod inbox;
mod options;
mod outbox;
mod reader;
mod standing;
mod writer;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use transpute_transport::Link;

pub use self::options::DriverOptions;
#[cfg(test)]
pub(crate) use self::standing::stand_over;
pub use self::standing::{
    ConnectionHandle, PreparedRun, RunOutcome, Running, Standing, attend, stand,
};
use self::{activity::Activity, engine::Engine, reader::read_frames, writer::write_buffers};
use crate::{Output, Report, Session, SessionError};

/// Frames that may wait for the computing thread.
const FRAMES_WAITING: usize = 8;

/// A completed session.
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
    tasks: Tasks,
    deadline: Instant,
}

impl Closing {
    /// Waits until the peer has everything, at most [`DriverOptions::linger`].
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn wait(mut self) {
        // Whatever goes wrong now, the session is over and its outcome known.
        let _ = timeout_at(self.deadline, &mut self.tasks.writer).await;
        let _ = timeout_at(self.deadline, &mut self.tasks.reader).await;
    }
}

/// The two tasks of a link; they end with this value.
#[derive(Debug)]
struct Tasks {
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
    }
}

/// Runs a session to its end; `on_output` is called with each output this party learns.
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
/// Dropping the future cuts the link and ends the session.
pub async fn run(
    session: Session,
    link: Link,
    options: DriverOptions,
    on_output: impl FnMut(Output) + Send + 'static,
) -> Result<Outcome, SessionError> {
    let (reader, writer) = link.into_parts();
    run_over(session, reader, writer, options, on_output).await
}

pub(crate) async fn run_over(
    session: Session,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
    on_output: impl FnMut(Output) + Send + 'static,
) -> Result<Outcome, SessionError> {
    let (frame_sender, frames) = mpsc::channel(FRAMES_WAITING);
    let (outbox, outlet) = outbox::ring();
    let activity = Activity::default();
    let tasks = Tasks {
        reader: tokio::spawn(read_frames(reader, frame_sender, options, activity.clone())),
        writer: tokio::spawn(write_buffers(writer, outlet, options, activity)),
    };
    let mut engine = Engine::new(session, frames, outbox, on_output);
    let computing = tokio::task::spawn_blocking(move || {
        let result = engine.run();
        if let Err(error) = &result {
            engine.say_farewell(error, options.linger);
        }
        // Both queues close here: the writer sends what is left and shuts down, the reader reads
        // on to the end of the stream.
        result
    });
    let result = computing.await.unwrap_or(Err(SessionError::Cancelled));
    let closing = Closing {
        tasks,
        deadline: Instant::now() + options.linger,
    };
    match result {
        Ok(report) => Ok(Outcome { report, closing }),
        Err(error) => {
            // A peer that is gone cannot be waited for.
            if Session::farewell(&error).is_some() {
                closing.wait().await;
            }
            Err(error)
        }
    }
}
