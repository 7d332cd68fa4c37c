//! Sessions of browsers that have presented the token.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};

use super::token::{Token, TokenError};

/// Maximum number of open sessions. Opening another one ends the session that was used least
/// recently.
const MAX_SESSIONS: usize = 64;

/// Time without a request after which a session ends. With twelve hours, a session lasts overnight.
const IDLE_TIMEOUT: Duration = Duration::from_secs(12 * 60 * 60);

/// SHA-256 digest of a session's identifier. The timing of a lookup by digest reveals nothing about
/// the identifier.
type Key = [u8; 32];

/// The open sessions of one server. They are kept in memory only and end with the server.
///
/// An identifier is a bearer credential like the token. It is not a cookie, because a browser sends
/// a host's cookies to every port. Another port may belong to another user.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// The time of each session's last request.
    open: Mutex<HashMap<Key, Instant>>,
}

impl Sessions {
    /// Opens a session and returns its identifier.
    pub(super) fn open(&self, now: Instant) -> Result<Token, TokenError> {
        let id = Token::random()?;
        let mut open = self.lock(now);
        if open.len() >= MAX_SESSIONS {
            let oldest = open.iter().min_by_key(|(_, used)| **used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                open.remove(&key);
            }
        }
        open.insert(key(id.as_str()), now);
        Ok(id)
    }

    /// Returns whether a session is open. Records the time of the request in the session.
    pub(super) fn is_open(&self, id: &str, now: Instant) -> bool {
        match self.lock(now).get_mut(&key(id)) {
            Some(used) => {
                *used = now;
                true
            }
            None => false,
        }
    }

    /// Ends a session, if it is open.
    pub(super) fn close(&self, id: &str, now: Instant) {
        self.lock(now).remove(&key(id));
    }

    /// Ends idle sessions and returns the open ones.
    fn lock(&self, now: Instant) -> MutexGuard<'_, HashMap<Key, Instant>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, used| now.saturating_duration_since(*used) < IDLE_TIMEOUT);
        open
    }
}

fn key(id: &str) -> Key {
    Sha256::digest(id.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_a_session_ends_no_other_session() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let [one, other] = [(), ()].map(|()| sessions.open(now).unwrap());
        assert_ne!(one.as_str(), other.as_str());
        sessions.close(one.as_str(), now);
        assert!(!sessions.is_open(one.as_str(), now));
        assert!(sessions.is_open(other.as_str(), now));
        assert!(!Sessions::default().is_open(other.as_str(), now));
        assert!(!sessions.is_open("", now));
    }

    #[test]
    fn an_idle_session_ends_and_a_used_one_does_not() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let [used, idle] = [(), ()].map(|()| sessions.open(start).unwrap());
        let almost = start + IDLE_TIMEOUT - Duration::from_secs(1);
        assert!(sessions.is_open(used.as_str(), almost));
        let later = start + IDLE_TIMEOUT;
        assert!(!sessions.is_open(idle.as_str(), later));
        assert!(sessions.is_open(used.as_str(), later));
        assert!(!sessions.is_open(used.as_str(), later + IDLE_TIMEOUT));
        assert!(sessions.lock(later + IDLE_TIMEOUT).is_empty());
    }

    #[test]
    fn a_session_beyond_the_limit_ends_the_least_recently_used() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let ids: Vec<_> = (0..MAX_SESSIONS as u64)
            .map(|second| sessions.open(at(second)).unwrap())
            .collect();
        assert!(sessions.is_open(ids[0].as_str(), at(100)));
        let newest = sessions.open(at(101)).unwrap();
        assert_eq!(sessions.lock(at(101)).len(), MAX_SESSIONS);
        assert!(!sessions.is_open(ids[1].as_str(), at(102)));
        for id in [&ids[0], &ids[2], &newest] {
            assert!(sessions.is_open(id.as_str(), at(102)));
        }
    }
}
