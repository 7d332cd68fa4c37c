//! How long a driver waits, and for what.

use std::time::Duration;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// Silence after which the peer counts as lost. Must be several times `sign_of_life`. Default
    /// 7 s.
    pub silence_limit: Duration,
    /// How often to show a sign of life when there is nothing to send. Default 2 s.
    pub sign_of_life: Duration,
    /// How long a closing side waits for the other to close too. Default 2 s.
    pub linger: Duration,
    /// The longest payload of a frame that is received, in bytes, at most and by default
    /// [`MAX_PAYLOAD`](transpute_session::MAX_PAYLOAD); what a peer can make this side buffer goes with it. With less, the frames of
    /// the peer must be known not to be longer.
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
    fn the_document_states_the_times() {
        let document = include_str!("../../../docs/protocol.md");
        let options = DriverOptions::default();
        let alive = format!("(`Alive`) after {} s", options.sign_of_life.as_secs());
        assert!(document.contains(&alive));
        let limit = format!("up after {} s", options.silence_limit.as_secs());
        assert!(document.contains(&limit));
    }
}
