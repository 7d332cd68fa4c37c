//! Base OT: the "endemic" protocol of Masny and Rindal (eprint 2019/706) over Ristretto255.
//!
//! For instance `i` with choice `c`, the receiver sends two points `r_0, r_1`: `r_(1-c)` is random,
//! and `r_c = x G - Hpt(i, c, r_(1-c))`. The sender sends one `S = s G` for all instances. The key
//! of branch `b` is derived from `s (r_b + Hpt(i, b, r_(1-b)))`, which the receiver knows for `b =
//! c` as `x S`. Neither message depends on the other, so both fit in one round.

mod group;
mod hash;
#[cfg(feature = "ml-kem")]
mod kem;
mod kind;
#[cfg(target_arch = "x86_64")]
mod lanes;

#[cfg(feature = "ml-kem")]
pub use kem::{KemAnswer, KemReceiver, KemSender, kem_receiver_len, kem_sender_len};
pub use kind::{AnyReceiver, AnySender, BaseOt, BaseOtKeys};

use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use rand::CryptoRng;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroizing;

use crate::OtError;
use crate::error::check_len;
use group::{Group, RejectedPoint, Rejection};
use hash::{CURVE, KeyHash, PointHash};

/// Number of base OTs of an extension: one per bit of its global offset.
pub const BASE_COUNT: usize = 128;

/// Length of the message of [`BaseSender::start`], in bytes.
pub const BASE_SENDER_LEN: usize = POINT_LEN;

/// Returns the length of the message of [`BaseReceiver::start`] for `count` OTs, in bytes.
#[must_use]
pub const fn base_receiver_len(count: usize) -> usize {
    count.saturating_mul(2 * POINT_LEN)
}

/// Returns the choices of the 128 base OTs with which the extension's sender obtains the keys for
/// its offset `delta`. Choice `i` is bit `i` of `delta`.
#[must_use]
pub fn delta_choices(delta: u128) -> Zeroizing<[bool; BASE_COUNT]> {
    Zeroizing::new(std::array::from_fn(|i| delta >> i & 1 == 1))
}

/// The receiver of a batch of base OTs, secure against malicious parties and *endemic*.
///
/// The choices are hidden unconditionally. In an *endemic* OT, a malicious party can choose the
/// keys that it obtains: a receiver its own keys, a sender both keys of each pair. The keys may
/// therefore serve as seeds of an extension or as one-time masks, but not as random coins that both
/// parties trust.
///
/// Secrets are wiped on drop; temporaries inside the curve arithmetic are not.
pub struct BaseReceiver {
    /// Half of the secret scalar `x` of each instance. Encoding doubles the points computed from
    /// it.
    halves: Zeroizing<Vec<Scalar>>,
    choices: Zeroizing<Vec<u8>>,
    binding: Vec<u8>,
    message: Vec<u8>,
}

impl BaseReceiver {
    /// Starts one OT per choice and returns the message for the sender, [`base_receiver_len`]
    /// bytes.
    ///
    /// `binding` is public and separates the hash to points of this exchange from those of all
    /// other exchanges. Both parties must know it before the message is used. An example is the
    /// nonce in the hello of the receiver's party.
    pub fn start(
        choices: &[bool],
        binding: &[u8],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> (Self, Vec<u8>) {
        let choices = choice_bytes(choices);
        // In each instance, the point that is not chosen is random. `uniform` and `random` reveal
        // which one it is, so both are secret.
        let mut uniform = Zeroizing::new(vec![[0; 64]; choices.len()]);
        uniform.iter_mut().for_each(|bytes| rng.fill_bytes(bytes));
        let group = Group::detect();
        let random = group.mapped(&uniform);
        let halves: Zeroizing<Vec<Scalar>> =
            Zeroizing::new(choices.iter().map(|_| Scalar::random(rng)).collect());

        let hash = PointHash::new(binding);
        for (i, (uniform, other)) in uniform.iter_mut().zip(random.iter()).enumerate() {
            *uniform = hash.uniform(i, choices[i], other);
        }
        let chosen = group.differences(&halves, &uniform);

        let mut message = Vec::with_capacity(base_receiver_len(choices.len()));
        for ((&choice, own), other) in choices.iter().zip(chosen.iter()).zip(random.iter()) {
            put_pair(&mut message, own, other, choice);
        }
        let receiver = Self {
            halves,
            choices,
            binding: binding.to_vec(),
            message: message.clone(),
        };
        (receiver, message)
    }

    /// Derives the chosen key of every instance from the sender's message.
    ///
    /// `sid` is the session id, which both parties know after their hellos. Keys of different
    /// sessions are independent.
    ///
    /// # Errors
    /// Returns [`OtError::WrongLength`] if the message has the wrong length. Returns
    /// [`OtError::InvalidPoint`] and [`OtError::IdentityPoint`] if its point is invalid.
    pub fn finish(
        self,
        sid: &[u8; 32],
        sender_message: &[u8],
    ) -> Result<Zeroizing<Vec<u128>>, OtError> {
        check_len(SENDER_MESSAGE, BASE_SENDER_LEN, sender_message.len())?;
        let (encodings, _) = sender_message.as_chunks::<POINT_LEN>();
        let points = Group::detect()
            .multiples(&encodings[0], &self.halves)
            .map_err(|rejected| rejected.of(SENDER_MESSAGE))?;
        let hash = KeyHash::new(&CURVE, sid, &self.binding, &self.message, sender_message);
        Ok(Zeroizing::new(
            points
                .iter()
                .zip(self.choices.iter())
                .enumerate()
                .map(|(i, (point, &choice))| hash.key(i, choice, point))
                .collect(),
        ))
    }
}

/// The sender of a batch of base OTs, secure against malicious parties and endemic; see
/// [`BaseReceiver`].
///
/// The secret scalar is wiped on drop; temporaries inside the curve arithmetic are not.
pub struct BaseSender {
    /// Half of the secret scalar `s`. Encoding doubles the points computed from it.
    half: Zeroizing<Scalar>,
    message: [u8; BASE_SENDER_LEN],
}

impl BaseSender {
    /// Draws the secret scalar and returns the message for the receiver. One message serves all OTs
    /// of a batch.
    pub fn start(rng: &mut (impl CryptoRng + ?Sized)) -> (Self, [u8; BASE_SENDER_LEN]) {
        let half = Zeroizing::new(Scalar::random(rng));
        let point = RistrettoPoint::mul_base(&half);
        let message = (point + point).compress().to_bytes();
        (Self { half, message }, message)
    }

    /// Derives both keys of `count` instances from the receiver's message. Element `b` of a pair is
    /// the key that the receiver has if its choice is `b`.
    ///
    /// `sid` and `binding` must be the same as for [`BaseReceiver`].
    ///
    /// # Errors
    /// Returns [`OtError::WrongLength`] if the message has the wrong length. Returns
    /// [`OtError::InvalidPoint`] and [`OtError::IdentityPoint`] for the first invalid point.
    pub fn finish(
        self,
        sid: &[u8; 32],
        binding: &[u8],
        receiver_message: &[u8],
        count: usize,
    ) -> Result<Zeroizing<Vec<[u128; 2]>>, OtError> {
        let expected = base_receiver_len(count);
        check_len(RECEIVER_MESSAGE, expected, receiver_message.len())?;
        let (encodings, _) = receiver_message.as_chunks::<POINT_LEN>();

        let hash = PointHash::new(binding);
        let uniform: Vec<[u8; 64]> = (0..encodings.len())
            // The two points of an instance are adjacent, so `index ^ 1` is the index of the other
            // one.
            .map(|index| hash.uniform(index / 2, (index % 2) as u8, &encodings[index ^ 1]))
            .collect();
        let points = Group::detect()
            .sums(&self.half, encodings, &uniform)
            .map_err(|rejected| rejected.of(RECEIVER_MESSAGE))?;
        let hash = KeyHash::new(&CURVE, sid, binding, receiver_message, &self.message);
        Ok(hash.pairs(&points))
    }
}

const POINT_LEN: usize = 32;
const RECEIVER_MESSAGE: &str = "base OT receiver message";
const SENDER_MESSAGE: &str = "base OT sender message";

impl RejectedPoint {
    fn of(self, message: &'static str) -> OtError {
        let index = self.index;
        match self.why {
            Rejection::Invalid => OtError::InvalidPoint { message, index },
            Rejection::Identity => OtError::IdentityPoint { message, index },
        }
    }
}

fn choice_bytes(choices: &[bool]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(choices.iter().map(|&choice| u8::from(choice)).collect())
}

/// Appends both elements of an instance. The receiver's own element has the index of its choice. No
/// branch depends on the choice.
fn put_pair<const LEN: usize>(
    message: &mut Vec<u8>,
    own: &[u8; LEN],
    other: &[u8; LEN],
    choice: u8,
) {
    let swap = Choice::from(choice);
    message.extend_from_slice(&select(own, other, swap));
    message.extend_from_slice(&select(other, own, swap));
}

/// Returns `zero` or `one` in constant time.
fn select<const LEN: usize>(zero: &[u8; LEN], one: &[u8; LEN], choice: Choice) -> [u8; LEN] {
    std::array::from_fn(|i| u8::conditional_select(&zero[i], &one[i], choice))
}
