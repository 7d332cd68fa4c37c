//! How a connection ends.

use std::time::Duration;

use super::Connection;
use crate::Time;
use crate::config::Reliability;
use crate::event::{CODE_COMPLETE, CODE_LOST, CODE_VIOLATION, ClosedReason, Event, Violation};
use crate::frame::{Frame, read_frame};
use crate::wire::Reader;

/// How long an end that is done stays, at most, for the other end to learn that it is: through a
/// blackout of 5 s and some. Usually it takes one round trip.
const LINGER: Duration = Duration::from_secs(10);

/// How long the other end is told of a violent end at least, unless it answers. Probe timeouts are
/// no measure of that where the round trip is short: a busy machine stands still for many of them,
/// with a full queue in which notices are lost.
const TELLING: Duration = Duration::from_secs(2);

/// How far apart the notices are then, at most.
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// How far notices of an end are apart at least.
const NOTICE_INTERVAL: Duration = Duration::from_millis(5);

/// What [`Connection::read`] found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Read {
    /// This many bytes, at least one.
    Data(usize),
    /// Nothing yet.
    Nothing,
    /// The stream is over: the other end finished it, and everything has been read.
    End,
    /// The connection ended before the stream did.
    Closed,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// As it should be.
    Open,
    /// The same, and the other end has all there will ever be.
    Delivered,
    /// Over; the other end is being told.
    Ending(Notice),
    /// Over; nothing more is sent.
    Closed(Option<ClosedReason>),
}

/// What the other end is told, and until when.
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
    /// Returns when the connection is forgotten. Copies that are still due wait a little longer for
    /// the caller to poll.
    fn end(&self) -> Time {
        if self.copies == 0 {
            self.until
        } else {
            self.until + NOTICE_INTERVAL
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

impl Connection {
    /// Ends the connection at once. What is not delivered yet is lost; the other end is told the
    /// code, which the caller chooses below 2^62.
    pub fn close(&mut self, now: Time, code: u64) {
        let code = code.min((1 << 62) - 1);
        if self.state.is_open() {
            self.announce(now, Some(ClosedReason::ClosedHere(code)), code);
        }
    }

    /// Ends the connection because of what the other end sent.
    pub(super) fn violate(&mut self, now: Time, violation: Violation) {
        if self.state.is_open() {
            self.announce(
                now,
                Some(ClosedReason::Violation(violation)),
                CODE_VIOLATION,
            );
        }
    }

    /// Returns whether a loss ends the connection.
    pub(super) fn detects(&self) -> bool {
        self.config.reliability == Reliability::Detect
    }

    /// Ends the connection because of a loss that nobody repairs.
    pub(super) fn lose(&mut self, now: Time, arrived: u64, sent: u64) {
        if self.state.is_open() {
            self.announce(now, Some(ClosedReason::Lost { arrived, sent }), CODE_LOST);
        }
    }

    /// Ends the connection without telling anybody.
    pub(super) fn fail(&mut self, reason: ClosedReason) {
        if self.state.is_open() {
            self.events.push_back(Event::Closed(Some(reason)));
        }
        self.state = State::Closed(Some(reason));
    }

    /// The other end has closed. It is told once that this is known here, so that it stops saying
    /// so.
    pub(super) fn end(&mut self, now: Time, reason: ClosedReason, code: u64) {
        self.announce(now, Some(reason), code);
        if let State::Ending(notice) = &mut self.state {
            notice.copies = 1;
            notice.until = now;
        }
    }

    /// Ends the connection as it should end, once everything is delivered both ways.
    pub(super) fn check_complete(&mut self, now: Time) {
        if self.state.is_open() && self.send.is_complete() && self.recv.is_complete() {
            self.complete(now, false);
        }
    }

    /// Everything is delivered both ways. `mutual`: the other end knows.
    pub(super) fn complete(&mut self, now: Time, mutual: bool) {
        if !self.state.is_delivered() {
            self.events.push_back(Event::Delivered);
        }
        self.announce(now, None, CODE_COMPLETE);
        if mutual && let State::Ending(notice) = &mut self.state {
            // Only the notices that are due still go out.
            notice.until = now;
        }
    }

    pub(super) fn announce(&mut self, now: Time, reason: Option<ClosedReason>, code: u64) {
        let timeout = self.rtt.probe_timeout(0);
        self.readable = true;
        self.events.push_back(Event::Closed(reason));
        // Either is told until the other end says the same, a good end for longer: the other end
        // may have more to say.
        let until = if reason.is_some() {
            now + TELLING.max(3 * timeout)
        } else {
            now + LINGER.max(8 * timeout)
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

    /// A packet came although the connection is over here.
    pub(super) fn answer_when_over(&mut self, now: Time, frames: &[u8]) {
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
            // Both know.
            notice.until = now;
            if notice.code == CODE_COMPLETE && notice.copies == 0 {
                notice.copies = 1;
            }
        } else if wants_answer && now >= notice.last + NOTICE_INTERVAL {
            notice.copies = notice.copies.max(1);
        }
    }

    /// A packet of the set-up came although the connection is over here.
    pub(super) fn answer_set_up_when_over(&mut self, now: Time, is_close: bool) {
        let State::Ending(notice) = &mut self.state else {
            return;
        };
        if is_close {
            notice.until = now;
        } else if now >= notice.last + NOTICE_INTERVAL {
            notice.copies = notice.copies.max(1);
        }
    }

    /// Returns what to tell the other end now.
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

    /// Returns when the notice is due again or no more.
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
                notice.interval = (notice.interval * 2).min(MAX_INTERVAL.max(self.rtt.smoothed()));
                notice.next = now + notice.interval;
            }
        }
    }
}
