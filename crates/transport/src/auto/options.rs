//! What a user may set.

use std::time::Duration;

use crate::{QuicOptions, RudpOptions, TcpOptions};

/// How several transports are listened for and tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AutoOptions {
    /// What concerns the control connection, and further ones of `tcp-striped`. A listener drops a peer that has not picked
    /// anything [`TcpOptions::handshake_timeout`] after it was authenticated. A congestion control that is set here holds
    /// until one is picked.
    pub tcp: TcpOptions,
    /// What concerns QUIC.
    pub quic: QuicOptions,
    /// What concerns reliable UDP.
    pub rudp: RudpOptions,
    /// Bytes that the receiving side of `tcp-striped` may hold because earlier ones are missing. Default: 16 MiB.
    pub max_out_of_order: usize,
    /// Whether the connector begins with QUIC at once, and not when somebody asks for it. Default: yes.
    pub quic_at_once: bool,
    /// Whether the connector begins to set up reliable UDP as soon as the control connection is there, and not when
    /// somebody asks for it. Default: yes.
    pub rudp_at_once: bool,
    /// Whether the connector also connects to a listener that uses one of the transports by its name. That listener takes the
    /// connection for a link, so a connector that only measures the path must not. Default: yes.
    pub takes_named: bool,
    /// How long to wait at least for an answer over UDP once there is one over TCP, however short the path: half a round trip
    /// is waited for in any case, so that a firewall costs no more than one. After that UDP is taken to be blocked.
    /// Default: 5 ms.
    pub udp_patience: Duration,
    /// How long the connector waits for further connections, once one of them is up: after that the others count as failed,
    /// whatever else may be waited for. Must be well below [`TcpOptions::handshake_timeout`] of the listener, which drops what
    /// is not picked by then. Default: 3 s.
    pub choice_timeout: Duration,
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
            max_out_of_order: 16 << 20,
            quic_at_once: true,
            rudp_at_once: true,
            takes_named: true,
            udp_patience: Duration::from_millis(5),
            choice_timeout: Duration::from_secs(3),
        }
    }
}
