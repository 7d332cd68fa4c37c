//! The reading and the writing half of a link, and its path probe.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock, Weak},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use transpute_rudp::Read;

use super::{
    ending::Broken,
    link::{Shared, Wakes},
};
use crate::{LinkInfo, PathProbe, PathSample, StreamError, TransportError, link::LinkHalves};

/// Number of unflushed bytes after which the writer sends them without a flush.
const EAGER: usize = 32 << 10;

/// The two halves of an established connection that is not a link yet.
pub(super) struct Open {
    reader: Reader,
    writer: Writer,
    shared: Arc<Shared>,
}

impl Open {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let halves = Arc::new(Halves(Arc::clone(&shared)));
        Self {
            reader: Reader {
                halves: Arc::clone(&halves),
            },
            writer: Writer { halves },
            shared,
        }
    }

    /// Converts the halves to the parts of a future link.
    pub(super) fn bare(self, info: LinkInfo) -> LinkHalves<Reader, Writer> {
        LinkHalves {
            probe: Arc::new(RudpProbe {
                shared: Arc::downgrade(&self.shared),
                last_sample: self.shared.last_sample(),
            }),
            reader: self.reader,
            writer: self.writer,
            info,
        }
    }
}

/// The connection, owned by both halves. When both halves are dropped, the connection closes: at
/// once, or after all sent data has arrived if the writer was shut down.
struct Halves(Arc<Shared>);

impl Drop for Halves {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

pub(crate) struct Reader {
    halves: Arc<Halves>,
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let shared = &self.halves.0;
        let mut state = shared.lock();
        let now = shared.now();
        match state.connection.read(now, buf.initialize_unfilled()) {
            Read::Data(length) => {
                buf.advance(length);
                // Reading has enlarged the receive window, for which the peer may be waiting.
                shared.settle(state);
                Poll::Ready(Ok(()))
            }
            Read::End => Poll::Ready(Ok(())),
            Read::Nothing => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Read::Closed => {
                let broken = Broken(state.end);
                drop(state);
                Poll::Ready(Err(broken.reading().into_io()))
            }
        }
    }
}

pub(crate) struct Writer {
    halves: Arc<Halves>,
}

impl Writer {
    fn shared(&self) -> &Shared {
        &self.halves.0
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let shared = self.shared();
        let mut state = shared.lock();
        if state.finished {
            return Poll::Ready(Err(TransportError::Stream(StreamError::Closed).into_io()));
        }
        if let Some(broken) = state.broken() {
            return Poll::Ready(Err(broken.writing().into_io()));
        }
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut taken = state.connection.write(buf);
        state.unflushed += taken;
        let mut wakes = Wakes::default();
        if taken < buf.len() || state.unflushed >= EAGER {
            wakes = shared.turn(&mut state);
            if taken == 0 {
                // Sending may have made room in the send buffer, so try again.
                taken = state.connection.write(buf);
            }
        }
        let polled = if taken == 0 {
            state.writer = Some(cx.waker().clone());
            Poll::Pending
        } else {
            Poll::Ready(Ok(taken))
        };
        drop(state);
        wakes.wake();
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = self.shared();
        let state = shared.lock();
        if let Some(broken) = state.broken() {
            if state.delivered {
                return Poll::Ready(Ok(()));
            }
            return Poll::Ready(Err(broken.writing().into_io()));
        }
        if state.unflushed > 0 {
            shared.settle(state);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = self.shared();
        let mut state = shared.lock();
        if state.delivered {
            return Poll::Ready(Ok(()));
        }
        if let Some(broken) = state.broken() {
            // The peer has shut down, received all data and dropped its link. Only the end of this
            // direction was not delivered. No data is lost, so report success.
            if broken.peer_left() && state.connection.has_exchanged() {
                return Poll::Ready(Ok(()));
            }
            return Poll::Ready(Err(broken.writing().into_io()));
        }
        state.writer = Some(cx.waker().clone());
        if !state.finished {
            state.finished = true;
            state.connection.finish();
            shared.settle(state);
        }
        Poll::Pending
    }
}

struct RudpProbe {
    shared: Weak<Shared>,
    last_sample: Arc<OnceLock<PathSample>>,
}

impl PathProbe for RudpProbe {
    fn sample(&self) -> PathSample {
        match self.shared.upgrade() {
            Some(shared) => shared.current_sample(),
            None => self.last_sample.get().cloned().unwrap_or_default(),
        }
    }
}
