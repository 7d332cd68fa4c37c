//! Base OT over ML-KEM-768: the "endemic" protocol of Masny and Rindal (eprint 2019/706),
//! instantiated with a key encapsulation whose public keys look uniform in a group.
//!
//! For instance `i` with choice `c`, the receiver sends two elements `r_0, r_1` of the group of
//! keys: `r_(1-c)` is uniform, and `r_c = key - H(i, c, r_(1-c))`. For both `b`, the sender
//! encapsulates to `r_b + H(i, b, r_(1-b))` and sends the ciphertext; the receiver can decapsulate
//! the one of its choice. There are two flights, because the sender answers the receiver's message.

mod element;

use ml_kem::{
    Decapsulate, DecapsulationKey768, Encapsulate, EncapsulationKey768, KeyExport,
    ml_kem_768::Ciphertext,
};
use rand::CryptoRng;
use subtle::Choice;
use zeroize::Zeroizing;

use super::hash::{Domains, KeyHash};
use super::{choice_bytes, put_pair, select};
use crate::OtError;
use crate::error::check_len;
use element::{ELEMENT_LEN, Element, ElementHash, uniform};

const CIPHERTEXT_LEN: usize = 1088;

const RECEIVER_MESSAGE: &str = "ML-KEM base OT receiver message";
const SENDER_MESSAGE: &str = "ML-KEM base OT sender message";

const DOMAINS: Domains = Domains {
    transcript: b"transpute ML-KEM-768 base OT v1: transcript",
    key: b"transpute ML-KEM-768 base OT v1: key",
};

/// Returns the length of the message of [`KemReceiver::start`] for `count` OTs, in bytes.
#[must_use]
pub const fn kem_receiver_len(count: usize) -> usize {
    count.saturating_mul(2 * ELEMENT_LEN)
}

/// Returns the length of the message of [`KemSender::answer`] for `count` OTs, in bytes.
#[must_use]
pub const fn kem_sender_len(count: usize) -> usize {
    count.saturating_mul(2 * CIPHERTEXT_LEN)
}

/// The receiver of a batch of base OTs over ML-KEM-768; *endemic* (see
/// [`BaseReceiver`](crate::BaseReceiver)).
///
/// The choices are hidden if encapsulation keys are indistinguishable from uniform ones. That
/// relies on module LWE with the parameters of ML-KEM-768, and on the generator of the uniform
/// elements. It holds against a malicious sender too, but unlike with
/// [`BaseReceiver`](crate::BaseReceiver) not unconditionally.
///
/// No branch and no running time depends on the choice. But the hash to keys writes to addresses
/// that depend on the candidates that it skips. An attacker who observes the CPU's cache may
/// exploit that.
///
/// Secrets are wiped on drop; temporaries inside the arithmetic are not.
pub struct KemReceiver {
    keys: Vec<DecapsulationKey768>,
    choices: Zeroizing<Vec<u8>>,
    binding: Vec<u8>,
    message: Vec<u8>,
}

impl KemReceiver {
    /// Starts one OT per choice and returns the message for the sender, [`kem_receiver_len`] bytes.
    ///
    /// `binding` is public, and both parties know it before the message is used, as for
    /// [`BaseReceiver::start`](crate::BaseReceiver::start).
    pub fn start(
        choices: &[bool],
        binding: &[u8],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> (Self, Vec<u8>) {
        let hash = ElementHash::new(binding);
        let mut keys = Vec::with_capacity(choices.len());
        let mut message = Vec::with_capacity(kem_receiver_len(choices.len()));
        let choices = choice_bytes(choices);
        for (instance, &choice) in choices.iter().enumerate() {
            let (mut seed, mut other) = (Zeroizing::new([0; 64]), Zeroizing::new([0; 32]));
            rng.fill_bytes(&mut *seed);
            rng.fill_bytes(&mut *other);
            let key = DecapsulationKey768::from_seed((*seed).into());
            let other = Zeroizing::new(uniform(&other).encode());
            let hashed = hash.hash(instance, choice, &other);
            let own = Zeroizing::new(own_element(&key).minus(&hashed).encode());
            put_pair(&mut message, &own, &other, choice);
            keys.push(key);
        }
        let receiver = Self {
            keys,
            choices,
            binding: binding.to_vec(),
            message: message.clone(),
        };
        (receiver, message)
    }

    /// Derives the chosen key of every instance from the sender's message.
    ///
    /// `sid` is the session id, which both parties know after their hellos. Keys of different
    /// sessions are independent. An altered ciphertext results in a key that is independent of the
    /// sender's keys.
    ///
    /// # Errors
    /// Returns [`OtError::WrongLength`] if the message has the wrong length.
    pub fn finish(
        self,
        sid: &[u8; 32],
        sender_message: &[u8],
    ) -> Result<Zeroizing<Vec<u128>>, OtError> {
        let expected = kem_sender_len(self.keys.len());
        check_len(SENDER_MESSAGE, expected, sender_message.len())?;
        let (ciphertexts, _) = sender_message.as_chunks::<CIPHERTEXT_LEN>();
        let (pairs, _) = ciphertexts.as_chunks::<2>();
        let hash = KeyHash::new(&DOMAINS, sid, &self.binding, &self.message, sender_message);
        let keys = self.keys.iter().zip(self.choices.iter()).zip(pairs);
        let mut derived = Zeroizing::new(Vec::with_capacity(pairs.len()));
        for (instance, ((key, &choice), [zero, one])) in keys.enumerate() {
            let chosen = Ciphertext::from(select(zero, one, Choice::from(choice)));
            let shared = Zeroizing::new(<[u8; 32]>::from(key.decapsulate(&chosen)));
            derived.push(hash.key(instance, choice, &shared));
        }
        Ok(derived)
    }
}

/// The sender of a batch of base OTs over ML-KEM-768; endemic, see [`KemReceiver`].
///
/// It has no state, because it only answers the receiver's message.
#[derive(Debug)]
pub struct KemSender;

/// Both keys of every instance, and the sender's message.
pub type KemAnswer = (Zeroizing<Vec<[u128; 2]>>, Vec<u8>);

impl KemSender {
    /// Derives both keys of `count` instances. Returns them with the message for the receiver,
    /// [`kem_sender_len`] bytes. Element `b` of a pair is the key that the receiver has if its
    /// choice is `b`.
    ///
    /// `sid` and `binding` must be the same as for [`KemReceiver`].
    ///
    /// # Errors
    /// Returns [`OtError::WrongLength`] if the message has the wrong length, before any allocation.
    /// Returns [`OtError::InvalidKey`] if an element is not an encoded key.
    pub fn answer(
        sid: &[u8; 32],
        binding: &[u8],
        receiver_message: &[u8],
        count: usize,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<KemAnswer, OtError> {
        check_len(
            RECEIVER_MESSAGE,
            kem_receiver_len(count),
            receiver_message.len(),
        )?;
        let (elements, _) = receiver_message.as_chunks::<ELEMENT_LEN>();
        let hash = ElementHash::new(binding);
        let mut message = Vec::with_capacity(kem_sender_len(count));
        let mut shared = Zeroizing::new(Vec::with_capacity(elements.len()));
        for (index, encoded) in elements.iter().enumerate() {
            let invalid = OtError::InvalidKey {
                message: RECEIVER_MESSAGE,
                index,
            };
            let element = Element::decode(encoded).ok_or_else(|| invalid.clone())?;
            // The two elements of an instance are adjacent, so `index ^ 1` is the index of the
            // other one.
            let hashed = hash.hash(index / 2, (index % 2) as u8, &elements[index ^ 1]);
            let key = element.plus(&hashed).encode();
            let key = EncapsulationKey768::new(&key.into()).map_err(|_| invalid)?;
            let (ciphertext, secret) = key.encapsulate_with_rng(rng);
            message.extend_from_slice(&ciphertext);
            shared.push(<[u8; 32]>::from(secret));
        }
        let hash = KeyHash::new(&DOMAINS, sid, binding, receiver_message, &message);
        Ok((hash.pairs(&shared), message))
    }
}

/// Returns the encapsulation key of a key pair as an element.
fn own_element(key: &DecapsulationKey768) -> Element {
    let encoded = key.encapsulation_key().to_bytes().into();
    // FIPS 203 encodes integers modulo 3329 by their smallest representatives.
    Element::decode(&encoded).expect("a generated key is reduced")
}
