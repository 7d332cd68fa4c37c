//! The Newton-based two-party division: protocol 4 of reference [3] of the paper, as far as the paper
//! tells it.
//!
//! With `N = 2^(2 l - 1)` the parties compute shares of the reciprocal `z = N / y` modulo the modulus of
//! the encryption, by `z' = 2 z - ceil(z^2 y / N)`, and then of the quotient `x z / N`:
//!
//! 1. A garbled circuit tells both the number of significant bits of the divisor, and so the first
//!    estimate. The paper compares the numbers of bits of the two shares, which is enough where both have
//!    the same sign, and says what else takes: to add them. That is done here.
//! 2. Each iteration multiplies shares under encryption, one round trip, and scales the product down, a
//!    second one with one oblivious transfer: the parties need to know how often the sum of their shares
//!    wraps, which one half of the evaluator's share and the garbler's share tell.
//! 3. So is the quotient made of dividend and reciprocal, and its shares are exchanged.
//!
//! What the paper leaves to [3] is ours: all products of an iteration in one message, and the scaling in
//! detail. Two refinements of ours: the first estimate is 4/3 of the paper's, which is off by a third at
//! most instead of a half and saves an iteration, and the first iteration needs no encryption, because
//! the estimate is public. The paper has about `log l` iterations for a quotient without bits after
//! the point; here it has as many as the numbers have and may be off by one in the last of them.
//!
//! # What leaks
//! Beyond the quotient, both **semi-honest parties** learn the number of significant bits of the divisor
//! and, where numbers have signs, its sign. All else is masked with numbers drawn from the whole range.

use std::sync::Arc;

use crypto_bigint::BoxedUint;
use transpute::{
    Bits, Config, InputSplit, OutputPolicy, Program, Role,
    ot::{BASE_SENDER_LEN, BaseReceiver, BaseSender, base_receiver_len},
    session::{Call, Connection, Event, FrameDecoder, Progressed},
};
use zeroize::Zeroizing;

use crate::{
    baseline::Side,
    circuit,
    division::{Division, Quotient, to_u32},
    integer::Integer,
    paillier::{Ciphertext, PublicKey, SecretKey},
    wire::{Kind, ProtocolError},
};

/// Bits by which the reciprocal is more exact than it has to be, because scaling rounds.
const GUARD_BITS: u32 = 3;

/// The longest message of a garbled circuit of at most [`MAX_BITS`](crate::division::MAX_BITS) bits.
const MAX_GARBLED: usize = 1 << 20;

/// The exponent of `N`.
fn scale_bits(division: &Division) -> u32 {
    2 * (to_u32(division.width().max(division.fraction)) + GUARD_BITS) - 1
}

/// Returns the shortest key for a division, in bits: a product keeps below a quarter of the modulus.
pub(crate) fn key_bits(division: &Division) -> u32 {
    2 * scale_bits(division) + 6
}

/// Returns the number of iterations: the error of the reciprocal is a third at first and is squared by
/// each, until it is less than a quarter of the last bit of any quotient.
pub(crate) fn iterations(division: &Division) -> u32 {
    let needed = f64::from(to_u32(division.width() + division.fraction) + 2);
    let good_bits = |iterations: u32| 3_f64.log2() * 2_f64.powi(iterations.cast_signed());
    (1..).find(|&count| good_bits(count) >= needed).unwrap_or(1)
}

/// A share modulo the modulus of the encryption.
type Share = Zeroizing<BoxedUint>;

/// What a party computes with.
struct Work<'a> {
    side: &'a mut Side,
    key: &'a PublicKey,
    /// How many oblivious transfers there were.
    transfers: u64,
}

/// What both parties know of the divisor.
struct Estimate {
    /// The first reciprocal, of the magnitude.
    reciprocal: Integer,
    is_negative: bool,
}

/// The side of the party with the key.
///
/// # Errors
/// [`ProtocolError`].
pub(crate) async fn evaluator(side: &mut Side, key: &SecretKey) -> Result<Quotient, ProtocolError> {
    let mut work = Work::new(side, key.public());
    let Some(estimate) = work.estimate(Role::Evaluator).await? else {
        return Ok(Quotient::DivisorIsZero);
    };
    let division = work.side.task.division;
    let divisor = work.side.shares.divisor.negated_if(estimate.is_negative);
    let y = work.share(&divisor);
    let mut z = work.share(&estimate.reciprocal);
    let encrypted_y = work.encrypt(&y);
    for round in 0..iterations(&division) {
        let square = work.times(&z, &z);
        let own = work.times(&square, &y);
        let product = if round == 0 {
            own
        } else {
            // z^2 y with z = z1 + z2 and y = y1 + y2: the garbler knows the factors of each of these.
            let mixed = work.times(&z, &y);
            let [cube, square, mixed, z] = [&own, &square, &mixed, &z].map(|n| work.encrypt(n));
            let message = work.key.write(&[&cube, &square, &mixed, &z, &encrypted_y]);
            work.product(key, message).await?
        };
        let scaled = work
            .scale_as_evaluator(&product, scale_bits(&division))
            .await?;
        // What is taken off is no less than the true value, by two at most.
        let scaled = work.plus(&scaled, &work.share(&Integer::from(2)));
        z = work.minus(&work.plus(&z, &z), &scaled);
    }
    let x = work.share(&work.side.shares.dividend);
    let own = work.times(&x, &z);
    let encrypted = [&x, &z].map(|n| work.encrypt(n));
    let message = work.key.write(&[&encrypted[0], &encrypted[1]]);
    let product = work.product(key, message).await?;
    let product = work.plus(&product, &own);
    let distance = scale_bits(&division) - to_u32(division.fraction);
    let scaled = work.scale_as_evaluator(&product, distance).await?;
    // Scaling is one too low about half of the time.
    let share = work.plus(&scaled, &work.share(&Integer::from(1)));
    work.open(&share, &estimate).await
}

/// The side of the other party.
///
/// # Errors
/// [`ProtocolError`].
pub(crate) async fn garbler(side: &mut Side, key: &PublicKey) -> Result<Quotient, ProtocolError> {
    let mut work = Work::new(side, key);
    let Some(estimate) = work.estimate(Role::Garbler).await? else {
        return Ok(Quotient::DivisorIsZero);
    };
    let division = work.side.task.division;
    let divisor = work.side.shares.divisor.negated_if(estimate.is_negative);
    let y = work.share(&divisor);
    let mut z = work.share(&Integer::zero());
    for round in 0..iterations(&division) {
        let product = if round == 0 {
            let reciprocal = work.share(&estimate.reciprocal);
            work.times(&work.times(&reciprocal, &reciprocal), &y)
        } else {
            let [cube, square, mixed, theirs, their_y] = work.receive_factors().await?;
            let [own_square, twice] = [work.times(&z, &z), work.plus(&z, &z)];
            let sum = [
                (&square, &y),
                (&mixed, &twice),
                (&theirs, &work.times(&twice, &y)),
                (&their_y, &own_square),
            ];
            let own = work.times(&own_square, &y);
            work.answer(Some(cube), &sum, &own).await?
        };
        let scaled = work
            .scale_as_garbler(&product, scale_bits(&division))
            .await?;
        z = work.minus(&work.plus(&z, &z), &scaled);
    }
    let x = work.share(&work.side.shares.dividend);
    let [their_x, their_z] = work.receive_factors().await?;
    let own = work.times(&x, &z);
    let product = work
        .answer(None, &[(&their_x, &z), (&their_z, &x)], &own)
        .await?;
    let distance = scale_bits(&division) - to_u32(division.fraction);
    let share = work.scale_as_garbler(&product, distance).await?;
    work.open(&share, &estimate).await
}

impl<'a> Work<'a> {
    fn new(side: &'a mut Side, key: &'a PublicKey) -> Self {
        Self {
            side,
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
        self.key.encrypt(value, &mut self.side.rng)
    }

    /// Makes the first estimate; none for the divisor 0.
    async fn estimate(&mut self, role: Role) -> Result<Option<Estimate>, ProtocolError> {
        let division = self.side.task.division;
        let width = division.width();
        let circuit = circuit::significant_bits(width, division.signed)?;
        let program = Arc::new(Program::compile(&circuit));
        let input = self.side.shares.divisor.to_bits(width);
        let bits = evaluate(self.side, role, program.clone(), input).await?;
        let outputs = program.split_outputs(&bits);
        let (count, is_negative) = match (division.signed, &outputs[..]) {
            (false, [count]) => (count, false),
            (true, [count, sign]) => (count, sign.get(0)),
            _ => return Err(ProtocolError::Value("other outputs than the circuit has")),
        };
        let count = count.to_u128().and_then(|count| u32::try_from(count).ok());
        let count = count.filter(|&count| count <= to_u32(width));
        let Some(count) = count else {
            return Err(ProtocolError::Value("more bits than the divisor has"));
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

    /// Sends encrypted factors and decrypts this party's share of the product.
    async fn product(&mut self, key: &SecretKey, factors: Vec<u8>) -> Result<Share, ProtocolError> {
        self.side.channel.send(Kind::Shares, &factors).await?;
        let len = self.key.ciphertext_len();
        let bytes = self.side.channel.receive(Kind::Products, len).await?;
        let [product] = self.key.read(&bytes)?;
        Ok(Zeroizing::new(key.decrypt(&product)))
    }

    async fn receive_factors<const N: usize>(&mut self) -> Result<[Ciphertext; N], ProtocolError> {
        let len = N * self.key.ciphertext_len();
        let bytes = self.side.channel.receive(Kind::Shares, len).await?;
        Ok(self.key.read(&bytes)?)
    }

    /// Sends `first` plus the sum of products less a mask, encrypted; returns the mask plus `own`.
    async fn answer(
        &mut self,
        first: Option<Ciphertext>,
        sum: &[(&Ciphertext, &Share)],
        own: &Share,
    ) -> Result<Share, ProtocolError> {
        let mask = Zeroizing::new(self.key.random(&mut self.side.rng));
        // With randomness of its own, which hides the factors.
        let mut answer = self.encrypt(&self.minus(&self.share(&Integer::zero()), &mask));
        if let Some(first) = first {
            answer = self.key.add(&answer, &first);
        }
        for (ciphertext, factor) in sum {
            answer = self.key.add(&answer, &self.key.scale(ciphertext, factor));
        }
        let message = self.key.write(&[&answer]);
        self.side.channel.send(Kind::Products, &message).await?;
        Ok(self.plus(&mask, own))
    }

    /// Divides a split number by a power of two, rounding down and then at times once more; the
    /// evaluator says by oblivious transfer in which half of the range its share is.
    async fn scale_as_evaluator(
        &mut self,
        share: &Share,
        distance: u32,
    ) -> Result<Share, ProtocolError> {
        let value = Integer::new(false, share);
        let modulus = Integer::new(false, self.key.modulus().as_ref());
        let is_upper = value.shifted_left(1) >= modulus;
        let session = self.next_transfer();
        let (receiver, message) = BaseReceiver::start(&[is_upper], &session, &mut self.side.rng);
        self.side.channel.send(Kind::Choice, &message).await?;
        let len = self.key.message_len();
        let bytes = self
            .side
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
            return Err(ProtocolError::Value("a share past the modulus"));
        }
        Ok(self.share(&value.shifted_right(distance).plus(&offset)))
    }

    /// The other side: it offers one answer for each half.
    async fn scale_as_garbler(
        &mut self,
        share: &Share,
        distance: u32,
    ) -> Result<Share, ProtocolError> {
        let session = self.next_transfer();
        let choice = self
            .side
            .channel
            .receive(Kind::Choice, base_receiver_len(1))
            .await?;
        let (sender, message) = BaseSender::start(&mut self.side.rng);
        let keys = sender.finish(&session, &session, &choice, 1)?;
        let own = Zeroizing::new(self.key.random(&mut self.side.rng));
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
        self.side.channel.send(Kind::Masked, &bytes).await?;
        Ok(own)
    }

    /// Returns what binds the next oblivious transfer to this run and its place in it.
    fn next_transfer(&mut self) -> [u8; 32] {
        self.transfers += 1;
        blake3::Hasher::new_derive_key("transpute forecast v1: oblivious transfer")
            .update(&self.side.session)
            .update(&self.transfers.to_le_bytes())
            .finalize()
            .into()
    }

    /// Exchanges shares of the quotient.
    async fn open(
        &mut self,
        share: &Share,
        estimate: &Estimate,
    ) -> Result<Quotient, ProtocolError> {
        let division = self.side.task.division;
        self.side
            .channel
            .send(Kind::Output, &share.to_le_bytes())
            .await?;
        let len = self.key.message_len();
        let bytes = self.side.channel.receive(Kind::Output, len).await?;
        let theirs = Integer::from_le_bytes(false, &bytes);
        let sum = self.share(&Integer::new(false, share).plus(&theirs));
        let value = Integer::centred(&sum, self.key.modulus());
        // One more for what may be off by one.
        if value.bits() > to_u32(division.width() + division.fraction) + 1 {
            return Err(ProtocolError::Value("a share that makes no quotient"));
        }
        Ok(Quotient::Value(value.negated_if(estimate.is_negative)))
    }
}

/// Returns how often the sum of two shares of a number, whose magnitude is below a quarter of the
/// modulus, exceeds it by the modulus: 0 to 2. `is_upper` says in which half the other share is.
fn wraps(is_upper: bool, share: &Integer, modulus: &Integer) -> i128 {
    let fourfold = share.shifted_left(2);
    let first = if is_upper {
        modulus.times(&Integer::from(3))
    } else {
        modulus.clone()
    };
    i128::from(is_upper) + i128::from(fourfold >= first)
}

/// Masks a message, or unmasks it.
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

/// Evaluates a garbled circuit with this party's input over the channel, both learning the outputs.
async fn evaluate(
    side: &mut Side,
    role: Role,
    program: Arc<Program>,
    input: Bits,
) -> Result<Bits, ProtocolError> {
    let split = InputSplit::first_to_garbler(program.input_widths());
    let config = Config {
        output: OutputPolicy::Both,
        ..Config::default()
    };
    let encrypted = side.channel.is_encrypted();
    let call = Call {
        program,
        split,
        config,
        inputs: Some(Box::new(vec![input])),
    };
    let (mut connection, _) = Connection::single(role, call, encrypted, None)?;
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
            side.channel.send(Kind::Garbled, &outgoing).await?;
            outgoing.clear();
        }
        while let Some(event) = connection.next_event() {
            match event {
                Event::Output(_, found) => output = Some(found.bits),
                Event::Ended(_, result) => drop(result?),
                _ => {}
            }
        }
        match progressed {
            Progressed::Worked => continue,
            Progressed::Finished => break,
            Progressed::Idle => {}
        }
        let bytes = side
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
