//! Timers: loss detection, probe timeout, keep-alive and idle timeout.

use super::RudpConnection;
use crate::Time;
use crate::event::ClosedReason;

/// The number of packets that are sent at a probe timeout (RFC 9002, section 6.2.4).
const PROBES_PER_TIMEOUT: u8 = 2;

/// The number of probe timeouts in a row after which the rate controller is notified of a timeout.
const MAX_PROBE_TIMEOUTS: u32 = 2;

impl RudpConnection {
    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout) and then
    /// [`poll_transmit`](Self::poll_transmit), if no datagram arrives before. `None` if no timer is
    /// set.
    ///
    /// Each call of another method may change this time.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        if self.state.is_over() {
            // Handshake packets are still repeated, because the peer needs them to read the close
            // notices.
            let flight = self.set_up_timeout().filter(|_| self.established);
            return (self.notice_timeout()).map(|at| flight.map_or(at, |flight| flight.min(at)));
        }
        [
            self.set_up_timeout(),
            self.trains.next_timeout(),
            self.migration.next_timeout(),
            self.acks.due(),
            self.loss_timeout(),
            self.pacing_timeout(),
            self.block_timeout(),
            self.keep_alive_timeout(),
            self.mtu_timeout(),
            Some(self.idle_timeout()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Handles all timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        let gives_up =
            (self.phase.handshake_mut()).is_some_and(|set_up| set_up.handle_timeout(now));
        if self.state.is_over() {
            self.handle_notice_timeout(now);
            return;
        }
        if gives_up {
            self.fail(ClosedReason::PathBlocked(self.config.setup_timeout));
            return;
        }
        self.check_train(now);
        self.trains.handle_timeout(now);
        self.migration.handle_timeout(now);
        self.maybe_answer_with_train();
        if self.idle_timeout() <= now {
            self.fail(ClosedReason::TimedOut(self.config.idle_timeout()));
            return;
        }
        if self.loss_timeout().is_some_and(|at| at <= now) {
            if self.sent.loss_time().is_some() {
                self.process_losses(now, None, None);
            } else {
                self.backoff += 1;
                self.counters.probe_timeouts += 1;
                self.probes = PROBES_PER_TIMEOUT;
                if self.backoff >= MAX_PROBE_TIMEOUTS {
                    self.controller.on_timeout(now);
                    self.update_pacing(now);
                }
            }
        }
        self.handle_block_timeout(now);
        if self.keep_alive_timeout().is_some_and(|at| at <= now) {
            self.ping = true;
        }
    }

    fn set_up_timeout(&self) -> Option<Time> {
        self.phase.handshake()?.next_timeout()
    }

    /// Returns the time at which packets in flight are declared lost. If no such time is set,
    /// returns the time at which probes are sent.
    fn loss_timeout(&self) -> Option<Time> {
        if self.sent.is_idle() {
            return None;
        }
        if self.probes > 0 {
            // The probes of the last timeout must be sent first.
            return None;
        }
        let probe = || self.sent.last_sent() + self.rtt.probe_timeout(self.backoff);
        Some(self.sent.loss_time().unwrap_or_else(probe))
    }

    fn keep_alive_timeout(&self) -> Option<Time> {
        let interval = self.config.keep_alive?;
        (self.established && !self.ping && self.sent.is_idle()).then(|| self.last_sent + interval)
    }

    fn mtu_timeout(&self) -> Option<Time> {
        // A larger packet size is useful only while data are sent.
        (!self.sent.is_idle())
            .then(|| self.mtu.next_probe(self.last_sent))
            .flatten()
    }

    fn idle_timeout(&self) -> Time {
        self.last_heard + self.config.idle_timeout()
    }
}
