//! Drives a [`Session`] over a [`Link`].
//!
//! Three parts work side by side: a task that reads frames, a task that writes bytes, and a
//! blocking thread that garbles or evaluates. Bounded queues between them let garbling, sending,
//! receiving and evaluating overlap and pass back-pressure on.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    runtime::Handle,
    sync::mpsc::{self, error::TrySendError},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use transpute_transport::{Link, TransportError};

use crate::{
    Frame, FrameDecoder, FrameKind, Milestone, Output, Progressed, Report, Role, Session,
    SessionError,
};

/// Frames that may wait for the computing thread.
const FRAMES_WAITING: usize = 8;

/// Buffers that may wait for the network: few, so that an urgent message is not stuck behind
/// megabytes of tables.
const BUFFERS_WAITING: usize = 4;

/// Bytes collected before they are handed to the network while there is more to do.
const BUFFER_LEN: usize = 64 << 10;

/// Room made for each read.
const READ_LEN: usize = 128 << 10;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// Silence after which the peer counts as lost. Must be several times `sign_of_life`. Default
    /// 7 s.
    pub silence_limit: Duration,
    /// How often to show a sign of life when there is nothing to send. Default 2 s.
    pub sign_of_life: Duration,
    /// How long a closing side waits for the other to close too. Default 2 s.
    pub linger: Duration,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            silence_limit: Duration::from_secs(7),
            sign_of_life: Duration::from_secs(2),
            linger: Duration::from_secs(2),
        }
    }
}

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
    let (buffers, buffer_receiver) = mpsc::channel(BUFFERS_WAITING);
    let tasks = Tasks {
        reader: tokio::spawn(read_frames(reader, frame_sender, options)),
        writer: tokio::spawn(write_buffers(writer, buffer_receiver, options)),
    };
    let handle = Handle::current();
    let computing = tokio::task::spawn_blocking(move || {
        let mut engine = Engine {
            session,
            frames,
            buffers,
            handle,
            out: Vec::with_capacity(BUFFER_LEN),
            started: Instant::now(),
            milestones: [None; Milestone::COUNT],
            on_output,
        };
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

/// The computing thread.
struct Engine<F> {
    session: Session,
    frames: mpsc::Receiver<Result<Frame, SessionError>>,
    buffers: mpsc::Sender<Vec<u8>>,
    handle: Handle,
    out: Vec<u8>,
    started: Instant,
    milestones: [Option<Duration>; Milestone::COUNT],
    on_output: F,
}

impl<F: FnMut(Output)> Engine<F> {
    fn run(&mut self) -> Result<Report, SessionError> {
        loop {
            let may_send = self.out.len() < BUFFER_LEN;
            let progressed = self.session.poll(&mut self.out, may_send)?;
            self.note_progress();
            if self.out.len() >= BUFFER_LEN || progressed != Progressed::Worked {
                self.try_send();
            }
            match progressed {
                // Requests from the evaluator must not wait until the garbler has nothing else to
                // do; the evaluator takes the next chunk when it is done with the last.
                Progressed::Worked if self.session.role() == Role::Garbler => {
                    if self.session.wants_input()
                        && let Ok(frame) = self.frames.try_recv()
                    {
                        self.session.handle(frame?)?;
                    }
                }
                Progressed::Worked => {}
                // There may be more to send now that there is room.
                Progressed::Idle if !may_send && self.out.is_empty() => {}
                Progressed::Idle => self.wait()?,
                Progressed::Finished => {
                    if !self.out.is_empty() {
                        let buffer = std::mem::take(&mut self.out);
                        let _ = self.buffers.blocking_send(buffer);
                    }
                    return Ok(self.report());
                }
            }
        }
    }

    /// Waits until a frame arrives or, where bytes are left to send, the network takes them.
    fn wait(&mut self) -> Result<(), SessionError> {
        let is_writing = !self.out.is_empty() && !self.buffers.is_closed();
        let wants_input = self.session.wants_input() || !is_writing;
        let (frames, buffers) = (&mut self.frames, &self.buffers);
        let frame = self.handle.block_on(async {
            tokio::select! {
                biased;
                // A writer that is gone tells nothing: why is for the reader to find out.
                Ok(permit) = buffers.reserve(), if is_writing => {
                    permit.send(std::mem::take(&mut self.out));
                    None
                }
                frame = frames.recv(), if wants_input => Some(frame),
                else => Some(frames.recv().await),
            }
        });
        match frame {
            None => Ok(()),
            Some(Some(frame)) => self.session.handle(frame?),
            Some(None) => Err(SessionError::Cancelled),
        }
    }

    fn try_send(&mut self) {
        if self.out.is_empty() {
            return;
        }
        match self.buffers.try_send(std::mem::take(&mut self.out)) {
            Ok(()) => self.out.reserve(BUFFER_LEN),
            Err(TrySendError::Full(buffer) | TrySendError::Closed(buffer)) => self.out = buffer,
        }
    }

    /// Tells the peer why, if it reads at all.
    fn say_farewell(&mut self, error: &SessionError, patience: Duration) {
        let Some(frame) = Session::farewell(error) else {
            return;
        };
        let mut last = std::mem::take(&mut self.out);
        last.extend_from_slice(&frame);
        let buffers = &self.buffers;
        let _ = self
            .handle
            .block_on(async { timeout(patience, buffers.send(last)).await });
    }

    fn note_progress(&mut self) {
        let reached = self.session.channel().milestones();
        for (index, stamp) in self.milestones.iter_mut().enumerate() {
            if stamp.is_none() && reached >> index & 1 == 1 {
                *stamp = Some(self.started.elapsed());
            }
        }
        while let Some(output) = self.session.next_output() {
            (self.on_output)(output);
        }
    }

    fn report(&self) -> Report {
        let channel = self.session.channel();
        let plan = self.session.terms().plan;
        Report {
            traffic: channel.traffic,
            bytes_sent: channel.bytes_sent,
            bytes_received: channel.bytes_received,
            milestones: self.milestones,
            elapsed: self.started.elapsed(),
            flights: plan.flights(),
            ot: plan,
        }
    }
}

/// Reads frames until the stream or the session ends, then reads on to the end of the stream, so
/// that closing does not reset a connection with bytes on their way.
async fn read_frames(
    mut reader: impl AsyncRead + Unpin,
    frames: mpsc::Sender<Result<Frame, SessionError>>,
    options: DriverOptions,
) {
    let mut decoder = FrameDecoder::new();
    let error = loop {
        match decoder.next_frame() {
            Ok(Some(frame)) if frame.kind == FrameKind::Alive => continue,
            Ok(Some(frame)) => {
                if frames.send(Ok(frame)).await.is_err() {
                    break None;
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => break Some(error.into()),
        }
        decoder.buffer().reserve(READ_LEN);
        let read = tokio::select! {
            read = timeout(options.silence_limit, reader.read_buf(decoder.buffer())) => read,
            () = frames.closed() => break None,
        };
        match read {
            Ok(Ok(0)) => break Some(SessionError::Closed),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => break Some(TransportError::from_io(error).into()),
            Err(_) => break Some(SessionError::PeerLost(options.silence_limit)),
        }
    };
    if let Some(error) = error {
        let ended = !matches!(error, SessionError::Frame(_));
        let _ = frames.send(Err(error)).await;
        if ended {
            return;
        }
    }
    drop(frames);
    let mut rest = vec![0; READ_LEN];
    let deadline = Instant::now() + options.linger;
    while let Ok(Ok(1..)) = timeout_at(deadline, reader.read(&mut rest)).await {}
}

/// Writes buffers until the session ends, with signs of life in between, then closes the stream.
async fn write_buffers(
    mut writer: impl AsyncWrite + Unpin,
    mut buffers: mpsc::Receiver<Vec<u8>>,
    options: DriverOptions,
) {
    loop {
        let written = match timeout(options.sign_of_life, buffers.recv()).await {
            Ok(Some(buffer)) => writer.write_all(&buffer).await,
            Ok(None) => break,
            Err(_) => writer.write_all(Session::sign_of_life()).await,
        };
        let flushed = match written {
            Ok(()) if buffers.is_empty() => writer.flush().await,
            other => other,
        };
        // The reader finds out why.
        if let Err(error) = flushed {
            tracing::debug!(%error, "writing ended");
            return;
        }
    }
    let _ = writer.shutdown().await;
}
