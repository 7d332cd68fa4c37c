//! Path MTU discovery (RFC 8899).
//!
//! The packets of the probe trains have full size, so that one round trip suffices for most paths.
//! After that a few sizes are probed, starting with the largest. If full packets stop passing while
//! small ones do, the size is reduced.

use std::time::Duration;

use crate::Time;

/// The minimum size, which passes on every path, in bytes of UDP payload (RFC 9000, section 14).
pub(crate) const MIN_DATAGRAM: u16 = 1200;

/// Sizes to probe, in bytes of UDP payload: jumbo frames, Ethernet over IPv4 and IPv6, tunnels.
const PROBE_SIZES: [u16; 7] = [8972, 8952, 4000, 1472, 1452, 1392, 1300];

/// The maximum number of probes of one size (`MAX_PROBES` of RFC 8899).
const MAX_PROBES: u8 = 3;

/// The number of full packets lost in a row that indicates a black hole, if no packet of that size
/// is acknowledged in between.
const BLACK_HOLE_LOSSES: u32 = 12;

/// The time after a reduction before larger sizes are probed again.
const PROBE_PAUSE: Duration = Duration::from_secs(30);

/// The state of path MTU discovery.
#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    current: u16,
    max: u16,
    /// The size being probed, the number of lost probes, and whether a probe is in flight.
    probe: Option<(u16, u8, bool)>,
    lost_in_a_row: u32,
    /// The number of the newest packet of nearly full size that was acknowledged.
    newest_passed: Option<u64>,
    /// The time before which no size is probed.
    not_before: Time,
    reductions: u64,
}

impl Mtu {
    /// Creates the state: the current size is the minimum size, and sizes up to `max` are probed.
    pub(crate) fn new(max: u16) -> Self {
        let mut mtu = Self {
            current: MIN_DATAGRAM,
            max: max.max(MIN_DATAGRAM),
            probe: None,
            lost_in_a_row: 0,
            newest_passed: None,
            not_before: Time::ZERO,
            reductions: 0,
        };
        mtu.search_below(mtu.max + 1);
        mtu
    }

    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    pub(crate) fn max(&self) -> u16 {
        self.max
    }

    pub(crate) fn reductions(&self) -> u64 {
        self.reductions
    }

    fn search_below(&mut self, size: u16) {
        let candidates = std::iter::once(self.max).chain(PROBE_SIZES);
        self.probe = candidates
            .filter(|&next| next < size && next > self.current && next <= self.max)
            .max()
            .map(|next| (next, 0, false));
    }

    /// Records that a packet of this size was delivered. `number` is its packet number, if known.
    pub(crate) fn on_passed(&mut self, size: u16, number: Option<u64>) {
        let size = size.min(self.max);
        if size > self.current {
            self.current = size;
            if self.probe.is_some_and(|(probe, ..)| probe <= size) {
                self.probe = None;
            }
        }
        if size > MIN_DATAGRAM && size.saturating_add(32) >= self.current {
            self.lost_in_a_row = 0;
            self.newest_passed = self.newest_passed.max(number);
        }
    }

    /// Records that the system rejected a packet of this size. `fits` is the largest size that it
    /// would accept, if it reports one.
    pub(crate) fn on_refused(&mut self, size: u16, fits: Option<u16>) {
        // Without a reported size, smaller sizes are tried in steps: a rejection costs no time.
        let below = |limit: u16| PROBE_SIZES.into_iter().filter(|&next| next < limit).max();
        let next = fits
            .filter(|&fits| fits < size)
            .or_else(|| below(size))
            .unwrap_or(MIN_DATAGRAM);
        self.max = self.max.min(next).max(MIN_DATAGRAM);
        if self.current > self.max {
            self.current = self.max;
            self.reductions += 1;
        }
        self.lost_in_a_row = 0;
        if self.probe.is_none_or(|(probe, ..)| probe > self.max) {
            self.search_below(self.max.saturating_add(1));
        }
    }

    /// Returns the size of the probe that is due.
    pub(crate) fn wanted_probe(&self, now: Time) -> Option<u16> {
        let (size, _, under_way) = self.probe?;
        (!under_way && now >= self.not_before).then_some(size)
    }

    /// Returns the time at which a probe becomes due, if that is in the future.
    pub(crate) fn next_probe(&self, now: Time) -> Option<Time> {
        let (_, _, under_way) = self.probe?;
        (!under_way && now < self.not_before).then_some(self.not_before)
    }

    pub(crate) fn on_probe_sent(&mut self) {
        if let Some((_, _, under_way)) = &mut self.probe {
            *under_way = true;
        }
    }

    pub(crate) fn on_probe_lost(&mut self, size: u16) {
        if let Some((probe, tries, under_way)) = &mut self.probe
            && *probe == size
        {
            *tries += 1;
            *under_way = false;
            if *tries >= MAX_PROBES {
                self.search_below(size);
            }
        }
    }

    /// Records that a packet other than a probe was lost while others were delivered. Returns
    /// whether the size was reduced.
    pub(crate) fn on_lost(&mut self, now: Time, size: u16, number: u64) -> bool {
        if self.current == MIN_DATAGRAM || size <= MIN_DATAGRAM || size > self.max {
            return false;
        }
        // A newer packet of the size was delivered, so the size is not the cause of the loss. A
        // queue overflowed, or the peer was suspended, and a whole burst was lost.
        if self.newest_passed.is_some_and(|passed| number < passed) {
            return false;
        }
        self.lost_in_a_row += 1;
        if self.lost_in_a_row < BLACK_HOLE_LOSSES {
            return false;
        }
        let fallen = self.current;
        self.current = MIN_DATAGRAM;
        self.lost_in_a_row = 0;
        self.reductions += 1;
        // Smaller sizes are probed at once, and the current one only after a pause.
        self.search_below(fallen);
        if self.probe.is_none() {
            self.search_below(fallen + 1);
            self.not_before = now + PROBE_PAUSE;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_probed_from_the_largest_and_reduced_at_black_holes() {
        let mut mtu = Mtu::new(1472);
        assert_eq!(
            (mtu.current(), mtu.wanted_probe(Time::ZERO)),
            (1200, Some(1472))
        );
        for _ in 0..3 {
            mtu.on_probe_sent();
            assert_eq!(mtu.wanted_probe(Time::ZERO), None);
            mtu.on_probe_lost(1472);
        }
        assert_eq!(mtu.wanted_probe(Time::ZERO), Some(1452));
        mtu.on_probe_sent();
        mtu.on_passed(1452, Some(1));
        assert_eq!((mtu.current(), mtu.wanted_probe(Time::ZERO)), (1452, None));
        for _ in 0..BLACK_HOLE_LOSSES - 1 {
            assert!(!mtu.on_lost(Time::ZERO, 1452, 2));
        }
        mtu.on_passed(1430, Some(20));
        for _ in 0..BLACK_HOLE_LOSSES - 1 {
            assert!(!mtu.on_lost(Time::ZERO, 1440, 21));
        }
        assert!(!mtu.on_lost(Time::ZERO, 1200, 22));
        assert!(mtu.on_lost(Time::ZERO, 1452, 23));
        assert_eq!(
            (mtu.current(), mtu.wanted_probe(Time::ZERO)),
            (1200, Some(1392))
        );
    }
    #[test]
    fn a_burst_lost_before_newer_packets_is_not_a_black_hole() {
        let mut mtu = Mtu::new(1472);
        mtu.on_passed(1472, Some(5000));
        for number in 100..4000 {
            assert!(!mtu.on_lost(Time::ZERO, 1472, number));
        }
        assert_eq!((mtu.current(), mtu.reductions()), (1472, 0));
        let reductions = (5001..5100).filter(|&number| mtu.on_lost(Time::ZERO, 1472, number));
        assert_eq!(reductions.count(), 1);
    }

    #[test]
    fn a_size_that_the_system_rejects_is_not_probed_again() {
        let mut mtu = Mtu::new(1472);
        mtu.on_refused(1472, Some(1372));
        assert_eq!(
            (mtu.max(), mtu.wanted_probe(Time::ZERO)),
            (1372, Some(1372))
        );
        mtu.on_passed(1472, None);
        assert_eq!(mtu.current(), 1372);
        // Losses of packets that were in flight when the size was reduced do not reduce it again.
        for number in 0..100 {
            assert!(!mtu.on_lost(Time::ZERO, 1472, number));
        }
        mtu.on_refused(1372, None);
        assert_eq!(
            (mtu.max(), mtu.current(), mtu.reductions()),
            (1300, 1300, 1)
        );
        mtu.on_refused(1300, Some(9000));
        assert_eq!((mtu.max(), mtu.current()), (1200, 1200));
        assert_eq!(mtu.wanted_probe(Time::ZERO), None);
    }
}
