//! Reliable UDP: starts at the rate of the path, and recovers losses with forward error correction.
//! For long, fast or lossy paths.
//!
//! [`transpute_rudp`] has the protocol. This module has its sockets, its clock, and rustls for its
//! handshake.
//!
//! # Round trips
//!
//! One: TLS 1.3 runs inside the protocol's own packets, and in the same round trip the path is
//! measured in both directions. The link exists when the peer is authenticated. The results of the
//! trains arrive some hundred microseconds later, or as late as the trains over a slow path.
//!
//! # Threads
//!
//! Each listener and each connected link has a thread (`server`). Writers send from their own
//! thread what is allowed at once, so a message waits for no other thread. Shutting down a writer
//! waits until the peer has everything. If a link is dropped after the shutdown was started, it is
//! completed in the background, for at most 10 s.

mod candidate;
mod connect;
mod ending;
mod endpoint;
mod flow;
mod foreign;
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

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::options::{RudpControl, RudpOptions};
pub(crate) use self::{
    connect::Authenticated,
    endpoint::Door,
    foreign::{Batch, Foreign},
    listener::listen,
    options::bits_per_second,
    ports::{UdpPort, bind_on_both},
};
use crate::{
    FirstFlight, Link, Listener, Profile, Security, Settings, Throughput, Transport,
    TransportError, auto::candidate::SharedPort, diagnosis,
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
    /// Connects to a listener that uses one of these transports.
    pub(crate) async fn connect_over(
        &self,
        address: &str,
        security: &Security,
        transports: &[&str],
    ) -> Result<Authenticated, TransportError> {
        connect::connect(address, security, Self::NAME, transports, self.options).await
    }
}

/// Bytes of the train that the set-up sends in each direction: 32 packets of 1,200 bytes
/// (docs/rudp.md).
const TRAIN_BYTES: u32 = 32 * 1200;

/// Returns the profile of a transport of this family.
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

/// Returns whether a transport of this family retransmits lost data.
fn is_repaired(name: &str) -> bool {
    name != crate::Udp::NAME
}

/// Time without an answer after which the connector asks over other protocols which transport the
/// listener uses.
const ASK_AFTER: Duration = Duration::from_millis(500);

/// Connects a transport of this family.
pub(crate) async fn connect(
    address: &str,
    security: &Security,
    name: &'static str,
    options: RudpOptions,
) -> Result<Link, TransportError> {
    let asking = async {
        tokio::time::sleep(ASK_AFTER).await;
        diagnosis::ask(address, security, name).await
    };
    let transports = [name];
    let connected = tokio::select! {
        biased;
        connected = connect::connect(address, security, name, &transports, options) => connected,
        Some(error) = asking => Err(error),
    };
    match connected {
        Ok(authenticated) => Ok(authenticated.bare.link()),
        Err(error @ (TransportError::UdpBlocked { .. } | TransportError::NotTranspute { .. })) => {
            let better = diagnosis::ask(address, security, name).await;
            Err(better.unwrap_or(error))
        }
        Err(error) => Err(error),
    }
}
