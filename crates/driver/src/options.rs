//! The options of a driver: timeouts and limits.

use std::time::Duration;

/// The timeouts and limits of a driver.
#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// Time without received bytes after which the peer counts as lost; must be several times
    /// `sign_of_life`. Default: 7 s.
    pub silence_limit: Duration,
    /// Interval of keep-alive frames while there is nothing to send. Default: 2 s.
    pub sign_of_life: Duration,
    /// Time for which a closing side waits for the peer to close too. Default: 2 s.
    pub linger: Duration,
    /// The longest payload of a received frame, in bytes; at most
    /// [`MAX_PAYLOAD`](transpute_session::MAX_PAYLOAD), which is the default. It limits how much
    /// memory a peer can make this side use for a frame. With a lower limit, the peer must be known
    /// to send shorter frames.
    pub max_payload: usize,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            silence_limit: Duration::from_secs(7),
            sign_of_life: Duration::from_secs(2),
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
        let alive = format!("(`Alive`) after {} s", options.sign_of_life.as_secs());
        assert!(document.contains(&alive));
        let limit = format!("up after {} s", options.silence_limit.as_secs());
        assert!(document.contains(&limit));
    }
}
