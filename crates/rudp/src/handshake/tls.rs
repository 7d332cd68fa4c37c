//! The interface to a TLS 1.3 library.
//!
//! Packets carry the handshake messages instead of TLS records, as in QUIC (RFC 9001, section 4).
//! The caller implements [`Tls`] with its TLS library, so the protocol does not depend on one.

use zeroize::Zeroizing;

use crate::{Cipher, EndpointSide};

/// The size of the authentication tag of handshake packets, in bytes.
pub const TAG_BYTES: usize = 16;

/// The label with which both ends export the secret of the data packets (RFC 8446, section 7.5).
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-transpute-rudp";

/// A TLS alert description (RFC 8446, section 6), such as 40 for `handshake_failure`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Alert(pub u8);

impl Alert {
    /// The peer's message cannot be parsed.
    pub const DECODE_ERROR: Self = Self(50);
    /// Transport parameters are missing or contradict the packets.
    pub const ILLEGAL_PARAMETER: Self = Self(47);
    /// An internal error of this end.
    pub const INTERNAL_ERROR: Self = Self(80);
}

/// The key of one direction at one encryption level of the handshake.
pub trait PacketKey: Send {
    /// Encrypts `body` in place and returns the tag over `header` and `body`. Returns `None` if the
    /// library fails.
    fn seal(&self, number: u64, header: &[u8], body: &mut [u8]) -> Option<[u8; TAG_BYTES]>;

    /// Decrypts `body` in place; its last [`TAG_BYTES`] are the tag. Returns the length of the
    /// plaintext, or `None` if the packet is not authentic.
    fn open(&self, number: u64, header: &[u8], body: &mut [u8]) -> Option<usize>;
}

/// The handshake keys of both directions.
pub struct HandshakeKeys {
    /// The key for packets to the peer.
    pub local: Box<dyn PacketKey>,
    /// The key for packets from the peer.
    pub remote: Box<dyn PacketKey>,
}

impl HandshakeKeys {
    /// Returns the keys of one side, given the keys for packets of the connector and of the
    /// listener.
    #[must_use]
    pub fn of(
        side: EndpointSide,
        connector: Box<dyn PacketKey>,
        listener: Box<dyn PacketKey>,
    ) -> Self {
        let (local, remote) = match side {
            EndpointSide::Connector => (connector, listener),
            EndpointSide::Listener => (listener, connector),
        };
        Self { local, remote }
    }
}

/// The protection of the data packets.
pub enum DataSecret {
    /// An exported secret, and the cipher that both ends use with it.
    Exported(Zeroizing<[u8; 32]>, Cipher),
    /// No encryption: packets carry a checksum. For benchmarks.
    Plaintext,
}

/// A function that starts the handshake of a listener with these transport parameters. It returns
/// `None` if the library fails.
pub type BeginTls<'a> = dyn FnMut(&[u8]) -> Option<Box<dyn Tls>> + 'a;

/// One end of a TLS 1.3 handshake with the extension of QUIC for transport parameters (RFC 9001,
/// section 8.2).
pub trait Tls: Send {
    /// Appends handshake messages of the current level to `out`. When the handshake keys become
    /// available, returns them once: later messages belong to the handshake level.
    fn write(&mut self, out: &mut Vec<u8>) -> Option<HandshakeKeys>;

    /// Reads the next bytes of the peer's messages. The caller passes each byte once and in order.
    ///
    /// # Errors
    /// Returns the alert to send to the peer.
    fn read(&mut self, messages: &[u8]) -> Result<(), Alert>;

    /// Returns whether the handshake is incomplete. Once it is complete, the peer is authenticated.
    fn is_handshaking(&self) -> bool;

    /// Returns the peer's transport parameters, once they have arrived.
    fn peer_parameters(&self) -> Option<&[u8]>;

    /// Exports the secret of the data packets under [`EXPORTER_LABEL`] and this context, after the
    /// handshake.
    ///
    /// # Errors
    /// Returns [`Alert::INTERNAL_ERROR`] if the library fails.
    fn secret(&mut self, context: &[u8]) -> Result<DataSecret, Alert>;
}
