//! The exchange between a link and its congestion controller.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::{memory::Reached, options::QuicCongestion};

/// Values that a link and its controller exchange. All are relaxed, because no other memory depends
/// on them.
#[derive(Debug)]
pub(super) struct Meter {
    name: QuicCongestion,
    pub(super) min_rtt_nanos: AtomicU64,
    pub(super) rate: AtomicU64,
    pub(super) app_limited: AtomicBool,
    /// An initial rate that became known after the connection was started, in bytes per second;
    /// zero for none.
    hint: AtomicU64,
    /// The largest estimate of the controller, in bytes per second; zero for none.
    pub(super) reached: AtomicU64,
    /// The initial rate was too high.
    pub(super) corrected: AtomicBool,
}

impl Meter {
    pub(super) fn new(name: QuicCongestion) -> Self {
        Self {
            name,
            min_rtt_nanos: AtomicU64::default(),
            rate: AtomicU64::default(),
            app_limited: AtomicBool::default(),
            hint: AtomicU64::default(),
            reached: AtomicU64::default(),
            corrected: AtomicBool::default(),
        }
    }

    /// Returns the congestion control in force.
    pub(super) fn name(&self) -> QuicCongestion {
        self.name
    }

    /// Continues the connection at this rate, in bytes per second, from its next packet on.
    pub(super) fn start_at(&self, rate: u64) {
        self.hint.store(rate, Ordering::Relaxed);
    }

    /// Returns that rate, once. Called for each packet, so it writes only if there is one.
    pub(super) fn take_hint(&self) -> Option<u64> {
        match self.hint.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.hint.swap(0, Ordering::Relaxed)),
        }
    }

    /// Returns the rate that the connection has reached, if any.
    pub(super) fn reached(&self) -> Option<Reached> {
        match self.reached.load(Ordering::Relaxed) {
            0 => None,
            rate => Some(Reached {
                rate,
                is_corrected: self.corrected.load(Ordering::Relaxed),
                at: Instant::now(),
            }),
        }
    }

    /// Returns the smallest round-trip time, if there is one.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        match self.min_rtt_nanos.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Returns the latest delivery rate in bytes per second, and whether the sender had too little
    /// data.
    pub(super) fn delivery_rate(&self) -> Option<(u64, bool)> {
        match self.rate.load(Ordering::Relaxed) {
            0 => None,
            rate => Some((rate, self.app_limited.load(Ordering::Relaxed))),
        }
    }
}
