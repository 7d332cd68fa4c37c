//! Data that both ends can compute, so that every byte can be checked at its position.

use thiserror::Error;

/// A reproducible stream of bytes that is fast to write and to check. Word k is `seed + k *
/// 0x9e3779b97f4a7c15` modulo 2^64, in little-endian order, so that no two words of a stream are
/// equal.
#[derive(Clone, Debug)]
pub struct Pattern {
    word: u64,
    /// Number of bytes of `word` that were already written or checked.
    used: usize,
    position: u64,
}

/// The first byte that differs from the pattern.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("byte {position} of the stream is {found:#04x}, expected {expected:#04x}")]
pub struct Mismatch {
    /// Position in the stream, from 0.
    pub position: u64,
    /// The byte of the pattern.
    pub expected: u8,
    /// The byte that was received.
    pub found: u8,
}

/// The difference between consecutive words: 2^64 divided by the golden ratio, the increment of
/// SplitMix64. It is odd, so the sequence of words has a period of 2^64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Pattern {
    /// Creates the pattern of a seed, at its first byte.
    pub fn new(seed: u64) -> Self {
        Self {
            word: seed,
            used: 0,
            position: 0,
        }
    }

    /// Writes the next bytes of the stream.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        let head = buffer.len().min((8 - self.used) % 8);
        let (start, rest) = buffer.split_at_mut(head);
        self.fill_slowly(start);
        let (words, tail) = rest.split_at_mut(rest.len() - rest.len() % 8);
        let mut word = self.word;
        for bytes in words.chunks_exact_mut(8) {
            bytes.copy_from_slice(&word.to_le_bytes());
            word = word.wrapping_add(STEP);
        }
        self.word = word;
        self.position += words.len() as u64;
        self.fill_slowly(tail);
    }

    /// Compares received bytes with the next bytes of the stream.
    ///
    /// # Errors
    /// Returns [`Mismatch`] with the first byte that differs. The position of the pattern is then
    /// unspecified.
    pub fn check(&mut self, received: &[u8]) -> Result<(), Mismatch> {
        let head = received.len().min((8 - self.used) % 8);
        let (start, rest) = received.split_at(head);
        self.check_slowly(start)?;
        let (words, tail) = rest.split_at(rest.len() - rest.len() % 8);
        let (before, position) = (self.word, self.position);
        let mut word = before;
        let mut differences = 0;
        for bytes in words.chunks_exact(8) {
            let mut got = [0; 8];
            got.copy_from_slice(bytes);
            differences |= u64::from_le_bytes(got) ^ word;
            word = word.wrapping_add(STEP);
        }
        if differences != 0 {
            let mut slow = Self {
                word: before,
                used: 0,
                position,
            };
            return slow.check_slowly(words);
        }
        self.word = word;
        self.position += words.len() as u64;
        self.check_slowly(tail)
    }

    /// Returns the number of bytes written or checked so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    fn fill_slowly(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            *byte = self.next();
        }
    }

    fn check_slowly(&mut self, received: &[u8]) -> Result<(), Mismatch> {
        for &found in received {
            let position = self.position;
            let expected = self.next();
            if found != expected {
                return Err(Mismatch {
                    position,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    fn next(&mut self) -> u8 {
        let byte = self.word.to_le_bytes()[self.used];
        self.used = (self.used + 1) % 8;
        if self.used == 0 {
            self.word = self.word.wrapping_add(STEP);
        }
        self.position += 1;
        byte
    }
}

/// A pseudorandom generator of the sizes of writes and reads.
#[derive(Clone, Debug)]
pub(super) struct Sizes(u64);

impl Sizes {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws a size from 1 to `most`, with equal probability for every order of magnitude.
    pub(super) fn draw(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(STEP);
        let random = mix(self.0);
        let most = most.max(1);
        let bits = random as u32 % (usize::BITS - most.leading_zeros());
        let size = (1usize << bits) | ((random >> 32) as usize & ((1usize << bits) - 1));
        size.min(most)
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(super) fn mix(state: u64) -> u64 {
    let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(checked: Result<(), Mismatch>) -> Option<u64> {
        checked.err().map(|mismatch| mismatch.position)
    }

    #[test]
    fn pieces_of_any_size_make_the_same_stream() {
        let mut whole = vec![0; 1000];
        Pattern::new(5).fill(&mut whole);
        for size in 1..40 {
            let mut pattern = Pattern::new(5);
            let mut pieces = vec![0; 1000];
            for piece in pieces.chunks_mut(size) {
                pattern.fill(piece);
            }
            assert_eq!(pieces, whole, "{size}");
            let mut pattern = Pattern::new(5);
            for piece in whole.chunks(size) {
                pattern.check(piece).unwrap();
            }
        }
    }

    #[test]
    fn a_changed_lost_or_moved_byte_is_found_at_its_place() {
        let mut bytes = vec![0; 4096];
        Pattern::new(7).fill(&mut bytes);
        assert_eq!(place(Pattern::new(8).check(&bytes)), Some(0));
        for place in [0, 1, 1003, 4095] {
            let mut changed = bytes.clone();
            changed[place] ^= 0x10;
            for size in [1, 7, 64, 4096] {
                let mut pattern = Pattern::new(7);
                let found = changed
                    .chunks(size)
                    .find_map(|piece| pattern.check(piece).err())
                    .map(|mismatch| mismatch.position);
                assert_eq!(found, Some(place as u64));
            }
        }
        let swapped = [&bytes[64..128], &bytes[..64]].concat();
        assert_eq!(place(Pattern::new(7).check(&swapped)), Some(0));
        let lost = [&bytes[..1000], &bytes[1008..]].concat();
        assert_eq!(place(Pattern::new(7).check(&lost)), Some(1000));
        bytes[1000] ^= 1;
        let error = Pattern::new(7).check(&bytes).unwrap_err().to_string();
        assert!(
            error.starts_with("byte 1000 of the stream is 0x"),
            "{error}"
        );
    }

    #[test]
    fn sizes_cover_their_range() {
        let mut sizes = Sizes::new(1);
        let drawn: Vec<_> = (0..1000).map(|_| sizes.draw(8 << 20)).collect();
        assert!(drawn.contains(&1));
        assert!(drawn.iter().any(|&size| size > 4 << 20));
        assert!(drawn.iter().all(|&size| (1..=8 << 20).contains(&size)));
        assert!((0..100).all(|_| sizes.draw(1) == 1));
    }
}
