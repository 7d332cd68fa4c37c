//! Drives a [`Connection`] over a link, for any number of tasks that call for runs.
//!
//! The parts are those of a single session: a task that reads frames, a task that writes bytes, and a
//! blocking thread that computes. Calls come to the thread over a queue; what becomes of a run goes
//! back over a channel of its own.

mod engine;
mod handle;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::Instant,
};
use transpute_transport::Link;

pub use self::handle::{ConnectionHandle, PreparedRun, RunOutcome, Running};
use self::{engine::Engine, handle::Command};
use super::{
    Closing, DriverOptions, FRAMES_WAITING, Tasks, outbox, reader::read_frames,
    writer::write_buffers,
};
use crate::{Connection, SessionError};

/// Drives `connection` over `link` in the background, as long as there are handles or runs; the
/// second value tells how it ended.
///
/// The connection closes in good order when the last handle is gone or
/// [`ConnectionHandle::close`] was called, and all runs are over.
///
/// # Panics
/// If called outside a Tokio runtime with time enabled.
pub fn stand(
    connection: Connection,
    link: Link,
    options: DriverOptions,
) -> (ConnectionHandle, Standing) {
    let (reader, writer) = link.into_parts();
    stand_over(connection, reader, writer, options)
}

pub(crate) fn stand_over(
    connection: Connection,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
) -> (ConnectionHandle, Standing) {
    let (frame_sender, frames) = mpsc::channel(FRAMES_WAITING);
    let (outbox, outlet) = outbox::ring();
    let (commands, orders) = mpsc::unbounded_channel::<Command>();
    let tasks = Tasks {
        reader: tokio::spawn(read_frames(reader, frame_sender, options)),
        writer: tokio::spawn(write_buffers(writer, outlet, options)),
    };
    let mut engine = Engine::new(connection, frames, orders, outbox);
    let computing = tokio::task::spawn_blocking(move || {
        let result = engine.run();
        engine.finish(result, options.linger)
    });
    let standing = Standing {
        computing,
        tasks: Some(tasks),
        options,
    };
    (ConnectionHandle::new(commands), standing)
}

/// A connection that is driven in the background.
///
/// Dropping it cuts the link.
#[derive(Debug)]
pub struct Standing {
    computing: tokio::task::JoinHandle<Result<(), std::sync::Arc<SessionError>>>,
    tasks: Option<Tasks>,
    options: DriverOptions,
}

impl Standing {
    /// Waits until the connection is over.
    ///
    /// # Errors
    /// What ended it, if it was not closed; all its runs end with the same.
    ///
    /// # Cancel safety
    /// Dropping the future cuts the link.
    pub async fn wait(mut self) -> Result<(), SessionError> {
        let result = (&mut self.computing).await;
        let closing = self.tasks.take().map(|tasks| Closing {
            tasks,
            deadline: Instant::now() + self.options.linger,
        });
        let error = match result {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(std::sync::Arc::new(SessionError::Cancelled)),
        };
        // A peer that is gone cannot be waited for.
        let is_there = (error.as_ref()).is_none_or(|error| Connection::farewell(error).is_some());
        if let Some(closing) = closing.filter(|_| is_there) {
            closing.wait().await;
        }
        match error {
            None => Ok(()),
            Some(error) => Err(SessionError::Connection(error)),
        }
    }
}
