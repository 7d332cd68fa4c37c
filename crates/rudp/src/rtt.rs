//! The round-trip time and what follows from it (RFC 9002, section 5).

use std::time::Duration;

/// What is assumed of a path before anything is known (RFC 9002, section 6.2.2).
const INITIAL: Duration = Duration::from_millis(333);

/// The least variation that timeouts allow for: timers and schedulers are no finer.
const GRANULARITY: Duration = Duration::from_millis(1);

/// How long a probe timeout gets at most by doubling. A path that comes back after seconds is used
/// again within one.
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest time by which an acknowledgement is held back. See `ack`.
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(1);

/// Smoothed round-trip time, its variation and its minimum.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
    latest: Duration,
}

impl Rtt {
    /// Takes a sample, of which the other end says how long it waited.
    pub(crate) fn sample(&mut self, raw: Duration, ack_delay: Duration) {
        let raw = raw.max(Duration::from_nanos(1));
        let Some(smoothed) = self.smoothed else {
            self.min = raw;
            self.latest = raw;
            self.smoothed = Some(raw);
            self.variation = raw / 2;
            return;
        };
        self.min = self.min.min(raw);
        let delay = ack_delay.min(2 * MAX_ACK_DELAY);
        self.latest = match raw.checked_sub(delay) {
            Some(adjusted) if adjusted >= self.min => adjusted,
            _ => raw,
        };
        let difference = smoothed.abs_diff(self.latest);
        self.variation = (self.variation * 3 + difference) / 4;
        self.smoothed = Some((smoothed * 7 + self.latest) / 8);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.smoothed.is_some()
    }

    /// Returns the smoothed time, or an assumption.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL)
    }

    /// Returns the least time seen; zero if none was.
    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// Returns the last sample; zero if there is none.
    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// Returns how long to wait for any acknowledgement after `backoff` waits in vain.
    pub(crate) fn probe_timeout(&self, backoff: u32) -> Duration {
        let base = self.smoothed() + (4 * self.variation).max(GRANULARITY) + MAX_ACK_DELAY;
        let most = MAX_PROBE_TIMEOUT.max(base);
        base.saturating_mul(1 << backoff.min(16)).min(most)
    }
}
