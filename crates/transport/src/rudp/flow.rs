//! Interrupt coalescing in user space: decides from the rate of arriving datagrams whether the
//! thread pauses, so that it receives several datagrams per wake-up.
//!
//! A wake-up costs as much processor time as handling several packets. A path of 1 Gbit/s delivers
//! a packet every 12 us, so nearly every packet would wake the thread. Network cards delay their
//! interrupts for the same reason.

use std::time::Duration;

use transpute_rudp::Time;

/// Weight of the old mean in the moving average of the gap between datagrams. The new gap has
/// weight 1.
const PAST: u32 = 3;

/// Maximum gap between datagrams that enters the average, so that an idle period has little effect.
const MAX_GAP: Duration = Duration::from_millis(1);

/// Minimum number of datagrams that must be expected during a pause. Otherwise, the thread does not
/// pause.
const WORTHWHILE: u32 = 4;

/// If one receive call returns this many datagrams, the system already batches them, and the thread
/// does not pause.
const GATHERED: usize = 32;

/// Minimum length of a pause, because a timer costs as much processor time as a packet.
const MIN_PAUSE: Duration = Duration::from_micros(20);

/// The moving average of the time between arriving datagrams.
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
    /// Records that a receive call at `now` returned this number of datagrams.
    pub(super) fn note(&mut self, now: Time, datagrams: usize) {
        self.flowing = (1..GATHERED).contains(&datagrams);
        let Some(count) = u32::try_from(datagrams).ok().filter(|&count| count > 0) else {
            return;
        };
        let gap = (now.since(self.last) / count).min(MAX_GAP);
        self.gap = (self.gap * PAST + gap) / (PAST + 1);
        self.last = now;
    }

    /// Returns the time to pause, or `None` if the thread must not pause. The time is `patience`,
    /// the maximum delay that the links allow. The pause must be expected to collect at least
    /// [`WORTHWHILE`] datagrams.
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
        // The allowed delay is too short to collect enough datagrams.
        assert_eq!(flow.pause(40 * US), None);
        assert_eq!(flow.pause(10 * US), None);
        // Pauses do not change the measured rate of arrivals.
        for _ in 0..20 {
            arrive(&mut flow, &mut now, 200 * US, 16);
            assert_eq!(flow.pause(200 * US), Some(200 * US));
        }
        // Nothing arrived during the pause, so the thread waits for the next datagram.
        arrive(&mut flow, &mut now, 200 * US, 0);
        assert_eq!(flow.pause(200 * US), None);
        // Rare single datagrams cause no pause.
        for _ in 0..20 {
            arrive(&mut flow, &mut now, 300 * US, 1);
        }
        assert_eq!(flow.pause(200 * US), None);
        // Full batches cause no pause.
        for _ in 0..20 {
            arrive(&mut flow, &mut now, 50 * US, 44);
        }
        assert_eq!(flow.pause(200 * US), None);
    }
}
