//! The sending half: passes each frame to a stripe that has room.
//!
//! A stripe takes its next frame only when the kernel has accepted all of its previous one. So a
//! slow stripe gets fewer frames, and the writer holds at most one frame per stripe. A stripe that
//! has just joined has room for a frame.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::AsyncWrite;

use super::{
    frame::{Header, MAX_FRAME, RECORD},
    growth::{Arrivals, Stripe, Usage},
};
use crate::{LinkWriter, StreamError, TransportError};

/// Number of bytes of the stream after which frames grow from [`RECORD`] to [`MAX_FRAME`]. Before,
/// short frames spread even a short message over all stripes.
const LONG_AFTER: u64 = 1 << 20;

pub(super) struct StripedWriter {
    lanes: Vec<Lane>,
    arrivals: Arrivals<LinkWriter>,
    /// Index of the lane that took the last frame. It also takes the next ones, up to one frame
    /// length in total, so that small messages stay on one stripe.
    current: usize,
    /// Number of bytes that `current` has taken since it became the current lane.
    taken: usize,
    offset: u64,
    is_ending: bool,
    is_broken: bool,
}

struct Lane {
    number: u8,
    writer: LinkWriter,
    usage: Arc<Usage>,
    /// True if the stripe has carried a data frame.
    has_carried: bool,
    /// True if the stripe has failed without having carried a data frame.
    is_gone: bool,
    /// The current frame with its header. The stripe's writer has accepted its first `sent` bytes.
    frame: Vec<u8>,
    sent: usize,
    /// True if the stripe's writer has accepted bytes and was not flushed since.
    is_dirty: bool,
}

impl StripedWriter {
    /// Makes a writer that has only stripe 0.
    pub(super) fn new(first: LinkWriter, arrivals: Arrivals<LinkWriter>) -> Self {
        Self {
            lanes: vec![Lane::new(Stripe::first(first))],
            arrivals,
            current: 0,
            taken: 0,
            offset: 0,
            is_ending: false,
            is_broken: false,
        }
    }

    fn poll_put(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_ending {
            return Poll::Ready(Err(TransportError::Stream(StreamError::Closed).into_io()));
        }
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let joined = self.arrivals.take(cx).into_iter();
        self.lanes.extend(joined.map(Lane::new));
        let limit = match self.offset {
            ..LONG_AFTER => RECORD,
            _ => MAX_FRAME,
        };
        let count = self.lanes.len();
        if self.taken >= limit {
            self.current = (self.current + 1) % count;
            self.taken = 0;
        }
        // Send the frames in progress first, because the peer waits for the oldest bytes.
        let mut free = None;
        for step in 0..count {
            let index = (self.current + step) % count;
            let lane = &mut self.lanes[index];
            if lane.poll_clear(cx)?.is_ready() && free.is_none() && lane.begin() {
                free = Some(index);
            }
        }
        let Some(index) = free else {
            return Poll::Pending;
        };
        if index != self.current {
            self.current = index;
            self.taken = 0;
        }
        let length = buf.len().min(limit);
        let header = Header {
            offset: self.offset,
            // The cast is exact, because the length is at most `MAX_FRAME`.
            length: length as u32,
        };
        self.lanes[index].load(header, &buf[..length]);
        self.offset += length as u64;
        self.taken += length;
        // Ignore `Pending`: the lane holds the frame and sends the rest later.
        let _ = self.lanes[index].poll_send(cx)?;
        Poll::Ready(Ok(length))
    }

    fn poll_clear_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut result = Poll::Ready(Ok(()));
        for lane in &mut self.lanes {
            let cleared = lane.poll_clear(cx);
            if lane.excused(cleared)?.is_pending() {
                result = Poll::Pending;
            }
        }
        result
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_ending {
            ready!(self.poll_clear_all(cx))?;
            let end = Header {
                offset: self.offset,
                length: 0,
            };
            let joined = self.arrivals.end(end).into_iter();
            self.lanes.extend(joined.map(Lane::new));
            for lane in &mut self.lanes {
                lane.load(end, &[]);
            }
            self.is_ending = true;
        }
        ready!(self.poll_clear_all(cx))?;
        let mut result = Poll::Ready(Ok(()));
        for lane in &mut self.lanes {
            if lane.is_gone {
                continue;
            }
            let shut = Pin::new(&mut lane.writer).poll_shutdown(cx);
            if lane.excused(peer_was_faster(shut))?.is_pending() {
                result = Poll::Pending;
            }
        }
        result
    }

    /// Runs an action unless an earlier one has failed. After an error, nothing more is sent on any
    /// stripe.
    fn guard<T>(
        &mut self,
        action: impl FnOnce(&mut Self) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.is_broken {
            return Poll::Ready(Err(TransportError::Stream(StreamError::Closed).into_io()));
        }
        let result = action(self);
        self.is_broken = matches!(result, Poll::Ready(Err(_)));
        result
    }
}

impl Lane {
    fn new(stripe: Stripe<LinkWriter>) -> Self {
        Self {
            number: stripe.number,
            writer: stripe.half,
            usage: stripe.usage,
            has_carried: false,
            is_gone: false,
            frame: Vec::new(),
            sent: 0,
            is_dirty: false,
        }
    }

    /// Marks the stripe as used by a data frame. Returns `false` if it has failed before.
    fn begin(&mut self) -> bool {
        if !self.has_carried && !self.is_gone {
            self.has_carried = self.usage.begin();
            self.is_gone = !self.has_carried;
        }
        self.has_carried
    }

    /// Ignores the failure of a stripe other than 0 that has carried no data frame, because the
    /// peer does not wait for its end.
    fn excused(&mut self, result: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        match result {
            Poll::Ready(Err(_)) if self.number != 0 && !self.has_carried => {
                self.is_gone = true;
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    /// Stores the next frame of a lane whose previous frame was sent.
    fn load(&mut self, header: Header, payload: &[u8]) {
        self.frame.clear();
        self.frame.extend_from_slice(&header.encode());
        self.frame.extend_from_slice(payload);
        self.sent = 0;
    }

    /// Passes the rest of the frame to the stripe's writer.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.frame.len() {
            let written =
                ready!(Pin::new(&mut self.writer).poll_write(cx, &self.frame[self.sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written;
            self.is_dirty = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Passes the rest of the frame to the stripe's writer, and flushes the writer.
    fn poll_clear(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_gone {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_send(cx))?;
        if self.is_dirty {
            ready!(Pin::new(&mut self.writer).poll_flush(cx))?;
            self.is_dirty = false;
        }
        Poll::Ready(Ok(()))
    }
}

/// Converts an error of shutting down to success if the peer has closed the connection. The end
/// frame was sent before, so the peer has all it needs.
fn peer_was_faster(shut: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    match shut {
        Poll::Ready(Err(error))
            if matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected) =>
        {
            Poll::Ready(Ok(()))
        }
        other => other,
    }
}

impl AsyncWrite for StripedWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.guard(|writer| writer.poll_put(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guard(|writer| writer.poll_clear_all(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guard(|writer| writer.poll_end(cx))
    }
}
