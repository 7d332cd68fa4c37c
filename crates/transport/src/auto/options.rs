//! The options of `auto`.

use std::time::Duration;

/// The options of a race. The options of its connections are those of the registered transports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AutoOptions {
    /// The connector also connects to a listener that uses one of the transports by its name. That
    /// listener takes the connection for a link, so a probe must not do so.
    pub(super) takes_named: bool,
    /// The time that a busy processor may need for a handshake on any path. UDP does not count as
    /// blocked before it has had a round trip plus this time (or half a round trip, if that is
    /// longer). If a listener on the same LAN has answered over TCP, UDP begins this much later,
    /// unless TCP is established by then. Default: 10 ms (measured: over loopback, on two
    /// processors with four busy threads, QUIC is established at most 8.6 ms after TCP).
    pub udp_patience: Duration,
    /// Time for which the connector waits for further connections after the first is established,
    /// or after TCP has failed. It must be well below a listener's time for a handshake (5 s by
    /// default), because the listener then drops connections that were not chosen. Default: 3 s.
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
