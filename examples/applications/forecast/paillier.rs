//! Paillier's additively homomorphic encryption.
//!
//! With `g = n + 1`, a ciphertext of `m` is `(1 + m n) r^n mod n^2`. The product of two ciphertexts
//! is an encryption of the sum of the messages. The power of a ciphertext with exponent `k` is an
//! encryption of `k m`.

use crypto_bigint::{
    BoxedUint, ConcatenatingMul, ConcatenatingSquare, NonZero, Odd, RandomMod, Resize,
    modular::{BoxedMontyForm, BoxedMontyParams},
};
use crypto_primes::{Flavor, random_prime};
use rand::CryptoRng;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::division::to_u32;

/// The supported sizes of moduli, in bits. Sizes below 2,048 are not secure; the paper's is 1,024.
pub(crate) const KEY_BITS: std::ops::RangeInclusive<u32> = 128..=4096;

/// The error for invalid keys and ciphertexts.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(crate) enum PaillierError {
    /// The modulus has a different length than agreed.
    #[error("expected a modulus of {expected} bits, found {found}")]
    ModulusLength {
        /// The agreed length, in bits.
        expected: u32,
        /// The received length, in bits.
        found: u32,
    },
    /// The modulus is even.
    #[error("the modulus is even")]
    EvenModulus,
    /// The size of the key is not supported.
    #[error("expected a key size that is a multiple of 64 from {} to {}, found {found}", KEY_BITS.start(), KEY_BITS.end())]
    KeySize {
        /// The requested size, in bits.
        found: u32,
    },
    /// The number is not a valid ciphertext.
    #[error("ciphertext {index} is not a unit below the square of the modulus")]
    Ciphertext {
        /// The index of the ciphertext in the message, from 0.
        index: usize,
    },
    /// The ciphertexts have the wrong length.
    #[error("expected ciphertexts of {expected} bytes, found {found}")]
    Length {
        /// The expected length, in bytes.
        expected: usize,
        /// The received length, in bytes.
        found: usize,
    },
}

/// The public key, which encrypts and computes with ciphertexts.
#[derive(Clone)]
pub(crate) struct PublicKey {
    modulus: NonZero<BoxedUint>,
    square: BoxedMontyParams,
    bits: u32,
}

/// An encrypted number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ciphertext(BoxedMontyForm);

/// The secret key, which decrypts.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct SecretKey {
    public: PublicKey,
    /// The order of the group of units modulo n, (p - 1)(q - 1).
    order: Zeroizing<BoxedUint>,
    /// The inverse of `order` modulo n.
    inverse: Zeroizing<BoxedUint>,
}

/// Checks that a key size is supported.
///
/// # Errors
/// Returns [`PaillierError::KeySize`] if the size is not supported.
pub(crate) fn check_bits(bits: u32) -> Result<(), PaillierError> {
    match KEY_BITS.contains(&bits) && bits.is_multiple_of(64) {
        true => Ok(()),
        false => Err(PaillierError::KeySize { found: bits }),
    }
}

impl PublicKey {
    fn new(modulus: BoxedUint, bits: u32) -> Result<Self, PaillierError> {
        if modulus.bits_vartime() != bits {
            return Err(PaillierError::ModulusLength {
                expected: bits,
                found: modulus.bits_vartime(),
            });
        }
        let square = modulus.concatenating_square().resize_unchecked(2 * bits);
        let square = Odd::new(square)
            .into_option()
            .ok_or(PaillierError::EvenModulus)?;
        let modulus = NonZero::new(modulus)
            .into_option()
            .ok_or(PaillierError::EvenModulus)?;
        Ok(Self {
            modulus,
            square: BoxedMontyParams::new_vartime(square),
            bits,
        })
    }

    /// Parses a little-endian modulus of `bits` bits.
    ///
    /// # Errors
    /// Returns [`PaillierError`] if the size is not supported or the modulus is invalid.
    pub(crate) fn from_bytes(bits: u32, bytes: &[u8]) -> Result<Self, PaillierError> {
        check_bits(bits)?;
        let found = to_u32(bytes.len()).saturating_mul(8);
        let modulus =
            BoxedUint::from_le_slice(bytes, bits).map_err(|_| PaillierError::ModulusLength {
                expected: bits,
                found,
            })?;
        Self::new(modulus, bits)
    }

    /// Returns the modulus in little-endian bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.modulus.as_ref().to_le_bytes().into_vec()
    }

    /// Returns the modulus.
    pub(crate) fn modulus(&self) -> &NonZero<BoxedUint> {
        &self.modulus
    }

    /// Returns the size of the modulus in bits.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the length of a message, in bytes.
    pub(crate) fn message_len(&self) -> usize {
        self.bits as usize / 8
    }

    /// Returns the length of a ciphertext, in bytes.
    pub(crate) fn ciphertext_len(&self) -> usize {
        2 * self.message_len()
    }

    /// Returns a random message.
    pub(crate) fn random(&self, rng: &mut (impl CryptoRng + ?Sized)) -> BoxedUint {
        BoxedUint::random_mod_vartime(rng, &self.modulus)
    }

    /// Encrypts a message below the modulus.
    pub(crate) fn encrypt(
        &self,
        message: &BoxedUint,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Ciphertext {
        let exponent = self.modulus.as_ref();
        let mask = self.unit(rng).pow_bounded_exp(exponent, self.bits);
        Ciphertext(mask.mul(&self.encode(message)))
    }

    /// Returns an encryption of the sum of two encrypted messages, modulo n.
    pub(crate) fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Ciphertext {
        Ciphertext(a.0.mul(&b.0))
    }

    /// Adds a plain message below the modulus to an encrypted one. The result has the randomness of
    /// `a`. So the caller must add a fresh encryption before it sends the result.
    pub(crate) fn add_plain(&self, a: &Ciphertext, message: &BoxedUint) -> Ciphertext {
        Ciphertext(a.0.mul(&self.encode(message)))
    }

    /// Multiplies an encrypted message by a plain factor below the modulus.
    pub(crate) fn scale(&self, a: &Ciphertext, factor: &BoxedUint) -> Ciphertext {
        Ciphertext(a.0.pow_bounded_exp(factor, self.bits))
    }

    /// Returns the concatenated encodings of ciphertexts.
    pub(crate) fn write(&self, ciphertexts: &[&Ciphertext]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ciphertexts.len() * self.ciphertext_len());
        for ciphertext in ciphertexts {
            bytes.extend_from_slice(&ciphertext.0.retrieve().to_le_bytes());
        }
        bytes
    }

    /// Parses `N` ciphertexts.
    ///
    /// # Errors
    /// Returns [`PaillierError`] if the length is wrong or a number is not a unit modulo n^2.
    pub(crate) fn read<const N: usize>(
        &self,
        bytes: &[u8],
    ) -> Result<[Ciphertext; N], PaillierError> {
        let len = self.ciphertext_len();
        let wrong = PaillierError::Length {
            expected: N * len,
            found: bytes.len(),
        };
        if bytes.len() != N * len {
            return Err(wrong);
        }
        let mut all = Vec::with_capacity(N);
        for (index, bytes) in bytes.chunks_exact(len).enumerate() {
            let refused = PaillierError::Ciphertext { index };
            let value =
                BoxedUint::from_le_slice(bytes, 2 * self.bits).map_err(|_| refused.clone())?;
            if value >= *self.square.modulus().as_ref() {
                return Err(refused);
            }
            let form = BoxedMontyForm::new(value, &self.square);
            if !bool::from(form.invert_vartime().is_some()) {
                return Err(refused);
            }
            all.push(Ciphertext(form));
        }
        all.try_into().map_err(|_| wrong)
    }

    /// Returns a random nonzero number below the modulus. The probability that it has no inverse is
    /// negligible, because such a number reveals a factor of the modulus.
    fn unit(&self, rng: &mut (impl CryptoRng + ?Sized)) -> BoxedMontyForm {
        loop {
            let value = self.random(rng);
            if value.bits_vartime() > 0 {
                return BoxedMontyForm::new(value.resize_unchecked(2 * self.bits), &self.square);
            }
        }
    }

    /// Returns `1 + message n` modulo n^2, which is `g` to the power of the message.
    fn encode(&self, message: &BoxedUint) -> BoxedMontyForm {
        let product = message.concatenating_mul(self.modulus.as_ref());
        let product = product.resize_unchecked(2 * self.bits);
        BoxedMontyForm::new(product.wrapping_add(BoxedUint::one()), &self.square)
    }
}

impl SecretKey {
    /// Generates a key whose modulus has `bits` bits.
    ///
    /// # Errors
    /// Returns [`PaillierError::KeySize`] if the size is not supported.
    pub(crate) fn generate(
        bits: u32,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Self, PaillierError> {
        check_bits(bits)?;
        loop {
            let prime = |rng: &mut _| -> Zeroizing<BoxedUint> {
                Zeroizing::new(random_prime(rng, Flavor::Any, bits / 2))
            };
            let (p, q) = (prime(rng), prime(rng));
            if let Some(key) = Self::of_primes(&p, &q, bits) {
                return Ok(key);
            }
        }
    }

    /// Creates the key for two primes. Returns `None` if the primes are equal or their product has
    /// less than `bits` bits.
    fn of_primes(p: &BoxedUint, q: &BoxedUint, bits: u32) -> Option<Self> {
        if p == q {
            return None;
        }
        let modulus = p.concatenating_mul(q).resize_unchecked(bits);
        let public = PublicKey::new(modulus, bits).ok()?;
        let below = |prime: &BoxedUint| Zeroizing::new(prime.wrapping_sub(BoxedUint::one()));
        let order = below(p)
            .concatenating_mul(&*below(q))
            .resize_unchecked(bits);
        let order = Zeroizing::new(order);
        let odd = Odd::new(public.modulus.as_ref().clone()).into_option()?;
        let inverse = order.invert_odd_mod(&odd).into_option()?;
        Some(Self {
            public,
            order,
            inverse: Zeroizing::new(inverse),
        })
    }

    /// Returns the public key.
    pub(crate) fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Decrypts a ciphertext.
    pub(crate) fn decrypt(&self, ciphertext: &Ciphertext) -> BoxedUint {
        let public = &self.public;
        let power = (ciphertext.0)
            .pow_bounded_exp(&self.order, public.bits)
            .retrieve();
        // `power` is 1 modulo n, so n divides `power - 1` without remainder.
        let less_one = power.wrapping_sub(BoxedUint::one());
        let (quotient, _) = less_one.div_rem(&public.modulus);
        (quotient.resize_unchecked(public.bits)).mul_mod(&self.inverse, &public.modulus)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        collections::BTreeMap,
        sync::{Mutex, PoisonError},
    };

    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;
    use crate::integer::Integer;

    /// Returns an insecure short key for tests. Keys are cached: each size has one key.
    pub(crate) fn small_key(bits: u32) -> SecretKey {
        static KEYS: Mutex<BTreeMap<u32, SecretKey>> = Mutex::new(BTreeMap::new());
        let make = || {
            let mut rng = StdRng::seed_from_u64(u64::from(bits));
            SecretKey::generate(bits, &mut rng).unwrap()
        };
        let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
        keys.entry(bits).or_insert_with(make).clone()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn sums_and_multiples_are_decrypted(a: i64, b: i64, factor: i32, seed: u64) {
            let key = small_key(256);
            let public = key.public();
            let mut rng = StdRng::seed_from_u64(seed);
            let residue = |value: i128| Integer::from(value).modulo(public.modulus());
            let [x, y] = [a, b].map(|value| public.encrypt(&residue(value.into()), &mut rng));
            let read = |ciphertext: &Ciphertext| {
                Integer::centred(&key.decrypt(ciphertext), public.modulus())
            };
            let (a, b, factor) = (i128::from(a), i128::from(b), i128::from(factor));
            prop_assert_eq!(read(&x), Integer::from(a));
            prop_assert_eq!(read(&public.add(&x, &y)), Integer::from(a + b));
            prop_assert_eq!(read(&public.add_plain(&x, &residue(b))), Integer::from(a + b));
            prop_assert_eq!(read(&public.scale(&x, &residue(factor))), Integer::from(a * factor));
            let [again] = public.read(&public.write(&[&x])).unwrap();
            prop_assert_eq!(read(&again), Integer::from(a));
        }
    }

    #[test]
    fn encryption_is_randomised() {
        let key = small_key(256);
        let mut rng = StdRng::seed_from_u64(1);
        let zero = BoxedUint::zero_with_precision(256);
        let [one, other] = [(); 2].map(|()| key.public().encrypt(&zero, &mut rng));
        assert!(one != other);
    }

    #[test]
    fn keys_have_the_requested_size() {
        for bits in [128, 192, 320] {
            let key = small_key(bits);
            assert_eq!(key.public().modulus().as_ref().bits_vartime(), bits);
            assert_eq!(key.public().to_bytes().len(), bits as usize / 8);
        }
        for bits in [0, 64, 100, 8192] {
            let refused = SecretKey::generate(bits, &mut StdRng::seed_from_u64(1));
            assert_eq!(refused.err(), Some(PaillierError::KeySize { found: bits }));
        }
    }

    #[test]
    fn invalid_keys_are_rejected() {
        let key = small_key(256);
        let bytes = key.public().to_bytes();
        assert!(PublicKey::from_bytes(256, &bytes).is_ok());
        assert!(matches!(
            PublicKey::from_bytes(256, &[&bytes[..], &[1]].concat()),
            Err(PaillierError::ModulusLength { found: 264, .. })
        ));
        assert!(matches!(
            PublicKey::from_bytes(320, &bytes),
            Err(PaillierError::ModulusLength { expected: 320, .. })
        ));
        let mut even = bytes.clone();
        even[0] &= 0xfe;
        assert_eq!(
            PublicKey::from_bytes(256, &even).err(),
            Some(PaillierError::EvenModulus)
        );
        assert!(PublicKey::from_bytes(1 << 30, &bytes).is_err());
    }

    #[test]
    fn invalid_ciphertexts_are_rejected() {
        let key = small_key(256);
        let public = key.public();
        let good = public.write(&[&public.encrypt(
            &BoxedUint::one_with_precision(256),
            &mut StdRng::seed_from_u64(1),
        )]);
        assert!(public.read::<1>(&good).is_ok());
        assert!(matches!(
            public.read::<2>(&good),
            Err(PaillierError::Length {
                expected: 128,
                found: 64
            })
        ));
        let modulus = [&public.to_bytes()[..], &[0; 32]].concat();
        for bad in [[0; 64].to_vec(), [0xff; 64].to_vec(), modulus] {
            let both = [&good[..], &bad].concat();
            let refused = public.read::<2>(&both);
            assert_eq!(refused.err(), Some(PaillierError::Ciphertext { index: 1 }));
        }
    }
}
