//! Streams that this process opens itself, without a local socket.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
};

use crate::queue::ByteQueue;

/// Maximum number of bytes that a pipe holds in each direction.
const CAPACITY: usize = 64 << 10;

/// A stream to a target of the peer, which [`Tunnel::open`](crate::Tunnel::open) returns.
///
/// It behaves like a TCP connection. `shutdown` ends this direction only, and `flush` has no
/// effect. If the peer refuses or resets the stream, or the tunnel is lost, reads and writes return
/// [`io::ErrorKind::ConnectionReset`].
#[derive(Debug)]
pub struct TunnelStream(Arc<Pipe>);

/// The two directions of a [`TunnelStream`].
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    state: Mutex<State>,
    /// Wakes the tunnel when it can read.
    readable: Notify,
    /// Wakes the tunnel when it can write.
    writable: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes from the user to the tunnel.
    sent: ByteQueue,
    /// True if the user sends no more bytes.
    is_sent: bool,
    /// Bytes from the tunnel to the user.
    received: ByteQueue,
    /// True if the tunnel writes no more bytes.
    is_received: bool,
    is_finished: bool,
    is_reset: bool,
    /// True if the user dropped the stream.
    is_dropped: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }
}

impl Pipe {
    /// Returns the two ends of a new pipe: that of the user, and that of the tunnel.
    pub(crate) fn new() -> (TunnelStream, Arc<Self>) {
        let pipe = Arc::new(Self::default());
        (TunnelStream(Arc::clone(&pipe)), pipe)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn readable(&self) {
        loop {
            {
                let state = self.state();
                if !state.sent.is_empty() || state.is_sent {
                    return;
                }
            }
            self.readable.notified().await;
        }
    }

    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        let read = take(&mut state.sent, buffer);
        if read == 0 && !state.is_sent {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
        Ok(read)
    }

    pub(crate) async fn writable(&self) {
        loop {
            {
                let state = self.state();
                if state.received.len() < CAPACITY || state.is_dropped {
                    return;
                }
            }
            self.writable.notified().await;
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        if state.is_dropped {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let written = bytes.len().min(CAPACITY - state.received.len());
        if written == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.received.push(&bytes[..written]);
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        Ok(written)
    }

    /// Ends the direction from the tunnel to the user.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_received = true;
        state.wake();
    }

    pub(crate) fn finish(&self) {
        self.state().is_finished = true;
    }

    pub(crate) fn reset_unless_finished(&self) {
        let mut state = self.state();
        state.is_reset = !state.is_finished;
        state.wake();
    }
}

/// Moves the first bytes of a queue to a buffer. Returns their number.
fn take(queue: &mut ByteQueue, buffer: &mut [u8]) -> usize {
    let mut len = 0;
    for slice in queue.slices() {
        let count = slice.len().min(buffer.len() - len);
        buffer[len..len + count].copy_from_slice(&slice[..count]);
        len += count;
    }
    queue.remove(len);
    len
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        if state.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let len = take(&mut state.received, buf.initialize_unfilled());
        buf.advance(len);
        if len == 0 && buf.remaining() > 0 && !state.is_received {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.0.writable.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.state();
        if state.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.is_sent {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let len = buf.len().min(CAPACITY - state.sent.len());
        if len == 0 && !buf.is_empty() {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.sent.push(&buf[..len]);
        self.0.readable.notify_one();
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.state().is_sent = true;
        self.0.readable.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl Drop for TunnelStream {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.is_sent, state.is_dropped) = (true, true);
        self.0.readable.notify_one();
        self.0.writable.notify_one();
    }
}
