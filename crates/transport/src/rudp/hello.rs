//! What the connector says over the control connection, and the keys that follow from it.
//!
//! | bytes | field |
//! | --- | --- |
//! | 8 | `tprudp 2` |
//! | 4 | name of the transport, zeros behind |
//! | 16 | random, different for each connection |
//!
//! It travels inside TLS, where both ends have proved their identities, and nothing is answered: whoever sends it goes on
//! to UDP at once. It is the context of the exporter (RFC 8446, section 7.5) that yields the secret, so that two
//! connections never share keys, and two transports do not either. In plaintext it takes the place of the secret.

use tokio::io::AsyncReadExt;
use transpute_rudp::{Cipher, Keys, Side};

use crate::{TransportError, tcp::Channel};

pub(crate) const MAGIC: [u8; 8] = *b"tprudp 2";
const NAME: usize = 4;
pub(crate) const LENGTH: usize = MAGIC.len() + NAME + 16;
const LABEL: &[u8] = b"EXPORTER-transpute-rudp";

pub(crate) struct Hello([u8; LENGTH]);

impl Hello {
    pub(crate) fn new(transport: &str) -> Self {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..8 + NAME].copy_from_slice(&name(transport));
        bytes[8 + NAME..].copy_from_slice(&rand::random::<[u8; 16]>());
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads what a connector says first.
    pub(crate) async fn read(
        channel: &mut Channel,
        transport: &str,
    ) -> Result<Self, TransportError> {
        let mut bytes = [0; LENGTH];
        let context = channel.context().clone();
        context
            .limit("the peer to say hello", channel.read_exact(&mut bytes))
            .await?
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => TransportError::ClosedDuringHandshake,
                _ => TransportError::from_io(error),
            })?;
        Self::parse(bytes, transport)
    }

    /// Checks what a connector said.
    pub(crate) fn parse(bytes: [u8; LENGTH], transport: &str) -> Result<Self, TransportError> {
        if bytes[..8] != MAGIC || bytes[8..8 + NAME] != name(transport) {
            return Err(TransportError::NotTranspute {
                evidence: format!("it uses another transport than {transport}"),
            });
        }
        Ok(Self(bytes))
    }

    /// Derives the keys of this end.
    pub(crate) fn keys(&self, channel: &Channel, side: Side) -> Result<Keys, TransportError> {
        let keys = match channel.export(LABEL, &self.0)? {
            Some(secret) => Keys::new(side, &secret[..], &self.0, cipher(channel)),
            None => Keys::plaintext(side, &self.0),
        };
        keys.map_err(|error| TransportError::Tls {
            detail: error.to_string(),
        })
    }
}

fn name(transport: &str) -> [u8; NAME] {
    let mut name = [0; NAME];
    for (to, from) in name.iter_mut().zip(transport.bytes()) {
        *to = from;
    }
    name
}

/// Packets are encrypted as TLS is, which both ends know.
fn cipher(channel: &Channel) -> Cipher {
    match channel.suite() {
        Some(rustls::CipherSuite::TLS13_AES_128_GCM_SHA256) => Cipher::Aes128Gcm,
        Some(rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256) => Cipher::ChaCha20Poly1305,
        _ => Cipher::Aes256Gcm,
    }
}
