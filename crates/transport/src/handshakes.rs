//! The concurrent handshakes of a listener. Their number is limited. When it is reached, a new
//! handshake replaces an old one, so that many unauthenticated peers cannot keep the expected peer
//! from connecting.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

use tokio::task::{AbortHandle, Id, JoinSet};

use crate::{HandshakeError, TransportError};

/// Minimum age at which a full set may drop a handshake while other handshakes complete. Without
/// this minimum, honest peers that connect at the same time would abort each other's handshakes.
const GRACE: Duration = Duration::from_secs(1);

/// If no handshake completes for this time, a full set may drop a handshake that is younger than
/// [`GRACE`], because the handshakes probably belong to peers that never complete one.
const STANDSTILL: Duration = Duration::from_millis(500);

/// A set of running handshakes of limited size. Each runs in its own task. Dropping the set aborts
/// the tasks.
pub(crate) struct Handshakes<T> {
    tasks: JoinSet<T>,
    /// Handshakes that are still running, oldest first.
    running: VecDeque<Handshake>,
    /// Time at which a handshake last completed, or at which `running` last became non-empty if
    /// that is later.
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
    /// Makes an empty set that holds at most `most` handshakes, but at least one.
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

    /// Starts a handshake with this peer. If the set is full, drops another handshake first.
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

    /// Returns the time before which the caller should start no handshake, because the set is full
    /// and may not drop a handshake yet. Returns `None` if a handshake may start now.
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

    /// Returns the index of the handshake to drop: the oldest handshake from the network with the
    /// most handshakes in the set. A network that opens many connections thus aborts only its own
    /// handshakes.
    fn victim(&self) -> Option<usize> {
        let count = |source| self.running.iter().filter(|h| h.source == source).count();
        let most = self.running.iter().map(|h| count(h.source)).max();
        self.running
            .iter()
            .position(|h| Some(count(h.source)) == most)
    }

    /// Waits for the next completed handshake. Returns `None` if none is running. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        loop {
            // This is the only await point, so cancellation loses no result.
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

/// Runs one step of a handshake with the peer at `address`. Returns [`HandshakeError::Timeout`] if
/// the step takes longer than `after`.
pub(crate) async fn limit<F: Future>(
    after: Duration,
    waiting_for: &'static str,
    address: &impl ToString,
    step: F,
) -> Result<F::Output, TransportError> {
    tokio::time::timeout(after, step).await.map_err(|_| {
        TransportError::Handshake(HandshakeError::Timeout {
            waiting_for,
            address: address.to_string(),
            after,
        })
    })
}

/// Waits until the time `until`. Returns at once for `None`.
pub(crate) async fn wait_until(until: Option<Instant>) {
    if let Some(until) = until {
        tokio::time::sleep_until(until.into()).await;
    }
}

/// Returns the network of an address, which one party cannot easily change: the whole IPv4 address,
/// or the first 64 bits of an IPv6 address.
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
        // `next` skips the handshake that was dropped.
        assert_eq!(handshakes.next().await, Some(2));
        assert_eq!(handshakes.next().await, Some(3));
        assert_eq!((handshakes.next().await, handshakes.len()), (None, 0));
    }
}
