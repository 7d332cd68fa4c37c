//! Encoding and decoding of frames, without I/O.
//!
//! Each side first sends [`MAGIC`] and [`VERSION`]. Frames follow. A frame has a header of
//! [`HEADER_LEN`] bytes and a payload: the type (u8), the identifier of the stream (u32), and the
//! length of the payload (u32), all little-endian.

use crate::error::{TunnelError, TunnelProtocolError};

/// The first bytes of each direction.
pub(crate) const MAGIC: [u8; 8] = *b"tptunnel";

/// Version of the protocol, which follows the magic as a u32.
pub(crate) const VERSION: u32 = 1;

/// Length of the magic and the version, in bytes.
pub(crate) const HELLO_LEN: usize = 12;

/// Length of the header of a frame, in bytes.
pub(crate) const HEADER_LEN: usize = 9;

/// Maximum payload of a data frame, in bytes. Streams share the link frame by frame, so this also
/// bounds how long a stream waits for another one.
pub(crate) const MAX_DATA: usize = 64 << 10;

/// Maximum length of the target of [`Kind::Open`] and of the reason of [`Kind::Refused`], in bytes.
pub(crate) const MAX_TEXT: usize = 1 << 10;

/// The types of frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Opens a stream to the target in the payload.
    Open = 1,
    /// Accepts a stream: the target is connected.
    Opened = 2,
    /// Refuses a stream, for the reason in the payload.
    Refused = 3,
    /// Bytes of a stream.
    Data = 4,
    /// Allows the receiver of the frame to send this many more bytes (u32).
    Credit = 5,
    /// Ends this direction of a stream.
    End = 6,
    /// Aborts both directions of a stream.
    Reset = 7,
    /// Keeps the link alive. The stream is 0.
    Ping = 8,
}

impl Kind {
    fn new(byte: u8) -> Option<Self> {
        use Kind::{Credit, Data, End, Open, Opened, Ping, Refused, Reset};
        let kinds = [Open, Opened, Refused, Data, Credit, End, Reset, Ping];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Opened => "Opened",
            Self::Refused => "Refused",
            Self::Data => "Data",
            Self::Credit => "Credit",
            Self::End => "End",
            Self::Reset => "Reset",
            Self::Ping => "Ping",
        }
    }

    /// Returns the minimum and the maximum length of the payload.
    fn lengths(self) -> (usize, usize) {
        match self {
            Self::Open => (1, MAX_TEXT),
            Self::Refused => (0, MAX_TEXT),
            // Empty data frames would let a peer occupy this side without using credit.
            Self::Data => (1, MAX_DATA),
            Self::Credit => (4, 4),
            Self::Opened | Self::End | Self::Reset | Self::Ping => (0, 0),
        }
    }
}

/// Returns the first bytes of a direction.
pub(crate) fn hello() -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Returns the header of a frame. `len` must not exceed the maximum of its type.
pub(crate) fn header(kind: Kind, id: u32, len: usize) -> [u8; HEADER_LEN] {
    debug_assert!(len <= kind.lengths().1);
    let mut bytes = [0; HEADER_LEN];
    bytes[0] = kind as u8;
    bytes[1..5].copy_from_slice(&id.to_le_bytes());
    bytes[5..].copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    bytes
}

/// Appends a frame with a text or without a payload. Longer texts are cut.
pub(crate) fn put(out: &mut Vec<u8>, kind: Kind, id: u32, text: &str) {
    let text = prefix(text, MAX_TEXT);
    out.extend_from_slice(&header(kind, id, text.len()));
    out.extend_from_slice(text.as_bytes());
}

/// Appends a frame of type [`Kind::Credit`].
pub(crate) fn put_credit(out: &mut Vec<u8>, id: u32, bytes: u32) {
    out.extend_from_slice(&header(Kind::Credit, id, 4));
    out.extend_from_slice(&bytes.to_le_bytes());
}

/// Returns the longest prefix of at most `max` bytes.
fn prefix(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A decoded frame. The payload of a data frame is returned in the parts in which it arrives.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Event<'a> {
    Open { id: u32, target: &'a str },
    Opened { id: u32 },
    Refused { id: u32, reason: &'a str },
    Data { id: u32, bytes: &'a [u8] },
    Credit { id: u32, bytes: u32 },
    End { id: u32 },
    Reset { id: u32 },
    Ping,
}

/// An incremental decoder of the received bytes, which may be split at any position.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    is_greeted: bool,
    /// The bytes of the current frame that have arrived. Payloads of data frames are not copied
    /// here.
    partial: Vec<u8>,
    /// True if the last returned event borrows from `partial`, which is cleared at the next call.
    is_returned: bool,
    /// The stream of the current data frame, and the number of payload bytes still to come.
    data: Option<(u32, usize)>,
}

impl Decoder {
    /// Decodes the next event from `input`, and removes its bytes. Returns `None` if `input` is
    /// empty or too short.
    ///
    /// # Errors
    /// Returns an error if the first bytes are not the hello of the tunnel protocol, or if a frame
    /// is malformed.
    pub(crate) fn next<'a, 'b: 'a>(
        &'a mut self,
        input: &mut &'b [u8],
    ) -> Result<Option<Event<'a>>, TunnelError> {
        if std::mem::take(&mut self.is_returned) {
            self.partial.clear();
        }
        if !self.is_greeted {
            if !self.fill(input, HELLO_LEN) {
                self.check_hello()?;
                return Ok(None);
            }
            self.check_hello()?;
            self.is_greeted = true;
            self.partial.clear();
        }
        if self.data.is_none() {
            if !self.fill(input, HEADER_LEN) {
                return Ok(None);
            }
            let (kind, id, len) = self.header()?;
            if kind == Kind::Data {
                self.data = Some((id, len));
                self.partial.clear();
            } else if !self.fill(input, HEADER_LEN + len) {
                return Ok(None);
            } else {
                self.is_returned = true;
                return Ok(Some(event(kind, id, &self.partial[HEADER_LEN..])?));
            }
        }
        let Some((id, missing)) = self.data.filter(|_| !input.is_empty()) else {
            return Ok(None);
        };
        let (bytes, rest) = input.split_at(missing.min(input.len()));
        *input = rest;
        self.data = Some((id, missing - bytes.len())).filter(|(_, missing)| *missing > 0);
        Ok(Some(Event::Data { id, bytes }))
    }

    /// Moves bytes from `input` to `partial` until `partial` has `len` bytes. Returns whether it
    /// has them.
    fn fill(&mut self, input: &mut &[u8], len: usize) -> bool {
        let missing = len.saturating_sub(self.partial.len());
        let (bytes, rest) = input.split_at(missing.min(input.len()));
        self.partial.extend_from_slice(bytes);
        *input = rest;
        self.partial.len() >= len
    }

    /// Checks the bytes of the magic and of the version that have arrived.
    fn check_hello(&self) -> Result<(), TunnelError> {
        let found = &self.partial[..self.partial.len().min(MAGIC.len())];
        if !MAGIC.starts_with(found) {
            return Err(TunnelError::NotATunnel {
                expected: String::from_utf8_lossy(&MAGIC).into_owned(),
                found: String::from_utf8_lossy(found).into_owned(),
            });
        }
        let version = (self.partial.get(MAGIC.len()..HELLO_LEN))
            .and_then(|bytes| bytes.try_into().ok())
            .map(u32::from_le_bytes);
        match version {
            Some(found) if found != VERSION => Err(TunnelError::Version {
                expected: VERSION,
                found,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the header in `partial`, which must be complete.
    fn header(&self) -> Result<(Kind, u32, usize), TunnelProtocolError> {
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&self.partial[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        let found = self.partial[0];
        let kind = Kind::new(found).ok_or(TunnelProtocolError::UnknownFrame { found })?;
        let (id, len) = (word(1), word(5));
        let (min, max) = kind.lengths();
        if !(min..=max).contains(&(len as usize)) {
            return Err(TunnelProtocolError::Length {
                kind: kind.name(),
                min: u32::try_from(min).unwrap_or(u32::MAX),
                max: u32::try_from(max).unwrap_or(u32::MAX),
                found: len,
            });
        }
        Ok((kind, id, len as usize))
    }
}

/// Returns the event of a complete frame, whose type is not [`Kind::Data`].
fn event(kind: Kind, id: u32, payload: &[u8]) -> Result<Event<'_>, TunnelProtocolError> {
    let text = || {
        std::str::from_utf8(payload).map_err(|_| TunnelProtocolError::NotText { kind: kind.name() })
    };
    Ok(match kind {
        Kind::Open => Event::Open {
            id,
            target: text()?,
        },
        Kind::Opened => Event::Opened { id },
        Kind::Refused => Event::Refused {
            id,
            reason: text()?,
        },
        Kind::Data => Event::Data { id, bytes: payload },
        Kind::Credit => {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(payload);
            Event::Credit {
                id,
                bytes: u32::from_le_bytes(bytes),
            }
        }
        Kind::End => Event::End { id },
        Kind::Reset => Event::Reset { id },
        Kind::Ping => Event::Ping,
    })
}

#[cfg(test)]
mod tests;
