//! Encapsulation keys of ML-KEM-768 as elements of a group, and the hash to that group.
//!
//! FIPS 203 encodes a key as a vector of 768 integers modulo 3329 (`t` in the NTT domain, 12 bits
//! each) and a seed of 32 bytes (`rho`). Vectors form a group under addition and seeds under XOR.
//! The group of keys is the product of these groups.

use shake::{ExtendableOutput, Shake128, Update, XofReader};
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroize;

/// Length of an encoded element, in bytes.
pub(super) const ELEMENT_LEN: usize = VECTOR_LEN + SEED_LEN;

const COEFFICIENTS: usize = 768;
const VECTOR_LEN: usize = COEFFICIENTS / 2 * 3;
const SEED_LEN: usize = 32;
const MODULUS: u16 = 3329;

/// Number of pseudorandom bytes from which coefficients are taken. Together with the seed, they are
/// the output of 11 permutations of Keccak. They contain 1,210 candidates of 12 bits. Fewer than
/// 768 of them are below the modulus with probability 2^-150.
const CANDIDATES_LEN: usize = 11 * 168 - SEED_LEN - 1;

/// An element of the group of keys.
#[derive(Clone)]
pub(super) struct Element {
    /// The coefficients, and one extra entry that receives the surplus candidates.
    vector: [u16; COEFFICIENTS + 1],
    seed: [u8; SEED_LEN],
}

impl Element {
    /// Decodes a key; returns `None` if an integer is not below the modulus.
    pub(super) fn decode(bytes: &[u8; ELEMENT_LEN]) -> Option<Self> {
        let (vector_bytes, seed_bytes) = bytes.split_at(VECTOR_LEN);
        let mut vector = [0; COEFFICIENTS + 1];
        let mut is_reduced = true;
        for (pair, triple) in vector.chunks_exact_mut(2).zip(triples(vector_bytes)) {
            pair.copy_from_slice(&unpack(triple));
            is_reduced &= pair.iter().all(|coefficient| *coefficient < MODULUS);
        }
        let mut seed = [0; SEED_LEN];
        seed.copy_from_slice(seed_bytes);
        is_reduced.then_some(Self { vector, seed })
    }

    /// Encodes the element as a key.
    pub(super) fn encode(&self) -> [u8; ELEMENT_LEN] {
        let mut bytes = [0; ELEMENT_LEN];
        for (triple, pair) in bytes.chunks_exact_mut(3).zip(self.vector.chunks_exact(2)) {
            let [low, high] = [pair[0], pair[1]];
            triple.copy_from_slice(&[
                low as u8,
                (low >> 8) as u8 | (high << 4) as u8,
                (high >> 4) as u8,
            ]);
        }
        bytes[VECTOR_LEN..].copy_from_slice(&self.seed);
        bytes
    }

    /// Derives a uniform element from the output of an extendable hash.
    ///
    /// As in FIPS 203, the coefficients are the 12-bit numbers that are below the modulus. Unlike
    /// FIPS 203, this function always reads the same number of bytes, and no branch depends on
    /// them. This is needed because the hashed element is a secret of the receiver.
    pub(super) fn expand(hash: Shake128) -> Self {
        let mut reader = hash.finalize_xof();
        let mut seed = [0; SEED_LEN];
        reader.read(&mut seed);
        let mut candidates = [0; CANDIDATES_LEN];
        reader.read(&mut candidates);
        let mut vector = [0; COEFFICIENTS + 1];
        let mut filled = 0;
        for candidate in triples(&candidates).flat_map(unpack) {
            vector[filled] = candidate;
            let is_taken = u16::from(candidate < MODULUS) & u16::from(filled < COEFFICIENTS);
            filled += usize::from(is_taken);
        }
        candidates.zeroize();
        Self { vector, seed }
    }

    /// Returns the sum of this element and `other`.
    pub(super) fn plus(&self, other: &Self) -> Self {
        self.combine(other, |a, b| reduce(a + b))
    }

    /// Returns the difference of this element and `other`.
    pub(super) fn minus(&self, other: &Self) -> Self {
        self.combine(other, |a, b| reduce(a + MODULUS - b))
    }

    fn combine(&self, other: &Self, coefficient: impl Fn(u16, u16) -> u16) -> Self {
        let mut result = self.clone();
        let pairs = result.vector.iter_mut().zip(&other.vector);
        for (own, other) in pairs.take(COEFFICIENTS) {
            *own = coefficient(*own, *other);
        }
        for (own, other) in result.seed.iter_mut().zip(&other.seed) {
            *own ^= other;
        }
        result
    }
}

/// Reduces a number below twice the modulus, without a branch.
fn reduce(number: u16) -> u16 {
    let reduced = number.wrapping_sub(MODULUS);
    // The difference is negative if the number is less than the modulus.
    let is_smaller = Choice::from((reduced >> 15) as u8);
    u16::conditional_select(&reduced, &number, is_smaller)
}

fn triples(bytes: &[u8]) -> impl Iterator<Item = [u8; 3]> + '_ {
    bytes.as_chunks().0.iter().copied()
}

/// Returns the two numbers of 12 bits in three bytes.
fn unpack([a, b, c]: [u8; 3]) -> [u16; 2] {
    [
        u16::from(a) | u16::from(b & 15) << 8,
        u16::from(b >> 4) | u16::from(c) << 4,
    ]
}

/// The hash to the group of keys. Each exchange, instance and branch has its own function.
pub(super) struct ElementHash {
    prefix: Shake128,
}

impl ElementHash {
    pub(super) fn new(binding: &[u8]) -> Self {
        let mut prefix = Shake128::default();
        prefix.update(b"transpute ML-KEM-768 base OT v1: hash to key");
        prefix.update(&(binding.len() as u64).to_le_bytes());
        prefix.update(binding);
        Self { prefix }
    }

    /// Returns the hash of the element of the other branch.
    pub(super) fn hash(&self, instance: usize, branch: u8, other: &[u8; ELEMENT_LEN]) -> Element {
        let mut hash = self.prefix.clone();
        hash.update(&(instance as u64).to_le_bytes());
        hash.update(&[branch]);
        hash.update(other);
        Element::expand(hash)
    }
}

/// Returns the uniform element that is derived from a secret seed.
pub(super) fn uniform(seed: &[u8; 32]) -> Element {
    let mut hash = Shake128::default();
    hash.update(b"transpute ML-KEM-768 base OT v1: uniform");
    hash.update(seed);
    Element::expand(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ml_kem::{DecapsulationKey768, KeyExport};

    fn element(seed: u8) -> Element {
        uniform(&[seed; 32])
    }

    #[test]
    fn generated_keys_survive_decoding() {
        for seed in 0..4 {
            let key = DecapsulationKey768::from_seed([seed; 64].into());
            let encoded = key.encapsulation_key().to_bytes().into();
            assert_eq!(Element::decode(&encoded).unwrap().encode(), encoded);
        }
    }

    #[test]
    fn the_group_laws_hold() {
        for seed in 0..20 {
            let (a, b) = (element(seed), element(100 + seed));
            let sum = a.plus(&b);
            assert_eq!(sum.encode(), b.plus(&a).encode());
            assert_eq!(sum.minus(&b).encode(), a.encode());
            assert_eq!(a.minus(&b).plus(&b).encode(), a.encode());
            let zero = a.minus(&a);
            assert_eq!(zero.encode(), [0; ELEMENT_LEN]);
            assert_eq!(zero.plus(&b).encode(), b.encode());
            assert_ne!(sum.encode(), a.encode());
        }
    }

    #[test]
    fn reduction_is_correct_for_all_sums() {
        for number in 0..2 * MODULUS {
            assert_eq!(reduce(number), number % MODULUS);
        }
    }

    #[test]
    fn numbers_from_the_modulus_up_are_rejected_at_every_index() {
        let good = element(1).encode();
        for index in [0, 1, 2, 383, 766, 767] {
            for (number, is_fine) in [(0, true), (3328, true), (3329, false), (4095, false)] {
                let mut bytes = good;
                let at = index / 2 * 3;
                let mut pair = unpack([bytes[at], bytes[at + 1], bytes[at + 2]]);
                pair[index % 2] = number;
                bytes[at] = pair[0] as u8;
                bytes[at + 1] = (pair[0] >> 8 | pair[1] << 4) as u8;
                bytes[at + 2] = (pair[1] >> 4) as u8;
                assert_eq!(
                    Element::decode(&bytes).is_some(),
                    is_fine,
                    "{index} {number}"
                );
            }
        }
    }

    #[test]
    fn expansion_fills_the_vector_with_the_numbers_below_the_modulus() {
        for seed in 0..50 {
            let element = element(seed);
            // Compare with the straightforward algorithm.
            let mut hash = Shake128::default();
            hash.update(b"transpute ML-KEM-768 base OT v1: uniform");
            hash.update(&[seed; 32]);
            let mut reader = hash.finalize_xof();
            let mut rho = [0; 32];
            reader.read(&mut rho);
            let mut expected = Vec::new();
            while expected.len() < COEFFICIENTS {
                let mut triple = [0; 3];
                reader.read(&mut triple);
                expected.extend(unpack(triple).into_iter().filter(|n| *n < MODULUS));
            }
            assert_eq!(element.seed, rho);
            assert_eq!(element.vector[..COEFFICIENTS], expected[..COEFFICIENTS]);
            assert!(Element::decode(&element.encode()).is_some());
        }
    }

    #[test]
    fn the_hash_depends_on_all_inputs() {
        let other = element(1).encode();
        let hash = |binding: &[u8], instance, branch, other: &[u8; ELEMENT_LEN]| {
            let element = ElementHash::new(binding).hash(instance, branch, other);
            element.encode()
        };
        let mut changed = other;
        changed[ELEMENT_LEN - 1] ^= 1;
        let mut all = vec![
            hash(b"a", 0, 0, &other),
            hash(b"b", 0, 0, &other),
            hash(b"a", 1, 0, &other),
            hash(b"a", 0, 1, &other),
            hash(b"a", 0, 0, &changed),
        ];
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
    }
}
