//! What is said on the links: between a company and a server, and between the two servers.
//!
//! A message is its length in two bytes (most significant first), its kind in one, and its body. Every kind has one length, or
//! at most a small one; whatever says otherwise is refused before anything is read into memory.

use std::{fmt, io};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::round::{MOST, RoundId};

/// The longest body, in bytes.
const MAX_BODY: usize = 256;

/// The longest part of a result, in bytes.
const MAX_PIECE: usize = 64;

/// Names one upload of one company, the same at both servers. Without it, a share of one upload could meet the other share
/// of another.
pub(crate) type UploadId = [u8; 16];

/// A message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Message {
    /// A company's share for a server.
    Upload(Upload),
    /// The server has it.
    Accepted,
    /// The server's part of the results of so many companies.
    Results { companies: u16, piece: Vec<u8> },
    /// The server will not have the upload, or has no results.
    Refused(Refusal),
    /// A server tells the other what it was told.
    Terms(Terms),
    /// The garbler has an upload of this company.
    Have { company: u16, id: UploadId },
    /// The evaluator says who takes part: a bit for each company, the first the least of the first byte.
    Taken(Vec<u8>),
    /// A server gives up.
    GaveUp(Refusal),
}

/// A company's share for a server.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Upload {
    /// The round it is for.
    pub(crate) round: RoundId,
    /// Which upload it is.
    pub(crate) id: UploadId,
    /// Bits of the figure.
    pub(crate) bits: u8,
    /// The share.
    pub(crate) share: Zeroizing<u32>,
}

/// What a server was told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Terms {
    /// The round.
    pub(crate) round: RoundId,
    /// A hash of the companies' fingerprints.
    pub(crate) members: [u8; 32],
    /// How many there are.
    pub(crate) companies: u16,
    /// How many there must be at least.
    pub(crate) least: u16,
}

/// Why a company gets no results, or a server no other server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Refusal {
    /// It is none of the messages, or none that belongs there.
    Malformed = 1,
    /// The upload is for another round, or for other servers.
    OtherRound = 2,
    /// The figure has another number of bits.
    Width = 3,
    /// The company has uploaded something else before.
    Twice = 4,
    /// The upload came too late.
    Closed = 5,
    /// The upload did not reach both servers in time.
    LeftOut = 6,
    /// Too few companies reached both servers.
    TooFew = 7,
    /// The servers failed.
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
            Self::Malformed => "the message is not understood",
            Self::OtherRound => "the upload is for another round, or for other servers",
            Self::Width => "figures have another number of bits in this round",
            Self::Twice => "this company has uploaded a figure already",
            Self::Closed => "the round is closed",
            Self::LeftOut => "the upload did not reach both servers in time",
            Self::TooFew => "too few companies took part",
            Self::Failed => "the round failed",
        })
    }
}

/// Why no message was read.
#[derive(Debug, Error)]
pub(crate) enum WireError {
    /// The link.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer said goodbye instead.
    #[error("expected {expected}, got the end of the link")]
    End { expected: &'static str },
    /// It is too long.
    #[error("expected a message of at most {MAX_BODY} bytes, got one of {got}")]
    TooLong { got: usize },
    /// It is none of the messages.
    #[error("got a message of kind {kind} with {got} bytes, which there is not")]
    Malformed { kind: u8, got: usize },
    /// Companies take part that this server has nothing of.
    #[error("it names companies that have not uploaded here")]
    Absent,
    /// Results are not as long as those of so many companies.
    #[error("got {got} bytes as the results of {companies} companies")]
    Length { companies: usize, got: usize },
    /// It is another message.
    #[error("expected {expected}, got {got}")]
    Unexpected {
        expected: &'static str,
        got: &'static str,
    },
}

impl Message {
    /// Returns what it is, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Upload(_) => "an upload",
            Self::Accepted => "an acknowledgement",
            Self::Results { .. } => "results",
            Self::Refused(_) => "a refusal",
            Self::Terms(_) => "terms",
            Self::Have { .. } => "news of an upload",
            Self::Taken(_) => "the companies that take part",
            Self::GaveUp(_) => "an end",
        }
    }

    /// Says that another message was expected.
    pub(crate) fn instead_of(&self, expected: &'static str) -> WireError {
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
            Self::Terms(_) => 0x21,
            Self::Have { .. } => 0x22,
            Self::Taken(_) => 0x23,
            Self::GaveUp(_) => 0x24,
        }
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        // Long enough for any: a vector that grows would leave copies of a share behind.
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
            Self::Terms(terms) => {
                bytes.extend(terms.round.0);
                bytes.extend(terms.members);
                bytes.extend(terms.companies.to_be_bytes());
                bytes.extend(terms.least.to_be_bytes());
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
                piece: rest.all(MAX_PIECE)?,
            },
            0x13 => Self::Refused(refusal(&rest.all(1)?)?),
            0x21 => Self::Terms(Terms {
                round: RoundId(rest.take()?),
                members: rest.take()?,
                companies: rest.number()?,
                least: rest.number()?,
            }),
            0x22 => Self::Have {
                company: rest.number()?,
                id: rest.take()?,
            },
            0x23 => Self::Taken(rest.all(MOST.div_ceil(8))?),
            0x24 => Self::GaveUp(refusal(&rest.all(1)?)?),
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

/// What is left of a body.
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

/// Sends a message at once.
///
/// # Errors
/// Those of the link.
pub(crate) async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &Message,
) -> Result<(), WireError> {
    writer.write_all(&message.encode()).await?;
    Ok(writer.flush().await?)
}

/// Waits for a message; `expected` is what errors call it. Not cancel-safe: after cancelling it, drop the link.
///
/// # Errors
/// [`WireError`].
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
                piece: vec![7; MAX_PIECE],
            },
            Message::Terms(Terms {
                round: RoundId([3; 32]),
                members: [4; 32],
                companies: 1000,
                least: 3,
            }),
            Message::Have {
                company: 999,
                id: [5; 16],
            },
            Message::Taken(vec![0xff; MOST / 8]),
        ];
        refusals.into_iter().chain(ends).chain(others).collect()
    }

    #[tokio::test]
    async fn messages_survive_the_wire() {
        for message in messages() {
            let bytes = message.encode();
            let read = receive(&mut &bytes[..], "it").await.unwrap();
            assert_eq!(read, message);
            // Cut short, it is an error and no wait.
            for cut in 0..bytes.len() {
                assert!(receive(&mut &bytes[..cut], "it").await.is_err());
            }
        }
    }

    #[tokio::test]
    async fn lies_about_lengths_are_refused() {
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
        fn no_bytes_panic(kind: u8, body in prop::collection::vec(any::<u8>(), 0..MAX_BODY)) {
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
