//! Drives a [`Connection`] over a link, for any number of tasks that call for runs.
//!
//! The parts are those of a single session: a task that reads frames, a task that writes bytes, and a
//! blocking thread that computes. Calls come to the thread over a queue; what becomes of a run goes
//! back over a channel of its own.

mod engine;
mod handle;

use std::{sync::Arc, thread::Builder};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
    time::Instant,
};
use transpute_transport::Link;

pub use self::handle::{ConnectionHandle, PreparedRun, RunOutcome, Running};
use self::{engine::Engine, handle::Command};
use super::{
    Closing, DriverOptions, FRAMES_WAITING, Tasks, activity::Activity, outbox, reader::read_frames,
    writer::write_buffers,
};
use crate::{Connection, Event, SessionError};

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

/// Drives a connection as [`stand`] does, for a side that waits for what the peer calls for: the last
/// value tells [`Event::Opened`] and [`Event::Called`]. It computes on a thread of its own and not on
/// one of the runtime's for blocking work, of which there may be fewer than peers.
///
/// # Panics
/// As [`stand`].
pub fn attend(
    connection: Connection,
    link: Link,
    options: DriverOptions,
) -> (ConnectionHandle, Standing, mpsc::UnboundedReceiver<Event>) {
    let (reader, writer) = link.into_parts();
    // Bounded: the peer begins no more runs than may be under way.
    let (sender, calls) = mpsc::unbounded_channel();
    let (handle, standing) = drive(connection, reader, writer, options, Some(sender));
    (handle, standing, calls)
}

pub(crate) fn stand_over(
    connection: Connection,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
) -> (ConnectionHandle, Standing) {
    drive(connection, reader, writer, options, None)
}

fn drive(
    connection: Connection,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: DriverOptions,
    calls: Option<mpsc::UnboundedSender<Event>>,
) -> (ConnectionHandle, Standing) {
    let (frame_sender, frames) = mpsc::channel(FRAMES_WAITING);
    let (outbox, outlet) = outbox::ring();
    let (commands, orders) = mpsc::unbounded_channel::<Command>();
    let activity = Activity::default();
    let tasks = Tasks {
        reader: tokio::spawn(read_frames(reader, frame_sender, options, activity.clone())),
        writer: tokio::spawn(write_buffers(writer, outlet, options, activity.clone())),
    };
    let has_own_thread = calls.is_some();
    let mut engine = Engine::new(connection, frames, orders, outbox, calls, activity.clone());
    let (end, computing) = oneshot::channel();
    let compute = move || {
        let result = engine.run();
        // Nobody may wait for it any more.
        let _ = end.send(engine.finish(result, options.linger));
    };
    let mut computing = Computing::Thread(computing);
    if !has_own_thread {
        drop(tokio::task::spawn_blocking(compute));
    } else if let Err(error) = Builder::new().name("connection".into()).spawn(compute) {
        computing = Computing::Failed(Some(SessionError::Thread(error)));
    }
    let standing = Standing {
        computing,
        tasks: Some(tasks),
        options,
    };
    (ConnectionHandle::new(commands, activity), standing)
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
pub struct Standing {
    computing: Computing,
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
        let result = match &mut self.computing {
            Computing::Thread(end) => end.await,
            Computing::Failed(error) => {
                let error = error.take().unwrap_or(SessionError::Cancelled);
                return Err(SessionError::Connection(Arc::new(error)));
            }
        };
        let closing = self.tasks.take().map(|tasks| Closing {
            tasks,
            deadline: Instant::now() + self.options.linger,
        });
        let error = match result {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(Arc::new(SessionError::Cancelled)),
        };
        // A peer that is gone cannot be waited for.
        let is_there = (error.as_ref()).is_none_or(|error| error.farewell().is_some());
        if let Some(closing) = closing.filter(|_| is_there) {
            closing.wait().await;
        }
        match error {
            None => Ok(()),
            Some(error) => Err(SessionError::Connection(error)),
        }
    }
}
