//! The options of a driver: timeouts and limits.

use std::time::Duration;

/// The timeouts and limits of a driver.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DriverOptions {
    /// Time without received bytes after which the connection fails with
    /// [`SessionError::PeerLost`](transpute_session::SessionError::PeerLost). It must be several
    /// times the peer's `keep_alive_interval`. Default: 7 s.
    pub idle_timeout: Duration,
    /// Interval between keep-alive frames while this side has nothing else to send. Default: 2 s.
    pub keep_alive_interval: Duration,
    /// Time for which a closing side waits for the peer to close too. Default: 2 s.
    pub linger: Duration,
    /// Maximum length of a received payload, in bytes. A longer payload ends the connection. This
    /// bounds the memory that a peer can make this side use for a frame. Set a lower value only if
    /// honest peers send shorter frames. Default and maximum:
    /// [`MAX_PAYLOAD`](transpute_session::MAX_PAYLOAD).
    pub max_payload: usize,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(7),
            keep_alive_interval: Duration::from_secs(2),
            linger: Duration::from_secs(2),
            max_payload: transpute_session::MAX_PAYLOAD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_states_the_timeouts() {
        let document = include_str!("../../../docs/protocol.md");
        let options = DriverOptions::default();
        let alive = format!(
            "(`Alive`) after {} s",
            options.keep_alive_interval.as_secs()
        );
        assert!(document.contains(&alive));
        let limit = format!("up after {} s", options.idle_timeout.as_secs());
        assert!(document.contains(&limit));
    }
}
