//! The messages between a company and a server, and between the two servers.
//!
//! A message consists of its length (two bytes, big-endian), its kind (one byte) and its body. The
//! body has a fixed or a small maximum length, which depends on the kind. A message with another
//! length is rejected before its body is read.

use std::{fmt, io};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::round::{MAX_COMPANIES, RoundId};

/// Maximum length of a body, in bytes.
const MAX_BODY: usize = 256;

/// Maximum length of a share of the results, in bytes.
const MAX_RESULT_SHARE: usize = 64;

/// The random identifier of an upload. Both shares of an upload have the same identifier, so that
/// the servers do not combine shares of different uploads.
pub(crate) type UploadId = [u8; 16];

/// A message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Message {
    /// An upload: a company's share of its figure for this server.
    Upload(Upload),
    /// The server has accepted the share.
    Accepted,
    /// The server's XOR share of the results, and the number of companies that took part.
    Results { companies: u16, piece: Vec<u8> },
    /// The server refuses the upload, or the round has no results for the company.
    Refused(Refusal),
    /// The parameters of the round, sent by each server to the other.
    Parameters(RoundParameters),
    /// The garbler's server has an upload of this company.
    Have { company: u16, id: UploadId },
    /// The companies that take part, chosen by the evaluator's server. The bytes are a bit set,
    /// least significant bit first.
    Taken(Vec<u8>),
    /// A server gives up the round.
    GaveUp(Refusal),
}

/// A company's share for a server.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Upload {
    /// The round of the upload.
    pub(crate) round: RoundId,
    /// The identifier of the upload.
    pub(crate) id: UploadId,
    /// Number of bits of the figure.
    pub(crate) bits: u8,
    /// The share.
    pub(crate) share: Zeroizing<u32>,
}

/// The parameters of a round that both servers must share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RoundParameters {
    /// The round.
    pub(crate) round: RoundId,
    /// A hash of the companies' fingerprints.
    pub(crate) members: [u8; 32],
    /// Number of companies on the list.
    pub(crate) companies: u16,
    /// Minimum number of companies that take part.
    pub(crate) min_companies: u16,
}

/// The reason why a company gets no results, or why a server gives up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Refusal {
    /// The server received an unknown or unexpected message.
    Malformed = 1,
    /// The upload is for another round, or for other servers.
    OtherRound = 2,
    /// The upload has another number of bits than the server expects for a figure.
    Width = 3,
    /// The company has made a different upload before.
    Twice = 4,
    /// The upload came too late.
    Closed = 5,
    /// The upload did not reach both servers in time.
    LeftOut = 6,
    /// Too few companies reached both servers.
    TooFew = 7,
    /// The round failed.
    Failed = 8,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::Malformed,
        Self::OtherRound,
        Self::Width,
        Self::Twice,
        Self::Closed,
        Self::LeftOut,
        Self::TooFew,
        Self::Failed,
    ];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the message is unknown or unexpected",
            Self::OtherRound => "the upload is for another round, or for other servers",
            Self::Width => "figures of this round have a different number of bits",
            Self::Twice => "this company has already uploaded a figure",
            Self::Closed => "the round is closed",
            Self::LeftOut => "the upload did not reach both servers in time",
            Self::TooFew => "too few companies took part",
            Self::Failed => "the round failed",
        })
    }
}

/// The error of receiving a message.
#[derive(Debug, Error)]
pub(crate) enum WireError {
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("expected {expected}, found the end of the connection")]
    End { expected: &'static str },
    /// The message exceeds the maximum length.
    #[error("expected a message of at most {MAX_BODY} bytes, found {got}")]
    TooLong { got: usize },
    /// The message has an unknown kind or the wrong length.
    #[error("unknown message of kind {kind} with {got} bytes")]
    Malformed { kind: u8, got: usize },
    /// The chosen companies include one that has not uploaded to this server.
    #[error("it includes companies that have not uploaded here")]
    Absent,
    /// The share of the results has the wrong length for this number of companies.
    #[error("wrong length of the results of {companies} companies: {got} bytes")]
    Length { companies: usize, got: usize },
    /// The message is not the expected one.
    #[error("expected {expected}, found {got}")]
    Unexpected {
        expected: &'static str,
        got: &'static str,
    },
}

impl Message {
    /// Returns the name of the message for errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Upload(_) => "an upload",
            Self::Accepted => "an acknowledgement",
            Self::Results { .. } => "results",
            Self::Refused(_) => "a refusal",
            Self::Parameters(_) => "parameters",
            Self::Have { .. } => "a notice of an upload",
            Self::Taken(_) => "the companies that take part",
            Self::GaveUp(_) => "a notice of giving up",
        }
    }

    /// Returns the error that another message was expected.
    pub(crate) fn unexpected(&self, expected: &'static str) -> WireError {
        WireError::Unexpected {
            expected,
            got: self.name(),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Upload(_) => 0x01,
            Self::Accepted => 0x11,
            Self::Results { .. } => 0x12,
            Self::Refused(_) => 0x13,
            Self::Parameters(_) => 0x21,
            Self::Have { .. } => 0x22,
            Self::Taken(_) => 0x23,
            Self::GaveUp(_) => 0x24,
        }
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        // The capacity suffices for every message. A vector that grows would leave copies of a
        // share in memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(3 + MAX_BODY));
        bytes.extend([0, 0, self.kind()]);
        match self {
            Self::Upload(upload) => {
                bytes.extend(upload.round.0);
                bytes.extend(upload.id);
                bytes.push(upload.bits);
                bytes.extend(upload.share.to_be_bytes());
            }
            Self::Accepted => {}
            Self::Results { companies, piece } => {
                bytes.extend(companies.to_be_bytes());
                bytes.extend(piece);
            }
            Self::Refused(why) | Self::GaveUp(why) => bytes.push(*why as u8),
            Self::Parameters(parameters) => {
                bytes.extend(parameters.round.0);
                bytes.extend(parameters.members);
                bytes.extend(parameters.companies.to_be_bytes());
                bytes.extend(parameters.min_companies.to_be_bytes());
            }
            Self::Have { company, id } => {
                bytes.extend(company.to_be_bytes());
                bytes.extend(id);
            }
            Self::Taken(bits) => bytes.extend(bits),
        }
        let length = (bytes.len() - 3) as u16;
        bytes[..2].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let refusal = |body: &[u8]| {
            let &[code] = body else { return None };
            Refusal::ALL.into_iter().find(|why| *why as u8 == code)
        };
        let mut rest = Rest(body);
        let message = match kind {
            0x01 => Self::Upload(Upload {
                round: RoundId(rest.take()?),
                id: rest.take()?,
                bits: rest.take::<1>()?[0],
                share: Zeroizing::new(u32::from_be_bytes(rest.take()?)),
            }),
            0x11 => Self::Accepted,
            0x12 => Self::Results {
                companies: rest.number()?,
                piece: rest.all(MAX_RESULT_SHARE)?,
            },
            0x13 => Self::Refused(refusal(&rest.all(1)?)?),
            0x21 => Self::Parameters(RoundParameters {
                round: RoundId(rest.take()?),
                members: rest.take()?,
                companies: rest.number()?,
                min_companies: rest.number()?,
            }),
            0x22 => Self::Have {
                company: rest.number()?,
                id: rest.take()?,
            },
            0x23 => Self::Taken(rest.all(MAX_COMPANIES.div_ceil(8))?),
            0x24 => Self::GaveUp(refusal(&rest.all(1)?)?),
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

/// The part of a message's body that was not parsed yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn all(&mut self, most: usize) -> Option<Vec<u8>> {
        let all = std::mem::take(&mut self.0);
        (all.len() <= most).then(|| all.to_vec())
    }
}

/// Sends a message and flushes.
///
/// # Errors
/// Returns [`WireError::Io`] if the connection fails.
pub(crate) async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &Message,
) -> Result<(), WireError> {
    writer.write_all(&message.encode()).await?;
    Ok(writer.flush().await?)
}

/// Receives a message. `expected` is the name of the expected message for errors. Not cancel-safe:
/// after the future is dropped, the connection must not be used.
///
/// # Errors
/// Returns [`WireError`] if the connection fails or the message is invalid.
pub(crate) async fn receive(
    reader: &mut (impl AsyncRead + Unpin),
    expected: &'static str,
) -> Result<Message, WireError> {
    let mut head = [0; 3];
    if reader.read(&mut head[..1]).await? == 0 {
        return Err(WireError::End { expected });
    }
    reader.read_exact(&mut head[1..]).await?;
    let [high, low, kind] = head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_BODY {
        return Err(WireError::TooLong { got: length });
    }
    let mut body = Zeroizing::new([0; MAX_BODY]);
    let body = &mut body[..length];
    reader.read_exact(body).await?;
    Message::decode(kind, body).ok_or(WireError::Malformed { kind, got: length })
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Upload").field("id", &self.id)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> Vec<Message> {
        let refusals = Refusal::ALL.map(Message::Refused);
        let ends = Refusal::ALL.map(Message::GaveUp);
        let others = [
            Message::Upload(Upload {
                round: RoundId([1; 32]),
                id: [2; 16],
                bits: 32,
                share: Zeroizing::new(0x0102_0304),
            }),
            Message::Accepted,
            Message::Results {
                companies: 45,
                piece: vec![7; MAX_RESULT_SHARE],
            },
            Message::Parameters(RoundParameters {
                round: RoundId([3; 32]),
                members: [4; 32],
                companies: 1000,
                min_companies: 3,
            }),
            Message::Have {
                company: 999,
                id: [5; 16],
            },
            Message::Taken(vec![0xff; MAX_COMPANIES / 8]),
        ];
        refusals.into_iter().chain(ends).chain(others).collect()
    }

    #[tokio::test]
    async fn encoded_messages_are_decoded_again() {
        for message in messages() {
            let bytes = message.encode();
            let read = receive(&mut &bytes[..], "it").await.unwrap();
            assert_eq!(read, message);
            // A truncated message is an error.
            for cut in 0..bytes.len() {
                assert!(receive(&mut &bytes[..cut], "it").await.is_err());
            }
        }
    }

    #[tokio::test]
    async fn wrong_lengths_are_refused() {
        let too_long = receive(&mut &[0xff, 0xff, 0x01][..], "it").await;
        assert!(matches!(too_long, Err(WireError::TooLong { got: 65_535 })));
        for message in messages() {
            let mut bytes = message.encode().to_vec();
            let longer = u16::from_be_bytes([bytes[0], bytes[1]]) + 1;
            bytes[..2].copy_from_slice(&longer.to_be_bytes());
            bytes.push(0);
            let read = receive(&mut &bytes[..], "it").await;
            assert!(read.is_err(), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(kind: u8, body in prop::collection::vec(any::<u8>(), 0..MAX_BODY)) {
            if let Some(message) = Message::decode(kind, &body) {
                prop_assert_eq!(&message.encode()[3..], &body[..]);
            }
        }
    }

    #[test]
    fn shares_are_not_printed() {
        let text = format!("{:?}", messages());
        assert!(!text.contains(&0x0102_0304.to_string()), "{text}");
    }
}
