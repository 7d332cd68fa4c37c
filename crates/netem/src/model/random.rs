//! A seeded pseudorandom generator whose output never changes.
//!
//! A drop pattern is part of a published result. So the generator is defined here, and not taken
//! from a crate that may change it: SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, *Fast splittable
//! pseudorandom number generators*, 2014).

/// A stream of random numbers for one feature of a path.
///
/// Each feature has its own stream. So enabling one feature does not change how another one treats
/// a packet.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    state: u64,
}

impl Stream {
    /// Returns the stream with this label, derived from a seed.
    pub(super) fn new(seed: u64, label: u64) -> Self {
        Self {
            state: mix(seed ^ mix(label)),
        }
    }

    /// Returns the next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Returns a number that is uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        to_unit(self.next())
    }

    /// Returns `true` with this probability. Consumes one number whatever the probability is.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns the `index`th number in [0, 1) of this stream without advancing it.
    pub(super) fn unit_at(&self, index: u64) -> f64 {
        to_unit(mix(self
            .state
            .wrapping_add(GAMMA.wrapping_mul(index.wrapping_add(1)))))
    }
}

/// Derives a seed for one part of a seeded object: a direction of a path, or a repetition of a run.
#[must_use]
pub fn derive_seed(seed: u64, part: u64) -> u64 {
    mix(mix(seed).wrapping_add(GAMMA.wrapping_mul(part.wrapping_add(1))))
}

/// The increment of SplitMix64: 2^64 divided by the golden ratio, odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn to_unit(bits: u64) -> f64 {
    // The upper 53 bits fit the mantissa of a double.
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_splitmix64() {
        // These are the first outputs of the reference implementation for state 0.
        let mut stream = Stream { state: 0 };
        assert_eq!(stream.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(stream.next(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(stream.next(), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn random_access_agrees_with_the_sequence() {
        let at = Stream::new(7, 3);
        let mut walk = at.clone();
        for index in 0..100 {
            assert_eq!(walk.unit(), at.unit_at(index));
        }
    }

    #[test]
    fn streams_and_derived_seeds_differ() {
        assert_ne!(Stream::new(1, 1).next(), Stream::new(1, 2).next());
        assert_ne!(Stream::new(1, 1).next(), Stream::new(2, 1).next());
        assert_ne!(derive_seed(1, 0), derive_seed(1, 1));
    }
}
