//! The listener's cache of the rates that earlier links to each peer have reached. A link to a
//! known peer starts at the cached rate, as the system's TCP does with its metrics for each
//! destination.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::Fingerprint;

/// The key of the cache: the peer's IP address, and its fingerprint if there is one. With the
/// fingerprint alone, a peer that has moved to another path would get the old rate.
pub(super) type PeerKey = (IpAddr, Option<Fingerprint>);

/// Maximum age of a cached rate that is still used. The rate of a path changes within minutes.
/// docs/security.md states the same duration.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Maximum number of peers in the cache. If a link ends while there are more, the cache evicts the
/// peer with the oldest rate among those without existing links.
const MAX_PEERS: usize = 1024;

/// Share of the cached rate at which a link starts. Starting below the path's rate loses fewer
/// packets than starting above it.
const START_SHARE: f64 = 0.9;

/// The cached rates, by peer.
#[derive(Debug, Default)]
pub(super) struct RateCache(Mutex<HashMap<PeerKey, PeerRate>>);

/// The cache entry of a peer.
#[derive(Debug)]
struct PeerRate {
    reached: Option<ReachedRate>,
    /// Number of existing links to the peer.
    links: u32,
}

/// The largest rate that a link has reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ReachedRate {
    /// The rate in bytes per second.
    pub(super) rate: u64,
    /// True if the initial rate of the link was too high.
    pub(super) is_corrected: bool,
    pub(super) at: Instant,
}

/// A link's handle on the cache entry of its peer. The entry counts the links with such a handle.
#[derive(Debug)]
pub(super) struct CachedLink {
    cache: Arc<RateCache>,
    who: PeerKey,
    rate: Option<u64>,
}

impl CachedLink {
    pub(super) fn new(cache: Arc<RateCache>, who: PeerKey, now: Instant) -> Self {
        let rate = cache.begin(who, now);
        Self { cache, who, rate }
    }

    /// Returns the initial rate in bytes per second, if it is known.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Records the rate that the link has reached. A lower rate replaces the entry only if the
    /// link's initial rate was too high, because a link with little data never reaches the path's
    /// rate.
    pub(super) fn end(self, reached: Option<ReachedRate>) {
        if let Some(reached) = reached {
            self.cache.note(self.who, reached);
        }
    }
}

impl Drop for CachedLink {
    fn drop(&mut self) {
        let mut all = self.cache.lock();
        if let Some(known) = all.get_mut(&self.who) {
            known.links = known.links.saturating_sub(1);
            if known.links == 0 && known.reached.is_none() {
                all.remove(&self.who);
            }
        }
    }
}

impl RateCache {
    /// Counts a new link to the peer. Returns its initial rate in bytes per second:
    /// [`START_SHARE`] of the cached rate, divided by the number of existing links to the peer.
    /// Returns `None` if the cache has no recent rate of the peer.
    fn begin(&self, who: PeerKey, now: Instant) -> Option<u64> {
        let mut all = self.lock();
        let known = all.entry(who).or_insert(PeerRate {
            reached: None,
            links: 0,
        });
        known.links = known.links.saturating_add(1);
        let reached = known.reached?;
        let share = START_SHARE / f64::from(known.links);
        (now.saturating_duration_since(reached.at) < MAX_AGE)
            .then_some((reached.rate as f64 * share) as u64)
    }

    fn note(&self, who: PeerKey, mut reached: ReachedRate) {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(&who) {
            if let Some(before) = known.reached
                && !reached.is_corrected
                && reached.at.saturating_duration_since(before.at) < MAX_AGE
            {
                reached.rate = reached.rate.max(before.rate);
            }
            known.reached = Some(reached);
        }
        if all.len() > MAX_PEERS {
            let gone = all.iter().filter(|(_, known)| known.links == 0);
            let oldest = gone.min_by_key(|(_, known)| known.reached.map(|reached| reached.at));
            if let Some(oldest) = oldest.map(|(who, _)| *who) {
                all.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PeerKey, PeerRate>> {
        // The map stays valid after a panic between two of its changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(number: u32) -> PeerKey {
        (IpAddr::V4(number.into()), None)
    }

    /// Starts a link at the first time and ends it at the second, both in seconds, with the rate
    /// that it reached. Returns its initial rate.
    fn cached(
        cache: &Arc<RateCache>,
        times: [Instant; 2],
        rate: u64,
        is_corrected: bool,
    ) -> Option<u64> {
        let cached = CachedLink::new(Arc::clone(cache), who(1), times[0]);
        let started = cached.rate();
        cached.end((rate > 0).then_some(ReachedRate {
            rate,
            is_corrected,
            at: times[1],
        }));
        started
    }

    #[test]
    fn the_most_is_remembered_until_it_proves_too_much_or_is_old() {
        let (cache, start) = (Arc::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(cached(&cache, [at(0), at(1)], 1000, false), None);
        assert_eq!(cached(&cache, [at(2), at(3)], 10, false), Some(900));
        assert_eq!(cached(&cache, [at(4), at(5)], 500, true), Some(900));
        assert_eq!(cached(&cache, [at(604), at(604)], 0, false), Some(450));
        assert_eq!(cached(&cache, [at(605), at(605)], 10, false), None);
        assert_eq!(cached(&cache, [at(606), at(606)], 0, false), Some(9));
        let other = (who(1).0, Some(Fingerprint::of_public_key(b"another")));
        assert_eq!(CachedLink::new(cache, other, at(606)).rate(), None);
    }

    #[test]
    fn links_at_the_same_time_share() {
        let (cache, now) = (Arc::default(), Instant::now());
        cached(&cache, [now; 2], 1000, false);
        let begin = || CachedLink::new(Arc::clone(&cache), who(1), now);
        let links = [begin(), begin(), begin()];
        let rates = links.each_ref().map(|cached| cached.rate());
        assert_eq!(rates, [Some(900), Some(450), Some(300)]);
        drop(links);
        assert_eq!(begin().rate(), Some(900));
    }

    #[test]
    fn those_who_were_there_last_are_remembered() {
        let (cache, start) = (Arc::<RateCache>::default(), Instant::now());
        let most = MAX_PEERS as u32;
        let begin = |number| CachedLink::new(Arc::clone(&cache), who(number), start);
        for number in 0..2 * most {
            begin(number).end(Some(ReachedRate {
                rate: 1000,
                is_corrected: false,
                at: start + Duration::from_nanos(number.into()),
            }));
            // An unknown peer without a rate gets no entry.
            begin(number + 2 * most).end(None);
        }
        assert_eq!(cache.lock().len(), MAX_PEERS);
        let stays = begin(most + 1);
        assert_eq!((begin(most - 1).rate(), stays.rate()), (None, Some(900)));
    }
}
