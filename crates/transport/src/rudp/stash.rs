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

const MAX_STASH: usize = 1 << 20;
const MAX_STASH_AGE: Duration = Duration::from_secs(2);

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
        self.bytes += held.datagram.len();
        let now = held.at;
        self.held.push_back(held);
        while self.bytes > MAX_STASH
            || (self.held.front()).is_some_and(|oldest| now.since(oldest.at) > MAX_STASH_AGE)
        {
            self.bytes -= self.held.pop_front().map_or(0, |held| held.datagram.len());
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
        self.bytes = self.held.iter().map(|held| held.datagram.len()).sum();
        taken
    }
}
