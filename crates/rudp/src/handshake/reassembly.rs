//! Handshake messages in order, from pieces that arrive in any order and several times.

use crate::ranges::RangeSet;

/// Bytes of handshake messages at one level; a flight with a certificate and a post-quantum key
/// share has 2,000.
pub(crate) const MAX_MESSAGES: usize = 16 << 10;

/// Separate pieces that are held. An honest flight has one or two packets, so no more than two
/// pieces.
const MAX_PIECES: usize = 64;

/// The incoming messages of one level.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    bytes: Vec<u8>,
    received: RangeSet,
    /// Place up to which the messages were read.
    read: usize,
}

/// A piece lies beyond [`MAX_MESSAGES`], or is one more than [`MAX_PIECES`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TooMuch;

impl Reassembly {
    /// Adds a piece. Bytes that came before are ignored.
    pub(crate) fn insert(&mut self, offset: u16, piece: &[u8]) -> Result<(), TooMuch> {
        let start = usize::from(offset);
        let end = start + piece.len();
        if end > MAX_MESSAGES || self.received.len() >= MAX_PIECES {
            return Err(TooMuch);
        }
        if self.bytes.len() < end {
            // No more memory than the messages take.
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

    /// Returns how many bytes are held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns all bytes that arrived in order, read or not.
    pub(crate) fn in_order(&self) -> &[u8] {
        let end = self.received.holding(0).map_or(0, |first| first.end);
        &self.bytes[..end as usize]
    }

    /// Takes the bytes that are next in order.
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
        fn pieces_in_any_order_make_up_the_messages(
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
    fn the_first_bytes_of_a_place_count_and_length_is_bounded() {
        let mut stream = Reassembly::default();
        stream.insert(1, b"bc").unwrap();
        stream.insert(0, b"axy").unwrap();
        assert_eq!(stream.take(), b"abc");
        assert_eq!(stream.insert(16_383, b"zz"), Err(TooMuch));
        stream.insert(16_383, b"z").unwrap();
        assert_eq!(stream.take(), b"");
        let mut stream = Reassembly::default();
        for piece in 0..64 {
            stream.insert(2 * piece, b"z").unwrap();
        }
        assert_eq!(stream.insert(128, b"z"), Err(TooMuch));
    }
}
