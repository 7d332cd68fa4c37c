//! TLS 1.3 with one pinned Ed25519 key on each side.
//!
//! Both sides compare the peer's key with the pins *during* the handshake, so no application byte
//! is sent to a peer that has not proved to hold a pinned key. Host names, dates and issuers are
//! ignored: see [`crate::Identity`]. There is no resumption and no early data: each link has a full
//! handshake, with X25519MLKEM768 preferred.

#[cfg(feature = "ml-kem")]
mod hybrid;
mod provider;

use std::sync::Arc;

use rustls::{
    AlertDescription, CertificateError, ClientConfig, CommonState, DigitallySignedStruct,
    DistinguishedName, OtherError, ServerConfig, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        NoServerSessionStorage, ParsedCertificate,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::SingleCertAndKey,
    version::TLS13,
};

use crate::{
    Fingerprint, HandshakeError, Identity, PROTOCOL, Security, UNPINNED_PROTOCOL,
    error::PinMismatch, identity::find_message,
};

/// Makes the configuration of the connecting side, which offers these transports by ALPN. For the
/// transport `unnamed`, the ALPN name is that of the protocol alone. Returns `None` in plaintext.
pub(crate) fn client_config(
    security: &Security,
    transports: &[&str],
    unnamed: &str,
) -> Result<Option<Arc<ClientConfig>>, HandshakeError> {
    let Some((identity, accepted)) = Accepted::of(security)? else {
        return Ok(None);
    };
    let protocols = alpn_names(Pinning::of(security), transports, unnamed);
    client(identity, accepted, protocols).map(Some)
}

/// Makes the configuration of the listening side, which accepts these transports by ALPN. It
/// selects the first one that the peer offers too. For the transport `unnamed`, the ALPN name is
/// that of the protocol alone. Returns `None` in plaintext.
pub(crate) fn server_config(
    security: &Security,
    transports: &[&str],
    unnamed: &str,
) -> Result<Option<Arc<ServerConfig>>, HandshakeError> {
    let Some((identity, accepted)) = Accepted::of(security)? else {
        return Ok(None);
    };
    let protocols = alpn_names(Pinning::of(security), transports, unnamed);
    server(identity, accepted, protocols).map(Some)
}

fn client(
    identity: &Identity,
    accepted: Accepted,
    alpn_protocols: Vec<Vec<u8>>,
) -> Result<Arc<ClientConfig>, HandshakeError> {
    let provider = provider::provider();
    let pins = Pins::new(accepted, &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| explain(&error))?
        .dangerous()
        .with_custom_certificate_verifier(pins)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    config.alpn_protocols = alpn_protocols;
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

fn server(
    identity: &Identity,
    accepted: Accepted,
    alpn_protocols: Vec<Vec<u8>>,
) -> Result<Arc<ServerConfig>, HandshakeError> {
    let provider = provider::provider();
    let pins = Pins::new(accepted, &provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| explain(&error))?
        .with_client_cert_verifier(pins)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    config.alpn_protocols = alpn_protocols;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// The rule for accepting the peer's key in the TLS handshake: only pinned keys, or any key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pinning {
    Pinned,
    Unpinned,
}

impl Pinning {
    pub(crate) fn of(security: &Security) -> Self {
        match security {
            Security::Unpinned { .. } => Self::Unpinned,
            _ => Self::Pinned,
        }
    }

    /// Returns the ALPN name of the protocol. Links without pinned keys have a different name, so
    /// that a peer that pins keys rejects them.
    pub(crate) fn protocol(self) -> &'static str {
        match self {
            Self::Pinned => PROTOCOL,
            Self::Unpinned => UNPINNED_PROTOCOL,
        }
    }
}

/// Returns the server name for TLS. It is neither sent nor checked, but the TLS library requires
/// one.
pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into())
}

/// The peer's identity and the negotiated parameters of a completed handshake.
#[derive(Clone, Debug)]
pub(crate) struct Established {
    /// Fingerprint of the peer's key. `None` if the peer is not authenticated.
    pub(crate) peer: Option<Fingerprint>,
    /// Key agreement and cipher, for display. `None` in plaintext.
    pub(crate) cipher: Option<String>,
    /// The transport that both sides use.
    pub(crate) transport: String,
    /// The message in the peer's certificate, if it has one. In plaintext, `rudp` fills in the
    /// listener's answer.
    pub(crate) message: Option<Vec<u8>>,
}

impl Established {
    /// Returns the result of a plaintext handshake.
    pub(crate) fn plaintext(transport: String, message: Option<Vec<u8>>) -> Self {
        Self {
            peer: None,
            cipher: None,
            transport,
            message,
        }
    }
}

/// Checks the ALPN name and the certificate of a completed handshake, and returns the negotiated
/// parameters. `unnamed` is the transport of an ALPN name that contains no transport.
pub(crate) fn established(
    connection: &CommonState,
    pinning: Pinning,
    unnamed: &str,
) -> Result<Established, HandshakeError> {
    let alpn = connection.alpn_protocol();
    let certificate = connection.peer_certificates().and_then(<[_]>::first);
    let cipher = cipher(connection);
    check(alpn, certificate, cipher, pinning, unnamed)
}

/// Checks the ALPN name and the certificate like [`established`], for a TLS connection that is not
/// accessible as [`CommonState`].
pub(crate) fn check(
    alpn: Option<&[u8]>,
    certificate: Option<&CertificateDer<'_>>,
    cipher: String,
    pinning: Pinning,
    unnamed: &str,
) -> Result<Established, HandshakeError> {
    let transport = transport_of(alpn, pinning.protocol(), unnamed)?;
    let certificate = certificate.ok_or_else(|| HandshakeError::Tls {
        detail: "the peer presented no certificate".into(),
    })?;
    let peer = fingerprint(certificate).map_err(|error| explain(&error))?;
    Ok(Established {
        peer: (pinning == Pinning::Pinned).then_some(peer),
        cipher: Some(cipher),
        transport: transport.into(),
        message: find_message(certificate).map(<[u8]>::to_vec),
    })
}

/// The last ALPN name that each side offers over TCP. It is selected if the two sides have no
/// common transport. Each side then sends the names of its transports and closes the connection.
pub(crate) const NO_COMMON_TRANSPORT: &str = "?";

/// Separates the protocol from the transport in an ALPN name.
const OVER: &str = " over ";

fn alpn_names(pinning: Pinning, transports: &[&str], unnamed: &str) -> Vec<Vec<u8>> {
    let protocol = pinning.protocol();
    let name = |&transport: &&str| match transport == unnamed {
        true => protocol.into(),
        false => format!("{protocol}{OVER}{transport}").into_bytes(),
    };
    transports.iter().map(name).collect()
}

/// Returns the transport of an ALPN name of this protocol, or `default` if it contains none.
fn transport_of<'a>(
    alpn: Option<&'a [u8]>,
    protocol: &str,
    default: &'a str,
) -> Result<&'a str, HandshakeError> {
    let name = alpn.and_then(|name| str::from_utf8(name).ok());
    match name.and_then(|name| name.strip_prefix(protocol)) {
        Some("") => Some(default),
        Some(rest) => rest.strip_prefix(OVER),
        None => None,
    }
    .ok_or_else(|| HandshakeError::NotTranspute {
        evidence: "it named no protocol in its TLS handshake".into(),
    })
}

fn cipher(connection: &CommonState) -> String {
    let group = connection.negotiated_key_exchange_group();
    let suite = connection.negotiated_cipher_suite();
    match (group, suite) {
        (Some(group), Some(suite)) => format!("{:?} {:?}", group.name(), suite.suite()),
        _ => "TLS 1.3".into(),
    }
}

/// Converts an error of the TLS library to a handshake error.
pub(crate) fn explain(error: &rustls::Error) -> HandshakeError {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
            PinMismatch::find(&**inner).unwrap_or_else(|| HandshakeError::Tls {
                detail: error.to_string(),
            })
        }
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate),
        ) => HandshakeError::PeerRefusedUs {
            alert: format!("{alert:?}"),
        },
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | rustls::Error::NoApplicationProtocol => HandshakeError::NotTranspute {
            evidence:
                "its TLS handshake names another protocol, version or transport, or only one side pins keys"
                    .into(),
        },
        rustls::Error::NoCertificatesPresented => HandshakeError::NotTranspute {
            evidence: "it presented no certificate in its TLS handshake".into(),
        },
        _ => HandshakeError::Tls {
            detail: error.to_string(),
        },
    }
}

/// Verifies the peer's certificate on either side: the key must be accepted, and the peer must sign
/// the handshake with it.
#[derive(Debug)]
struct Pins {
    accepted: Accepted,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The keys of the peer that a verifier accepts.
#[derive(Debug)]
enum Accepted {
    Only(Vec<Fingerprint>),
    Any,
}

impl Accepted {
    /// Returns this side's key and the accepted keys of the peer. Returns `None` in plaintext.
    fn of(security: &Security) -> Result<Option<(&Identity, Self)>, HandshakeError> {
        Ok(match security {
            Security::Tls { identity, peers } => Some((identity, Self::only(peers)?)),
            Security::Unpinned { identity } => Some((identity, Self::Any)),
            Security::Plaintext => None,
        })
    }

    fn only(peers: &[Fingerprint]) -> Result<Self, HandshakeError> {
        if peers.is_empty() {
            return Err(HandshakeError::NoPinnedPeer);
        }
        Ok(Self::Only(peers.to_vec()))
    }
}

impl Pins {
    fn new(accepted: Accepted, provider: &CryptoProvider) -> Arc<Self> {
        Arc::new(Self {
            accepted,
            algorithms: provider.signature_verification_algorithms,
        })
    }

    fn check_key(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<(), rustls::Error> {
        let found = fingerprint(certificate)?;
        match &self.accepted {
            // Fingerprints are public, so this comparison may take variable time.
            Accepted::Only(peers) if !peers.contains(&found) => {
                let mismatch = PinMismatch {
                    expected: peers.clone(),
                    found,
                };
                return Err(CertificateError::Other(OtherError(Arc::new(mismatch))).into());
            }
            Accepted::Only(_) | Accepted::Any => {}
        }
        if intermediates.is_empty() {
            Ok(())
        } else {
            Err(rustls::Error::General(
                "expected one self-signed certificate, got a chain".into(),
            ))
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if signed.scheme != SignatureScheme::ED25519 {
            return Err(rustls::Error::General(format!(
                "expected an Ed25519 signature, got {:?}",
                signed.scheme
            )));
        }
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> Result<Fingerprint, rustls::Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    Ok(Fingerprint::of_public_key(
        &parsed.subject_public_key_info(),
    ))
}

/// Defines the signature methods, which are identical in `ServerCertVerifier` and
/// `ClientCertVerifier`.
macro_rules! signature_checks {
    () => {
        /// Rejects every signature. It is never called, because only TLS 1.3 is enabled.
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("TLS 1.2 is not spoken here".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.check_signature(message, certificate, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }
    };
}

impl ServerCertVerifier for Pins {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check_key(end_entity, intermediates)?;
        Ok(ServerCertVerified::assertion())
    }

    signature_checks!();
}

impl ClientCertVerifier for Pins {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check_key(end_entity, intermediates)?;
        Ok(ClientCertVerified::assertion())
    }

    signature_checks!();

    fn client_auth_mandatory(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
