//! The density of arriving datagrams, and the choice to let more of them gather.
//!
//! A wake-up costs as much as several packets. A path of 1 Gbit/s delivers a packet every 12 us, so
//! the thread would be woken for nearly each of them. Network cards delay their interrupts for the
//! same reason.

use std::time::Duration;

use transpute_rudp::Time;

/// Weight of the past in the mean gap: this many parts of this plus one.
const PAST: u32 = 3;

/// Upper bound of a counted gap, so that a pause is soon forgotten.
const MAX_GAP: Duration = Duration::from_millis(1);

/// Minimum number of datagrams that a pause must collect.
const WORTHWHILE: u32 = 4;

/// Number of datagrams at once from which the system gathers them by itself.
const GATHERED: usize = 32;

/// Minimum pause, because a timer costs as much as a packet.
const MIN_PAUSE: Duration = Duration::from_micros(20);

/// The density of arrivals.
#[derive(Debug)]
pub(super) struct Flow {
    last: Time,
    gap: Duration,
    flowing: bool,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            last: Time::ZERO,
            gap: MAX_GAP,
            flowing: false,
        }
    }
}

impl Flow {
    /// Records the number of datagrams found in the socket.
    pub(super) fn note(&mut self, now: Time, datagrams: usize) {
        self.flowing = (1..GATHERED).contains(&datagrams);
        let Some(count) = u32::try_from(datagrams).ok().filter(|&count| count > 0) else {
            return;
        };
        let gap = (now.since(self.last) / count).min(MAX_GAP);
        self.gap = (self.gap * PAST + gap) / (PAST + 1);
        self.last = now;
    }

    /// Returns the time for which arrivals should gather, if that is worthwhile.
    pub(super) fn pause(&self, patience: Duration) -> Option<Duration> {
        (self.flowing && patience >= MIN_PAUSE && self.gap * WORTHWHILE <= patience)
            .then_some(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn pauses_are_for_dense_arrivals_only() {
        let mut flow = Flow::default();
        let mut now = Time::ZERO;
        let arrive = |flow: &mut Flow, now: &mut Time, wait: Duration, datagrams| {
            *now = *now + wait;
            flow.note(*now, datagrams);
        };
        assert_eq!(flow.pause(200 * US), None);
        for _ in 0..20 {
            arrive(&mut flow, &mut now, 12 * US, 1);
        }
        assert_eq!(flow.pause(200 * US), Some(200 * US));
        // A short round trip allows no pause, or none that collects enough.
        assert_eq!(flow.pause(40 * US), None);
        assert_eq!(flow.pause(10 * US), None);
        // With pauses, the arrivals stay dense.
        for _ in 0..20 {
            arrive(&mut flow, &mut now, 200 * US, 16);
            assert_eq!(flow.pause(200 * US), Some(200 * US));
        }
        // Nothing arrived in the pause, so the next datagram is awaited.
        arrive(&mut flow, &mut now, 200 * US, 0);
        assert_eq!(flow.pause(200 * US), None);
        // Single datagrams from time to time.
        for _ in 0..20 {
            arrive(&mut flow, &mut now, 300 * US, 1);
        }
        assert_eq!(flow.pause(200 * US), None);
        // Whole batches at once.
        for _ in 0..20 {
            arrive(&mut flow, &mut now, 50 * US, 44);
        }
        assert_eq!(flow.pause(200 * US), None);
    }
}
