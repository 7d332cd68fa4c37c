//! UDP without loss recovery, for dedicated links without packet loss. The Transputation paper
//! (2020) benchmarks such a connectionless transport.
//!
//! Identity, encryption, set-up, flow control and pacing are as in `rudp`. There is no forward
//! error correction and no retransmission. The first packet that is missing or arrives out of order
//! ends the link with [`StreamError::PacketsLost`](crate::StreamError::PacketsLost) on both sides.
//! All data read before is correct.

use std::sync::Arc;

use async_trait::async_trait;

use transpute_units::Bandwidth;

use crate::{
    Link, Listener, Profile, RudpControl, RudpOptions, Security, Settings, Transport,
    TransportError, rudp,
};

/// The UDP transport without loss recovery, named `udp`.
#[derive(Clone, Debug, Default)]
pub struct Udp {
    options: UdpOptions,
}

/// Options of the `udp` transport.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct UdpOptions {
    /// The constant sending rate, including IP and UDP headers. Default: the rate that the set-up
    /// measures.
    pub rate: Option<Bandwidth>,
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
        let rate = settings.take("rate", rudp::rate)?;
        let options = UdpOptions {
            rate: rate.or(self.options.rate),
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
