//! TLS 1.3 with one pinned Ed25519 key on each side.
//!
//! Both verifiers compare the pin *during* the handshake, so no application byte is sent to a peer
//! that has not proved to hold a pinned key. Host names, dates and issuers are ignored: see
//! [`crate::Identity`]. There is no resumption and no early data: each link has a full handshake,
//! with X25519MLKEM768 preferred.

use std::sync::Arc;

use rustls::{
    AlertDescription, CertificateError, ClientConfig, CommonState, DigitallySignedStruct,
    DistinguishedName, OtherError, ServerConfig, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        NoServerSessionStorage, ParsedCertificate,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::SingleCertAndKey,
    version::TLS13,
};

use crate::{
    Fingerprint, Identity, PROTOCOL, TransportError, UNPINNED_PROTOCOL, error::PinMismatch,
};

/// Makes the configuration of the connecting side.
pub(crate) fn client_config(
    identity: &Identity,
    peers: &[Fingerprint],
) -> Result<Arc<ClientConfig>, TransportError> {
    client(identity, Accepted::only(peers)?)
}

/// Makes the configuration of the listening side.
pub(crate) fn server_config(
    identity: &Identity,
    peers: &[Fingerprint],
) -> Result<Arc<ServerConfig>, TransportError> {
    server(identity, Accepted::only(peers)?)
}

/// Makes the configuration of the connecting side that accepts any key. It works only with a peer
/// that does so too.
pub(crate) fn unpinned_client_config(
    identity: &Identity,
) -> Result<Arc<ClientConfig>, TransportError> {
    client(identity, Accepted::Any)
}

/// Makes the configuration of the listening side that accepts any key. It works only with a peer
/// that does so too.
pub(crate) fn unpinned_server_config(
    identity: &Identity,
) -> Result<Arc<ServerConfig>, TransportError> {
    server(identity, Accepted::Any)
}

fn client(identity: &Identity, accepted: Accepted) -> Result<Arc<ClientConfig>, TransportError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let protocol = accepted.protocol();
    let pins = Pins::new(accepted, &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| explain(&error))?
        .dangerous()
        .with_custom_certificate_verifier(pins)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    config.alpn_protocols = vec![protocol.into()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

fn server(identity: &Identity, accepted: Accepted) -> Result<Arc<ServerConfig>, TransportError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let protocol = accepted.protocol();
    let pins = Pins::new(accepted, &provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| explain(&error))?
        .with_client_cert_verifier(pins)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    config.alpn_protocols = vec![protocol.into()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// The name of every server. It is neither sent nor checked, but the TLS library requires one.
pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into())
}

/// The results of a completed handshake.
pub(crate) struct Established {
    pub(crate) peer: Fingerprint,
    pub(crate) cipher: String,
    /// The transport that ALPN selected.
    pub(crate) transport: String,
}

/// Checks what the TLS library leaves to its user, and collects what is worth showing. `unnamed` is the transport that has no name in
/// ALPN.
pub(crate) fn established(
    connection: &CommonState,
    unnamed: &str,
) -> Result<Established, TransportError> {
    let transport = transport_of(connection.alpn_protocol(), PROTOCOL, unnamed)?;
    let peer = connection
        .peer_certificates()
        .and_then(<[_]>::first)
        .ok_or_else(|| TransportError::Tls {
            detail: "the peer presented no certificate".into(),
        })
        .and_then(|certificate| fingerprint(certificate).map_err(|error| explain(&error)))?;
    Ok(Established {
        peer,
        cipher: cipher(connection),
        transport: transport.into(),
    })
}

/// Does the same for a handshake without pins. Returns the cipher and the transport.
pub(crate) fn established_unpinned(
    connection: &CommonState,
    unnamed: &str,
) -> Result<(String, String), TransportError> {
    let alpn = connection.alpn_protocol();
    let transport = transport_of(alpn, UNPINNED_PROTOCOL, unnamed)?;
    Ok((cipher(connection), transport.into()))
}

/// Offers these transports in the ALPN extension of the connecting side, as protocol names. The name of `unnamed` is that of the
/// protocol alone.
pub(crate) fn client_over(
    config: &ClientConfig,
    transports: &[&str],
    unnamed: &str,
) -> Arc<ClientConfig> {
    let mut config = config.clone();
    name_transports(&mut config.alpn_protocols, transports, unnamed);
    Arc::new(config)
}

/// Accepts these transports on the listening side; the first one that the peer offers too is selected. `unnamed` as in
/// [`client_over`].
pub(crate) fn server_over(
    config: &ServerConfig,
    transports: &[&str],
    unnamed: &str,
) -> Arc<ServerConfig> {
    let mut config = config.clone();
    name_transports(&mut config.alpn_protocols, transports, unnamed);
    Arc::new(config)
}

/// The last name that every side over TCP offers. It is selected if the two sides have no common
/// transport. Each then sends the names of its transports, and closes.
pub(crate) const NO_COMMON_TRANSPORT: &str = "?";

/// Separates the protocol from the transport in an ALPN name.
const OVER: &str = " over ";

fn name_transports(protocols: &mut Vec<Vec<u8>>, transports: &[&str], unnamed: &str) {
    let named = protocols.iter().flat_map(|protocol| {
        transports.iter().map(|&transport| {
            let mut name = protocol.clone();
            if transport != unnamed {
                name.extend_from_slice(OVER.as_bytes());
                name.extend_from_slice(transport.as_bytes());
            }
            name
        })
    });
    *protocols = named.collect();
}

/// Returns the transport of an ALPN name of this protocol, or `default` if it contains none.
pub(crate) fn transport_of<'a>(
    alpn: Option<&'a [u8]>,
    protocol: &str,
    default: &'a str,
) -> Result<&'a str, TransportError> {
    let name = alpn.and_then(|name| str::from_utf8(name).ok());
    match name.and_then(|name| name.strip_prefix(protocol)) {
        Some("") => Some(default),
        Some(rest) => rest.strip_prefix(OVER),
        None => None,
    }
    .ok_or_else(|| TransportError::NotTranspute {
        evidence: "it named no protocol in its TLS handshake".into(),
    })
}

pub(crate) fn cipher(connection: &CommonState) -> String {
    let group = connection.negotiated_key_exchange_group();
    let suite = connection.negotiated_cipher_suite();
    match (group, suite) {
        (Some(group), Some(suite)) => format!("{:?} {:?}", group.name(), suite.suite()),
        _ => "TLS 1.3".into(),
    }
}

/// Returns the meaning of an error of the TLS library.
pub(crate) fn explain(error: &rustls::Error) -> TransportError {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
            PinMismatch::find(&**inner).unwrap_or_else(|| TransportError::Tls {
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
        ) => TransportError::PeerRefusedUs {
            alert: format!("{alert:?}"),
        },
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | rustls::Error::NoApplicationProtocol => TransportError::NotTranspute {
            evidence:
                "its TLS handshake names another protocol, version or transport, or only one side pins keys"
                    .into(),
        },
        rustls::Error::NoCertificatesPresented => TransportError::NotTranspute {
            evidence: "it presented no certificate in its TLS handshake".into(),
        },
        _ => TransportError::Tls {
            detail: error.to_string(),
        },
    }
}

/// Verifies either side's certificate: the key is pinned, and the peer signs the handshake with it.
#[derive(Debug)]
struct Pins {
    accepted: Accepted,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The accepted keys.
#[derive(Debug)]
enum Accepted {
    Only(Vec<Fingerprint>),
    Any,
}

impl Accepted {
    fn only(peers: &[Fingerprint]) -> Result<Self, TransportError> {
        if peers.is_empty() {
            return Err(TransportError::NoPinnedPeer);
        }
        Ok(Self::Only(peers.to_vec()))
    }

    /// Two names, so that a peer that pins keys and one that does not never share a link.
    fn protocol(&self) -> &'static str {
        match self {
            Self::Only(_) => PROTOCOL,
            Self::Any => UNPINNED_PROTOCOL,
        }
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

pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> Result<Fingerprint, rustls::Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    Ok(Fingerprint::of_public_key(
        &parsed.subject_public_key_info(),
    ))
}

/// Cannot be reached with TLS 1.3 as the only version, and rejects in any case.
fn refuse_tls12() -> Result<HandshakeSignatureValid, rustls::Error> {
    Err(rustls::Error::General("TLS 1.2 is not spoken here".into()))
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

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        refuse_tls12()
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

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        refuse_tls12()
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

    fn client_auth_mandatory(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
