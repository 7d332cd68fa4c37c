//! Frames of a striped link.
//!
//! A frame is a header and a payload. The header contains the payload's offset in the stream (8
//! bytes) and its length (4 bytes), both little-endian. The offsets on one stripe only increase. A
//! frame of length 0 ends the stream at its offset. It is the last frame of its stripe, and every
//! stripe ends with one.

use std::io;

use crate::{StreamError, TransportError};

pub(super) const HEADER: usize = 12;

/// Payload in bytes of a frame that fills one TLS record.
pub(super) const RECORD: usize = 16 * 1024 - HEADER;

/// Maximum payload of a frame, in bytes.
pub(super) const MAX_FRAME: usize = 64 * 1024;

/// A frame's header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Header {
    pub(super) offset: u64,
    pub(super) length: u32,
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Decodes a header. Rejects a length above the maximum, and an offset at which the frame's end
    /// would overflow.
    pub(super) fn decode(bytes: [u8; HEADER]) -> Result<Self, TransportError> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let header = Self {
            offset: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            length: u32::from_le_bytes([i, j, k, l]),
        };
        if header.length as usize > MAX_FRAME {
            return Err(violation(format!(
                "a frame of {} bytes, expected at most {MAX_FRAME}",
                header.length
            )));
        }
        if header.offset.checked_add(header.length.into()).is_none() {
            return Err(violation("a frame beyond the end of all streams".into()));
        }
        Ok(header)
    }
}

/// Returns the error of a peer that violated the protocol of this transport.
pub(super) fn violation(what: String) -> TransportError {
    TransportError::Stream(StreamError::Io {
        source: io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the peer's stripes do not fit together: {what}"),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_and_impossible_ones_do_not() {
        for (offset, length) in [
            (0, 0),
            (1, MAX_FRAME as u32),
            (u64::MAX, 0),
            (u64::MAX - 9, 9),
        ] {
            let header = Header { offset, length };
            assert_eq!(Header::decode(header.encode()).unwrap(), header);
        }
        for (offset, length) in [(0, MAX_FRAME as u32 + 1), (0, u32::MAX), (u64::MAX, 1)] {
            assert!(Header::decode(Header { offset, length }.encode()).is_err());
        }
        assert_eq!(
            Header {
                offset: 0x0102_0304_0506_0708,
                length: 0x090a
            }
            .encode(),
            [8, 7, 6, 5, 4, 3, 2, 1, 10, 9, 0, 0]
        );
    }
}
