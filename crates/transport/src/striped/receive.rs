//! The receiving half: puts the frames of all stripes in order, in bounded memory.
//!
//! The next byte of the stream is always the next byte of some stripe, because the offsets on a
//! stripe only increase. While that stripe has no data, the reader reads ahead from the other
//! stripes, up to a memory limit. Further data stays in the kernel, whose receive window then
//! closes and blocks the sender.
//!
//! Stripes may join at any time. While more stripes can join, a byte that is missing on all known
//! stripes may still arrive on a new one.

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
use crate::{LinkReader, StreamError, TransportError};

/// Memory in bytes of a [`Piece`] in addition to its data.
const PIECE_COST: usize = 64;

pub(super) struct StripedReader {
    lanes: Vec<Lane>,
    arrivals: Arrivals<LinkReader>,
    /// Index of the lane that delivered the last byte. The search for the next byte starts there.
    current: usize,
    delivered: u64,
    /// Memory in bytes of all pieces that were read ahead.
    held: usize,
    most_held: usize,
    /// Offset of the end of the stream, if an end frame has arrived.
    end: Option<u64>,
    is_broken: bool,
    scratch: Box<[u8]>,
}

struct Lane {
    number: u8,
    reader: LinkReader,
    usage: Arc<Usage>,
    /// True if a data frame has arrived on this stripe.
    has_carried: bool,
    state: State,
    /// Offset of the end of the latest frame whose header has arrived.
    next_offset: u64,
    /// Data that was read ahead from this stripe, in the order of the stream.
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
    /// The end frame of the stripe has arrived.
    Ended,
    /// The connection has ended too, or has failed without having carried a data frame.
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
    /// Makes a reader that has only stripe 0. It reads ahead at most about `most_held` bytes.
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
            // The next byte has not arrived, so read ahead from the other stripes.
            if !self.poll_ahead(cx)? {
                self.check_gap()?;
                return Poll::Pending;
            }
        }
    }

    /// Returns whether every byte was delivered, and stripe 0 and every connection that carried a
    /// data frame have ended. The kernel would reset a connection that is closed with unread data,
    /// which the peer would report as a failure. Unused connections need not end, because they may
    /// have joined late.
    fn is_complete(&self) -> bool {
        let is_done = |lane: &Lane| match lane.state {
            State::Closed => true,
            _ => lane.is_needless(),
        };
        self.end == Some(self.delivered) && self.lanes.iter().all(is_done)
    }

    /// Writes the next bytes of the stream to `buf`, either from data read ahead or directly from a
    /// stripe. Returns `Pending` if the next byte has not arrived.
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

    /// Reads headers, and reads ahead within the memory limit, until no stripe has more data. Each
    /// stripe then wakes the task when data arrives. Returns whether the next byte or the end may
    /// have arrived.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Result<bool, TransportError> {
        loop {
            if self.poll_headers(cx)? {
                return Ok(true);
            }
            let mut has_read = false;
            for lane in &mut self.lanes {
                // Skip the stripe with the next byte: `deliver` has just polled it.
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

    /// Reads the headers and the ends of connections that have arrived. Returns whether the next
    /// byte or the end may have arrived.
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

    /// Checks a header against the earlier frames of its stripe and the end of the stream, and
    /// records it.
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
            // Mark the stripe as used in both directions. Otherwise, the writer could treat its
            // failure as that of an unused stripe.
            lane.has_carried = true;
            lane.usage.begin();
        }
        if (self.end).is_some_and(|known| self.lanes.iter().any(|lane| lane.next_offset > known)) {
            return Err(violation("there is more behind the end".into()));
        }
        Ok(())
    }

    /// Fails if the next byte can never arrive, because every stripe is past it, or if a stripe
    /// repeats bytes that were delivered before.
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

    /// Returns whether the link can continue if this stripe fails: the stripe is not stripe 0, and
    /// has carried no data frame.
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
                // Neither direction has used the stripe, so ignore its failure.
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

    /// Waits for the end of a connection whose end frame has arrived. Treats a failure of the
    /// connection like its end.
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

    /// Reads at least one byte of the current frame's payload.
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

    /// Stores bytes that were read ahead. Returns the memory that they take, in bytes.
    fn keep(&mut self, offset: u64, bytes: &[u8]) -> usize {
        self.ahead.push_back(Piece {
            offset,
            bytes: bytes.to_vec(),
            taken: 0,
        });
        bytes.len() + PIECE_COST
    }
}

/// Reads at least one byte. Fails if the connection ends, because it must not end before its end
/// frame.
fn poll_some(
    reader: &mut LinkReader,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<Result<(), TransportError>> {
    ready!(Pin::new(reader).poll_read(cx, buf)).map_err(TransportError::from_io)?;
    Poll::Ready(if buf.filled().is_empty() {
        Err(TransportError::Stream(StreamError::Truncated))
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
            return Poll::Ready(Err(TransportError::Stream(StreamError::Closed).into_io()));
        }
        let result = self.poll_get(cx, buf);
        self.is_broken = matches!(result, Poll::Ready(Err(_)));
        result.map_err(TransportError::into_io)
    }
}
