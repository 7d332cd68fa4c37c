//! The sending half of a link. It writes consecutive stripes of the link's bytes to the streams in
//! turn.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use quinn::{Connection, SendStream, VarInt};
use tokio::io::AsyncWrite;

use super::{
    connection::Shared,
    explain::{self, During},
    layout::{HEADER, Layout},
    options::STRIPE,
};
use crate::{StreamError, TransportError};

/// The sending half of a link.
pub(crate) struct Writer {
    /// The streams of this direction. `None` after the writer was shut down or has failed.
    streams: Option<Vec<SendStream>>,
    layout: Layout,
    /// Offset in the link of the next byte to pass to a stream.
    position: u64,
    /// Written bytes that were not passed to a stream yet.
    buffer: Vec<u8>,
    /// Number of bytes at the front of `buffer` that were passed to streams.
    handed: usize,
    header: Header,
    /// Number of bytes passed to streams since the send window was last adapted.
    since_tuning: u64,
    closing: Closing,
    shared: Arc<Shared>,
}

/// The state of the header, which precedes the data on the first stream.
enum Header {
    Unsent([u8; HEADER], usize),
    Sent,
}

enum Closing {
    No,
    /// The streams are finished. The future waits for the peer's acknowledgements.
    Waiting(Pin<Box<dyn Future<Output = Result<(), TransportError>> + Send>>),
    Done,
}

/// Size in bytes of the buffer in which small writes are collected.
const BUFFER: usize = 32 << 10;

/// Number of sent bytes after which the send window is adapted again.
const TUNE_EVERY: u64 = 64 << 10;

/// Number of bytes that may wait in the connection in addition to those in flight. They keep the
/// path busy between two polls. A larger number would delay the back-pressure on the caller.
const BACKLOG: u64 = 256 << 10;

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, streams: u16) -> Result<Self, TransportError> {
        let streams = open(shared.connection(), streams)?;
        let layout = Layout::new(streams.len() as u64, STRIPE);
        Ok(Self {
            streams: Some(streams),
            header: Header::Unsent(layout.header(), 0),
            layout,
            position: 0,
            buffer: Vec::with_capacity(BUFFER),
            handed: 0,
            since_tuning: 0,
            closing: Closing::No,
            shared,
        })
    }

    /// Passes bytes to the streams until a stream accepts no more. Returns the number of accepted
    /// bytes, at least one.
    fn poll_hand_over(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_header(cx))?;
        let Some(streams) = &mut self.streams else {
            return Poll::Ready(Err(TransportError::Stream(StreamError::Closed).into_io()));
        };
        let mut total = 0;
        while total < bytes.len() {
            let (index, room) = self.layout.locate(self.position);
            let piece = &bytes[total..];
            let piece = &piece[..room.min(piece.len())];
            match Pin::new(&mut streams[index]).poll_write(cx, piece) {
                Poll::Ready(Ok(written)) => {
                    total += written;
                    self.position += written as u64;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(explain::write(error))),
                Poll::Pending if total == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        self.since_tuning += total as u64;
        if self.since_tuning >= TUNE_EVERY {
            self.since_tuning = 0;
            tune(self.shared.connection());
        }
        Poll::Ready(Ok(total))
    }

    fn poll_header(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Header::Unsent(header, sent) = &mut self.header {
            if *sent == header.len() {
                self.header = Header::Sent;
                break;
            }
            let Some(first) = self
                .streams
                .as_mut()
                .and_then(|streams| streams.first_mut())
            else {
                return Poll::Ready(Err(TransportError::Stream(StreamError::Closed).into_io()));
            };
            let written = ready!(Pin::new(first).poll_write(cx, &header[*sent..]));
            *sent += written.map_err(explain::write)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Passes the buffered bytes to the streams.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.handed < self.buffer.len() {
            // Move the buffer out temporarily, because `poll_hand_over` borrows all of `self`.
            let buffer = std::mem::take(&mut self.buffer);
            let handed = self.poll_hand_over(cx, &buffer[self.handed..]);
            self.buffer = buffer;
            self.handed += ready!(handed)?;
        }
        self.buffer.clear();
        self.handed = 0;
        Poll::Ready(Ok(()))
    }

    /// Passes the header and all buffered bytes to the streams, before the streams are finished.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        self.poll_header(cx)
    }

    /// Returns whether the peer has sent all its data and closed the connection, so that it cannot
    /// receive the end of this direction.
    fn peer_has_left(&self) -> bool {
        let reason = self.shared.connection().close_reason();
        reason.is_some_and(|reason| explain::is_in_order(&reason))
    }

    /// Finishes all streams. The returned future completes when the peer has acknowledged all data.
    fn finish(
        &mut self,
    ) -> Result<impl Future<Output = Result<(), TransportError>> + Send + use<>, TransportError>
    {
        let streams = self.streams.as_mut().ok_or(StreamError::Closed)?;
        let mut acknowledged = Vec::with_capacity(streams.len());
        for stream in streams {
            acknowledged.push(stream.stopped());
            // `finish` fails only on a stream that is closed already, which the next line reports.
            let _ = stream.finish();
        }
        let shared = Arc::clone(&self.shared);
        Ok(async move {
            for stopped in acknowledged {
                match stopped.await {
                    Ok(None) => {}
                    Ok(Some(code)) => return Err(explain::stopped(code)),
                    Err(_) => {
                        return match shared.connection().close_reason() {
                            Some(reason) if explain::is_in_order(&reason) => Ok(()),
                            Some(reason) => Err(explain::connection(&reason, During::Writing)),
                            None => Err(TransportError::Stream(StreamError::Closed)),
                        };
                    }
                }
            }
            shared.note_all_sent();
            Ok(())
        })
    }
}

/// Opens the streams of this side. The peer's limit allows them from the start.
fn open(connection: &Connection, count: u16) -> Result<Vec<SendStream>, TransportError> {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut streams = Vec::with_capacity(count.into());
    for _ in 0..count {
        let mut opening = std::pin::pin!(connection.open_uni());
        match opening.as_mut().poll(&mut cx) {
            Poll::Ready(Ok(stream)) => streams.push(stream),
            Poll::Ready(Err(error)) => {
                return Err(explain::connection(&error, During::Handshake));
            }
            Poll::Pending => {
                return Err(explain::protocol(format!(
                    "it allows {} streams, expected {count} at least",
                    streams.len()
                )));
            }
        }
    }
    Ok(streams)
}

/// Sets the send window to twice the congestion window plus [`BACKLOG`]. The factor is 2 because
/// the bytes after a lost packet occupy the send window until the retransmission is acknowledged.
fn tune(connection: &Connection) {
    connection.set_send_window(send_window(connection.stats().path.cwnd));
}

pub(super) fn send_window(congestion_window: u64) -> u64 {
    congestion_window
        .saturating_mul(2)
        .saturating_add(BACKLOG)
        .min(VarInt::MAX.into_inner())
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if !matches!(this.closing, Closing::No) {
            return Poll::Ready(Err(TransportError::Stream(StreamError::Closed).into_io()));
        }
        if this.buffer.len() + bytes.len() > BUFFER {
            ready!(this.poll_drain(cx))?;
        }
        if bytes.len() >= BUFFER {
            return this.poll_hand_over(cx, bytes);
        }
        this.buffer.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_drain(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match &mut this.closing {
                Closing::No => {
                    this.closing = match ready!(this.poll_rest(cx)) {
                        Ok(()) => {
                            let finished = this.finish().map_err(TransportError::into_io)?;
                            Closing::Waiting(Box::pin(finished))
                        }
                        Err(_) if this.peer_has_left() => Closing::Done,
                        Err(error) => return Poll::Ready(Err(error)),
                    };
                }
                Closing::Waiting(finished) => {
                    ready!(finished.as_mut().poll(cx)).map_err(TransportError::into_io)?;
                    this.closing = Closing::Done;
                }
                Closing::Done => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(streams) = self.streams.take() {
            self.shared.park(streams);
        }
    }
}
