//! The receiving half: puts the frames of all stripes in order, in bounded memory.
//!
//! The next bytes of the stream are always at the front of some stripe, because the offsets on a
//! stripe only increase. Only while that stripe has no data are others read ahead, up to a limit.
//! Further data stays in the kernel, whose window then closes and blocks the sender.
//!
//! Stripes may join at any time. While more can join, a byte that is on none of them may still
//! arrive on another one.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use super::{
    frame::{HEADER, Header, MAX_FRAME, violation},
    growth::{Arrivals, Stripe, Usage},
};
use crate::{LinkReader, TransportError};

/// Memory of a kept piece in addition to its bytes.
const PIECE_COST: usize = 64;

pub(super) struct StripedReader {
    lanes: Vec<Lane>,
    arrivals: Arrivals<LinkReader>,
    /// The stripe on which the next byte is expected.
    current: usize,
    delivered: u64,
    /// Bytes read ahead, with the memory of keeping them.
    held: usize,
    most_held: usize,
    /// The end of the stream, if a stripe has announced it.
    end: Option<u64>,
    is_broken: bool,
    scratch: Box<[u8]>,
}

struct Lane {
    number: u8,
    reader: LinkReader,
    usage: Arc<Usage>,
    /// A frame has arrived on it.
    has_carried: bool,
    state: State,
    /// Offset after the last frame that started.
    next_offset: u64,
    /// Pieces that were read ahead, in order.
    ahead: VecDeque<Piece>,
}

#[derive(Clone, Copy)]
enum State {
    Header {
        bytes: [u8; HEADER],
        got: usize,
    },
    Body {
        offset: u64,
        left: usize,
    },
    /// Its last frame has arrived.
    Ended,
    /// Its connection has ended too.
    Closed,
}

struct Piece {
    offset: u64,
    bytes: Vec<u8>,
    taken: usize,
}

const NEW_FRAME: State = State::Header {
    bytes: [0; HEADER],
    got: 0,
};

impl StripedReader {
    /// Starts with stripe 0. Reads ahead at most about `most_held` bytes.
    pub(super) fn new(first: LinkReader, arrivals: Arrivals<LinkReader>, most_held: usize) -> Self {
        Self {
            lanes: vec![Lane::new(Stripe::first(first))],
            arrivals,
            current: 0,
            delivered: 0,
            held: 0,
            most_held,
            end: None,
            is_broken: false,
            scratch: vec![0; MAX_FRAME].into_boxed_slice(),
        }
    }

    fn poll_get(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), TransportError>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let joined = self.arrivals.take(cx).into_iter();
        self.lanes.extend(joined.map(Lane::new));
        let before = buf.filled().len();
        loop {
            while buf.remaining() > 0 && self.deliver(cx, buf)?.is_ready() {}
            if buf.filled().len() > before || self.is_complete() {
                return Poll::Ready(Ok(()));
            }
            // The next byte has not arrived, so all other bytes are for later.
            if !self.poll_ahead(cx)? {
                self.check_gap()?;
                return Poll::Pending;
            }
        }
    }

    /// Returns whether every byte was delivered, and every connection that carried a frame has
    /// ended. A connection that is closed with unread data is reset, and the peer would take that
    /// for a failure. The other connections may not even know of the end yet.
    fn is_complete(&self) -> bool {
        let is_done = |lane: &Lane| match lane.state {
            State::Closed => true,
            _ => lane.is_needless(),
        };
        self.end == Some(self.delivered) && self.lanes.iter().all(is_done)
    }

    /// Returns the next bytes of the stream: those read ahead, or directly from their stripe.
    /// Pending if there are none.
    fn deliver(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), TransportError>> {
        let count = self.lanes.len();
        for step in 0..count {
            let index = (self.current + step) % count;
            let lane = &mut self.lanes[index];
            if lane.front() != Some(self.delivered) {
                continue;
            }
            self.current = index;
            let before = buf.filled().len();
            match lane.ahead.front_mut() {
                Some(piece) => {
                    let rest = &piece.bytes[piece.taken..];
                    let length = rest.len().min(buf.remaining());
                    buf.put_slice(&rest[..length]);
                    piece.taken += length;
                    piece.offset += length as u64;
                    if piece.taken == piece.bytes.len() {
                        self.held -= piece.bytes.len() + PIECE_COST;
                        lane.ahead.pop_front();
                    }
                }
                None => ready!(lane.poll_body(cx, buf))?,
            }
            self.delivered += (buf.filled().len() - before) as u64;
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// Reads headers, and later bytes within the limit, until no stripe has more. Each stripe then
    /// wakes the task. Returns whether the next byte, or the end, may have arrived.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Result<bool, TransportError> {
        loop {
            if self.poll_headers(cx)? {
                return Ok(true);
            }
            let mut has_read = false;
            for lane in &mut self.lanes {
                // The stripe with the next byte has just been polled for it.
                let State::Body { offset, .. } = lane.state else {
                    continue;
                };
                if offset == self.delivered || self.held >= self.most_held {
                    continue;
                }
                let mut piece = ReadBuf::new(&mut self.scratch);
                if lane.poll_body(cx, &mut piece)?.is_ready() {
                    self.held += lane.keep(offset, piece.filled());
                    has_read = true;
                }
            }
            if !has_read {
                return Ok(false);
            }
        }
    }

    /// Reads the available headers, and the ends of stripes.
    fn poll_headers(&mut self, cx: &mut Context<'_>) -> Result<bool, TransportError> {
        let mut is_next = false;
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            lane.poll_close(cx)?;
            let Poll::Ready(header) = lane.poll_header(cx)? else {
                continue;
            };
            self.check(index, header)?;
            self.lanes[index].poll_close(cx)?;
            is_next |= header.offset == self.delivered;
        }
        Ok(is_next || self.is_complete())
    }

    /// Checks a header against its stripe and the end of the stream.
    fn check(&mut self, index: usize, header: Header) -> Result<(), TransportError> {
        let lane = &mut self.lanes[index];
        let end = header.offset + u64::from(header.length);
        let number = lane.number;
        if header.offset < lane.next_offset || header.offset < self.delivered {
            return Err(violation(format!(
                "stripe {number} repeats byte {}",
                header.offset
            )));
        }
        lane.next_offset = end;
        if header.length == 0 {
            if self.end.is_some_and(|known| known != end) {
                return Err(violation("they end at different places".into()));
            }
            self.end = Some(end);
            lane.state = State::Ended;
        } else if !lane.has_carried {
            // Without this, the failure of a stripe that counts as unused would end the link.
            lane.has_carried = true;
            lane.usage.begin();
        }
        if (self.end).is_some_and(|known| self.lanes.iter().any(|lane| lane.next_offset > known)) {
            return Err(violation("there is more behind the end".into()));
        }
        Ok(())
    }

    /// Detects that the next byte will never arrive, because every stripe is past it, or that a
    /// stripe is behind it.
    fn check_gap(&self) -> Result<(), TransportError> {
        if self.end == Some(self.delivered) {
            return Ok(());
        }
        for lane in &self.lanes {
            if let Some(front) = lane.front().filter(|&front| front < self.delivered) {
                let number = lane.number;
                return Err(violation(format!("stripe {number} repeats byte {front}")));
            }
        }
        if self.arrivals.is_growing() {
            return Ok(());
        }
        let is_past = |lane: &Lane| match (lane.front(), lane.state) {
            (Some(front), _) => front > self.delivered,
            (None, State::Ended | State::Closed) => true,
            (None, _) => false,
        };
        if self.lanes.iter().all(is_past) {
            return Err(violation(format!(
                "byte {} is on none of them",
                self.delivered
            )));
        }
        Ok(())
    }
}

impl Lane {
    fn new(stripe: Stripe<LinkReader>) -> Self {
        Self {
            number: stripe.number,
            reader: stripe.half,
            usage: stripe.usage,
            has_carried: false,
            state: NEW_FRAME,
            next_offset: 0,
            ahead: VecDeque::new(),
        }
    }

    /// Returns whether it has carried nothing that was needed.
    fn is_needless(&self) -> bool {
        self.number != 0 && !self.has_carried
    }

    /// Returns the offset of the next byte of this stripe, if it is known.
    fn front(&self) -> Option<u64> {
        match (self.ahead.front(), self.state) {
            (Some(piece), _) => Some(piece.offset),
            (None, State::Body { offset, .. }) => Some(offset),
            (None, _) => None,
        }
    }

    fn poll_header(&mut self, cx: &mut Context<'_>) -> Poll<Result<Header, TransportError>> {
        let State::Header { bytes, got } = &mut self.state else {
            return Poll::Pending;
        };
        while *got < HEADER {
            let mut rest = ReadBuf::new(&mut bytes[*got..]);
            let read = ready!(poll_some(&mut self.reader, cx, &mut rest));
            *got += rest.filled().len();
            let is_needless = self.number != 0 && !self.has_carried;
            if read.is_err() && is_needless && self.usage.fail() {
                // Neither direction needs it.
                self.state = State::Closed;
                return Poll::Pending;
            }
            read?;
        }
        let header = Header::decode(*bytes)?;
        self.state = State::Body {
            offset: header.offset,
            left: header.length as usize,
        };
        Poll::Ready(Ok(header))
    }

    /// Waits for the end of a connection whose last frame has arrived. A failure is not an error
    /// any more.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Result<(), TransportError> {
        if !matches!(self.state, State::Ended) {
            return Ok(());
        }
        let mut byte = [0; 1];
        let mut rest = ReadBuf::new(&mut byte);
        match Pin::new(&mut self.reader).poll_read(cx, &mut rest) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Ok(())) if !rest.filled().is_empty() => {
                return Err(violation("there is more behind the end".into()));
            }
            Poll::Ready(_) => self.state = State::Closed,
        }
        Ok(())
    }

    /// Reads at least a byte from the body of the current frame.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), TransportError>> {
        let State::Body { offset, left } = &mut self.state else {
            return Poll::Pending;
        };
        let room = buf.remaining().min(*left);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        ready!(poll_some(&mut self.reader, cx, &mut part))?;
        let read = part.filled().len();
        buf.advance(read);
        *offset += read as u64;
        *left -= read;
        if *left == 0 {
            self.state = NEW_FRAME;
        }
        Poll::Ready(Ok(()))
    }

    /// Keeps bytes for later. Returns the memory that this takes.
    fn keep(&mut self, offset: u64, bytes: &[u8]) -> usize {
        self.ahead.push_back(Piece {
            offset,
            bytes: bytes.to_vec(),
            taken: 0,
        });
        bytes.len() + PIECE_COST
    }
}

/// Reads at least a byte. The end of a stripe before its last frame is an error.
fn poll_some(
    reader: &mut LinkReader,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<Result<(), TransportError>> {
    ready!(Pin::new(reader).poll_read(cx, buf)).map_err(TransportError::from_io)?;
    Poll::Ready(if buf.filled().is_empty() {
        Err(TransportError::Truncated)
    } else {
        Ok(())
    })
}

impl AsyncRead for StripedReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_broken {
            return Poll::Ready(Err(TransportError::Closed.into_io()));
        }
        let result = self.poll_get(cx, buf);
        self.is_broken = matches!(result, Poll::Ready(Err(_)));
        result.map_err(TransportError::into_io)
    }
}
