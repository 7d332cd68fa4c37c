//! Checks that the kernel's maximum socket buffers are large enough for a path.
//!
//! Linux enlarges the send and receive buffers of a connection up to the third value of
//! `net.ipv4.tcp_wmem` and `net.ipv4.tcp_rmem`. TCP needs buffers of about two bandwidth-delay
//! products: one for the data in flight, and one for new data during the retransmission of lost
//! data. The kernel's bookkeeping also takes buffer space. So a connection with the maximum buffers
//! carries about half of the buffer size per round trip.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use transpute_units::Bandwidth;

use crate::PathSample;

/// Compares the rate of one connection with the kernel's maximum buffer sizes. If they are too
/// small for this rate, it logs a warning, once per process and direction.
pub(super) struct Check {
    last: Option<(Instant, u64)>,
}

struct Ceiling {
    sysctl: &'static str,
    /// Maximum buffer size in bytes. `None` if the system does not report it.
    most: Option<u64>,
    is_told: AtomicBool,
}

fn ceilings() -> &'static [Ceiling; 2] {
    static CEILINGS: OnceLock<[Ceiling; 2]> = OnceLock::new();
    CEILINGS.get_or_init(|| {
        ["tcp_wmem", "tcp_rmem"].map(|sysctl| Ceiling {
            sysctl,
            most: std::fs::read_to_string(format!("/proc/sys/net/ipv4/{sysctl}"))
                .ok()
                .and_then(|text| text.split_whitespace().nth(2)?.parse().ok()),
            is_told: AtomicBool::new(false),
        })
    })
}

impl Check {
    pub(super) fn new() -> Self {
        Self { last: None }
    }

    /// Checks that the maximum buffers suffice for the measured rate and round-trip time of a
    /// connection. The watchdog calls this method twice a second with the default time-out.
    pub(super) fn look_at(&mut self, path: &PathSample, now: Instant) {
        let Some(rtt) = path.min_rtt else { return };
        let [send, receive] = ceilings();
        if let (Some(rate), Some(false)) = (path.delivery_rate, path.delivery_rate_app_limited) {
            send.compare(rate, rtt);
        }
        if let Some(rate) = self.receive_rate(path, now) {
            receive.compare(rate, rtt);
        }
    }

    /// Returns the number of bytes received per second since the last check.
    fn receive_rate(&mut self, path: &PathSample, now: Instant) -> Option<u64> {
        let received = path.wire_bytes_received?;
        let (since, before) = self.last.replace((now, received))?;
        let micros = u64::try_from(now.saturating_duration_since(since).as_micros()).ok()?;
        received
            .saturating_sub(before)
            .saturating_mul(1_000_000)
            .checked_div(micros)
    }
}

impl Ceiling {
    fn compare(&self, rate: u64, rtt: Duration) {
        let Some(most) = self.most else { return };
        let Some(needed) = shortfall(rate, rtt, most) else {
            return;
        };
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the path carries {:.0} at a round-trip time of {rtt:?}, which takes buffers of {needed} bytes, and \
                 net.ipv4.{} allows {most}: raise its third figure, for example to {}",
                Bandwidth::from_bytes_per_second(rate as f64),
                self.sysctl,
                needed.saturating_mul(2),
            );
        }
    }
}

/// Returns the needed buffer size in bytes (two bandwidth-delay products), or `None` if `most`
/// bytes suffice. `rate` is in bytes per second.
fn shortfall(rate: u64, rtt: Duration, most: u64) -> Option<u64> {
    let needed = (2 * u128::from(rate)).saturating_mul(rtt.as_micros()) / 1_000_000;
    let needed = u64::try_from(needed).unwrap_or(u64::MAX);
    (needed > most).then_some(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bandwidth_delay_products_are_asked_for() {
        let rtt = Duration::from_millis(100);
        // A rate of 1 Gbit/s and a round-trip time of 100 ms give 12.5 MB in flight.
        assert_eq!(shortfall(125_000_000, rtt, 4 << 20), Some(25_000_000));
        assert_eq!(shortfall(125_000_000, rtt, 25_000_000), None);
        assert_eq!(shortfall(0, rtt, 0), None);
        assert_eq!(shortfall(u64::MAX, Duration::MAX, 1), Some(u64::MAX));
    }

    #[test]
    fn the_rate_of_arrival_is_measured_between_looks() {
        let mut check = Check::new();
        let start = Instant::now();
        let mut path = PathSample {
            wire_bytes_received: Some(1000),
            ..PathSample::default()
        };
        assert_eq!(check.receive_rate(&path, start), None);
        path.wire_bytes_received = Some(51_000);
        let later = start + Duration::from_millis(500);
        assert_eq!(check.receive_rate(&path, later), Some(100_000));
        assert_eq!(check.receive_rate(&path, later), None, "no time has passed");
    }
}
