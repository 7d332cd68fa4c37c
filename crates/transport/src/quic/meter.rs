//! Values that a link and its congestion controller exchange through shared memory.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::{options::QuicCongestion, rate_cache::ReachedRate};

/// Values that a link and its controller exchange. All accesses are relaxed, because no other
/// memory depends on the values.
#[derive(Debug)]
pub(super) struct Meter {
    name: QuicCongestion,
    pub(super) min_rtt_nanos: AtomicU64,
    pub(super) rate: AtomicU64,
    pub(super) app_limited: AtomicBool,
    /// The rate in bytes per second at which the controller must continue from the next packet on.
    /// Zero if no such rate is pending.
    hint: AtomicU64,
    /// The largest rate that the controller has estimated, in bytes per second. Zero if there is
    /// none.
    pub(super) reached: AtomicU64,
    /// True if the initial rate was too high and the controller has lowered it.
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

    /// Takes the rate that [`start_at`](Self::start_at) has set. Called for each packet, so it
    /// writes to memory only if there is a rate.
    pub(super) fn take_hint(&self) -> Option<u64> {
        match self.hint.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.hint.swap(0, Ordering::Relaxed)),
        }
    }

    /// Returns the largest rate that the connection has reached, if one was estimated.
    pub(super) fn reached(&self) -> Option<ReachedRate> {
        match self.reached.load(Ordering::Relaxed) {
            0 => None,
            rate => Some(ReachedRate {
                rate,
                is_corrected: self.corrected.load(Ordering::Relaxed),
                at: Instant::now(),
            }),
        }
    }

    /// Returns the smallest measured round-trip time, if there is one.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        match self.min_rtt_nanos.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Returns the latest delivery rate in bytes per second, and whether the sender had too little
    /// data to fill the path during its measurement.
    pub(super) fn delivery_rate(&self) -> Option<(u64, bool)> {
        match self.rate.load(Ordering::Relaxed) {
            0 => None,
            rate => Some((rate, self.app_limited.load(Ordering::Relaxed))),
        }
    }
}
