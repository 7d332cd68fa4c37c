//! The end of a connection.

use std::time::Duration;

use super::RudpConnection;
use crate::Time;
use crate::config::Reliability;
use crate::event::{CODE_COMPLETE, CODE_LOST, CODE_VIOLATION, ClosedReason, RudpEvent, Violation};
use crate::frame::{Frame, read_frame};
use crate::wire::Reader;

/// The maximum time for which a completed connection is kept, so that the peer can learn that it is
/// complete. It exceeds a blackout of 5 s. Usually one round trip suffices.
const MAX_LINGER: Duration = Duration::from_secs(10);

/// The minimum time for which close notices of an error are repeated, unless the peer answers. A
/// multiple of the probe timeout could be too short on a path with a short round-trip time: a
/// process on a busy machine may be suspended for many probe timeouts, and its full receive buffer
/// drops the notices.
const MIN_NOTICE_TIME: Duration = Duration::from_secs(2);

/// The maximum interval between close notices of an error.
const MAX_NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// The minimum interval between close notices.
const MIN_NOTICE_INTERVAL: Duration = Duration::from_millis(5);

/// The result of [`RudpConnection::read`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Read {
    /// This many bytes were read, at least one.
    Data(usize),
    /// No data can be read yet.
    Nothing,
    /// The stream has ended: the peer finished it, and everything has been read.
    End,
    /// The connection ended before the stream did.
    Closed,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// The connection is open.
    Open,
    /// The connection is open, and the peer has received the whole outgoing stream.
    Delivered,
    /// The connection has ended; close notices are being sent.
    Ending(Notice),
    /// The connection has ended; nothing more is sent.
    Closed(Option<ClosedReason>),
}

/// The close notice of a connection: its contents, and the schedule of its copies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Notice {
    reason: Option<ClosedReason>,
    pub(super) code: u64,
    pub(super) copies: u8,
    next: Time,
    interval: Duration,
    until: Time,
    last: Time,
}

impl Notice {
    /// Returns the time at which the connection can be discarded. If copies are still due then, the
    /// connection waits a little longer, so that the caller can poll for them.
    fn end(&self) -> Time {
        if self.copies == 0 {
            self.until
        } else {
            self.until + MIN_NOTICE_INTERVAL
        }
    }
}

impl State {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open | Self::Delivered)
    }

    pub(super) fn is_over(&self) -> bool {
        !self.is_open()
    }

    pub(super) fn is_delivered(&self) -> bool {
        !matches!(self, Self::Open)
    }

    pub(super) fn set_delivered(&mut self) {
        if *self == Self::Open {
            *self = Self::Delivered;
        }
    }

    pub(super) fn reason(&self) -> Option<ClosedReason> {
        match self {
            Self::Open | Self::Delivered => None,
            Self::Ending(notice) => notice.reason,
            Self::Closed(reason) => *reason,
        }
    }
}

impl RudpConnection {
    /// Closes the connection at once. Data that are not delivered yet are lost. `code` is sent to
    /// the peer; the caller chooses it below 2^62.
    pub fn close(&mut self, now: Time, code: u64) {
        let code = code.min((1 << 62) - 1);
        if self.state.is_open() {
            self.start_ending(now, Some(ClosedReason::ClosedHere(code)), code);
        }
    }

    /// Closes the connection because the peer violated the protocol.
    pub(super) fn close_for_violation(&mut self, now: Time, violation: Violation) {
        if self.state.is_open() {
            self.start_ending(
                now,
                Some(ClosedReason::Violation(violation)),
                CODE_VIOLATION,
            );
        }
    }

    /// Returns whether this connection ends when a packet is lost or reordered.
    pub(super) fn detects_loss(&self) -> bool {
        self.config.reliability == Reliability::Detect
    }

    /// Closes the connection because of a loss that will not be repaired.
    pub(super) fn close_for_loss(&mut self, now: Time, arrived: u64, sent: u64) {
        if self.state.is_open() {
            self.start_ending(now, Some(ClosedReason::Lost { arrived, sent }), CODE_LOST);
        }
    }

    /// Closes the connection without a notice to the peer.
    pub(super) fn fail(&mut self, reason: ClosedReason) {
        if self.state.is_open() {
            self.events.push_back(RudpEvent::Closed(Some(reason)));
        }
        self.state = State::Closed(Some(reason));
    }

    /// Closes the connection because the peer has closed it. One notice is sent back, so that the
    /// peer stops repeating its own.
    pub(super) fn end(&mut self, now: Time, reason: ClosedReason, code: u64) {
        self.start_ending(now, Some(reason), code);
        if let State::Ending(notice) = &mut self.state {
            notice.copies = 1;
            notice.until = now;
        }
    }

    /// Closes the connection if everything is delivered in both directions.
    pub(super) fn check_complete(&mut self, now: Time) {
        if self.state.is_open() && self.send.is_complete() && self.recv.is_complete() {
            self.complete(now, false);
        }
    }

    /// Closes the connection, as everything is delivered in both directions. `mutual` is true if
    /// the peer knows that.
    pub(super) fn complete(&mut self, now: Time, mutual: bool) {
        if !self.state.is_delivered() {
            self.events.push_back(RudpEvent::Delivered);
        }
        self.start_ending(now, None, CODE_COMPLETE);
        if mutual && let State::Ending(notice) = &mut self.state {
            // Only the notices that are already due are sent.
            notice.until = now;
        }
    }

    /// Ends the connection, and starts to send close notices with this code.
    pub(super) fn start_ending(&mut self, now: Time, reason: Option<ClosedReason>, code: u64) {
        let timeout = self.rtt.probe_timeout(0);
        self.readable = true;
        self.events.push_back(RudpEvent::Closed(reason));
        // Notices are repeated until the peer answers with its own. A completed connection repeats
        // them for longer, because its peer may still have data to send.
        let until = if reason.is_some() {
            now + MIN_NOTICE_TIME.max(3 * timeout)
        } else {
            now + MAX_LINGER.max(8 * timeout)
        };
        self.state = State::Ending(Notice {
            reason,
            code,
            copies: 2,
            next: now + timeout,
            interval: timeout,
            until,
            last: now,
        });
    }

    /// Handles a packet that arrived after the connection ended here.
    pub(super) fn handle_packet_when_over(&mut self, now: Time, frames: &[u8]) {
        let State::Ending(notice) = &mut self.state else {
            return;
        };
        let mut reader = Reader(frames);
        let mut closed = None;
        let mut wants_answer = false;
        while let Ok(frame) = read_frame(&mut reader) {
            match frame {
                Frame::Close(code) => closed = Some(code),
                Frame::Ack(_) | Frame::Padding => {}
                _ => wants_answer = true,
            }
            if reader.is_empty() {
                break;
            }
        }
        if closed.is_some() {
            // Both ends know that the connection has ended.
            notice.until = now;
            if notice.code == CODE_COMPLETE && notice.copies == 0 {
                notice.copies = 1;
            }
        } else if wants_answer && now >= notice.last + MIN_NOTICE_INTERVAL {
            notice.copies = notice.copies.max(1);
        }
    }

    /// Handles a handshake packet that arrived after the connection ended here.
    pub(super) fn handle_set_up_when_over(&mut self, now: Time, is_close: bool) {
        let State::Ending(notice) = &mut self.state else {
            return;
        };
        if is_close {
            notice.until = now;
        } else if now >= notice.last + MIN_NOTICE_INTERVAL {
            notice.copies = notice.copies.max(1);
        }
    }

    /// Returns the code of the close notice that is due.
    pub(super) fn due_notice(&self) -> Option<u64> {
        match &self.state {
            State::Ending(notice) if notice.copies > 0 => Some(notice.code),
            _ => None,
        }
    }

    pub(super) fn on_notice_sent(&mut self, now: Time) {
        if let State::Ending(notice) = &mut self.state {
            notice.copies = notice.copies.saturating_sub(1);
            notice.last = now;
            if notice.copies == 0 && notice.until <= now {
                self.state = State::Closed(notice.reason);
            }
        }
    }

    /// Returns the time at which the next notice is due or the notices end.
    pub(super) fn notice_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Ending(notice) => Some(notice.next.min(notice.end())),
            _ => None,
        }
    }

    pub(super) fn handle_notice_timeout(&mut self, now: Time) {
        if let State::Ending(notice) = &mut self.state {
            if notice.end() <= now {
                self.state = State::Closed(notice.reason);
            } else if notice.next <= now {
                notice.copies = notice.copies.max(1);
                notice.interval =
                    (notice.interval * 2).min(MAX_NOTICE_INTERVAL.max(self.rtt.smoothed()));
                notice.next = now + notice.interval;
            }
        }
    }
}
