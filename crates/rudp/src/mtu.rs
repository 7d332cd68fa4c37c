//! Which packet size passes (RFC 8899).
//!
//! The probe trains of the set-up are of full size, so that one round trip decides for most paths. Afterwards a few sizes
//! are tried from the top. When full packets stop passing while small ones do, the size falls back.

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

    /// A packet of this size has come through.
    pub(crate) fn on_passed(&mut self, size: u16) {
        let size = size.min(self.most);
        if size > self.current {
            self.current = size;
            if self.probe.is_some_and(|(probe, ..)| probe <= size) {
                self.probe = None;
            }
        }
        if size > MIN_DATAGRAM && size.saturating_add(32) >= self.current {
            self.lost_in_a_row = 0;
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

    /// A packet that is no probe was lost while others came through. Returns whether the size has fallen.
    pub(crate) fn on_lost(&mut self, now: Time, size: u16) -> bool {
        if self.current == MIN_DATAGRAM || size <= MIN_DATAGRAM {
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
        mtu.on_passed(1452);
        assert_eq!((mtu.current(), mtu.wanted_probe(Time::ZERO)), (1452, None));
        for _ in 0..BLACK_HOLE - 1 {
            assert!(!mtu.on_lost(Time::ZERO, 1452));
        }
        mtu.on_passed(1430);
        for _ in 0..BLACK_HOLE - 1 {
            assert!(!mtu.on_lost(Time::ZERO, 1440));
        }
        assert!(!mtu.on_lost(Time::ZERO, 1200));
        assert!(mtu.on_lost(Time::ZERO, 1452));
        assert_eq!(
            (mtu.current(), mtu.wanted_probe(Time::ZERO)),
            (1200, Some(1392))
        );
    }
}
