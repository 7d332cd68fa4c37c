//! Reliable UDP: starts at the rate of the path, and recovers losses with forward error correction.
//! For long, fast or lossy paths.
//!
//! [`transpute_rudp`] implements the protocol without I/O. This module adds the sockets, the clock,
//! and the TLS handshake by rustls.
//!
//! # Round trips
//!
//! The set-up takes one round trip: TLS 1.3 runs inside the protocol's own packets, and probe
//! trains measure the path in both directions in the same round trip. The link exists when the peer
//! is authenticated. The results of the probe trains arrive some hundred microseconds later. On a
//! slow path they arrive later still, when the trains have passed.
//!
//! # Threads
//!
//! Each listener and each connected link has a thread (`server`). A writer sends from the caller's
//! thread as much as congestion and flow control allow, so a message waits for no other thread.
//! Shutting down a writer waits until the peer has received all data. If a link is dropped after
//! the shutdown was started, the thread completes the shutdown in the background, for at most 10 s.

#[cfg(feature = "auto")]
mod candidate;
mod connect;
mod ending;
mod endpoint;
mod flow;
mod foreign_queue;
mod halves;
mod handshake;
mod intake;
mod link;
mod listener;
mod options;
mod ports;
mod routes;
mod served;
mod server;
mod socket;
mod waker;

use std::sync::Arc;

use async_trait::async_trait;

use self::connect::{Authenticated, Watch};
pub use self::options::{RudpControl, RudpOptions};
pub(crate) use self::{
    endpoint::EndpointHandle,
    foreign_queue::{Batch, ForeignQueue},
    listener::listen,
    options::rate,
    ports::{UdpPort, bind_on_both},
};
#[cfg(feature = "auto")]
use crate::auto::candidate::SharedPort;
use crate::{
    ConnectError, FirstFlight, HandshakeError, Link, Listener, Profile, Security, Settings,
    Throughput, Transport, TransportError, diagnosis,
};

/// The reliable-UDP transport, named `rudp`.
#[derive(Clone, Debug, Default)]
pub struct Rudp {
    options: RudpOptions,
}

impl Rudp {
    /// The name of this transport in the registry.
    pub const NAME: &'static str = "rudp";

    /// Makes the transport with these options.
    #[must_use]
    pub fn new(options: RudpOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl Transport for Rudp {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "reliable UDP: starts at the path's rate and corrects losses; for long, fast or lossy paths; needs an open UDP \
         port"
    }

    fn configure(
        &self,
        settings: &mut Settings,
    ) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        let options = self.options.configured(settings)?;
        Ok(Some(Arc::new(Self { options })))
    }

    fn profile(&self) -> Option<Profile> {
        Some(profile())
    }

    #[cfg(feature = "auto")]
    fn shared_port(&self) -> Option<SharedPort> {
        Some(SharedPort::new(self.clone()))
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        listen(address, security, Self::NAME, self.options).await
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        connect(address, security, Self::NAME, self.options).await
    }
}

impl Rudp {
    /// Connects to a listener and offers it these transports.
    pub(crate) async fn connect_over(
        &self,
        address: &str,
        security: &Security,
        transports: &[&str],
    ) -> Result<(Authenticated, Watch), TransportError> {
        connect::connect(address, security, Self::NAME, transports, self.options).await
    }
}

/// Number of bytes in the probe train that the set-up sends in each direction: 32 packets of 1,200
/// bytes (docs/rudp.md).
const TRAIN_BYTES: u32 = 32 * 1200;

/// Returns the profile of `rudp`, on which that of `udp` is based.
pub(crate) fn profile() -> Profile {
    Profile {
        setup_round_trips: 1,
        needs_udp: true,
        throughput: Throughput::MeasuredRate,
        first_flight: FirstFlight::Unlimited,
        probe_bytes: TRAIN_BYTES,
        ..Profile::default()
    }
}

/// Returns whether the transport of this name retransmits lost data: `udp` does not.
fn is_repaired(name: &str) -> bool {
    name != crate::Udp::NAME
}

/// Connects over `rudp` or `udp`, according to `name`.
pub(crate) async fn connect(
    address: &str,
    security: &Security,
    name: &'static str,
    options: RudpOptions,
) -> Result<Link, TransportError> {
    let is_vague = |error: &TransportError| {
        matches!(
            error,
            TransportError::Connect(ConnectError::UdpBlocked { .. })
                | TransportError::Handshake(HandshakeError::NotTranspute { .. })
        )
    };
    let transports = [name];
    let connecting = connect::connect(address, security, name, &transports, options);
    let (authenticated, _) =
        diagnosis::connect_or_explain(connecting, is_vague, address, security, name).await?;
    Ok(authenticated.bare.link())
}
