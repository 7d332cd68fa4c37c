//! Starts links from the first packets of connectors.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use rustls::ServerConfig;
use tokio::sync::mpsc;
use transpute_rudp::{AcceptContext, AcceptLimits, Acceptor, Time, Transmit};

use super::{
    RudpOptions,
    handshake::{Credentials, Outcome},
    link::Shared,
    served::Hold,
};

/// Starts links from first packets, on the thread that serves the socket.
pub(super) struct Intake {
    acceptor: Acceptor,
    credentials: Credentials<ServerConfig>,
    options: RudpOptions,
    is_repaired: bool,
    handshakes: Arc<AtomicUsize>,
    incoming: mpsc::UnboundedSender<Incoming>,
}

/// Source address, destination address and arrival time of a connector's first packet.
pub(super) struct FirstPacket {
    pub(super) at: Time,
    pub(super) from: SocketAddr,
    /// The local address to which the packet was sent, if the system reports it.
    pub(super) to: Option<IpAddr>,
}

/// A link whose handshake is in progress.
pub(super) struct Incoming {
    pub(super) link: Arc<Shared>,
    pub(super) outcome: Outcome,
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
    pub(super) began: Instant,
    _count: Count,
}

/// Decrements the number of running handshakes when it is dropped.
struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Intake {
    /// Sends each new link to `incoming`. `is_repaired` is true if the links retransmit lost data.
    /// Returns `None` if the cryptographic library fails.
    pub(super) fn new(
        credentials: Credentials<ServerConfig>,
        options: RudpOptions,
        is_repaired: bool,
        incoming: mpsc::UnboundedSender<Incoming>,
    ) -> Option<Self> {
        let mut limits = AcceptLimits::default();
        limits.handshakes = options.max_handshakes;
        Some(Self {
            acceptor: Acceptor::new(limits, &rand::random())?,
            credentials,
            options,
            is_repaired,
            handshakes: Arc::default(),
            incoming,
        })
    }

    /// Handles a set-up datagram that belongs to no link. Returns a link if the datagram starts
    /// one.
    pub(super) fn take(
        &mut self,
        hold: Hold,
        packet: &FirstPacket,
        datagram: &mut [u8],
    ) -> Option<Arc<Shared>> {
        let outcome = Outcome::default();
        let config = self.options.config(self.is_repaired, packet.from.ip());
        // A socket that listens on all addresses must answer from the address of the request.
        let is_wildcard = hold.served.socket.local().ip().is_unspecified();
        let source = packet.to.filter(|_| is_wildcard);
        let accepting = AcceptContext {
            config: &config,
            entropy: rand::random(),
            handshakes: self.handshakes.load(Ordering::Relaxed),
            tls: &mut |parameters| self.credentials.begin(parameters, &outcome),
        };
        let taken = self
            .acceptor
            .handle_datagram(packet.at, packet.from, datagram, accepting);
        match taken {
            transpute_rudp::AcceptResult::Ignored => None,
            transpute_rudp::AcceptResult::Reply(reply) => {
                let transmit = Transmit {
                    destination: packet.from,
                    len: reply.len(),
                    segment_size: reply.len(),
                };
                // Ignore errors: the connector retransmits its packet, and then gets another reply.
                let _ = hold.served.socket.send(&transmit, &reply, source);
                None
            }
            transpute_rudp::AcceptResult::Connection(connection) => {
                self.handshakes.fetch_add(1, Ordering::Relaxed);
                let count = Count(Arc::clone(&self.handshakes));
                let control = self.options.control.name();
                let link = Shared::new(*connection, hold, source, control);
                let link = Arc::new(link);
                let incoming = Incoming {
                    link: Arc::clone(&link),
                    outcome,
                    from: packet.from,
                    to: packet.to,
                    began: Instant::now(),
                    _count: count,
                };
                // If the listener was dropped, abandon the link.
                if let Err(unsent) = self.incoming.send(incoming) {
                    unsent.0.link.abandon();
                }
                Some(link)
            }
        }
    }
}
