//! The options of `auto`.

use std::time::Duration;

/// The options of a race. The options of its connections come from the registered transports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AutoOptions {
    /// True if the race also connects to a listener that uses a transport without `auto`. Such a
    /// listener treats the connection as a link at once, so a probe sets this to false.
    pub(super) takes_named: bool,
    /// Processor time to allow for a handshake on a busy machine. UDP is considered blocked if no
    /// UDP handshake completes within a round trip plus this time (or plus half a round trip, if
    /// that is longer). If a listener on the same LAN has answered over TCP, the UDP handshakes
    /// wait for the TCP connection, but at most this long. Default: 10 ms (measured: over loopback,
    /// on two processors with four busy threads, QUIC is established at most 8.6 ms after TCP).
    pub udp_patience: Duration,
    /// Time for which the connector waits for further connections after the first one is
    /// established, or after TCP has failed. It must be well below the listener's handshake timeout
    /// (5 s by default), after which the listener drops connections that were not chosen. Default:
    /// 3 s.
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
