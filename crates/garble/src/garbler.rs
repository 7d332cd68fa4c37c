//! The garbler's side of one garbling.

use std::{ops::Range, sync::Arc};

use transpute_circuit::{Bits, InputSplit, OutputBit, Program};
use zeroize::Zeroizing;

use crate::{
    Backend, GarbleError, GarbledOutputs, Label, Params, Scheme, Seed,
    chunk::{Span, check_limit},
    frame::Frame,
    inputs::{Party, PublicLabels, SecretLabels},
    kernel::{HalfGatesGarble, PerPeriod, PerTweak, PrfGarble, TableWriter, ThreeHalvesGarble},
    seed::{Dice, Purpose},
};

/// Garbles instances of one program, one after the other, chunk by chunk.
///
/// All instances share one offset and one counter of gates, so that they can share one oblivious
/// transfer; labels are fresh for each. An instance cannot be garbled twice: the counter only goes
/// forward.
///
/// Memory is the label slots of the program and nothing per gate. No `Debug`: everything inside is
/// secret. Wiped on drop.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// # use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program};
/// use transpute_garble::{Backend, Evaluator, Garbler, Params, Scheme, Seed};
/// # let circuit = Circuit::new(vec![1, 1], vec![1], [Gate { op: Op::And, a: 0, b: 1 }], vec![2])?;
/// let program = Arc::new(Program::compile(&circuit));
/// let split = InputSplit::first_to_garbler(program.input_widths());
/// let params = Params::random(Scheme::HalfGates, 1, &mut rand::rng());
/// let (backend, limit, sid) = (Backend::best(), 65536, [7; 32]);
///
/// let mut garbler = Garbler::new(program.clone(), &split, params, Seed::random(), backend)?;
/// let mut evaluator = Evaluator::new(program, &split, params, backend)?;
/// // The evaluator's input is 1. It gets the label by oblivious transfer, not like this.
/// let mut labels = Vec::new();
/// garbler.evaluator_label_pairs(0, 0..1, &mut labels);
/// evaluator.begin_instance(None, &[labels[0][1]])?;
///
/// garbler.begin_instance(&Bits::from_u128(1, 1))?;
/// while !garbler.is_instance_done() {
///     let mut chunk = Vec::new();
///     garbler.garble_chunk(limit, &mut chunk)?;
///     evaluator.evaluate_chunk(&chunk, limit)?;
/// }
/// let decode = garbler.take_outputs()?.decode_info(&sid, true);
/// assert_eq!(evaluator.take_outputs()?.decode(&decode, &sid)?.to_string(), "1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Garbler {
    frame: Frame,
    secret: SecretLabels,
    public: PublicLabels,
    dice: [Dice; 2],
}

impl Garbler {
    /// Prepares to garble `program` with the garbler's inputs as `split` says.
    ///
    /// # Errors
    /// [`GarbleError::RekeyPeriod`], [`GarbleError::SplitMismatch`],
    /// [`GarbleError::BackendUnavailable`].
    pub fn new(
        program: Arc<Program>,
        split: &InputSplit,
        params: Params,
        seed: Seed,
        backend: Backend,
    ) -> Result<Self, GarbleError> {
        let labels_per_slot = params.scheme.labels_per_slot();
        let frame = Frame::new(program, split, params, backend, labels_per_slot)?;
        Ok(Self {
            frame,
            secret: SecretLabels::new(&seed, params.scheme.is_free_xor()),
            public: PublicLabels::new(params.input_seed),
            dice: [
                Dice::new(Purpose::FirstDice),
                Dice::new(Purpose::SecondDice),
            ],
        })
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.frame.program
    }

    /// Returns the public parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.frame.params
    }

    /// Returns the offset between the two labels of every wire under free XOR: the correlation
    /// that oblivious transfer of labels works with.
    #[must_use]
    pub fn delta(&self) -> Option<Label> {
        self.secret.delta()
    }

    /// Begins the next instance; they count from 0. What is left of the previous one, outputs that
    /// were not taken included, is gone.
    ///
    /// # Errors
    /// [`GarbleError::Unfinished`] while chunks of the previous instance are missing,
    /// [`GarbleError::InputCount`], [`GarbleError::TooManyGates`].
    pub fn begin_instance(&mut self, garbler_bits: &Bits) -> Result<(), GarbleError> {
        self.begin_side_by_side(std::slice::from_ref(garbler_bits))
    }

    /// Begins the next instances side by side, 1 or [`LANES`](crate::LANES) of them; see
    /// [`Garbler::begin_instance`] and [`lanes`](crate::lanes).
    ///
    /// # Errors
    /// [`GarbleError::Unfinished`] while chunks of the previous instances are missing,
    /// [`GarbleError::LaneCount`], [`GarbleError::InputCount`], [`GarbleError::TooManyGates`].
    pub fn begin_side_by_side(&mut self, garbler_bits: &[Bits]) -> Result<(), GarbleError> {
        let lanes = garbler_bits.len();
        let instance = self.frame.next_instance(lanes)?;
        let expected = self.frame.garbler_slots.len();
        if let Some(wrong) = garbler_bits.iter().find(|bits| bits.len() != expected) {
            return Err(GarbleError::InputCount {
                expected,
                found: wrong.len(),
            });
        }
        self.frame.make_room(lanes);
        for (lane, bits) in garbler_bits.iter().enumerate() {
            self.place_inputs(instance + lane as u64, bits, lane, lanes);
        }
        self.frame.begin(lanes);
        self.skip_free_instance();
        Ok(())
    }

    /// Returns how many instances are in progress or last finished side by side.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.frame.lanes
    }

    /// Says whether there is nothing left to garble in this instance.
    #[must_use]
    pub fn is_instance_done(&self) -> bool {
        self.frame.is_done()
    }

    /// Returns the length of the next chunk, or `None` where the instance is done. A limit under
    /// [`MIN_CHUNK_LIMIT`](crate::MIN_CHUNK_LIMIT) counts as that.
    #[must_use]
    pub fn next_chunk_len(&self, max_len: usize) -> Option<usize> {
        self.frame.span(max_len).map(|span| span.bytes())
    }

    /// Garbles the next chunk, of at most `max_len` bytes, and appends it to `out`. Returns whether
    /// it was the last of the instance. [`ChunkPlan`](crate::ChunkPlan) tells the lengths.
    ///
    /// # Errors
    /// [`GarbleError::ChunkLimit`]; [`GarbleError::NoInstance`] where nothing is left to garble.
    pub fn garble_chunk(&mut self, max_len: usize, out: &mut Vec<u8>) -> Result<bool, GarbleError> {
        check_limit(max_len, self.frame.lanes)?;
        let span = self.frame.span(max_len).ok_or(GarbleError::NoInstance)?;
        let start = out.len();
        out.resize(start + span.bytes(), 0);
        self.garble(&span, &mut out[start..]);
        Ok(self.is_instance_done())
    }

    /// Appends the active labels of the garbler's input bits `range`, 16 bytes each, to `out`.
    /// `garbler_bits` are all its input bits of that instance. To be sent where
    /// [`Scheme::sends_garbler_labels`] says so; elsewhere the evaluator derives the same labels.
    ///
    /// # Panics
    /// If `range` reaches past the garbler's input bits or `garbler_bits`.
    pub fn garbler_labels(
        &self,
        instance: u64,
        range: Range<usize>,
        garbler_bits: &Bits,
        out: &mut Vec<u8>,
    ) {
        assert!(
            range.end <= self.frame.garbler_slots.len(),
            "past the garbler's inputs"
        );
        if self.frame.params.scheme.is_free_xor() {
            self.public.labels(instance, range, |_, label| {
                out.extend_from_slice(&label.to_bytes());
            });
            return;
        }
        self.secret
            .pairs(Party::Garbler, instance, range, |i, [zero, one]| {
                let active = zero ^ (zero ^ one).masked(garbler_bits.get(i));
                out.extend_from_slice(&active.to_bytes());
            });
    }

    /// Appends the labels of value 0 of the evaluator's input bits `range` to `out`, for any
    /// instance, begun or not.
    ///
    /// # Panics
    /// If `range` reaches past the evaluator's input bits.
    pub fn evaluator_zero_labels(&self, instance: u64, range: Range<usize>, out: &mut Vec<Label>) {
        assert!(
            range.end <= self.frame.evaluator_slots.len(),
            "past the evaluator's inputs"
        );
        out.reserve(range.len());
        self.secret
            .pairs(Party::Evaluator, instance, range, |_, pair| {
                out.push(pair[0])
            });
    }

    /// Appends both labels of the evaluator's input bits `range` to `out`, for any instance, begun
    /// or not. At most one of each may ever leave this process.
    ///
    /// # Panics
    /// If `range` reaches past the evaluator's input bits.
    pub fn evaluator_label_pairs(
        &self,
        instance: u64,
        range: Range<usize>,
        out: &mut Vec<[Label; 2]>,
    ) {
        assert!(
            range.end <= self.frame.evaluator_slots.len(),
            "past the evaluator's inputs"
        );
        out.reserve(range.len());
        self.secret
            .pairs(Party::Evaluator, instance, range, |_, pair| out.push(pair));
    }

    /// Takes what is needed to decode and to check the outputs of the instance just finished; the
    /// next one may then begin. Of instances side by side each call takes those of one, in order.
    ///
    /// # Errors
    /// [`GarbleError::NoOutputs`] where no instance is finished or its outputs were taken.
    pub fn take_outputs(&mut self) -> Result<GarbledOutputs, GarbleError> {
        let lane = self.frame.take()?;
        let outputs = self.frame.program.outputs();
        let mut labels = Zeroizing::new(Vec::with_capacity(outputs.len()));
        for output in outputs {
            if let OutputBit::Slot { slot, .. } = *output {
                labels.push(self.slot_labels(slot as usize, lane));
            }
        }
        let instance = self.frame.instance() + lane as u64;
        let program = self.frame.program.clone();
        Ok(GarbledOutputs::new(program, instance, labels))
    }

    /// Both labels of a slot, by value.
    fn slot_labels(&self, slot: usize, lane: usize) -> [Label; 2] {
        let label = |number: usize| self.frame.slots[number * self.frame.lanes + lane];
        match self.secret.delta() {
            Some(delta) => [label(slot), label(slot) ^ delta],
            None => [label(2 * slot), label(2 * slot + 1)],
        }
    }

    /// Puts the labels of all input bits into their slots in one of `lanes` lanes.
    fn place_inputs(&mut self, instance: u64, garbler_bits: &Bits, lane: usize, lanes: usize) {
        let place = |label: usize| label * lanes + lane;
        let Self {
            frame,
            secret,
            public,
            ..
        } = self;
        let (mine, others) = (&frame.garbler_slots, &frame.evaluator_slots);
        let slots = &mut *frame.slots;
        let Some(delta) = secret.delta() else {
            for (party, of_party) in [(Party::Garbler, mine), (Party::Evaluator, others)] {
                secret.pairs(party, instance, 0..of_party.len(), |i, pair| {
                    let slot = 2 * of_party[i] as usize;
                    slots[place(slot)] = pair[0];
                    slots[place(slot + 1)] = pair[1];
                });
            }
            return;
        };
        public.labels(instance, 0..mine.len(), |i, active| {
            slots[place(mine[i] as usize)] = active ^ delta.masked(garbler_bits.get(i));
        });
        secret.pairs(Party::Evaluator, instance, 0..others.len(), |i, pair| {
            slots[place(others[i] as usize)] = pair[0];
        });
    }

    /// Does an instance that has no tables.
    fn skip_free_instance(&mut self) {
        // Any limit: without tables there is one span.
        if let Some(span) = self.frame.span(0)
            && span.bytes() == 0
        {
            self.garble(&span, &mut []);
        }
    }

    fn garble(&mut self, span: &Span, chunk: &mut [u8]) {
        let frame = &mut self.frame;
        let params = frame.params;
        let start = u128::from_le_bytes(params.start);
        // Unused where there is none.
        let delta = self.secret.delta().unwrap_or(Label::ZERO);
        let prg = self.secret.prg();
        let tables = TableWriter::new(chunk, span.ciphertext_bytes);
        match params.scheme {
            Scheme::HalfGates if params.rekey_period == 1 => {
                frame.run(
                    span,
                    HalfGatesGarble::new(PerTweak { start }, delta, tables),
                );
            }
            Scheme::HalfGates => {
                let log_period = params.rekey_period.trailing_zeros();
                let hash = PerPeriod { start, log_period };
                frame.run(span, HalfGatesGarble::new(hash, delta, tables));
            }
            Scheme::FixedKey => frame.run(
                span,
                HalfGatesGarble::new(PerPeriod::FIXED_KEY, delta, tables),
            ),
            Scheme::Prf => {
                let kernel = PrfGarble {
                    nonce: params.nonce,
                    prg,
                    dice: &mut self.dice[0],
                    tables,
                };
                frame.run(span, kernel);
            }
            Scheme::ThreeHalves => {
                let kernel = ThreeHalvesGarble {
                    start,
                    delta,
                    prg,
                    dice: &mut self.dice,
                    tables,
                };
                frame.run(span, kernel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use transpute_circuit::generators;

    use super::*;
    use crate::Evaluator;

    #[test]
    fn more_than_2_to_the_56_tweaks_are_refused() {
        let program = Arc::new(Program::compile(&generators::aes128()));
        let split = InputSplit::first_to_garbler(program.input_widths());
        for scheme in Scheme::ALL {
            let params = Params::random(scheme, 1, &mut rand::rng());
            let seed = Seed::random();
            let backend = Backend::Portable;
            let gates = if scheme == Scheme::Prf {
                program.gates().len() as u64
            } else {
                program.and_count()
            };
            let last = (1 << 56) / (gates * scheme.tweaks_per_gate());
            let mut garbler = Garbler::new(program.clone(), &split, params, seed, backend).unwrap();
            let mut evaluator = Evaluator::new(program.clone(), &split, params, backend).unwrap();
            let bits = Bits::zeros(128);
            let labels = vec![Label::ZERO; 128];
            let sent = scheme.sends_garbler_labels().then_some(&labels[..]);
            for instance in [last, u64::MAX - 1, u64::MAX] {
                garbler.frame.skip_to(instance);
                let refused = Err(GarbleError::TooManyGates { instance });
                assert_eq!(garbler.begin_instance(&bits), refused);
                evaluator.skip_to(instance);
                assert_eq!(evaluator.begin_instance(sent, &labels), refused);
            }
            // The last one that fits, up to its last gate.
            garbler.frame.skip_to(last - 1);
            garbler.begin_instance(&bits).unwrap();
            let mut out = Vec::new();
            while !garbler.garble_chunk(1 << 20, &mut out).unwrap() {}
            assert_eq!(garbler.take_outputs().unwrap().instance(), last - 1);
        }
    }
}
