//! Concurrent handshakes of a listener. Unauthenticated peers may be many, and none of them delays
//! the right peer.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

use tokio::task::{AbortHandle, Id, JoinSet};

/// Time for which a handshake is not dropped while others complete. A burst of honest peers must
/// not displace itself.
const GRACE: Duration = Duration::from_secs(1);

/// Time without a completed handshake after which those in progress may be dropped.
const STANDSTILL: Duration = Duration::from_millis(500);

/// A bounded number of handshakes, each in its own task. Dropping this stops the tasks.
pub(crate) struct Handshakes<T> {
    tasks: JoinSet<T>,
    /// Handshakes that are still running, oldest first.
    running: VecDeque<Handshake>,
    /// Time at which there were none, or the last one completed.
    moved: Instant,
    most: usize,
}

struct Handshake {
    id: Id,
    abort: AbortHandle,
    source: IpAddr,
    begun: Instant,
}

impl<T: Send + 'static> Handshakes<T> {
    /// Makes room for `most` concurrent handshakes, at least one.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            tasks: JoinSet::new(),
            running: VecDeque::new(),
            moved: Instant::now(),
            most: most.max(1),
        }
    }

    /// Returns the number of handshakes in progress.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Starts a handshake with this peer. Without room, another one is dropped.
    pub(crate) fn begin(
        &mut self,
        peer: IpAddr,
        handshake: impl Future<Output = T> + Send + 'static,
    ) {
        if self.running.len() >= self.most {
            self.evict();
        }
        if self.running.is_empty() {
            self.moved = Instant::now();
        }
        let abort = self.tasks.spawn(handshake);
        self.running.push_back(Handshake {
            id: abort.id(),
            abort,
            source: network(peer),
            begun: Instant::now(),
        });
    }

    /// Returns the time until which no further handshake should start, because there is no room and
    /// the one to be dropped may still complete.
    pub(crate) fn full_until(&self) -> Option<Instant> {
        if self.running.len() < self.most {
            return None;
        }
        let graceful = self.running.get(self.victim()?)?.begun + GRACE;
        let until = graceful.min(self.moved + STANDSTILL);
        (until > Instant::now()).then_some(until)
    }

    fn evict(&mut self) {
        if let Some(victim) = self.victim().and_then(|index| self.running.remove(index)) {
            victim.abort.abort();
        }
    }

    /// Returns the position of the oldest handshake of the network that has most of them. So a
    /// flood from one network displaces itself, and not the right peer.
    fn victim(&self) -> Option<usize> {
        let count = |source| self.running.iter().filter(|h| h.source == source).count();
        let most = self.running.iter().map(|h| count(h.source)).max();
        self.running
            .iter()
            .position(|h| Some(count(h.source)) == most)
    }

    /// Waits for the next completed handshake. `None` if there are none. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        loop {
            // Nothing else is awaited, so cancellation loses nothing.
            let (id, outcome) = match self.tasks.join_next_with_id().await? {
                Ok((id, outcome)) => (id, Some(outcome)),
                Err(error) => {
                    if error.is_panic() {
                        tracing::error!("a handshake task panicked; please report this as a bug");
                    }
                    (error.id(), None)
                }
            };
            self.running.retain(|handshake| handshake.id != id);
            if outcome.is_some() {
                self.moved = Instant::now();
                return outcome;
            }
        }
    }
}

/// Waits until this time, if there is one.
pub(crate) async fn wait_until(until: Option<Instant>) {
    if let Some(until) = until {
        tokio::time::sleep_until(until.into()).await;
    }
}

/// Returns the part of an address that one party cannot easily change: all of IPv4, the first half
/// of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_grouped_by_what_they_cannot_change() {
        let same = |a: &str, b: &str| network(a.parse().unwrap()) == network(b.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }

    #[tokio::test]
    async fn a_crowd_drops_its_own_oldest() {
        let mut handshakes = Handshakes::<()>::new(64);
        for (index, source) in ["192.0.2.9", "192.0.2.1", "192.0.2.1", "192.0.2.2"]
            .into_iter()
            .enumerate()
        {
            handshakes.begin(source.parse().unwrap(), std::future::pending());
            assert_eq!(handshakes.len(), index + 1);
        }
        handshakes.evict();
        let left: Vec<_> = handshakes
            .running
            .iter()
            .map(|h| h.source.to_string())
            .collect();
        assert_eq!(left, ["192.0.2.9", "192.0.2.1", "192.0.2.2"]);
        let cancelled = handshakes.tasks.join_next().await.unwrap();
        assert!(cancelled.is_err_and(|error| error.is_cancelled()));
    }

    #[tokio::test]
    async fn there_is_room_for_no_more_than_was_made() {
        let mut handshakes = Handshakes::new(2);
        handshakes.begin("192.0.2.1".parse().unwrap(), std::future::pending());
        handshakes.begin("192.0.2.1".parse().unwrap(), std::future::ready(2));
        handshakes.begin("192.0.2.1".parse().unwrap(), std::future::ready(3));
        assert_eq!(handshakes.len(), 2);
        assert!(handshakes.full_until().is_some());
        // The dropped one is skipped.
        assert_eq!(handshakes.next().await, Some(2));
        assert_eq!(handshakes.next().await, Some(3));
        assert_eq!((handshakes.next().await, handshakes.len()), (None, 0));
    }
}
