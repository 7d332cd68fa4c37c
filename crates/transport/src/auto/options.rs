//! What a user may set.

use std::time::Duration;

use crate::{Quic, QuicOptions, Rudp, RudpOptions, Tcp, TcpOptions, TcpStriped};

/// How several transports are listened for and tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AutoOptions {
    /// Options of the TCP connections. A listener drops a peer that has not picked anything
    /// [`TcpOptions::handshake_timeout`] after it was authenticated. A congestion control that is set here holds until one is
    /// picked.
    pub tcp: TcpOptions,
    /// What concerns QUIC.
    pub quic: QuicOptions,
    /// What concerns reliable UDP.
    pub rudp: RudpOptions,
    /// Whether the connector opens a TCP connection, which `tcp` and `tcp-striped` need. Default: yes.
    pub opens_tcp: bool,
    /// Whether it opens a QUIC connection, unless in plaintext. Default: yes.
    pub opens_quic: bool,
    /// Whether it opens a connection of reliable UDP. Default: yes.
    pub opens_rudp: bool,
    /// Whether the connector also connects to a listener that uses one of the transports by its name. That listener takes the
    /// connection for a link, so a probe must not.
    pub(super) takes_named: bool,
    /// The time that a busy processor may need for a handshake, whatever the path. UDP does not count as blocked before it
    /// has had a round trip and this long (half a round trip where that is more). Where a listener on the same LAN has answered
    /// over TCP, UDP begins this much later, unless TCP is up by then. Default: 10 ms (measured: over loopback, on two
    /// processors with four busy threads, QUIC is established at most 8.6 ms after TCP).
    pub udp_patience: Duration,
    /// How long the connector waits for further connections once the first is up, or TCP has failed. It must be well below
    /// [`TcpOptions::handshake_timeout`] of the listener, which drops what is not picked by then. Default: 3 s.
    pub choice_timeout: Duration,
}

impl AutoOptions {
    /// Opens only the connections that transports need of which `wants` is true.
    #[must_use]
    pub fn opening(self, wants: impl Fn(&str) -> bool) -> Self {
        Self {
            opens_tcp: wants(Tcp::NAME) || wants(TcpStriped::NAME),
            opens_quic: wants(Quic::NAME),
            opens_rudp: wants(Rudp::NAME),
            ..self
        }
    }

    /// Returns those of a connection's transports that are offered by ALPN; the first is `auto`.
    pub(super) fn transports<'a>(&self, all: &'a [&'a str]) -> &'a [&'a str] {
        match self.takes_named {
            true => all,
            false => &all[..1],
        }
    }
}

impl Default for AutoOptions {
    fn default() -> Self {
        Self {
            tcp: TcpOptions {
                max_handshakes: 128,
                ..TcpOptions::default()
            },
            quic: QuicOptions::default(),
            rudp: RudpOptions::default(),
            opens_tcp: true,
            opens_quic: true,
            opens_rudp: true,
            takes_named: true,
            udp_patience: Duration::from_millis(10),
            choice_timeout: Duration::from_secs(3),
        }
    }
}
