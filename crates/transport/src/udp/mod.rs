//! UDP without repair: the paper's connectionless benchmark transport, for dedicated links without
//! loss.
//!
//! Identity, encryption, set-up, flow control and pacing are those of `rudp`. Nothing is corrected
//! and nothing retransmitted. The first packet that is missing, or overtaken by a later one, ends
//! the link with [`TransportError::PacketsLost`] on both sides. Data that was read before it is
//! correct.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Link, Listener, Profile, RudpControl, RudpOptions, Security, Settings, Transport,
    TransportError, rudp,
};

/// UDP without repair, named `udp`.
#[derive(Clone, Debug, Default)]
pub struct Udp {
    options: UdpOptions,
}

/// Options of UDP without repair.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct UdpOptions {
    /// The sending rate in bytes on the wire per second, from the first packet to the last.
    /// Default: the rate that the set-up measures.
    pub rate: Option<u64>,
}

impl Udp {
    /// The name of this transport in the registry.
    pub const NAME: &'static str = "udp";

    /// Makes the transport with these options.
    #[must_use]
    pub fn new(options: UdpOptions) -> Self {
        Self { options }
    }

    fn driver(&self) -> RudpOptions {
        RudpOptions {
            control: RudpControl::Fixed,
            rate: self.options.rate,
            probe: self.options.rate.is_none(),
            correction: false,
            ..RudpOptions::default()
        }
    }
}

#[async_trait]
impl Transport for Udp {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "UDP without repair: for dedicated links that lose nothing; fails at the first loss"
    }

    fn configure(
        &self,
        settings: &mut Settings,
    ) -> Result<Option<Arc<dyn Transport>>, TransportError> {
        let rate = settings.take("rate", rudp::bits_per_second)?;
        let options = UdpOptions {
            rate: rate.map(|bits| bits / 8).or(self.options.rate),
            ..self.options
        };
        Ok(Some(Arc::new(Self { options })))
    }

    fn profile(&self) -> Option<Profile> {
        Some(Profile {
            repairs_losses: false,
            ..rudp::profile()
        })
    }

    async fn listen(
        &self,
        address: &str,
        security: &Security,
    ) -> Result<Box<dyn Listener>, TransportError> {
        rudp::listen(address, security, Self::NAME, self.driver()).await
    }

    async fn connect(&self, address: &str, security: &Security) -> Result<Link, TransportError> {
        rudp::connect(address, security, Self::NAME, self.driver()).await
    }
}
