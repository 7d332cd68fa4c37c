//! Reassembly of handshake messages from pieces that arrive in any order, possibly several times.

use crate::ranges::RangeSet;

/// The maximum number of bytes of handshake messages at one level. A flight with a certificate and
/// a post-quantum key share has 2,000 bytes.
pub(crate) const MAX_MESSAGES: usize = 16 << 10;

/// The maximum number of separate pieces that are held. A regular flight has one or two packets,
/// and so at most two pieces.
const MAX_PIECES: usize = 64;

/// The incoming messages of one level.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    bytes: Vec<u8>,
    received: RangeSet,
    /// The offset up to which the messages were read.
    read: usize,
}

/// Error: a piece ends beyond [`MAX_MESSAGES`], or there are [`MAX_PIECES`] pieces already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LimitExceeded;

impl Reassembly {
    /// Adds a piece. Bytes that arrived before are ignored.
    pub(crate) fn insert(&mut self, offset: u16, piece: &[u8]) -> Result<(), LimitExceeded> {
        let start = usize::from(offset);
        let end = start + piece.len();
        if end > MAX_MESSAGES || self.received.len() >= MAX_PIECES {
            return Err(LimitExceeded);
        }
        if self.bytes.len() < end {
            // Allocates no more memory than the messages take.
            self.bytes.reserve_exact(end - self.bytes.len());
            self.bytes.resize(end, 0);
        }
        for gap in self.received.missing_from(start as u64..end as u64) {
            let (from, to) = (gap.start as usize, gap.end as usize);
            self.bytes[from..to].copy_from_slice(&piece[from - start..to - start]);
        }
        self.received.insert(start as u64..end as u64);
        Ok(())
    }

    /// Returns the number of bytes of memory held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns all bytes that are in order, including those that were read.
    pub(crate) fn in_order(&self) -> &[u8] {
        let end = self.received.holding(0).map_or(0, |first| first.end);
        &self.bytes[..end as usize]
    }

    /// Reads the next bytes in order.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let next = self.in_order()[self.read..].to_vec();
        self.read += next.len();
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_are_reassembled_from_pieces_in_any_order(
            messages in prop::collection::vec(any::<u8>(), 1..500),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..60),
        ) {
            let mut stream = Reassembly::default();
            let mut got = Vec::new();
            for (from, to) in cuts {
                let (from, to) = (from.index(messages.len()), to.index(messages.len() + 1));
                let range = from.min(to)..from.max(to);
                stream.insert(range.start as u16, &messages[range]).unwrap();
                got.extend(stream.take());
                prop_assert_eq!(&got[..], &messages[..got.len()]);
            }
            stream.insert(0, &messages).unwrap();
            got.extend(stream.take());
            prop_assert_eq!(got, messages);
        }
    }

    #[test]
    fn the_first_copy_of_a_byte_counts_and_length_is_bounded() {
        let mut stream = Reassembly::default();
        stream.insert(1, b"bc").unwrap();
        stream.insert(0, b"axy").unwrap();
        assert_eq!(stream.take(), b"abc");
        assert_eq!(stream.insert(16_383, b"zz"), Err(LimitExceeded));
        stream.insert(16_383, b"z").unwrap();
        assert_eq!(stream.take(), b"");
        let mut stream = Reassembly::default();
        for piece in 0..64 {
            stream.insert(2 * piece, b"z").unwrap();
        }
        assert_eq!(stream.insert(128, b"z"), Err(LimitExceeded));
    }
}
