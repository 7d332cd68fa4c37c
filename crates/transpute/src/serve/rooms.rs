//! Who is there: the count of connections, in all and of each peer.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{Limits, PeerId};

/// Why a peer is turned away before anything is computed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Turned {
    /// There are [`Limits::max_connections`].
    Full,
    /// The peer has [`Limits::max_per_peer`].
    TooMany,
    /// It said nothing, or nothing of this protocol.
    Stranger,
}

impl fmt::Display for Turned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "there are as many connections as may be",
            Self::TooMany => "this peer has as many connections as it may",
            Self::Stranger => "it does not open a connection",
        })
    }
}

/// What a serving party has done so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Connections that were taken.
    pub connections: u64,
    /// The most of them at the same time.
    pub most_at_once: u64,
    /// Peers that were turned away.
    pub turned_away: u64,
    /// Connections that were cut because the peer stalled or broke the protocol, or that were lost.
    pub broken: u64,
    /// Runs that ended well.
    pub runs: u64,
    /// Evaluations in those.
    pub evaluations: u64,
    /// Runs that were begun and failed.
    pub failed: u64,
    /// Runs that peers asked for and did not get.
    pub declined: u64,
}

/// The counters behind a [`Summary`].
#[derive(Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    most_at_once: AtomicU64,
    pub(super) turned_away: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) runs: AtomicU64,
    pub(super) evaluations: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) declined: AtomicU64,
}

impl Counters {
    pub(super) fn summary(&self) -> Summary {
        Summary {
            connections: self.connections.load(Relaxed),
            most_at_once: self.most_at_once.load(Relaxed),
            turned_away: self.turned_away.load(Relaxed),
            broken: self.broken.load(Relaxed),
            runs: self.runs.load(Relaxed),
            evaluations: self.evaluations.load(Relaxed),
            failed: self.failed.load(Relaxed),
            declined: self.declined.load(Relaxed),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}

/// The places that connections take.
#[derive(Clone, Default)]
pub(super) struct Rooms(Arc<Inner>);

#[derive(Default)]
struct Inner {
    taken: Mutex<Taken>,
    counters: Counters,
}

#[derive(Default)]
struct Taken {
    all: usize,
    of: HashMap<PeerId, usize>,
}

impl Rooms {
    pub(super) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Takes a place for a peer.
    pub(super) fn enter(&self, peer: PeerId, limits: &Limits) -> Result<Place, Turned> {
        let mut taken = self.taken();
        if taken.all >= limits.max_connections {
            return Err(Turned::Full);
        }
        let of = taken.of.get(&peer).copied().unwrap_or(0);
        if of >= limits.max_per_peer {
            return Err(Turned::TooMany);
        }
        taken.all += 1;
        taken.of.insert(peer.clone(), of + 1);
        self.0
            .counters
            .most_at_once
            .fetch_max(taken.all as u64, Relaxed);
        Ok(Place {
            rooms: self.clone(),
            peer,
        })
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        // Every change is complete before anything could panic.
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection; free again when dropped.
pub(super) struct Place {
    rooms: Rooms,
    peer: PeerId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.rooms.taken();
        taken.all -= 1;
        if let Some(of) = taken.of.get_mut(&self.peer) {
            *of -= 1;
            if *of == 0 {
                taken.of.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_all_and_of_each() {
        let limits = Limits {
            max_connections: 3,
            max_per_peer: 2,
            ..Limits::default()
        };
        let rooms = Rooms::default();
        let peer = |name: &str| PeerId::Address(name.to_owned());
        let first = rooms.enter(peer("a"), &limits).ok().unwrap();
        let _second = rooms.enter(peer("a"), &limits).ok().unwrap();
        assert_eq!(rooms.enter(peer("a"), &limits).err(), Some(Turned::TooMany));
        let _third = rooms.enter(peer("b"), &limits).ok().unwrap();
        assert_eq!(rooms.enter(peer("c"), &limits).err(), Some(Turned::Full));
        drop(first);
        assert!(rooms.enter(peer("c"), &limits).is_ok());
        assert!(rooms.enter(peer("a"), &limits).is_ok());
        // What was dropped at once is not counted; who has none is forgotten.
        let (all, peers) = {
            let taken = rooms.taken();
            (taken.all, taken.of.len())
        };
        assert_eq!((all, peers), (2, 2));
        assert_eq!(rooms.counters().summary().most_at_once, 3);
    }
}
