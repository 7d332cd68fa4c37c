//! Which packet size passes (RFC 8899).
//!
//! The probe trains of the set-up are of full size, so that one round trip decides for most paths.
//! Afterwards a few sizes are tried from the top. When full packets stop passing while small ones
//! do, the size falls back.

use std::time::Duration;

use crate::Time;

/// What passes everywhere, in bytes of UDP payload (RFC 9000, section 14).
pub(crate) const MIN_DATAGRAM: u16 = 1200;

/// Sizes worth trying: jumbo frames, Ethernet over IPv4 and IPv6, tunnels.
const SIZES: [u16; 7] = [8972, 8952, 4000, 1472, 1452, 1392, 1300];

/// How often a size is tried.
const TRIES: u8 = 3;

/// How many full packets in a row must be lost, with nothing of the size acknowledged in between.
const BLACK_HOLE: u32 = 12;

/// How long to wait before larger sizes are tried again after a fall.
const PAUSE: Duration = Duration::from_secs(30);

/// The size of packets.
#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    current: u16,
    most: u16,
    /// The size under test, how often it was tried, and whether a packet is under way.
    probe: Option<(u16, u8, bool)>,
    lost_in_a_row: u32,
    /// The newest packet of nearly the full size that came through.
    newest_passed: Option<u64>,
    /// No search before.
    not_before: Time,
    falls: u64,
}

impl Mtu {
    /// Begins with the size that passes everywhere; goes no further than `most`.
    pub(crate) fn new(most: u16) -> Self {
        let mut mtu = Self {
            current: MIN_DATAGRAM,
            most: most.max(MIN_DATAGRAM),
            probe: None,
            lost_in_a_row: 0,
            newest_passed: None,
            not_before: Time::ZERO,
            falls: 0,
        };
        mtu.search_below(mtu.most + 1);
        mtu
    }

    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    pub(crate) fn most(&self) -> u16 {
        self.most
    }

    pub(crate) fn falls(&self) -> u64 {
        self.falls
    }

    fn search_below(&mut self, size: u16) {
        let candidates = std::iter::once(self.most).chain(SIZES);
        self.probe = candidates
            .filter(|&next| next < size && next > self.current && next <= self.most)
            .max()
            .map(|next| (next, 0, false));
    }

    /// A packet of this size has come through; `number`: which, if that is known.
    pub(crate) fn on_passed(&mut self, size: u16, number: Option<u64>) {
        let size = size.min(self.most);
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

    /// The system refused to send a packet of this size; `fits`: the largest that it would send, if
    /// it says.
    pub(crate) fn on_refused(&mut self, size: u16, fits: Option<u16>) {
        // Without being told, go down in steps; a refusal costs no time.
        let below = |limit: u16| SIZES.into_iter().filter(|&next| next < limit).max();
        let next = fits
            .filter(|&fits| fits < size)
            .or_else(|| below(size))
            .unwrap_or(MIN_DATAGRAM);
        self.most = self.most.min(next).max(MIN_DATAGRAM);
        if self.current > self.most {
            self.current = self.most;
            self.falls += 1;
        }
        self.lost_in_a_row = 0;
        if self.probe.is_none_or(|(probe, ..)| probe > self.most) {
            self.search_below(self.most.saturating_add(1));
        }
    }

    /// Returns the size that a probe should have now.
    pub(crate) fn wanted_probe(&self, now: Time) -> Option<u16> {
        let (size, _, under_way) = self.probe?;
        (!under_way && now >= self.not_before).then_some(size)
    }

    /// Returns when a probe becomes due that is not yet.
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
            if *tries >= TRIES {
                self.search_below(size);
            }
        }
    }

    /// A packet that is no probe was lost while others came through. Returns whether the size has
    /// fallen.
    pub(crate) fn on_lost(&mut self, now: Time, size: u16, number: u64) -> bool {
        if self.current == MIN_DATAGRAM || size <= MIN_DATAGRAM || size > self.most {
            return false;
        }
        // A queue overflowed, or the other end was asleep: a whole burst is gone, but its size has
        // passed since.
        if self.newest_passed.is_some_and(|passed| number < passed) {
            return false;
        }
        self.lost_in_a_row += 1;
        if self.lost_in_a_row < BLACK_HOLE {
            return false;
        }
        let fallen = self.current;
        self.current = MIN_DATAGRAM;
        self.lost_in_a_row = 0;
        self.falls += 1;
        // The next sizes below may pass at once; the old one only after a while.
        self.search_below(fallen);
        if self.probe.is_none() {
            self.search_below(fallen + 1);
            self.not_before = now + PAUSE;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_searched_from_the_top_and_fall_into_black_holes() {
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
        for _ in 0..BLACK_HOLE - 1 {
            assert!(!mtu.on_lost(Time::ZERO, 1452, 2));
        }
        mtu.on_passed(1430, Some(20));
        for _ in 0..BLACK_HOLE - 1 {
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
    fn a_burst_that_is_lost_before_others_pass_is_no_black_hole() {
        let mut mtu = Mtu::new(1472);
        mtu.on_passed(1472, Some(5000));
        for number in 100..4000 {
            assert!(!mtu.on_lost(Time::ZERO, 1472, number));
        }
        assert_eq!((mtu.current(), mtu.falls()), (1472, 0));
        let falls = (5001..5100).filter(|&number| mtu.on_lost(Time::ZERO, 1472, number));
        assert_eq!(falls.count(), 1);
    }

    #[test]
    fn what_the_system_refuses_is_not_tried_again() {
        let mut mtu = Mtu::new(1472);
        mtu.on_refused(1472, Some(1372));
        assert_eq!(
            (mtu.most(), mtu.wanted_probe(Time::ZERO)),
            (1372, Some(1372))
        );
        mtu.on_passed(1472, None);
        assert_eq!(mtu.current(), 1372);
        // What was under way when the size fell says nothing about the new size.
        for number in 0..100 {
            assert!(!mtu.on_lost(Time::ZERO, 1472, number));
        }
        mtu.on_refused(1372, None);
        assert_eq!((mtu.most(), mtu.current(), mtu.falls()), (1300, 1300, 1));
        mtu.on_refused(1300, Some(9000));
        assert_eq!((mtu.most(), mtu.current()), (1200, 1200));
        assert_eq!(mtu.wanted_probe(Time::ZERO), None);
    }
}
