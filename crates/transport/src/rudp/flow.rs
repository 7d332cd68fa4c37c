//! How densely datagrams arrive, and whether it is worth letting some more of them gather.
//!
//! To be woken costs as much as several packets. A path that delivers a packet every 12 us, as one of 1 Gbit/s does, would
//! have the thread woken for nearly each of them; network cards hold their interrupts back for the same reason.

use std::time::Duration;

use transpute_rudp::Time;

/// The weight of the past in the mean gap: this many of this plus one.
const PAST: u32 = 3;

/// Gaps count as no longer than this, so that a pause is forgotten soon.
const MAX_GAP: Duration = Duration::from_millis(1);

/// A pause must promise this many datagrams.
const WORTHWHILE: u32 = 4;

/// Where so many come at once anyway, the system gathers them.
const GATHERED: usize = 32;

/// The shortest pause: a timer is no cheaper than a packet.
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
    /// So many datagrams were found in the socket.
    pub(super) fn note(&mut self, now: Time, datagrams: usize) {
        self.flowing = (1..GATHERED).contains(&datagrams);
        let Some(count) = u32::try_from(datagrams).ok().filter(|&count| count > 0) else {
            return;
        };
        let gap = (now.since(self.last) / count).min(MAX_GAP);
        self.gap = (self.gap * PAST + gap) / (PAST + 1);
        self.last = now;
    }

    /// Returns for how long to leave arrivals alone, if that is worthwhile.
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
        // A short round trip allows no pause, or none that holds enough.
        assert_eq!(flow.pause(40 * US), None);
        assert_eq!(flow.pause(10 * US), None);
        // With pauses it stays dense.
        for _ in 0..20 {
            arrive(&mut flow, &mut now, 200 * US, 16);
            assert_eq!(flow.pause(200 * US), Some(200 * US));
        }
        // Nothing came in the pause: the next one is waited for.
        arrive(&mut flow, &mut now, 200 * US, 0);
        assert_eq!(flow.pause(200 * US), None);
        // Now and then one.
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
