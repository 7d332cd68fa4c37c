//! The sending half of a link, which all streams share.

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    sync::{Mutex, MutexGuard},
    task::yield_now,
    time::timeout,
};
use transpute_transport::LinkWriter;

use crate::{
    frame::{self, HEADER_LEN, HELLO_LEN, Kind, MAX_DATA},
    local::Local,
    stream::Stream,
};

/// Maximum time for the orderly end of a link whose tunnel has ended.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// Length of the buffer of a link, in bytes: two full frames.
const BUFFER: usize = 2 * (HEADER_LEN + MAX_DATA);

/// The sending half of a link.
///
/// The mutex is fair: it serves its waiters in order, so streams alternate frame by frame. Frames
/// are collected in a buffer, because many streams with small messages would otherwise need a
/// system call for each frame. A task flushes the buffer only if no other task waits for the mutex.
/// Otherwise the waiting task flushes it. So a task that waits for the mutex must not be cancelled
/// before the link ends.
pub(crate) struct LinkSender {
    writer: Mutex<Option<Writer>>,
    /// Number of tasks that wait for the mutex.
    waiting: AtomicUsize,
}

pub(crate) struct Writer {
    link: LinkWriter,
    /// The frames that are not written yet, in the first `len` bytes. One buffer for all streams
    /// bounds the memory.
    buffer: Box<[u8]>,
    len: usize,
    is_flushed: bool,
    /// The stream of the last frame.
    last: u32,
}

/// The result of [`LinkSender::send_from`].
pub(crate) enum Sent {
    /// Sent bytes.
    Data,
    /// The local program sends no more bytes, and the peer was told.
    End,
    /// The local program has sent no bytes yet.
    Nothing,
    /// The local connection failed.
    LocalFailed,
}

impl LinkSender {
    /// Makes the sending half. The first flush also sends the hello.
    pub(crate) fn new(link: LinkWriter) -> Self {
        let mut buffer = vec![0; BUFFER];
        buffer[..HELLO_LEN].copy_from_slice(&frame::hello());
        Self {
            writer: Mutex::new(Some(Writer {
                link,
                buffer: buffer.into(),
                len: HELLO_LEN,
                is_flushed: true,
                last: 0,
            })),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Locks the writer.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        self.waiting.fetch_add(1, Relaxed);
        let guard = self.writer.lock().await;
        self.waiting.fetch_sub(1, Relaxed);
        guard
    }

    /// Appends `bytes` to the send buffer. Then sends the buffer, unless another task waits for the
    /// lock: that task appends its bytes, and sends all of them together.
    pub(crate) async fn write(&self, writer: &mut Option<Writer>, bytes: &[u8]) -> io::Result<()> {
        let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        if bytes.len() > BUFFER - writer.len {
            writer.write_out().await?;
        }
        if bytes.len() > BUFFER {
            writer.is_flushed = false;
            writer.link.write_all(bytes).await?;
        } else {
            writer.buffer[writer.len..writer.len + bytes.len()].copy_from_slice(bytes);
            writer.len += bytes.len();
        }
        self.flush_unless_awaited(writer).await
    }

    /// Locks the writer, and writes bytes.
    pub(crate) async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut writer = self.lock().await;
        self.write(&mut writer, bytes).await
    }

    /// Locks the writer, reads bytes from a local connection within the credit of its stream, and
    /// sends them in one frame.
    pub(crate) async fn send_from(&self, local: &Local, stream: &Stream) -> io::Result<Sent> {
        let mut guard = self.lock().await;
        let writer = guard.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        if BUFFER - writer.len < HEADER_LEN + MAX_DATA {
            writer.write_out().await?;
        }
        let payload = writer.len + HEADER_LEN;
        let room = stream.credit(MAX_DATA);
        let (sent, kind, len) = match local.try_read(&mut writer.buffer[payload..payload + room]) {
            Ok(0) => (Sent::End, Kind::End, 0),
            Ok(len) => {
                // The peer may grant new credit for these bytes before the write returns.
                stream.spend(len);
                (Sent::Data, Kind::Data, len)
            }
            Err(error) => {
                self.flush_unless_awaited(writer).await?;
                return Ok(match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Sent::Nothing,
                    _ => Sent::LocalFailed,
                });
            }
        };
        let header = frame::header(kind, stream.id, len);
        writer.buffer[writer.len..payload].copy_from_slice(&header);
        writer.len = payload + len;
        if std::mem::replace(&mut writer.last, stream.id) != stream.id {
            // Several streams are active. If their tasks run now, their frames share one write.
            drop(guard);
            yield_now().await;
            guard = self.lock().await;
        }
        let writer = guard.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        self.flush_unless_awaited(writer).await?;
        Ok(sent)
    }

    /// Writes and flushes the buffer, unless another task waits for the mutex. That task then
    /// flushes it.
    async fn flush_unless_awaited(&self, writer: &mut Writer) -> io::Result<()> {
        if self.waiting.load(Relaxed) > 0 {
            return Ok(());
        }
        writer.write_out().await?;
        if !writer.is_flushed {
            writer.link.flush().await?;
            writer.is_flushed = true;
        }
        Ok(())
    }

    /// Sends the buffered frames, shuts this direction of the link down, and drops the writer.
    /// Gives up after [`CLOSING_TIME`].
    pub(crate) async fn close(&self) {
        let mut guard = self.lock().await;
        if let Some(mut writer) = guard.take() {
            let closing = async {
                writer.write_out().await?;
                writer.link.shutdown().await
            };
            // The tunnel has already ended, so an error changes nothing.
            let _ = timeout(CLOSING_TIME, closing).await;
        }
    }
}

impl Writer {
    /// Writes the buffer to the link, without flushing.
    async fn write_out(&mut self) -> io::Result<()> {
        let len = std::mem::take(&mut self.len);
        if len > 0 {
            self.is_flushed = false;
            self.link.write_all(&self.buffer[..len]).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::Arc};

    use tokio::io::duplex;

    use super::*;
    use crate::{
        pipe::Pipe,
        stream::Memory,
        window::{INITIAL_WINDOW, POOL, Pool},
    };

    /// A peer that grants credit for the first bytes of a frame must not exceed the maximum.
    #[tokio::test]
    async fn credit_is_spent_before_the_write_completes() {
        let (near, _far) = duplex(16);
        let sender = LinkSender::new(Box::new(near));
        let (mut user, pipe) = Pipe::new();
        user.write_all(&[1; 1000]).await.unwrap();
        let local = Local::Pipe(pipe);
        let memory = Memory {
            pool: Pool::new(POOL),
            spare: Arc::default(),
        };
        let stream = Stream::new(1, "80".parse().unwrap(), true, None, &memory);
        let mut sending = pin!(sender.send_from(&local, &stream));
        tokio::select! {
            biased;
            _ = &mut sending => panic!("the link has room for 16 bytes only"),
            () = yield_now() => {}
        }
        assert_eq!(stream.credit(usize::MAX) as u64, INITIAL_WINDOW - 1000);
    }
}
