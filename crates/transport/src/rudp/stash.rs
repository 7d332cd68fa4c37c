//! Datagrams for connections that are not there yet.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use transpute_rudp::Time;

use super::link::Shared;

/// What came too early: UDP is faster than the handshake of the control connection. Bounded in number, bytes and time; a
/// stranger who floods the port costs a connector a second attempt.
#[derive(Default)]
pub(super) struct Stash {
    held: VecDeque<Held>,
    bytes: usize,
}

pub(super) struct Held {
    pub(super) id: u32,
    pub(super) at: Time,
    pub(super) from: SocketAddr,
    pub(super) datagram: Vec<u8>,
}

/// What may wait, in bytes. A datagram counts for no less than the memory it takes beside its bytes.
const MAX_STASH: usize = 1 << 20;
const LEAST_BYTES: usize = 256;
const MAX_STASH_AGE: Duration = Duration::from_secs(2);

impl Held {
    fn cost(&self) -> usize {
        self.datagram.capacity().max(LEAST_BYTES)
    }
}

impl Stash {
    /// Gives a new connection what has come for it before. The gaps between arrivals are kept, the wait is taken out.
    pub(super) fn hand_over(&mut self, link: &Shared) {
        if self.held.is_empty() || !link.is_new() {
            return;
        }
        let mut held = self.take(link.id());
        let Some(last) = held.last().map(|last| last.at) else {
            return;
        };
        let now = link.endpoint.now();
        link.take(held.iter_mut().map(|held| {
            let at = now - last.since(held.at);
            (at, held.from, &mut held.datagram[..])
        }));
    }

    pub(super) fn put(&mut self, held: Held) {
        self.bytes += held.cost();
        let now = held.at;
        self.held.push_back(held);
        while self.bytes > MAX_STASH
            || (self.held.front()).is_some_and(|oldest| now.since(oldest.at) > MAX_STASH_AGE)
        {
            self.bytes -= self.held.pop_front().map_or(0, |held| held.cost());
        }
    }

    /// Takes what has come for this connection, in order.
    fn take(&mut self, id: u32) -> Vec<Held> {
        let (taken, kept): (Vec<_>, VecDeque<_>) =
            (self.held.drain(..)).fold(Default::default(), |(mut taken, mut kept), held| {
                if held.id == id {
                    taken.push(held);
                } else {
                    kept.push_back(held);
                }
                (taken, kept)
            });
        self.held = kept;
        self.bytes = self.held.iter().map(Held::cost).sum();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(id: u32, length: usize, millis: u64) -> Held {
        Held {
            id,
            at: Time::from_nanos(millis * 1_000_000),
            from: ([192, 0, 2, 1], 1).into(),
            datagram: vec![0; length],
        }
    }

    #[test]
    fn neither_few_large_nor_many_small_datagrams_fill_memory() {
        for length in [5, 64, 1472] {
            let mut stash = Stash::default();
            for index in 0..100_000 {
                stash.put(held(index, length, 0));
                assert!(stash.bytes <= MAX_STASH);
                assert!(stash.held.len() <= MAX_STASH / LEAST_BYTES);
            }
            // The oldest have gone.
            assert!(stash.take(0).is_empty());
            assert_eq!(stash.take(99_999).len(), 1);
            let cost: usize = stash.held.iter().map(Held::cost).sum();
            assert_eq!(stash.bytes, cost);
        }
    }

    #[test]
    fn what_nobody_asks_for_goes_after_a_while() {
        let mut stash = Stash::default();
        for index in 0..100 {
            stash.put(held(7, 1200, index));
        }
        stash.put(held(8, 1200, 5000));
        assert_eq!((stash.held.len(), stash.bytes), (1, 1200));
    }
}
