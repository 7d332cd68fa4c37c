//! What a listener remembers of the paths to those who were there: how much they carried. A link to somebody who comes again
//! starts at that rate instead of finding it out, as the system's TCP does with what it keeps for each destination.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::Fingerprint;

/// Who was there: the address, and the key if one was pinned. With the key alone somebody who travels would be taken for where
/// he was.
pub(super) type Who = (IpAddr, Option<Fingerprint>);

/// Time for which the rate to a peer is remembered. What a path carries changes within minutes; docs/security.md names the time.
const AGE: Duration = Duration::from_secs(600);

/// How many are remembered; those who were there last.
const MOST: usize = 1024;

/// What of a rate is started with: on the way down to what the path carries by now, less is lost.
const SHARE: f64 = 0.9;

/// Rates by peer.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<Who, Known>>);

/// What is known of somebody.
#[derive(Debug)]
struct Known {
    reached: Option<Reached>,
    /// Links to him by now.
    links: u32,
}

/// What a link has reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Reached {
    /// Bytes per second.
    pub(super) rate: u64,
    /// The rate that it began with was too high.
    pub(super) is_corrected: bool,
    pub(super) at: Instant,
}

/// A link to somebody.
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

    /// Returns the rate to start at, in bytes per second, if anything is known.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Notes what the link has reached. One that had little to send says nothing against what was known.
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
    /// Counts a link, and returns its share of what is known.
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
        // A map is as good as ever after a panic between two of its changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(number: u32) -> Who {
        (IpAddr::V4(number.into()), None)
    }

    /// A link that begins at one time and ends at another, in seconds, with what it reaches; returns what it starts at.
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
            // Nothing is kept of somebody of whom nothing is known.
            begin(number + 2 * most).end(None);
        }
        assert_eq!(memory.lock().len(), MOST);
        let stays = begin(most + 1);
        assert_eq!((begin(most - 1).rate(), stays.rate()), (None, Some(900)));
    }
}
