//! The fast two-party division: protocol 5 of reference [3] of the paper, as far as the paper tells it.
//!
//! The garbler blinds dividend `x` and divisor `y`, the evaluator divides what it sees, and the garbler
//! recovers the quotient. Two round trips:
//!
//! 1. evaluator to garbler: its shares of `x` and `y`, encrypted under its own key.
//! 2. garbler to evaluator: `u = r1 x + r2 y` and `v = r3 x + r4 y`, encrypted, for four random numbers of
//!    about half the bits of the modulus.
//! 3. evaluator to garbler: `q = u / v`, with enough bits after the point.
//! 4. garbler to evaluator: `x / y = (r4 q - r2) / (r1 - r3 q)`.
//!
//! The paper names the steps, the four random numbers, their size (appendix B) and the leak, and leaves
//! the formulas to [3]; these are ours, and have all of that.
//!
//! # What leaks
//! Both parties are to learn the quotient, cut to its fraction. Beyond that, **semi-honest parties** learn:
//!
//! - The evaluator sees `u` and `v` as whole numbers, not modulo anything. Their greatest common divisor
//!   is a multiple of that of `x` and `y`, mostly a small one. For `x = 0` it is `y` times a number that
//!   is 1 in six cases of ten: the divisor leaks, which is the leak that the paper speaks of. For `y = 0`
//!   the dividend leaks alike.
//! - The size of `u` and `v` tells the larger of `x` and `y` up to a few bits.
//! - The garbler sees the quotient with about three times the bits of the numbers after the point, from
//!   which the lowest terms of the fraction `x / y` follow.

use crypto_bigint::BoxedUint;
use rand::CryptoRng;

use crate::{
    baseline::Side,
    division::{Division, Quotient, Shares, to_u32},
    integer::Integer,
    paillier::{Ciphertext, PublicKey, SecretKey},
    wire::{Kind, ProtocolError},
};

/// Bits by which the quotient of blinded numbers is more exact than it has to be on average: the random
/// numbers cancel out so far that the result is wrong once in about 2^60 runs.
const SPARE_BITS: u32 = 64;

/// Returns the shortest key for a division, in bits.
pub(crate) fn key_bits(division: &Division) -> u32 {
    // Half of it is left for each random number, less two for the sum and one for the sign.
    2 * (to_u32(division.width()) + 4)
}

/// Encrypts shares of dividend and divisor.
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
    /// Bits of the quotient of the blinded numbers after the point.
    precision: u32,
    /// Bytes of its magnitude.
    blinded: usize,
    /// Bytes of the magnitude of the result.
    result: usize,
}

impl Sizes {
    fn of(division: &Division, key_bits: u32) -> Self {
        let precision = to_u32(3 * division.width() + division.fraction) + SPARE_BITS + 1;
        let bytes = |bits: u32| bits.div_ceil(8) as usize;
        Self {
            precision,
            blinded: bytes(precision + key_bits),
            result: bytes(to_u32(division.width() + division.fraction) + 1),
        }
    }
}

/// First byte of a number in a message.
const POSITIVE: u8 = 0;
const NEGATIVE: u8 = 1;
/// There is no such number.
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

/// The side of the party with the key, its shares being on their way.
///
/// # Errors
/// [`ProtocolError`].
pub(crate) async fn evaluator(side: &mut Side, key: &SecretKey) -> Result<Quotient, ProtocolError> {
    let division = side.task.division;
    let sizes = Sizes::of(&division, side.task.key_bits);
    let public = key.public();
    let bytes = side
        .channel
        .receive(Kind::Products, 2 * public.ciphertext_len())
        .await?;
    let blinded: [Ciphertext; 2] = public.read(&bytes)?;
    let [u, v] = blinded.map(|number| Integer::centred(&key.decrypt(&number), public.modulus()));
    let quotient = u.shifted_left(sizes.precision).divided_by(&v);
    let quotient = quotient.map(|(quotient, _)| quotient);
    let message = write(quotient.as_ref(), sizes.blinded)?;
    side.channel.send(Kind::Blinded, &message).await?;
    let bytes = side.channel.receive(Kind::Output, 1 + sizes.result).await?;
    Ok(match read(&bytes)? {
        Some(value) => Quotient::Value(value),
        None => Quotient::DivisorIsZero,
    })
}

/// The side of the party that blinds.
///
/// # Errors
/// [`ProtocolError`].
pub(crate) async fn garbler(side: &mut Side, key: &PublicKey) -> Result<Quotient, ProtocolError> {
    let division = side.task.division;
    let sizes = Sizes::of(&division, side.task.key_bits);
    let bytes = side
        .channel
        .receive(Kind::Shares, 2 * key.ciphertext_len())
        .await?;
    let theirs: [Ciphertext; 2] = key.read(&bytes)?;
    let ours = [&side.shares.dividend, &side.shares.divisor];
    let [x, y] = [0, 1].map(|i| key.add_plain(&theirs[i], &ours[i].modulo(key.modulus())));
    let blinding = Blinding::draw(key.bits(), &mut side.rng);
    let nothing = BoxedUint::zero_with_precision(key.bits());
    let [u, v] = [0, 1].map(|row| {
        let [r, s] = [0, 1].map(|column| blinding.0[row][column].modulo(key.modulus()));
        let sum = key.add(&key.scale(&x, &r), &key.scale(&y, &s));
        // The randomness of the sum is a function of what the peer drew.
        key.add(&sum, &key.encrypt(&nothing, &mut side.rng))
    });
    side.channel
        .send(Kind::Products, &key.write(&[&u, &v]))
        .await?;
    let bytes = side
        .channel
        .receive(Kind::Blinded, 1 + sizes.blinded)
        .await?;
    let result = read(&bytes)?.and_then(|q| blinding.recover(&q, sizes.precision, &division));
    let message = write(result.as_ref(), sizes.result)?;
    side.channel.send(Kind::Output, &message).await?;
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
        // With signs, so that those of the sums tell nothing of those of the numbers.
        Self([(); 2].map(|()| {
            [(); 2].map(|()| {
                let sign = Integer::random(1, rng).is_zero();
                Integer::random(bits, rng).negated_if(sign)
            })
        }))
    }

    /// Recovers the quotient from that of the blinded numbers; nothing if the divisor was 0.
    fn recover(&self, blinded: &Integer, precision: u32, division: &Division) -> Option<Integer> {
        let [[r1, r2], [r3, r4]] = &self.0;
        let numerator = r4.times(blinded).minus(&r2.shifted_left(precision));
        let denominator = r1.shifted_left(precision).minus(&r3.times(blinded));
        // Fractions of numbers of this width differ by more than this from what is to the right of the
        // next digit, so that a quotient just below the true one is not cut to the digit before.
        let half = to_u32(division.width()) + 1;
        let rounded = (numerator.magnitude())
            .shifted_left(to_u32(division.fraction) + half)
            .plus(&denominator.magnitude());
        let (quotient, _) = rounded.divided_by(&denominator.magnitude().shifted_left(half))?;
        // No divisor but 0 gives a larger quotient than 1 does.
        let limit = to_u32(division.width() + division.fraction);
        let largest = Integer::power_of_two(limit);
        if quotient > largest {
            return None;
        }
        Some(quotient.negated_if(numerator.is_negative() ^ denominator.is_negative()))
    }
}
