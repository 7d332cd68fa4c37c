//! Fast two-party division: protocol 5 of the paper's reference [3], as far as the paper describes
//! it.
//!
//! The garbler blinds dividend `x` and divisor `y`, the evaluator divides the blinded numbers, and
//! the garbler recovers the quotient. This takes two round trips:
//!
//! 1. Evaluator to garbler: its shares of `x` and `y`, encrypted under its own key.
//! 2. Garbler to evaluator: `u = r1 x + r2 y` and `v = r3 x + r4 y`, encrypted, for four random
//!    numbers of about half the bits of the modulus.
//! 3. Evaluator to garbler: `q = u / v`, with enough fraction bits.
//! 4. Garbler to evaluator: `x / y = (r4 q - r2) / (r1 - r3 q)`.
//!
//! The paper describes the steps, the four random numbers, their size (appendix B) and the leak,
//! but refers to [3] for the formulas. The formulas here are our own and have these properties.
//!
//! # Leakage
//! The protocol is meant to reveal the truncated quotient only. **Semi-honest parties** also learn:
//!
//! - The evaluator sees `u` and `v` as integers, not modulo a number. Their greatest common divisor
//!   is usually a small multiple of that of `x` and `y`. For `x = 0` it is `y` times a number that
//!   is 1 in 60 % of the runs: the divisor leaks. The paper names this leak. For `y = 0` the
//!   dividend leaks in the same way.
//! - The size of `u` and `v` reveals the larger of `x` and `y` up to a few bits.
//! - The garbler sees the quotient with about three times as many fraction bits as the numbers
//!   have. The fraction `x / y` in lowest terms follows from it.

use crypto_bigint::BoxedUint;
use rand::CryptoRng;

use crate::{
    baseline::PartyState,
    division::{Division, Quotient, Shares, to_u32},
    integer::Integer,
    paillier::{Ciphertext, PublicKey, SecretKey},
    wire::{Kind, ProtocolError},
};

/// Number of additional fraction bits of the blinded quotient. They compensate cancellation between
/// terms with random numbers, so that the result is wrong only about once in 2^60 runs.
const GUARD_BITS: u32 = 64;

/// Returns the minimum length of the key for a division, in bits.
pub(crate) fn key_bits(division: &Division) -> u32 {
    // Each random number has half of the key's bits, less two for the sum and one for the sign.
    2 * (to_u32(division.width()) + 4)
}

/// Encrypts the shares of dividend and divisor.
pub(crate) fn encrypt_shares(
    key: &PublicKey,
    shares: &Shares,
    rng: &mut (impl CryptoRng + ?Sized),
) -> Vec<u8> {
    let [x, y] = [&shares.dividend, &shares.divisor].map(|share| {
        let residue = share.modulo(key.modulus());
        key.encrypt(&residue, rng)
    });
    key.write(&[&x, &y])
}

/// The lengths of numbers in messages.
struct Sizes {
    /// Number of fraction bits of the blinded quotient.
    precision: u32,
    /// Length of the blinded quotient's magnitude, in bytes.
    blinded: usize,
    /// Length of the result's magnitude, in bytes.
    result: usize,
}

impl Sizes {
    fn of(division: &Division, key_bits: u32) -> Self {
        let precision = to_u32(3 * division.width() + division.fraction) + GUARD_BITS + 1;
        let bytes = |bits: u32| bits.div_ceil(8) as usize;
        Self {
            precision,
            blinded: bytes(precision + key_bits),
            result: bytes(to_u32(division.width() + division.fraction) + 1),
        }
    }
}

/// The first byte of a number in a message: its sign.
const POSITIVE: u8 = 0;
const NEGATIVE: u8 = 1;
/// The first byte of a quotient that is undefined, because the divisor is 0.
const UNDEFINED: u8 = 2;

fn write(number: Option<&Integer>, len: usize) -> Result<Vec<u8>, ProtocolError> {
    let Some(number) = number else {
        let mut bytes = vec![0; 1 + len];
        bytes[0] = UNDEFINED;
        return Ok(bytes);
    };
    let sign = if number.is_negative() {
        NEGATIVE
    } else {
        POSITIVE
    };
    let magnitude = number.to_le_bytes(len);
    let magnitude = magnitude.ok_or(ProtocolError::Value("shares of numbers that are too long"))?;
    Ok([&[sign][..], &magnitude].concat())
}

fn read(bytes: &[u8]) -> Result<Option<Integer>, ProtocolError> {
    match bytes.split_first() {
        Some((&POSITIVE, magnitude)) => Ok(Some(Integer::from_le_bytes(false, magnitude))),
        Some((&NEGATIVE, magnitude)) => Ok(Some(Integer::from_le_bytes(true, magnitude))),
        Some((&UNDEFINED, magnitude)) if magnitude.iter().all(|&byte| byte == 0) => Ok(None),
        _ => Err(ProtocolError::Value("a number with an unknown sign")),
    }
}

/// Runs the evaluator, which holds the key. It has sent its encrypted shares in the handshake.
///
/// # Errors
/// Returns [`ProtocolError`] if the link fails or the peer violates the protocol.
pub(crate) async fn evaluator(
    state: &mut PartyState,
    key: &SecretKey,
) -> Result<Quotient, ProtocolError> {
    let division = state.task.division;
    let sizes = Sizes::of(&division, state.task.key_bits);
    let public = key.public();
    let bytes = state
        .channel
        .receive(Kind::Products, 2 * public.ciphertext_len())
        .await?;
    let blinded: [Ciphertext; 2] = public.read(&bytes)?;
    let [u, v] = blinded.map(|number| Integer::centred(&key.decrypt(&number), public.modulus()));
    let quotient = u.shifted_left(sizes.precision).divided_by(&v);
    let quotient = quotient.map(|(quotient, _)| quotient);
    let message = write(quotient.as_ref(), sizes.blinded)?;
    state.channel.send(Kind::Blinded, &message).await?;
    let bytes = state
        .channel
        .receive(Kind::Output, 1 + sizes.result)
        .await?;
    Ok(match read(&bytes)? {
        Some(value) => Quotient::Value(value),
        None => Quotient::DivisorIsZero,
    })
}

/// Runs the garbler, which blinds the numbers.
///
/// # Errors
/// Returns [`ProtocolError`] if the link fails or the peer violates the protocol.
pub(crate) async fn garbler(
    state: &mut PartyState,
    key: &PublicKey,
) -> Result<Quotient, ProtocolError> {
    let division = state.task.division;
    let sizes = Sizes::of(&division, state.task.key_bits);
    let bytes = state
        .channel
        .receive(Kind::Shares, 2 * key.ciphertext_len())
        .await?;
    let theirs: [Ciphertext; 2] = key.read(&bytes)?;
    let ours = [&state.shares.dividend, &state.shares.divisor];
    let [x, y] = [0, 1].map(|i| key.add_plain(&theirs[i], &ours[i].modulo(key.modulus())));
    let blinding = Blinding::draw(key.bits(), &mut state.rng);
    let nothing = BoxedUint::zero_with_precision(key.bits());
    let [u, v] = [0, 1].map(|row| {
        let [r, s] = [0, 1].map(|column| blinding.0[row][column].modulo(key.modulus()));
        let sum = key.add(&key.scale(&x, &r), &key.scale(&y, &s));
        // A fresh encryption of 0 re-randomizes the sum, because the peer knows the randomness of
        // its own ciphertexts.
        key.add(&sum, &key.encrypt(&nothing, &mut state.rng))
    });
    state
        .channel
        .send(Kind::Products, &key.write(&[&u, &v]))
        .await?;
    let bytes = state
        .channel
        .receive(Kind::Blinded, 1 + sizes.blinded)
        .await?;
    let result = read(&bytes)?.and_then(|q| blinding.recover(&q, sizes.precision, &division));
    let message = write(result.as_ref(), sizes.result)?;
    state.channel.send(Kind::Output, &message).await?;
    Ok(match result {
        Some(value) => Quotient::Value(value),
        None => Quotient::DivisorIsZero,
    })
}

/// The four random numbers: `[[r1, r2], [r3, r4]]`.
struct Blinding([[Integer; 2]; 2]);

impl Blinding {
    fn draw(key_bits: u32, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let bits = key_bits / 2;
        // The random numbers have random signs, so that the signs of `u` and `v` do not reveal the
        // signs of dividend and divisor.
        Self([(); 2].map(|()| {
            [(); 2].map(|()| {
                let sign = Integer::random(1, rng).is_zero();
                Integer::random(bits, rng).negated_if(sign)
            })
        }))
    }

    /// Recovers the quotient from the blinded quotient. Returns `None` if the divisor is 0.
    fn recover(&self, blinded: &Integer, precision: u32, division: &Division) -> Option<Integer> {
        let [[r1, r2], [r3, r4]] = &self.0;
        let numerator = r4.times(blinded).minus(&r2.shifted_left(precision));
        let denominator = r1.shifted_left(precision).minus(&r3.times(blinded));
        // Adds half of the smallest difference between fractions of this width. Otherwise a
        // quotient slightly below the exact one would be truncated to the next lower value.
        let half = to_u32(division.width()) + 1;
        let rounded = (numerator.magnitude())
            .shifted_left(to_u32(division.fraction) + half)
            .plus(&denominator.magnitude());
        let (quotient, _) = rounded.divided_by(&denominator.magnitude().shifted_left(half))?;
        // The quotient is largest for the divisor 1. So a result above this maximum shows that the
        // divisor is 0.
        let limit = to_u32(division.width() + division.fraction);
        let largest = Integer::power_of_two(limit);
        if quotient > largest {
            return None;
        }
        Some(quotient.negated_if(numerator.is_negative() ^ denominator.is_negative()))
    }
}
