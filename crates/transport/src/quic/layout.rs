//! The mapping of one direction of a link to QUIC streams.
//!
//! The first stream starts with a header of four bytes: the letter `Q`, the binary logarithm of the
//! stripe length (one byte), and the number of streams (two bytes, in network byte order). Stripe
//! `k` of the link is on the stream with index `k` modulo the number of streams. A byte's position
//! in the link determines its stream, so the data needs no frames and no sequence numbers.

use super::{explain, options::MAX_STREAMS};
use crate::TransportError;

/// Length of the header in bytes.
pub(super) const HEADER: usize = 4;

const MARK: u8 = b'Q';

/// Valid stripe lengths in bytes, as binary logarithms.
const STRIPES: std::ops::RangeInclusive<u8> = 8..=24;

/// A number of streams and a stripe length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Layout {
    streams: u64,
    stripe: u64,
}

impl Layout {
    /// Distributes bytes over `streams` streams in stripes of `stripe` bytes, a power of two.
    pub(super) fn new(streams: u64, stripe: u64) -> Self {
        debug_assert!(stripe.is_power_of_two() && streams > 0);
        Self { streams, stripe }
    }

    pub(super) fn header(self) -> [u8; HEADER] {
        // The casts are exact: there are at most 256 streams, and a stripe has at most 2^24 bytes.
        let [high, low] = (self.streams as u16).to_be_bytes();
        [MARK, self.stripe.trailing_zeros() as u8, high, low]
    }

    pub(super) fn parse(header: [u8; HEADER]) -> Result<Self, TransportError> {
        let [mark, stripe, high, low] = header;
        let streams = u16::from_be_bytes([high, low]);
        if mark != MARK || !STRIPES.contains(&stripe) || !(1..=MAX_STREAMS).contains(&streams) {
            return Err(explain::protocol(format!(
                "its first stream starts with {header:02x?}"
            )));
        }
        Ok(Self::new(streams.into(), 1 << stripe))
    }

    pub(super) fn streams(self) -> usize {
        self.streams as usize
    }

    /// Returns the index of the stream that carries the byte at `position`, and the number of
    /// consecutive bytes from `position` on that are on this stream.
    pub(super) fn locate(self, position: u64) -> (usize, usize) {
        let index = (position / self.stripe) % self.streams;
        let room = self.stripe - position % self.stripe;
        (index as usize, room as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::HandshakeError;

    #[test]
    fn the_header_is_what_it_is() {
        assert_eq!(Layout::new(64, 4096).header(), [b'Q', 12, 0, 64]);
        for bad in [
            [b'P', 12, 0, 64],
            [b'Q', 7, 0, 64],
            [b'Q', 25, 0, 64],
            [b'Q', 12, 0, 0],
            [b'Q', 12, 1, 1],
        ] {
            assert!(matches!(
                Layout::parse(bad),
                Err(TransportError::Handshake(
                    HandshakeError::NotTranspute { .. }
                ))
            ));
        }
    }

    proptest! {
        #[test]
        fn every_byte_has_a_place_of_its_own(streams in 1u64..=256, stripe in 8u32..=24, position: u64) {
            let layout = Layout::new(streams, 1 << stripe);
            prop_assert_eq!(Layout::parse(layout.header()).unwrap(), layout);
            let position = position >> 2;
            let (index, room) = layout.locate(position);
            prop_assert!(index < layout.streams() && (1..=1 << stripe).contains(&room));
            // The rest of the stripe is on the same stream, and the next byte on the next one.
            prop_assert_eq!(layout.locate(position + room as u64 - 1), (index, 1));
            let next = (index + 1) % layout.streams();
            prop_assert_eq!(layout.locate(position + room as u64), (next, 1 << stripe));
        }
    }
}
