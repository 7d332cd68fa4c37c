//! Messages of the baseline protocols: a kind, a length of four bytes, and the payload.
//!
//! A receiver expects one kind of message with a maximum length. It rejects any other message
//! without reading its payload.

use std::time::Duration;

use thiserror::Error;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use transpute::{
    SessionError, TransportError,
    ot::OtError,
    transport::{Link, LinkReader, LinkStats, LinkWriter},
};

use crate::paillier::PaillierError;

/// Time limit for receiving a message. With the largest keys, the peer computes for several seconds
/// before it sends a message.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Length of the header, in bytes.
const HEADER_LEN: usize = 5;

/// The kind of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The parameters of the computation, which must be equal at both parties.
    Hello = 1,
    /// The public key of the party that decrypts.
    Key = 2,
    /// Encrypted shares.
    Shares = 3,
    /// Encrypted results of the party without the key.
    Products = 4,
    /// A quotient of blinded numbers.
    Blinded = 5,
    /// Bytes of the garbled-circuit session that computes the first estimate.
    Garbled = 6,
    /// The receiver's message of an oblivious transfer.
    Choice = 7,
    /// The sender's message of an oblivious transfer, with both masked strings.
    Masked = 8,
    /// A share of the output, or the output.
    Output = 9,
}

/// The reason why a baseline protocol failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum ProtocolError {
    /// The link cannot be established, or fails.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The message has an unexpected kind.
    #[error("expected a message {expected:?} ({}), found kind {found}", *expected as u8)]
    Kind {
        /// The expected kind.
        expected: Kind,
        /// The received code of the kind.
        found: u8,
    },
    /// The message has an invalid length.
    #[error("expected a message {kind:?} of {} to {} bytes, found {found}", expected.start(), expected.end())]
    Length {
        /// The kind of the message.
        kind: Kind,
        /// The valid lengths, in bytes.
        expected: std::ops::RangeInclusive<usize>,
        /// The announced length, in bytes.
        found: usize,
    },
    /// The parties have different parameters.
    #[error("the parties disagree: {field} is {ours} here and {theirs} at the peer")]
    Disagreement {
        /// The name of the parameter.
        field: &'static str,
        /// The value of this party.
        ours: u64,
        /// The value of the peer.
        theirs: u64,
    },
    /// The peer sent an invalid number.
    #[error("the peer sent {0}")]
    Value(&'static str),
    /// The key is too short for the division.
    #[error("expected a key of at least {needed} bits for this division, found {found}")]
    KeyTooShort {
        /// The required length, in bits.
        needed: u32,
        /// The length of the key, in bits.
        found: u32,
    },
    /// A share is longer than shares of this width can be.
    #[error("expected a share of at most {limit} bits, found {found}")]
    ShareTooLong {
        /// The maximum length, in bits.
        limit: u32,
        /// The length of the share, in bits.
        found: u32,
    },
    /// No message arrived in time.
    #[error("no message {kind:?} within {after:?}")]
    Timeout {
        /// The expected kind.
        kind: Kind,
        /// The time limit.
        after: Duration,
    },
    /// A key or a ciphertext is invalid.
    #[error(transparent)]
    Paillier(#[from] PaillierError),
    /// An oblivious transfer failed.
    #[error(transparent)]
    Ot(#[from] OtError),
    /// The garbled circuit for the first estimate failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The circuit for the first estimate cannot be built.
    #[error(transparent)]
    Circuit(#[from] transpute::CircuitError),
}

/// Sends and receives messages over a link.
pub(crate) struct Channel {
    reader: LinkReader,
    writer: LinkWriter,
    stats: LinkStats,
    /// Encoded messages that the next [`flush`](Self::flush) sends.
    outbox: Vec<u8>,
    is_encrypted: bool,
}

impl Channel {
    /// Creates a channel over a link.
    pub(crate) fn new(link: Link) -> Self {
        let (stats, is_encrypted) = (link.stats(), link.info().encrypted);
        let (reader, writer) = link.into_parts();
        Self {
            reader,
            writer,
            stats,
            outbox: Vec::new(),
            is_encrypted,
        }
    }

    /// Returns whether the link is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the bytes sent and received so far.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        [self.stats.bytes_sent(), self.stats.bytes_received()]
    }

    /// Appends a message to the messages that the next [`flush`](Self::flush) sends.
    pub(crate) fn put(&mut self, kind: Kind, payload: &[u8]) {
        self.outbox.push(kind as u8);
        // A length that does not fit into four bytes is replaced by the maximum. Receivers reject
        // much shorter messages.
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.outbox.extend_from_slice(&len.to_le_bytes());
        self.outbox.extend_from_slice(payload);
    }

    /// Sends all appended messages.
    ///
    /// # Errors
    /// Returns [`ProtocolError::Transport`] if the link fails.
    pub(crate) async fn flush(&mut self) -> Result<(), ProtocolError> {
        (self.writer.write_all(&self.outbox).await).map_err(TransportError::from_io)?;
        self.outbox.clear();
        Ok((self.writer.flush().await).map_err(TransportError::from_io)?)
    }

    /// Sends a message after all appended ones.
    ///
    /// # Errors
    /// Returns [`ProtocolError::Transport`] if the link fails.
    pub(crate) async fn send(&mut self, kind: Kind, payload: &[u8]) -> Result<(), ProtocolError> {
        self.put(kind, payload);
        self.flush().await
    }

    /// Receives a message of exactly `len` bytes.
    ///
    /// # Errors
    /// Returns [`ProtocolError`] for an unexpected message, a timeout or a failed link.
    pub(crate) async fn receive(
        &mut self,
        kind: Kind,
        len: usize,
    ) -> Result<Vec<u8>, ProtocolError> {
        self.receive_within(kind, len..=len).await
    }

    /// Receives a message with a length in this range.
    ///
    /// # Errors
    /// Returns [`ProtocolError`] for an unexpected message, a timeout or a failed link.
    pub(crate) async fn receive_within(
        &mut self,
        kind: Kind,
        expected: std::ops::RangeInclusive<usize>,
    ) -> Result<Vec<u8>, ProtocolError> {
        let expired = ProtocolError::Timeout {
            kind,
            after: RECEIVE_TIMEOUT,
        };
        let reading = timeout(RECEIVE_TIMEOUT, read(&mut self.reader, kind, expected));
        reading.await.unwrap_or(Err(expired))
    }

    /// Closes the link after all sent data have arrived.
    ///
    /// # Errors
    /// Returns [`ProtocolError::Transport`] if the link fails.
    pub(crate) async fn close(mut self) -> Result<(), ProtocolError> {
        Ok((self.writer.shutdown().await).map_err(TransportError::from_io)?)
    }
}

async fn read(
    reader: &mut LinkReader,
    kind: Kind,
    expected: std::ops::RangeInclusive<usize>,
) -> Result<Vec<u8>, ProtocolError> {
    let mut header = [0; HEADER_LEN];
    (reader.read_exact(&mut header).await).map_err(TransportError::from_io)?;
    let [code, len @ ..] = header;
    if code != kind as u8 {
        return Err(ProtocolError::Kind {
            expected: kind,
            found: code,
        });
    }
    let found = usize::try_from(u32::from_le_bytes(len)).unwrap_or(usize::MAX);
    if !expected.contains(&found) {
        return Err(ProtocolError::Length {
            kind,
            expected,
            found,
        });
    }
    let mut payload = vec![0; found];
    (reader.read_exact(&mut payload).await).map_err(TransportError::from_io)?;
    Ok(payload)
}
