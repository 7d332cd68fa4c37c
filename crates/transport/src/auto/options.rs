//! The options of `auto`.

use std::time::Duration;

/// How several transports are tried. The options of the connections are those of the registered transports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AutoOptions {
    /// Whether the connector also connects to a listener that uses one of the transports by its name. That listener takes the
    /// connection for a link, so a probe must not.
    pub(super) takes_named: bool,
    /// The time that a busy processor may need for a handshake, whatever the path. UDP does not count as blocked before it
    /// has had a round trip and this long (half a round trip where that is more). Where a listener on the same LAN has answered
    /// over TCP, UDP begins this much later, unless TCP is up by then. Default: 10 ms (measured: over loopback, on two
    /// processors with four busy threads, QUIC is established at most 8.6 ms after TCP).
    pub udp_patience: Duration,
    /// How long the connector waits for further connections once the first is up, or TCP has failed. It must be well below the
    /// time that a listener gives a handshake (5 s by default), because the listener then drops what is not picked. Default: 3 s.
    pub choice_timeout: Duration,
}

impl Default for AutoOptions {
    fn default() -> Self {
        Self {
            takes_named: true,
            udp_patience: Duration::from_millis(10),
            choice_timeout: Duration::from_secs(3),
        }
    }
}
