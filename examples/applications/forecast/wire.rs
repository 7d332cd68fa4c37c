//! Messages of the baseline protocols: a kind, a length of four bytes, and the payload.
//!
//! A receiver says which kind it waits for and how long it may be, and reads nothing else.

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

/// How long a party waits for a message: with the largest keys a peer computes for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes before a payload.
const HEADER_LEN: usize = 5;

/// What a message is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// What both parties must have in common.
    Hello = 1,
    /// The modulus of the party that decrypts.
    Key = 2,
    /// Encrypted shares.
    Shares = 3,
    /// Encrypted results of the other party.
    Products = 4,
    /// A quotient of blinded numbers.
    Blinded = 5,
    /// Part of a garbled circuit's session.
    Garbled = 6,
    /// The receiver's message of an oblivious transfer.
    Choice = 7,
    /// The sender's message of an oblivious transfer, with the masked pair.
    Masked = 8,
    /// A share of the output, or the output.
    Output = 9,
}

/// Why a baseline protocol failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum ProtocolError {
    /// No link, or it broke.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Another message than the protocol has at this point.
    #[error("a message of kind {found} instead of {expected:?} ({})", *expected as u8)]
    Kind {
        /// What was waited for.
        expected: Kind,
        /// The code received.
        found: u8,
    },
    /// A message of another length than it can have.
    #[error("a message {kind:?} of {found} bytes, expected {} to {}", expected.start(), expected.end())]
    Length {
        /// Which message.
        kind: Kind,
        /// The lengths that there are, in bytes.
        expected: std::ops::RangeInclusive<usize>,
        /// The length announced, in bytes.
        found: usize,
    },
    /// The parties were told different things.
    #[error("the parties do not agree: {field} is {ours} here and {theirs} there")]
    Disagreement {
        /// On what.
        field: &'static str,
        /// What was said here.
        ours: u64,
        /// What the peer said.
        theirs: u64,
    },
    /// A number that the protocol cannot give.
    #[error("the peer sent {0}")]
    Value(&'static str),
    /// Numbers that the key is too short for.
    #[error("a key of {found} bits is too short for this division, which needs {needed}")]
    KeyTooShort {
        /// Bits it takes.
        needed: u32,
        /// Bits it has.
        found: u32,
    },
    /// A share that is longer than shares of numbers of this width are.
    #[error("a share of {found} bits, expected at most {limit}")]
    ShareTooLong {
        /// Bits it may have.
        limit: u32,
        /// Bits it has.
        found: u32,
    },
    /// The peer said nothing.
    #[error("no message {kind:?} within {after:?}")]
    Silence {
        /// What was waited for.
        kind: Kind,
        /// How long.
        after: Duration,
    },
    /// A key or a ciphertext is none.
    #[error(transparent)]
    Paillier(#[from] PaillierError),
    /// An oblivious transfer failed.
    #[error(transparent)]
    Ot(#[from] OtError),
    /// The garbled circuit for the first estimate failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The circuit for the first estimate cannot be made.
    #[error(transparent)]
    Circuit(#[from] transpute::CircuitError),
}

/// A link that carries messages.
pub(crate) struct Channel {
    reader: LinkReader,
    writer: LinkWriter,
    stats: LinkStats,
    /// Messages to send with the next flush.
    outbox: Vec<u8>,
    is_encrypted: bool,
}

impl Channel {
    /// Takes a link.
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

    /// Says whether the link hides what it carries.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the bytes sent and received so far.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        [self.stats.bytes_sent(), self.stats.bytes_received()]
    }

    /// Puts a message behind those that are to be sent.
    pub(crate) fn put(&mut self, kind: Kind, payload: &[u8]) {
        self.outbox.push(kind as u8);
        // Receivers refuse far shorter messages than those whose length has no four bytes.
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.outbox.extend_from_slice(&len.to_le_bytes());
        self.outbox.extend_from_slice(payload);
    }

    /// Sends what was put.
    ///
    /// # Errors
    /// [`ProtocolError::Transport`].
    pub(crate) async fn flush(&mut self) -> Result<(), ProtocolError> {
        (self.writer.write_all(&self.outbox).await).map_err(TransportError::from_io)?;
        self.outbox.clear();
        Ok((self.writer.flush().await).map_err(TransportError::from_io)?)
    }

    /// Sends a message and all before it.
    ///
    /// # Errors
    /// [`ProtocolError::Transport`].
    pub(crate) async fn send(&mut self, kind: Kind, payload: &[u8]) -> Result<(), ProtocolError> {
        self.put(kind, payload);
        self.flush().await
    }

    /// Waits for a message of exactly `len` bytes.
    ///
    /// # Errors
    /// [`ProtocolError`] for another message, silence or a broken link.
    pub(crate) async fn receive(
        &mut self,
        kind: Kind,
        len: usize,
    ) -> Result<Vec<u8>, ProtocolError> {
        self.receive_within(kind, len..=len).await
    }

    /// Waits for a message of a length in a range.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub(crate) async fn receive_within(
        &mut self,
        kind: Kind,
        expected: std::ops::RangeInclusive<usize>,
    ) -> Result<Vec<u8>, ProtocolError> {
        let silence = ProtocolError::Silence {
            kind,
            after: PATIENCE,
        };
        let reading = timeout(PATIENCE, read(&mut self.reader, kind, expected));
        reading.await.unwrap_or(Err(silence))
    }

    /// Ends the link in order: what was sent arrives.
    ///
    /// # Errors
    /// [`ProtocolError::Transport`].
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
