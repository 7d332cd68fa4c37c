//! Admission of connections: their number in total and per peer.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{Limits, PeerId};

/// The reason for which a server rejects a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Rejection {
    /// The server already has [`Limits::max_connections`] connections.
    ServerFull,
    /// The peer already has [`Limits::max_per_peer`] connections.
    PeerFull,
    /// The peer did not open the protocol within [`Limits::opening`].
    NotTranspute,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServerFull => "the server has its maximum number of connections",
            Self::PeerFull => "the peer has its maximum number of connections",
            Self::NotTranspute => "the peer did not open the protocol",
        })
    }
}

/// Counters of a server, from its start to its end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ServeSummary {
    /// Number of connections whose peer opened the protocol.
    pub connections: u64,
    /// Largest number of connections at the same time.
    pub max_at_once: u64,
    /// Number of rejected connections.
    pub rejected: u64,
    /// Number of connections that failed, or that the server cut because the peer stalled.
    pub broken: u64,
    /// Number of completed runs.
    pub runs: u64,
    /// Number of evaluations in the completed runs.
    pub evaluations: u64,
    /// Number of runs that started and failed.
    pub failed: u64,
    /// Number of declined runs.
    pub declined: u64,
}

/// The counters from which a [`ServeSummary`] is made.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    max_at_once: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) runs: AtomicU64,
    pub(super) evaluations: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) declined: AtomicU64,
}

impl Counters {
    pub(super) fn summary(&self) -> ServeSummary {
        ServeSummary {
            connections: self.connections.load(Relaxed),
            max_at_once: self.max_at_once.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
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

/// The slots of connections, and the counters of the server.
#[derive(Clone, Default)]
pub(super) struct Admission(Arc<Inner>);

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

impl Admission {
    pub(super) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Takes a slot for a connection of `peer`.
    pub(super) fn admit(&self, peer: PeerId, limits: &Limits) -> Result<Slot, Rejection> {
        let mut taken = self.taken();
        if taken.all >= limits.max_connections {
            return Err(Rejection::ServerFull);
        }
        let of = taken.of.get(&peer).copied().unwrap_or(0);
        if of >= limits.max_per_peer {
            return Err(Rejection::PeerFull);
        }
        taken.all += 1;
        taken.of.insert(peer.clone(), of + 1);
        self.0
            .counters
            .max_at_once
            .fetch_max(taken.all as u64, Relaxed);
        Ok(Slot {
            admission: self.clone(),
            peer,
        })
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        // A poisoned lock is usable, because no code that changes the counts can panic halfway.
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a connection. Dropping it frees the slot.
pub(super) struct Slot {
    admission: Admission,
    peer: PeerId,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.admission.taken();
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
        let admission = Admission::default();
        let peer = |name: &str| PeerId::Address(name.to_owned());
        let first = admission.admit(peer("a"), &limits).ok().unwrap();
        let _second = admission.admit(peer("a"), &limits).ok().unwrap();
        assert_eq!(
            admission.admit(peer("a"), &limits).err(),
            Some(Rejection::PeerFull)
        );
        let _third = admission.admit(peer("b"), &limits).ok().unwrap();
        assert_eq!(
            admission.admit(peer("c"), &limits).err(),
            Some(Rejection::ServerFull)
        );
        drop(first);
        assert!(admission.admit(peer("c"), &limits).is_ok());
        assert!(admission.admit(peer("a"), &limits).is_ok());
        // A peer without connections is removed from the map, so that the map cannot grow without
        // bound.
        let (all, peers) = {
            let taken = admission.taken();
            (taken.all, taken.of.len())
        };
        assert_eq!((all, peers), (2, 2));
        assert_eq!(admission.counters().summary().max_at_once, 3);
    }
}
