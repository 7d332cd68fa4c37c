//! The handshake that authenticates a new connection, for both sides.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use quinn::{Connecting, Connection, crypto::rustls::HandshakeData};
use rustls::pki_types::CertificateDer;

use super::{Quic, explain, link, options::QuicOptions, reader::Reader, writer::Writer};
use crate::{
    HandshakeError, LinkInfo, LinkTimings, Security, TransportError, handshakes,
    tls::{self, Established, Pinning},
};

/// The properties of a connection before the handshake.
pub(super) struct Context {
    pub(super) started: Instant,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Time that name resolution took. `None` on the listening side.
    pub(super) connect: Option<Duration>,
    pub(super) timeout: Duration,
    pub(super) options: QuicOptions,
    pub(super) security: Security,
}

pub(super) type Authenticated = crate::listening::Authenticated<Reader, Writer>;

/// Waits until the peer has proved to hold a pinned key, or any key if none is pinned.
pub(super) async fn authenticate(
    connecting: Connecting,
    context: Context,
) -> Result<Authenticated, TransportError> {
    let waiting_for = "the QUIC handshake";
    let connection = handshakes::limit(context.timeout, waiting_for, &context.peer, connecting)
        .await?
        .map_err(|error| explain::handshake(&error, context.security.pins()))?;
    let Established {
        peer,
        cipher,
        message,
        transport,
    } = established(&connection, Pinning::of(&context.security))?;
    let info = LinkInfo {
        transport: Quic::NAME,
        local_address: context.local.to_string(),
        peer_address: context.peer.to_string(),
        peer_fingerprint: peer,
        encrypted: true,
        cipher,
        timings: LinkTimings {
            connect: context.connect.unwrap_or_default(),
            handshake: context.started.elapsed(),
        },
    };
    Ok(Authenticated {
        bare: link::bare(connection, &context.options, info)?,
        message,
        transport,
    })
}

/// Checks the ALPN name and the certificate of a completed handshake, and returns the negotiated
/// parameters.
fn established(connection: &Connection, pinning: Pinning) -> Result<Established, HandshakeError> {
    let data = connection
        .handshake_data()
        .and_then(|data| data.downcast::<HandshakeData>().ok());
    let alpn = data.as_ref().and_then(|data| data.protocol.as_deref());
    let certificates = connection
        .peer_identity()
        .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok());
    let certificate = certificates.as_deref().and_then(|all| all.first());
    // The library does not report the cipher suite and the key exchange group.
    let cipher = "QUIC with TLS 1.3".into();
    tls::check(alpn, certificate, cipher, pinning, Quic::NAME)
}
