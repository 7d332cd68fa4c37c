//! Estimation of the round-trip time, and the probe timeout (RFC 9002, section 5).

use std::time::Duration;

/// The round-trip time that is assumed before the first sample (RFC 9002, section 6.2.2).
const INITIAL: Duration = Duration::from_millis(333);

/// The minimum variation in timeouts, which is the granularity of timers and schedulers.
const GRANULARITY: Duration = Duration::from_millis(1);

/// The maximum probe timeout that is reached by doubling. A path that recovers after seconds is
/// used again within this time.
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum delay of an acknowledgement. See `ack`.
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
    /// Adds a sample, whose acknowledgement the peer delayed by `ack_delay`.
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

    /// Returns the smoothed round-trip time, or an assumption before the first sample.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL)
    }

    /// Returns the minimum round-trip time, or zero before the first sample.
    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// Returns the latest sample, or zero before the first one.
    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// Returns the time to wait for an acknowledgement after `backoff` probe timeouts.
    pub(crate) fn probe_timeout(&self, backoff: u32) -> Duration {
        let base = self.smoothed() + (4 * self.variation).max(GRANULARITY) + MAX_ACK_DELAY;
        let max = MAX_PROBE_TIMEOUT.max(base);
        base.saturating_mul(1 << backoff.min(16)).min(max)
    }
}
