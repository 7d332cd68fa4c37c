//! Frames of a striped link.
//!
//! A frame is a header and its bytes. The header is the offset of the first byte in the stream (8
//! bytes) and the length (4 bytes), both little-endian. The offsets on one stripe only increase. A
//! length of 0 ends the stream at the offset, and is the last frame of its stripe. Every stripe
//! gets one.

use std::io;

use crate::TransportError;

pub(super) const HEADER: usize = 12;

/// Payload that fits into one record of TLS, in bytes.
pub(super) const RECORD: usize = 16 * 1024 - HEADER;

/// Maximum length of a frame, in bytes.
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

    /// Decodes a header. Checks the end of the frame in the stream, and its length.
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
    TransportError::Io {
        source: io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the peer's stripes do not fit together: {what}"),
        ),
    }
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
