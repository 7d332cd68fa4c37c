//! The listener's cache of rates to earlier peers. A link to a known peer starts at the cached
//! rate, as the system's TCP does with its metrics for each destination.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::Fingerprint;

/// The key of the cache: the address, and the pinned key if there is one. The key alone would apply
/// a rate to a peer that has moved to another path.
pub(super) type Who = (IpAddr, Option<Fingerprint>);

/// Lifetime of an entry. The rate of a path changes within minutes; docs/security.md states this
/// time.
const AGE: Duration = Duration::from_secs(600);

/// Maximum number of entries. The oldest ones are evicted.
const MOST: usize = 1024;

/// Share of the cached rate at which a link starts. Starting below the path's rate loses fewer
/// packets than starting above it.
const SHARE: f64 = 0.9;

/// Rates by peer.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<Who, Known>>);

/// The entry of a peer.
#[derive(Debug)]
struct Known {
    reached: Option<Reached>,
    /// Number of present links to the peer.
    links: u32,
}

/// The rate that a link has reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Reached {
    /// Bytes per second.
    pub(super) rate: u64,
    /// The initial rate was too high.
    pub(super) is_corrected: bool,
    pub(super) at: Instant,
}

/// A link to a peer, which records its rate.
#[derive(Debug)]
pub(super) struct Visit {
    memory: Arc<Memory>,
    who: Who,
    rate: Option<u64>,
}

impl Visit {
    pub(super) fn new(memory: Arc<Memory>, who: Who, now: Instant) -> Self {
        let rate = memory.begin(who, now);
        Self { memory, who, rate }
    }

    /// Returns the initial rate in bytes per second, if it is known.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Records the rate that the link has reached. A link with little to send does not refute the
    /// entry.
    pub(super) fn end(self, reached: Option<Reached>) {
        if let Some(reached) = reached {
            self.memory.note(self.who, reached);
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut all = self.memory.lock();
        if let Some(known) = all.get_mut(&self.who) {
            known.links = known.links.saturating_sub(1);
            if known.links == 0 && known.reached.is_none() {
                all.remove(&self.who);
            }
        }
    }
}

impl Memory {
    /// Counts a link, and returns its share of the known rate.
    fn begin(&self, who: Who, now: Instant) -> Option<u64> {
        let mut all = self.lock();
        let known = all.entry(who).or_insert(Known {
            reached: None,
            links: 0,
        });
        known.links = known.links.saturating_add(1);
        let reached = known.reached?;
        let share = SHARE / f64::from(known.links);
        (now.saturating_duration_since(reached.at) < AGE)
            .then_some((reached.rate as f64 * share) as u64)
    }

    fn note(&self, who: Who, mut reached: Reached) {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(&who) {
            if let Some(before) = known.reached
                && !reached.is_corrected
                && reached.at.saturating_duration_since(before.at) < AGE
            {
                reached.rate = reached.rate.max(before.rate);
            }
            known.reached = Some(reached);
        }
        if all.len() > MOST {
            let gone = all.iter().filter(|(_, known)| known.links == 0);
            let oldest = gone.min_by_key(|(_, known)| known.reached.map(|reached| reached.at));
            if let Some(oldest) = oldest.map(|(who, _)| *who) {
                all.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Who, Known>> {
        // The map stays valid after a panic between two of its changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(number: u32) -> Who {
        (IpAddr::V4(number.into()), None)
    }

    /// Starts a link at one time and ends it at another, in seconds, with the rate that it reaches.
    /// Returns its initial rate.
    fn visit(
        memory: &Arc<Memory>,
        times: [Instant; 2],
        rate: u64,
        is_corrected: bool,
    ) -> Option<u64> {
        let visit = Visit::new(Arc::clone(memory), who(1), times[0]);
        let started = visit.rate();
        visit.end((rate > 0).then_some(Reached {
            rate,
            is_corrected,
            at: times[1],
        }));
        started
    }

    #[test]
    fn the_most_is_remembered_until_it_proves_too_much_or_is_old() {
        let (memory, start) = (Arc::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(visit(&memory, [at(0), at(1)], 1000, false), None);
        assert_eq!(visit(&memory, [at(2), at(3)], 10, false), Some(900));
        assert_eq!(visit(&memory, [at(4), at(5)], 500, true), Some(900));
        assert_eq!(visit(&memory, [at(604), at(604)], 0, false), Some(450));
        assert_eq!(visit(&memory, [at(605), at(605)], 10, false), None);
        assert_eq!(visit(&memory, [at(606), at(606)], 0, false), Some(9));
        let other = (who(1).0, Some(Fingerprint::of_public_key(b"another")));
        assert_eq!(Visit::new(memory, other, at(606)).rate(), None);
    }

    #[test]
    fn links_at_the_same_time_share() {
        let (memory, now) = (Arc::default(), Instant::now());
        visit(&memory, [now; 2], 1000, false);
        let begin = || Visit::new(Arc::clone(&memory), who(1), now);
        let visits = [begin(), begin(), begin()];
        let rates = visits.each_ref().map(|visit| visit.rate());
        assert_eq!(rates, [Some(900), Some(450), Some(300)]);
        drop(visits);
        assert_eq!(begin().rate(), Some(900));
    }

    #[test]
    fn those_who_were_there_last_are_remembered() {
        let (memory, start) = (Arc::<Memory>::default(), Instant::now());
        let most = MOST as u32;
        let begin = |number| Visit::new(Arc::clone(&memory), who(number), start);
        for number in 0..2 * most {
            begin(number).end(Some(Reached {
                rate: 1000,
                is_corrected: false,
                at: start + Duration::from_nanos(number.into()),
            }));
            // An unknown peer without a rate gets no entry.
            begin(number + 2 * most).end(None);
        }
        assert_eq!(memory.lock().len(), MOST);
        let stays = begin(most + 1);
        assert_eq!((begin(most - 1).rate(), stays.rate()), (None, Some(900)));
    }
}
