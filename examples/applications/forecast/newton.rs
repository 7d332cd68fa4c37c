//! Newton-based two-party division: protocol 4 of the paper's reference [3], as far as the paper
//! describes it.
//!
//! With `N = 2^(2 l - 1)`, the parties compute shares of the reciprocal `z = N / y` modulo the
//! modulus of the encryption, by `z' = 2 z - ceil(z^2 y / N)`. Then they compute shares of the
//! quotient `x z / N`:
//!
//! 1. A garbled circuit reveals to both the number of significant bits of the divisor, which gives
//!    the first estimate. The paper compares the lengths of the two shares, which suffices if both
//!    have the same sign. Otherwise it proposes to add them, and the circuit does that.
//! 2. Each iteration multiplies shares under encryption, in one round trip. In a second round trip,
//!    it scales the product down with one oblivious transfer. For scaling, the parties need to know
//!    how often the sum of their shares wraps around the modulus. This number depends on the
//!    garbler's share, and on whether the evaluator's share is in the upper half of the range.
//! 3. The quotient is computed from dividend and reciprocal in the same way, and its shares are
//!    exchanged.
//!
//! The paper refers to [3] for the rest, so two parts are our own: all products of an iteration are
//! in one message, and the details of scaling. There are two refinements. The first estimate is 4/3
//! of the paper's estimate. Its error is at most a third instead of a half, which saves an
//! iteration. The first iteration needs no encryption, because the estimate is public. The paper
//! needs about `log l` iterations for a quotient without fraction bits. Here, the quotient has as
//! many fraction bits as the numbers have bits, and may be off by one in the last bit.
//!
//! # Leakage
//! In addition to the quotient, both **semi-honest parties** learn the number of significant bits
//! of the divisor and, for signed numbers, its sign. Everything else is masked with numbers drawn
//! from the whole range.

use std::sync::Arc;

use crypto_bigint::BoxedUint;
use transpute::{
    Bits, Config, InputSplit, OutputPolicy, Program, Role,
    ot::{BASE_SENDER_LEN, BaseReceiver, BaseSender, base_receiver_len},
    session::{Call, FrameDecoder, Progressed, SessionConnection, SessionEvent},
};
use zeroize::Zeroizing;

use crate::{
    baseline::PartyState,
    circuit,
    division::{Division, Quotient, to_u32},
    integer::Integer,
    paillier::{Ciphertext, PublicKey, SecretKey},
    wire::{Kind, ProtocolError},
};

/// Number of additional bits of the reciprocal, which compensate the rounding errors of scaling.
const GUARD_BITS: u32 = 3;

/// Maximum length of a message of the garbled circuit for the first estimate, in bytes. It suffices
/// for numbers of [`MAX_BITS`](crate::division::MAX_BITS) bits.
const MAX_GARBLED: usize = 1 << 20;

/// Returns the exponent `2 l - 1` of `N`, the numerator of the reciprocal.
fn scale_bits(division: &Division) -> u32 {
    2 * (to_u32(division.width().max(division.fraction)) + GUARD_BITS) - 1
}

/// Returns the minimum length of the key for a division, in bits. A product stays below a quarter
/// of the modulus.
pub(crate) fn key_bits(division: &Division) -> u32 {
    2 * scale_bits(division) + 6
}

/// Returns the number of iterations. The relative error of the first estimate is at most a third.
/// Each iteration squares the error, until it is less than a quarter of the quotient's last bit.
pub(crate) fn iterations(division: &Division) -> u32 {
    let needed = f64::from(to_u32(division.width() + division.fraction) + 2);
    let good_bits = |iterations: u32| 3_f64.log2() * 2_f64.powi(iterations.cast_signed());
    (1..).find(|&count| good_bits(count) >= needed).unwrap_or(1)
}

/// A share modulo the modulus of the encryption.
type Share = Zeroizing<BoxedUint>;

/// The state of a party.
struct Computation<'a> {
    state: &'a mut PartyState,
    key: &'a PublicKey,
    /// Number of oblivious transfers so far.
    transfers: u64,
}

/// The public information about the divisor.
struct Estimate {
    /// The first estimate of the reciprocal `N / |y|` of the divisor's magnitude.
    reciprocal: Integer,
    is_negative: bool,
}

/// Runs the evaluator, which holds the key.
///
/// # Errors
/// Returns [`ProtocolError`] if the link fails or the peer violates the protocol.
pub(crate) async fn evaluator(
    state: &mut PartyState,
    key: &SecretKey,
) -> Result<Quotient, ProtocolError> {
    let mut computation = Computation::new(state, key.public());
    let Some(estimate) = computation.estimate(Role::Evaluator).await? else {
        return Ok(Quotient::DivisorIsZero);
    };
    let division = computation.state.task.division;
    let divisor = computation
        .state
        .shares
        .divisor
        .negated_if(estimate.is_negative);
    let y = computation.share(&divisor);
    let mut z = computation.share(&estimate.reciprocal);
    let encrypted_y = computation.encrypt(&y);
    for round in 0..iterations(&division) {
        let square = computation.times(&z, &z);
        let own = computation.times(&square, &y);
        let product = if round == 0 {
            own
        } else {
            // These are terms of z^2 y with z = z1 + z2 and y = y1 + y2. The garbler knows the
            // other factor of each term.
            let mixed = computation.times(&z, &y);
            let [cube, square, mixed, z] =
                [&own, &square, &mixed, &z].map(|n| computation.encrypt(n));
            let message = computation
                .key
                .write(&[&cube, &square, &mixed, &z, &encrypted_y]);
            computation.product(key, message).await?
        };
        let scaled = computation
            .scale_as_evaluator(&product, scale_bits(&division))
            .await?;
        // The iteration needs `z^2 y / N` rounded up. Adding 2 ensures that `scaled` is not below
        // it, because the result of scaling is too low by at most 2.
        let scaled = computation.plus(&scaled, &computation.share(&Integer::from(2)));
        z = computation.minus(&computation.plus(&z, &z), &scaled);
    }
    let x = computation.share(&computation.state.shares.dividend);
    let own = computation.times(&x, &z);
    let encrypted = [&x, &z].map(|n| computation.encrypt(n));
    let message = computation.key.write(&[&encrypted[0], &encrypted[1]]);
    let product = computation.product(key, message).await?;
    let product = computation.plus(&product, &own);
    let distance = scale_bits(&division) - to_u32(division.fraction);
    let scaled = computation.scale_as_evaluator(&product, distance).await?;
    // In about half of the cases, the result of scaling is too low by one. So one is added.
    let share = computation.plus(&scaled, &computation.share(&Integer::from(1)));
    computation.open(&share, &estimate).await
}

/// Runs the garbler, which has no secret key.
///
/// # Errors
/// Returns [`ProtocolError`] if the link fails or the peer violates the protocol.
pub(crate) async fn garbler(
    state: &mut PartyState,
    key: &PublicKey,
) -> Result<Quotient, ProtocolError> {
    let mut computation = Computation::new(state, key);
    let Some(estimate) = computation.estimate(Role::Garbler).await? else {
        return Ok(Quotient::DivisorIsZero);
    };
    let division = computation.state.task.division;
    let divisor = computation
        .state
        .shares
        .divisor
        .negated_if(estimate.is_negative);
    let y = computation.share(&divisor);
    let mut z = computation.share(&Integer::zero());
    for round in 0..iterations(&division) {
        let product = if round == 0 {
            let reciprocal = computation.share(&estimate.reciprocal);
            computation.times(&computation.times(&reciprocal, &reciprocal), &y)
        } else {
            let [cube, square, mixed, theirs, their_y] = computation.receive_factors().await?;
            let [own_square, twice] = [computation.times(&z, &z), computation.plus(&z, &z)];
            let sum = [
                (&square, &y),
                (&mixed, &twice),
                (&theirs, &computation.times(&twice, &y)),
                (&their_y, &own_square),
            ];
            let own = computation.times(&own_square, &y);
            computation.answer(Some(cube), &sum, &own).await?
        };
        let scaled = computation
            .scale_as_garbler(&product, scale_bits(&division))
            .await?;
        z = computation.minus(&computation.plus(&z, &z), &scaled);
    }
    let x = computation.share(&computation.state.shares.dividend);
    let [their_x, their_z] = computation.receive_factors().await?;
    let own = computation.times(&x, &z);
    let product = computation
        .answer(None, &[(&their_x, &z), (&their_z, &x)], &own)
        .await?;
    let distance = scale_bits(&division) - to_u32(division.fraction);
    let share = computation.scale_as_garbler(&product, distance).await?;
    computation.open(&share, &estimate).await
}

impl<'a> Computation<'a> {
    fn new(state: &'a mut PartyState, key: &'a PublicKey) -> Self {
        Self {
            state,
            key,
            transfers: 0,
        }
    }

    fn share(&self, value: &Integer) -> Share {
        Zeroizing::new(value.modulo(self.key.modulus()))
    }

    fn plus(&self, a: &Share, b: &Share) -> Share {
        Zeroizing::new(a.add_mod(b, self.key.modulus()))
    }

    fn minus(&self, a: &Share, b: &Share) -> Share {
        Zeroizing::new(a.sub_mod(b, self.key.modulus()))
    }

    fn times(&self, a: &Share, b: &Share) -> Share {
        Zeroizing::new(a.mul_mod(b, self.key.modulus()))
    }

    fn encrypt(&mut self, value: &Share) -> Ciphertext {
        self.key.encrypt(value, &mut self.state.rng)
    }

    /// Computes the first estimate with a garbled circuit. Returns `None` if the divisor is 0.
    async fn estimate(&mut self, role: Role) -> Result<Option<Estimate>, ProtocolError> {
        let division = self.state.task.division;
        let width = division.width();
        let circuit = circuit::significant_bits(width, division.signed)?;
        let program = Arc::new(Program::compile(&circuit));
        let input = self.state.shares.divisor.to_bits(width);
        let bits = evaluate(self.state, role, program.clone(), input).await?;
        let outputs = program.split_outputs(&bits);
        let (count, is_negative) = match (division.signed, &outputs[..]) {
            (false, [count]) => (count, false),
            (true, [count, sign]) => (count, sign.get(0)),
            _ => {
                return Err(ProtocolError::Value(
                    "outputs that do not match the circuit",
                ));
            }
        };
        let count = count.to_u128().and_then(|count| u32::try_from(count).ok());
        let count = count.filter(|&count| count <= to_u32(width));
        let Some(count) = count else {
            return Err(ProtocolError::Value(
                "a number of bits that exceeds the divisor's",
            ));
        };
        if count == 0 {
            return Ok(None);
        }
        let four = Integer::power_of_two(scale_bits(&division) - count + 2);
        let third = four.divided_by(&Integer::from(3));
        Ok(third.map(|(reciprocal, _)| Estimate {
            reciprocal,
            is_negative,
        }))
    }

    /// Sends encrypted factors to the garbler. Receives and decrypts this party's share of the
    /// product.
    async fn product(&mut self, key: &SecretKey, factors: Vec<u8>) -> Result<Share, ProtocolError> {
        self.state.channel.send(Kind::Shares, &factors).await?;
        let len = self.key.ciphertext_len();
        let bytes = self.state.channel.receive(Kind::Products, len).await?;
        let [product] = self.key.read(&bytes)?;
        Ok(Zeroizing::new(key.decrypt(&product)))
    }

    async fn receive_factors<const N: usize>(&mut self) -> Result<[Ciphertext; N], ProtocolError> {
        let len = N * self.key.ciphertext_len();
        let bytes = self.state.channel.receive(Kind::Shares, len).await?;
        Ok(self.key.read(&bytes)?)
    }

    /// Sends the garbler's answer: an encryption of `first`, plus the products in `sum`, minus a
    /// random mask. Returns the mask plus `own`, which is the garbler's share of the total.
    async fn answer(
        &mut self,
        first: Option<Ciphertext>,
        sum: &[(&Ciphertext, &Share)],
        own: &Share,
    ) -> Result<Share, ProtocolError> {
        let mask = Zeroizing::new(self.key.random(&mut self.state.rng));
        // The fresh encryption of minus the mask re-randomizes the answer. Without it, the answer's
        // randomness could reveal the factors.
        let mut answer = self.encrypt(&self.minus(&self.share(&Integer::zero()), &mask));
        if let Some(first) = first {
            answer = self.key.add(&answer, &first);
        }
        for (ciphertext, factor) in sum {
            answer = self.key.add(&answer, &self.key.scale(ciphertext, factor));
        }
        let message = self.key.write(&[&answer]);
        self.state.channel.send(Kind::Products, &message).await?;
        Ok(self.plus(&mask, own))
    }

    /// Divides a split number by 2^`distance`. The result is rounded down, or one less. The garbler
    /// offers one result for each half of the range of shares. By oblivious transfer, the evaluator
    /// selects the result for the half that contains its share.
    async fn scale_as_evaluator(
        &mut self,
        share: &Share,
        distance: u32,
    ) -> Result<Share, ProtocolError> {
        let value = Integer::new(false, share);
        let modulus = Integer::new(false, self.key.modulus().as_ref());
        let is_upper = value.shifted_left(1) >= modulus;
        let session = self.next_transfer();
        let (receiver, message) = BaseReceiver::start(&[is_upper], &session, &mut self.state.rng);
        self.state.channel.send(Kind::Choice, &message).await?;
        let len = self.key.message_len();
        let bytes = self
            .state
            .channel
            .receive(Kind::Masked, BASE_SENDER_LEN + 2 * len)
            .await?;
        let (sender, pair) = bytes.split_at(BASE_SENDER_LEN);
        let keys = receiver.finish(&session, sender)?;
        let (lower, upper) = pair.split_at(len);
        let mut chosen = Zeroizing::new(if is_upper { upper } else { lower }.to_vec());
        for key in keys.iter() {
            mask(*key, is_upper, &mut chosen);
        }
        let offset = Integer::from_le_bytes(false, &chosen);
        if offset >= modulus {
            return Err(ProtocolError::Value("a share that exceeds the modulus"));
        }
        Ok(self.share(&value.shifted_right(distance).plus(&offset)))
    }

    /// Runs the garbler's side of scaling. It offers one result for each half of the range of the
    /// evaluator's share.
    async fn scale_as_garbler(
        &mut self,
        share: &Share,
        distance: u32,
    ) -> Result<Share, ProtocolError> {
        let session = self.next_transfer();
        let choice = self
            .state
            .channel
            .receive(Kind::Choice, base_receiver_len(1))
            .await?;
        let (sender, message) = BaseSender::start(&mut self.state.rng);
        let keys = sender.finish(&session, &session, &choice, 1)?;
        let own = Zeroizing::new(self.key.random(&mut self.state.rng));
        let value = Integer::new(false, share);
        let modulus = Integer::new(false, self.key.modulus().as_ref());
        let mut bytes = message.to_vec();
        for is_upper in [false, true] {
            let wraps = wraps(is_upper, &value, &modulus);
            let unwrapped = value.minus(&modulus.times(&Integer::from(wraps)));
            let offset = self.minus(&self.share(&unwrapped.shifted_right(distance)), &own);
            let mut offset = Zeroizing::new(offset.to_le_bytes().into_vec());
            for pair in keys.iter() {
                mask(pair[usize::from(is_upper)], is_upper, &mut offset);
            }
            bytes.extend_from_slice(&offset);
        }
        self.state.channel.send(Kind::Masked, &bytes).await?;
        Ok(own)
    }

    /// Returns the identifier of the next oblivious transfer, which is unique in this run. The keys
    /// of the transfer depend on it.
    fn next_transfer(&mut self) -> [u8; 32] {
        self.transfers += 1;
        blake3::Hasher::new_derive_key("transpute forecast v1: oblivious transfer")
            .update(&self.state.session)
            .update(&self.transfers.to_le_bytes())
            .finalize()
            .into()
    }

    /// Exchanges the shares of the quotient and returns the quotient.
    async fn open(
        &mut self,
        share: &Share,
        estimate: &Estimate,
    ) -> Result<Quotient, ProtocolError> {
        let division = self.state.task.division;
        self.state
            .channel
            .send(Kind::Output, &share.to_le_bytes())
            .await?;
        let len = self.key.message_len();
        let bytes = self.state.channel.receive(Kind::Output, len).await?;
        let theirs = Integer::from_le_bytes(false, &bytes);
        let sum = self.share(&Integer::new(false, share).plus(&theirs));
        let value = Integer::centred(&sum, self.key.modulus());
        // The result may have one more bit than the exact quotient, because it may be off by one.
        if value.bits() > to_u32(division.width() + division.fraction) + 1 {
            return Err(ProtocolError::Value("a share that gives no valid quotient"));
        }
        Ok(Quotient::Value(value.negated_if(estimate.is_negative)))
    }
}

/// Returns how many times the modulus must be subtracted from the sum of two shares to get the
/// shared number: 0 to 2. The number may be negative, and its magnitude is below a quarter of the
/// modulus. `is_upper` is whether the other share is in the upper half of the range.
fn wraps(is_upper: bool, share: &Integer, modulus: &Integer) -> i128 {
    let fourfold = share.shifted_left(2);
    let first = if is_upper {
        modulus.times(&Integer::from(3))
    } else {
        modulus.clone()
    };
    i128::from(is_upper) + i128::from(fourfold >= first)
}

/// Masks or unmasks a message with a stream derived from a key of an oblivious transfer.
fn mask(key: u128, branch: bool, message: &mut [u8]) {
    let mut stream = blake3::Hasher::new_derive_key("transpute forecast v1: transferred share");
    stream
        .update(&key.to_le_bytes())
        .update(&[u8::from(branch)]);
    let mut pad = Zeroizing::new(vec![0; message.len()]);
    stream.finalize_xof().fill(&mut pad);
    for (byte, pad) in message.iter_mut().zip(pad.iter()) {
        *byte ^= pad;
    }
}

/// Runs one party of a garbled circuit over the channel. Both parties learn the outputs.
async fn evaluate(
    state: &mut PartyState,
    role: Role,
    program: Arc<Program>,
    input: Bits,
) -> Result<Bits, ProtocolError> {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let mut config = Config::default();
    config.output = OutputPolicy::Both;
    let encrypted = state.channel.is_encrypted();
    let call = Call {
        program,
        split,
        config,
        inputs: Some(Box::new(vec![input])),
    };
    let (mut connection, _) = SessionConnection::single(role, call, encrypted, None)?;
    let mut output = None;
    let mut decoder = FrameDecoder::new();
    let mut outgoing = Vec::new();
    loop {
        let progressed = loop {
            match connection.poll(&mut outgoing, true)? {
                Progressed::Worked if outgoing.len() < MAX_GARBLED / 4 => {}
                other => break other,
            }
        };
        if !outgoing.is_empty() {
            state.channel.send(Kind::Garbled, &outgoing).await?;
            outgoing.clear();
        }
        while let Some(event) = connection.next_event() {
            match event {
                SessionEvent::Output(_, found) => output = Some(found.bits),
                SessionEvent::Ended(_, result) => drop(result?),
                _ => {}
            }
        }
        match progressed {
            Progressed::Worked => continue,
            Progressed::Finished => break,
            Progressed::Idle => {}
        }
        let bytes = state
            .channel
            .receive_within(Kind::Garbled, 1..=MAX_GARBLED)
            .await?;
        decoder.buffer().extend_from_slice(&bytes);
        while let Some(frame) = decoder
            .next_frame()
            .map_err(transpute::SessionError::from)?
        {
            connection.handle(frame)?;
        }
    }
    output.ok_or(ProtocolError::Value("no outputs of the circuit"))
}
