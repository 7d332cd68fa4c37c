//! Contents that both ends can make up for themselves, so that every byte can be checked at its place.

/// A reproducible stream of bytes that never repeats itself within a test.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    seed: u64,
    position: u64,
}

impl Pattern {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, position: 0 }
    }

    /// Writes the next bytes of the stream.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            *byte = self.next_byte();
        }
    }

    /// Compares bytes that arrived with the next ones of the stream.
    pub(super) fn check(&mut self, received: &[u8]) -> Result<(), String> {
        for &byte in received {
            let position = self.position;
            let expected = self.next_byte();
            if byte != expected {
                return Err(format!(
                    "byte {position} of the stream is {byte:#04x}, expected {expected:#04x}"
                ));
            }
        }
        Ok(())
    }

    /// Bytes written or checked so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    fn next_byte(&mut self) -> u8 {
        let word = mix(self
            .seed
            .wrapping_add((self.position / 8).wrapping_mul(GOLDEN)));
        let byte = word.to_le_bytes()[(self.position % 8) as usize];
        self.position += 1;
        byte
    }
}

/// A small generator of sizes.
#[derive(Clone, Debug)]
pub(super) struct Sizes(u64);

impl Sizes {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws a size from 1 to `most`, every order of magnitude equally often.
    pub(super) fn draw(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(GOLDEN);
        let random = mix(self.0);
        let most = most.max(1);
        let bits = random as u32 % (usize::BITS - most.leading_zeros());
        let size = (1usize << bits) | ((random >> 32) as usize & ((1usize << bits) - 1));
        size.min(most)
    }
}

/// The increment and the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(state: u64) -> u64 {
    let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_lost_or_doubled_byte_is_found() {
        let mut bytes = [0; 4096];
        Pattern::new(7).fill(&mut bytes);
        Pattern::new(7).check(&bytes).unwrap();
        Pattern::new(8).check(&bytes).unwrap_err();
        let mut changed = bytes;
        changed[1000] ^= 1;
        let error = Pattern::new(7).check(&changed).unwrap_err();
        assert!(error.starts_with("byte 1000 "), "{error}");
        let lost = [&bytes[..1000], &bytes[1001..]].concat();
        Pattern::new(7).check(&lost).unwrap_err();
        let swapped = [&bytes[64..128], &bytes[..64]].concat();
        Pattern::new(7).check(&swapped).unwrap_err();
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
