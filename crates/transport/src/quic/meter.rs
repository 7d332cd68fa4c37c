//! What is seen of a congestion controller from outside, and what it is told.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::{memory::Reached, options::QuicCongestion};

/// What a link and its controller tell each other. Relaxed everywhere: nothing else hangs on when a figure is seen.
#[derive(Debug)]
pub(super) struct Meter {
    name: QuicCongestion,
    pub(super) min_rtt_nanos: AtomicU64,
    pub(super) rate: AtomicU64,
    pub(super) app_limited: AtomicBool,
    /// A rate to start at that has become known since the connection was begun; zero: none. Bytes per second.
    hint: AtomicU64,
    /// The most that the controller has estimated; zero: nothing. Bytes per second.
    pub(super) reached: AtomicU64,
    /// Whether the rate that was started at proved too high.
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

    /// The congestion control that is in force.
    pub(super) fn name(&self) -> QuicCongestion {
        self.name
    }

    /// Makes the connection go on at this rate, in bytes per second, from its next packet on.
    pub(super) fn start_at(&self, rate: u64) {
        self.hint.store(rate, Ordering::Relaxed);
    }

    /// Returns that rate, once. Asked for each packet, so it is only written to when there is one.
    pub(super) fn take_hint(&self) -> Option<u64> {
        match self.hint.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.hint.swap(0, Ordering::Relaxed)),
        }
    }

    /// What the connection has reached by now, if anything.
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

    /// The smallest round-trip time, once there is one.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        match self.min_rtt_nanos.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// The latest rate of delivery in bytes per second, and whether the sender had too little to send.
    pub(super) fn delivery_rate(&self) -> Option<(u64, bool)> {
        match self.rate.load(Ordering::Relaxed) {
            0 => None,
            rate => Some((rate, self.app_limited.load(Ordering::Relaxed))),
        }
    }
}
