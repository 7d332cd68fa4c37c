//! Links between two parties, over any transport.
//!
//! A [`Transport`] has a name in a [`Registry`]. It listens or connects, authenticates the peer,
//! and returns a [`Link`]: an ordered byte stream in each direction with live statistics. Other
//! crates use only these types, so to add a transport it is enough to implement the trait and to
//! register it.
//!
//! | module of the crate | content |
//! | --- | --- |
//! | `transport`, `settings` | the traits, the registry, settings after a transport's name |
//! | `builtins` | the list of the transports in this crate |
//! | `retry` | repeated attempts to connect |
//! | `profile` | the properties of a transport from which run times are predicted |
//! | `link`, `stats` | links and their live statistics |
//! | `identity` | keys, key files, fingerprints |
//! | `tls` | TLS 1.3 with pinned keys |
//! | [`secure`] | TLS 1.3 with pinned keys over the streams of other crates' transports |
//! | `preamble` | plaintext, and detection of other protocols |
//! | `tcp` | the TCP transport |
//! | `quic` | the QUIC transport |
//! | `rudp` | the reliable-UDP transport |
//! | `udp` | the reliable-UDP transport without loss recovery |
//! | `striped` | several TCP connections under one link |
//! | [`auto`] | several transports at one address, of which the connector chooses one |
//! | `handshakes` | a bounded number of concurrent handshakes of a listener |
//! | `listening` | the common interfaces of the listeners of all transports |
//! | `datagram` | UDP sockets |
//! | [`conformance`] | checks that any transport must pass |
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use transpute_transport::{Identity, Registry, Security};
//!
//! let me = Arc::new(Identity::load_or_create("me.key")?);
//! println!("my fingerprint, for the other side: {}", me.fingerprint());
//! let peer = "sha256:a1e9156054e04fac899ae9f275132cdc07a5dbc4ea2c2ad3a1ffc6e0d253681f".parse()?;
//! let tcp = Registry::with_builtins().get("tcp")?;
//! let link = tcp.connect("203.0.113.7:7700", &Security::tls(me, [peer])).await?;
//! let (reader, writer) = link.into_parts();
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]
#![cfg_attr(
    not(feature = "auto"),
    expect(
        dead_code,
        reason = "the transports share code that some of them do not need"
    )
)]

#[cfg(feature = "auto")]
pub mod auto;
mod builtins;
pub mod conformance;
#[cfg(any(feature = "quic", feature = "rudp"))]
mod datagram;
mod diagnosis;
mod error;
mod handshakes;
mod identity;
mod link;
mod listening;
mod mismatch;
mod preamble;
mod profile;
#[cfg(feature = "quic")]
mod quic;
mod retry;
#[cfg(feature = "rudp")]
#[cfg_attr(
    not(all(feature = "auto", feature = "quic")),
    expect(
        dead_code,
        unused_imports,
        reason = "with `auto`, `quic` shares the port of `rudp`"
    )
)]
mod rudp;
pub mod secure;
mod security;
pub mod settings;
mod stats;
mod striped;
mod tcp;
mod throttle;
mod tls;
mod transport;
#[cfg(feature = "rudp")]
mod udp;

pub use self::{
    error::{
        AddressError, BindError, ConnectError, HandshakeError, RegistryError, StreamError,
        TransportError, UnsupportedError,
    },
    identity::{Fingerprint, FingerprintError, Identity, IdentityError},
    link::{Link, LinkInfo, LinkReader, LinkTimings, LinkWriter},
    profile::{FirstFlight, Profile, Throughput},
    retry::retry_connect,
    security::Security,
    settings::Settings,
    stats::{Bottleneck, LinkSnapshot, LinkStats, PathProbe, PathSample, SendTimes, TrainResult},
    striped::{StripedOptions, TcpStriped},
    tcp::address::check_address,
    tcp::{CongestionControl, InvalidCongestionControl, Tcp, TcpOptions},
    throttle::Throttle,
    transport::{Listener, Registry, Transport},
};
pub use transpute_units::{Bandwidth, KnownDirection, KnownPath, PathClass};

#[cfg(feature = "quic")]
pub use self::quic::{Quic, QuicCongestion, QuicDriver, QuicOptions, UnknownCongestion};
#[cfg(feature = "rudp")]
pub use self::{
    rudp::{Rudp, RudpControl, RudpOptions},
    udp::{Udp, UdpOptions},
};

/// Name and version of the protocol of a link: the ALPN name in TLS and the start of the plaintext
/// preamble.
pub const PROTOCOL: &str = "transpute/1";

/// The ALPN name of links without pins ([`Security::Unpinned`]). A peer that pins keys rejects this
/// name.
pub(crate) const UNPINNED_PROTOCOL: &str = "transpute/1 unpinned";
