//! Timing of the packets of a flight.

use std::time::Duration;

use super::packet::Space;
use crate::Time;

/// The number of copies of a flight that are sent without waiting for a timeout. At a loss of 2 %,
/// all copies of a flight of two packets are lost in one of 60,000 cases. `tests/it/handshake.rs`
/// measures the probability of a handshake in one round trip.
pub(crate) const COPIES: u32 = 3;

/// The interval between copies of a flight. It separates the copies because losses come in bursts:
/// a full queue empties within some milliseconds.
pub(crate) const COPY_SPACING: Duration = Duration::from_millis(5);

/// The round-trip time that is assumed for an unknown path (RFC 9002, section 6.2.2). A flight is
/// repeated when this time has passed without an answer.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The maximum interval between repetitions of a flight.
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// The flight that is being sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Phase {
    /// No flight.
    #[default]
    Idle,
    /// A flight that the peer answers with its own flight.
    Hello,
    /// The connector's last flight. Data follow it at once, and the listener drops the data if it
    /// has not received this flight. So two copies are sent at once, and repetitions start at a
    /// shorter interval.
    Finish,
}

/// The state of the current flight.
#[derive(Debug, Default)]
pub(super) struct Flight {
    phase: Phase,
    /// The level and offset of the next message, while a copy is being sent.
    cursor: Option<(Space, usize)>,
    copies: u32,
    last_copy: Time,
    next_copy: Option<Time>,
}

impl Flight {
    /// Starts a new flight.
    pub(super) fn begin(&mut self, now: Time, phase: Phase) {
        *self = Self {
            phase,
            ..Self::default()
        };
        self.start_copy(now);
    }

    /// Returns whether there is no flight to send.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Returns the level and offset of the next message to send.
    pub(super) fn cursor(&self) -> Option<(Space, usize)> {
        self.cursor
    }

    pub(super) fn set_cursor(&mut self, space: Space, offset: usize) {
        self.cursor = Some((space, offset));
    }

    /// Records that a copy was sent completely.
    pub(super) fn on_copy_sent(&mut self) {
        self.cursor = None;
        if self.phase == Phase::Finish && self.copies == 1 {
            self.start_copy(self.last_copy);
        }
    }

    /// Sends another copy because the peer lacks the flight, unless a copy is due soon anyway.
    pub(super) fn repeat(&mut self, now: Time) {
        if !self.is_idle() && self.copies >= COPIES && now >= self.last_copy + COPY_SPACING {
            self.start_copy(now);
        }
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.next_copy
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.next_copy.is_some_and(|at| at <= now) {
            self.start_copy(now);
        }
    }

    fn start_copy(&mut self, now: Time) {
        let first = match self.phase {
            Phase::Idle => return,
            Phase::Hello => Space::Initial,
            Phase::Finish => Space::Handshake,
        };
        self.cursor = Some((first, 0));
        self.last_copy = now;
        self.copies += 1;
        self.next_copy = Some(now + self.interval());
    }

    /// Returns the interval from the latest copy to the next.
    fn interval(&self) -> Duration {
        let repeated = self.copies.saturating_sub(COPIES).min(8);
        match self.phase {
            _ if self.copies < COPIES => COPY_SPACING,
            Phase::Finish => COPY_SPACING * (1 << repeated),
            _ => INITIAL_RTT * (1 << repeated),
        }
        .min(MAX_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(phase: Phase, count: usize) -> Vec<u64> {
        let mut flight = Flight::default();
        let mut now = Time::ZERO;
        flight.begin(now, phase);
        let mut at = Vec::new();
        while at.len() < count {
            while flight.cursor().is_some() {
                flight.on_copy_sent();
                at.push(now.as_nanos() / 1_000_000);
            }
            now = flight.due().unwrap();
            flight.handle_timeout(now);
        }
        at
    }

    #[test]
    fn copies_are_sent_close_together_and_repetitions_further_apart() {
        let hello = departures(Phase::Hello, 7);
        assert_eq!(hello, [0, 5, 10, 343, 1009, 2009, 3009]);
        let finish = departures(Phase::Finish, 10);
        assert_eq!(finish, [0, 0, 5, 10, 20, 40, 80, 160, 320, 640]);
    }

    #[test]
    fn a_repeated_request_is_answered_once_the_copies_are_sent() {
        let mut flight = Flight::default();
        flight.begin(Time::ZERO, Phase::Hello);
        flight.on_copy_sent();
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        flight.repeat(ms(7));
        assert_eq!(flight.cursor(), None, "copies are due");
        for at in [5, 10] {
            flight.handle_timeout(ms(at));
            flight.on_copy_sent();
        }
        flight.repeat(ms(14));
        assert_eq!(flight.cursor(), None, "too soon");
        flight.repeat(ms(15));
        assert_eq!(flight.cursor(), Some((Space::Initial, 0)));
    }
}
