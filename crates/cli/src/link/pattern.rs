//! Bytes that both sides can make up, so that each is checked at its place, at the speed of memory.

/// A reproducible stream of bytes: word k is `seed + k * step`, so no two words of a transfer are the same.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    word: u64,
    /// Bytes of `word` that are used up.
    used: usize,
    position: u64,
}

/// An odd number, so that words repeat only after 2^64; 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Pattern {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            word: seed,
            used: 0,
            position: 0,
        }
    }

    /// Writes the next bytes.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) {
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

    /// Compares what arrived with the next bytes. Returns where the first difference is.
    pub(super) fn check(&mut self, received: &[u8]) -> Result<(), u64> {
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

    fn fill_slowly(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            *byte = self.next();
        }
    }

    fn check_slowly(&mut self, received: &[u8]) -> Result<(), u64> {
        for &byte in received {
            let position = self.position;
            if byte != self.next() {
                return Err(position);
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(Pattern::new(8).check(&bytes), Err(0));
        for place in [0, 1, 1003, 4095] {
            let mut changed = bytes.clone();
            changed[place] ^= 0x10;
            for size in [1, 7, 64, 4096] {
                let mut pattern = Pattern::new(7);
                let found = changed
                    .chunks(size)
                    .find_map(|piece| pattern.check(piece).err());
                assert_eq!(found, Some(place as u64));
            }
        }
        let swapped = [&bytes[64..128], &bytes[..64]].concat();
        assert_eq!(Pattern::new(7).check(&swapped), Err(0));
        let lost = [&bytes[..1000], &bytes[1008..]].concat();
        assert_eq!(Pattern::new(7).check(&lost), Err(1000));
    }
}
