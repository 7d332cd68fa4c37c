//! The sending half: hands each frame to a stripe that has room.
//!
//! A stripe takes the next frame only when the kernel has taken all of its last one, so a stripe that the path holds up
//! gets less, and at most one frame per stripe is held here.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::AsyncWrite;

use super::frame::{HEADER, Header, MAX_FRAME};
use crate::{LinkWriter, TransportError};

/// Frames are this short until [`LONG_AFTER`] bytes were sent, so that a short message uses every stripe.
const SHORT_FRAME: usize = 16 * 1024 - HEADER;
const LONG_AFTER: u64 = 1 << 20;

pub(super) struct StripedWriter {
    lanes: Vec<Lane>,
    /// The stripe that small messages stay on: it was the last to take a frame.
    current: usize,
    /// Bytes that `current` took since it became so.
    taken: usize,
    offset: u64,
    is_ending: bool,
    is_broken: bool,
}

struct Lane {
    writer: LinkWriter,
    /// A frame with its header, of which `sent` bytes were handed on.
    frame: Vec<u8>,
    sent: usize,
    /// Bytes were handed on that may not have reached the kernel.
    is_dirty: bool,
}

impl StripedWriter {
    pub(super) fn new(writers: Vec<LinkWriter>) -> Self {
        let lane = |writer| Lane {
            writer,
            frame: Vec::new(),
            sent: 0,
            is_dirty: false,
        };
        Self {
            lanes: writers.into_iter().map(lane).collect(),
            current: 0,
            taken: 0,
            offset: 0,
            is_ending: false,
            is_broken: false,
        }
    }

    fn frame_limit(&self) -> usize {
        if self.offset < LONG_AFTER {
            SHORT_FRAME
        } else {
            MAX_FRAME
        }
    }

    fn poll_put(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_ending {
            return Poll::Ready(Err(TransportError::Closed.into_io()));
        }
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // Frames that are under way come first: the oldest bytes are what the peer waits for.
        let mut free = None;
        let count = self.lanes.len();
        if self.taken >= self.frame_limit() {
            self.current = (self.current + 1) % count;
            self.taken = 0;
        }
        for step in 0..count {
            let index = (self.current + step) % count;
            if self.lanes[index].poll_clear(cx)?.is_ready() && free.is_none() {
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
        let length = buf.len().min(self.frame_limit());
        let header = Header {
            offset: self.offset,
            // At most `MAX_FRAME`.
            length: length as u32,
        };
        self.lanes[index].load(header, &buf[..length]);
        self.offset += length as u64;
        self.taken += length;
        // The bytes are taken, whether they can go out now or later.
        let _ = self.lanes[index].poll_send(cx)?;
        Poll::Ready(Ok(length))
    }

    fn poll_clear_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut result = Poll::Ready(Ok(()));
        for lane in &mut self.lanes {
            if lane.poll_clear(cx)?.is_pending() {
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
            for lane in &mut self.lanes {
                lane.load(end, &[]);
            }
            self.is_ending = true;
        }
        ready!(self.poll_clear_all(cx))?;
        let mut result = Poll::Ready(Ok(()));
        for lane in &mut self.lanes {
            if Pin::new(&mut lane.writer).poll_shutdown(cx)?.is_pending() {
                result = Poll::Pending;
            }
        }
        result
    }

    /// Errors are final: after one, nothing more is put on any stripe.
    fn guard<T>(
        &mut self,
        action: impl FnOnce(&mut Self) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.is_broken {
            return Poll::Ready(Err(TransportError::Closed.into_io()));
        }
        let result = action(self);
        self.is_broken = matches!(result, Poll::Ready(Err(_)));
        result
    }
}

impl Lane {
    /// Puts a frame on an empty lane.
    fn load(&mut self, header: Header, payload: &[u8]) {
        self.frame.clear();
        self.frame.extend_from_slice(&header.encode());
        self.frame.extend_from_slice(payload);
        self.sent = 0;
    }

    /// Hands the frame on.
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

    /// Hands everything to the kernel.
    fn poll_clear(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        if self.is_dirty {
            ready!(Pin::new(&mut self.writer).poll_flush(cx))?;
            self.is_dirty = false;
        }
        Poll::Ready(Ok(()))
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
