//! A queue in front of a link of limited rate.

use std::collections::VecDeque;

/// A first-in first-out queue that a link empties at its rate.
///
/// The packet on the link counts as queued until its last bit has left: a queue of 3,000 bytes
/// takes two packets of 1,500 bytes at once and refuses the third.
#[derive(Clone, Debug)]
pub(super) struct Bottleneck<P> {
    bits_per_second: u64,
    limit_bytes: u64,
    waiting: VecDeque<P>,
    waiting_bytes: u64,
    /// The time at which the last bit of the first packet in the queue leaves. `None` if the queue
    /// is empty.
    leaves_at: Option<u64>,
    /// The remainder of the last division for a transmission time, in nanoseconds times bits per
    /// second. It is carried over, because rounding each time would change the rate of a long run.
    remainder: u128,
}

impl<P: AsRef<[u8]>> Bottleneck<P> {
    pub(super) fn new(bits_per_second: u64, limit_bytes: u64) -> Self {
        Self {
            bits_per_second: bits_per_second.max(1),
            limit_bytes,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            leaves_at: None,
            remainder: 0,
        }
    }

    /// Takes a packet, or returns it if the queue is full.
    pub(super) fn push(&mut self, now: u64, packet: P) -> Result<(), P> {
        let bytes = packet.as_ref().len() as u64;
        if self.waiting_bytes + bytes > self.limit_bytes {
            return Err(packet);
        }
        if self.leaves_at.is_none() {
            self.remainder = 0;
            self.leaves_at = Some(now + self.transmission(bytes));
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(packet);
        Ok(())
    }

    /// Returns the time at which the next packet leaves.
    pub(super) fn leaves_at(&self) -> Option<u64> {
        self.leaves_at
    }

    /// Removes the packet that leaves next. Returns it with its departure time.
    pub(super) fn pop(&mut self) -> Option<(u64, P)> {
        let at = self.leaves_at.take()?;
        let packet = self.waiting.pop_front()?;
        self.waiting_bytes -= packet.as_ref().len() as u64;
        if let Some(next) = self.waiting.front() {
            let bytes = next.as_ref().len() as u64;
            self.leaves_at = Some(at + self.transmission(bytes));
        }
        Some((at, packet))
    }

    /// Changes the rate, also for the rest of the packet on the link.
    pub(super) fn set_rate(&mut self, now: u64, bits_per_second: u64) {
        let new = bits_per_second.max(1);
        if let Some(at) = &mut self.leaves_at {
            let left = u128::from(at.saturating_sub(now)) * u128::from(self.bits_per_second)
                / u128::from(new);
            *at = now.saturating_add(u64::try_from(left).unwrap_or(u64::MAX));
        }
        self.remainder = 0;
        self.bits_per_second = new;
    }

    /// Changes the limit of the queue. Packets that already wait are kept.
    pub(super) fn set_limit(&mut self, bytes: u64) {
        self.limit_bytes = bytes;
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    pub(super) fn waiting_packets(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the transmission time of a packet, in nanoseconds.
    fn transmission(&mut self, bytes: u64) -> u64 {
        let work = u128::from(bytes) * 8_000_000_000 + self.remainder;
        let rate = u128::from(self.bits_per_second);
        self.remainder = work % rate;
        u64::try_from(work / rate).unwrap_or(u64::MAX >> 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_busy_period_runs_at_the_exact_rate() {
        // At 7 Mbit/s no packet takes a whole number of nanoseconds.
        let mut link = Bottleneck::new(7_000_000, u64::MAX);
        for _ in 0..1000 {
            link.push(0, vec![0; 1499]).unwrap();
        }
        let mut last = 0;
        while let Some((at, _)) = link.pop() {
            last = at;
        }
        assert_eq!(last, 1000 * 1499 * 8 * 1000 / 7);
    }

    #[test]
    fn the_limit_counts_the_packet_on_the_link() {
        let mut link = Bottleneck::new(12_000_000, 3000);
        assert!(link.push(0, vec![0; 1500]).is_ok());
        assert!(link.push(0, vec![0; 1500]).is_ok());
        assert!(link.push(0, vec![0; 1]).is_err());
        assert_eq!(link.pop().unwrap().0, 1_000_000);
        assert!(link.push(1_000_000, vec![0; 1500]).is_ok());
        assert_eq!(link.waiting_bytes(), 3000);
    }

    #[test]
    fn a_new_rate_applies_to_the_rest_of_the_packet_on_the_link() {
        let mut link = Bottleneck::new(12_000_000, 3000);
        link.push(0, vec![0; 1500]).unwrap();
        link.push(0, vec![0; 1500]).unwrap();
        // At the change of the rate, half of the first packet has left. The other half takes twice
        // as long as before.
        link.set_rate(500_000, 6_000_000);
        assert_eq!(link.pop().unwrap().0, 1_500_000);
        assert_eq!(link.pop().unwrap().0, 3_500_000);
        assert_eq!(link.leaves_at(), None);
    }
}
