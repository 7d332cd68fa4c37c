//! The handshake of reliable UDP: TLS 1.3 by rustls, or an exchange of greetings without
//! cryptography in plaintext mode.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::{
    ClientConfig, ServerConfig,
    quic::{self, KeyChange, Version},
};
use transpute_rudp::{
    Alert, Cipher, DataSecret, EXPORTER_LABEL, HandshakeKeys, PacketKey, PlaintextAgreement,
    PlaintextTls, TAG_BYTES, Tls,
};
use zeroize::Zeroizing;

use crate::{
    HandshakeError, Security, TransportError,
    tls::{self, Established, Pinning},
};

/// The alert that an end sends if only one of the two sides encrypts. The number is from the range
/// for private use (RFC 8446, section 11).
pub(super) const SECURITY_MISMATCH: u8 = 224;

/// First byte of a connector's first handshake message: ClientHello with TLS, or the greeting in
/// plaintext mode.
const CLIENT_HELLO: u8 = 1;
const PLAINTEXT_GREETING: u8 = 0xf0;

/// The credentials of one party, and the transports that it accepts.
#[derive(Clone)]
pub(super) enum Credentials<C> {
    Tls {
        config: Arc<C>,
        pinning: Pinning,
    },
    Plaintext {
        names: Arc<[String]>,
        /// The message that a listener sends to every connector.
        message: Arc<[u8]>,
    },
}

impl<C> Credentials<C> {
    /// Makes the credentials from the TLS configuration, which is `None` in plaintext.
    fn new(
        config: Option<Arc<C>>,
        security: &Security,
        transports: &[&str],
        message: &[u8],
    ) -> Self {
        match config {
            Some(config) => Self::Tls {
                config,
                pinning: Pinning::of(security),
            },
            None => Self::Plaintext {
                names: transports.iter().map(|&name| name.to_owned()).collect(),
                message: message.into(),
            },
        }
    }
}

pub(super) fn client(
    security: &Security,
    transports: &[&str],
) -> Result<Credentials<ClientConfig>, TransportError> {
    let config = tls::client_config(security, transports, "")?;
    Ok(Credentials::new(config, security, transports, &[]))
}

/// Returns the credentials of a listener. In plaintext mode, the listener sends `message` to every
/// connector. With TLS, the certificate of `security` contains the message.
pub(super) fn server(
    security: &Security,
    transports: &[&str],
    message: &[u8],
) -> Result<Credentials<ServerConfig>, TransportError> {
    let config = tls::server_config(security, transports, "")?;
    Ok(Credentials::new(config, security, transports, message))
}

/// The outcome of a handshake, shared between the handshake and the task that waits for the
/// connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome(Arc<Mutex<Progress>>);

#[derive(Debug, Default)]
struct Progress {
    /// True if this end encrypts.
    encrypts: bool,
    established: Option<Established>,
    error: Option<rustls::Error>,
    agreed: Arc<OnceLock<PlaintextAgreement>>,
}

impl Outcome {
    /// Returns the results of the handshake. `None` until it is complete.
    pub(super) fn established(&self) -> Option<Established> {
        let progress = self.lock();
        let agreed = progress.agreed.get().map(|agreed| {
            let message = (!agreed.message.is_empty()).then(|| agreed.message.clone());
            Established::plaintext(agreed.protocol.clone(), message)
        });
        progress.established.clone().or(agreed)
    }

    /// Returns the error of a set-up in which only one end encrypts.
    pub(super) fn security_mismatch(&self) -> TransportError {
        let [ours, theirs] = match self.lock().encrypts {
            true => ["TLS", "plaintext"],
            false => ["plaintext", "TLS"],
        };
        TransportError::Handshake(HandshakeError::SecurityMismatch { ours, theirs })
    }

    /// Returns the TLS error that this end detected, if any.
    pub(super) fn error(&self) -> Option<TransportError> {
        self.lock()
            .error
            .as_ref()
            .map(|error| tls::explain(error).into())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Credentials<ClientConfig> {
    /// Starts the handshake of a connector with these transport parameters.
    pub(super) fn begin(&self, parameters: &[u8], outcome: &Outcome) -> Option<Box<dyn Tls>> {
        match self {
            Self::Tls { config, pinning } => {
                let begun = quic::ClientConnection::new(
                    Arc::clone(config),
                    Version::V1,
                    tls::server_name(),
                    parameters.to_vec(),
                );
                session(begun.map(quic::Connection::Client), *pinning, outcome)
            }
            Self::Plaintext { names, .. } => {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                let agreed = Arc::clone(&outcome.lock().agreed);
                let random = rand::random();
                Some(Box::new(PlaintextTls::connector(
                    random, parameters, &names, agreed,
                )))
            }
        }
    }
}

impl Credentials<ServerConfig> {
    /// Starts the handshake of a listener with these transport parameters.
    pub(super) fn begin(&self, parameters: &[u8], outcome: &Outcome) -> Option<Box<dyn Tls>> {
        match self {
            Self::Tls { config, pinning } => {
                let begun = quic::ServerConnection::new(
                    Arc::clone(config),
                    Version::V1,
                    parameters.to_vec(),
                );
                session(begun.map(quic::Connection::Server), *pinning, outcome)
            }
            Self::Plaintext { names, message } => {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                let agreed = Arc::clone(&outcome.lock().agreed);
                let random = rand::random();
                Some(Box::new(PlaintextListener {
                    inner: PlaintextTls::listener(random, parameters, &names, message, agreed),
                    has_read: false,
                }))
            }
        }
    }
}

fn session(
    begun: Result<quic::Connection, rustls::Error>,
    pinning: Pinning,
    outcome: &Outcome,
) -> Option<Box<dyn Tls>> {
    outcome.lock().encrypts = true;
    match begun {
        Ok(connection) => Some(Box::new(Session {
            connection,
            pinning,
            has_read: false,
            outcome: outcome.clone(),
        })),
        Err(error) => {
            outcome.lock().error = Some(error);
            None
        }
    }
}

/// A TLS handshake by rustls.
struct Session {
    connection: quic::Connection,
    pinning: Pinning,
    has_read: bool,
    outcome: Outcome,
}

impl Tls for Session {
    fn write(&mut self, out: &mut Vec<u8>) -> Option<HandshakeKeys> {
        match self.connection.write_hs(out)? {
            KeyChange::Handshake { keys } => Some(HandshakeKeys {
                local: Box::new(RustlsKey(keys.local.packet)),
                remote: Box::new(RustlsKey(keys.remote.packet)),
            }),
            // Ignored, because the keys of data packets come from the TLS exporter.
            KeyChange::OneRtt { .. } => None,
        }
    }

    fn read(&mut self, messages: &[u8]) -> Result<(), Alert> {
        let is_first = !std::mem::replace(&mut self.has_read, true);
        if is_first && messages.first() == Some(&PLAINTEXT_GREETING) {
            return Err(Alert(SECURITY_MISMATCH));
        }
        self.connection.read_hs(messages).map_err(|error| {
            let alert = self.connection.alert().map(u8::from);
            self.outcome.lock().error = Some(error);
            alert.map_or(Alert::INTERNAL_ERROR, Alert)
        })
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn peer_parameters(&self) -> Option<&[u8]> {
        self.connection.quic_transport_parameters()
    }

    fn secret(&mut self, context: &[u8]) -> Result<DataSecret, Alert> {
        let cipher = match self.connection.negotiated_cipher_suite() {
            Some(suite) => match suite.suite() {
                rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 => Cipher::Aes128Gcm,
                rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Cipher::ChaCha20Poly1305,
                _ => Cipher::Aes256Gcm,
            },
            None => return Err(Alert::INTERNAL_ERROR),
        };
        let secret = (self.connection)
            .export_keying_material(Zeroizing::new([0; 32]), EXPORTER_LABEL, Some(context))
            .map_err(|_| Alert::INTERNAL_ERROR)?;
        let established = tls::established(&self.connection, self.pinning, "")
            .map_err(|_| Alert::INTERNAL_ERROR)?;
        self.outcome.lock().established = Some(established);
        Ok(DataSecret::Exported(secret, cipher))
    }
}

/// A packet key of rustls, for the packets of the set-up.
struct RustlsKey(Box<dyn quic::PacketKey>);

impl PacketKey for RustlsKey {
    fn seal(&self, number: u64, header: &[u8], body: &mut [u8]) -> Option<[u8; TAG_BYTES]> {
        let tag = self.0.encrypt_in_place(number, header, body).ok()?;
        tag.as_ref().try_into().ok()
    }

    fn open(&self, number: u64, header: &[u8], body: &mut [u8]) -> Option<usize> {
        let opened = self.0.decrypt_in_place(number, header, body).ok()?;
        Some(opened.len())
    }
}

/// The greeting of a listener without cryptography. It detects a connector that encrypts and
/// reports [`SECURITY_MISMATCH`] to it.
struct PlaintextListener {
    inner: PlaintextTls,
    has_read: bool,
}

impl Tls for PlaintextListener {
    fn write(&mut self, out: &mut Vec<u8>) -> Option<HandshakeKeys> {
        self.inner.write(out)
    }

    fn read(&mut self, messages: &[u8]) -> Result<(), Alert> {
        let is_first = !std::mem::replace(&mut self.has_read, true);
        if is_first && messages.first() == Some(&CLIENT_HELLO) {
            return Err(Alert(SECURITY_MISMATCH));
        }
        self.inner.read(messages)
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn peer_parameters(&self) -> Option<&[u8]> {
        self.inner.peer_parameters()
    }

    fn secret(&mut self, context: &[u8]) -> Result<DataSecret, Alert> {
        self.inner.secret(context)
    }
}
