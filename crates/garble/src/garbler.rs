//! The garbler's side of one garbling.

mod labels;

use std::{ops::Range, sync::Arc};

use transpute_circuit::{Bits, InputSplit, Load, Program};
use zeroize::Zeroizing;

use labels::{Inputs, Reading};

use crate::{
    Backend, GarbleError, GarbledOutputs, Label, Params, Scheme, Seed,
    chunk::{Span, check_limit},
    frame::Frame,
    inputs::{Owners, Party, PublicLabels, SecretLabels},
    kernel::{HalfGatesGarble, PerPeriod, PerTweak, PrfGarble, TableWriter, ThreeHalvesGarble},
    seed::{Dice, Instances, Purpose, Scratch},
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
/// let (backend, limit, sid) = (Backend::best()?, 65536, [7; 32]);
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
    inputs: Inputs,
    reading: Reading,
    scratch: Scratch,
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
        let sends_labels = params.scheme.sends_garbler_labels();
        let frame = Frame::new(program, split, params, backend, labels_per_slot)?;
        let inputs = Inputs {
            owners: Owners::new(split),
            secret: SecretLabels::new(&seed, params.scheme.is_free_xor()),
            public: PublicLabels::new(params.input_seed),
            sends_labels,
            bits: Vec::new(),
        };
        Ok(Self {
            frame,
            inputs,
            reading: Reading::default(),
            scratch: Scratch::default(),
            dice: [
                Dice::new(Purpose::FirstDice),
                Dice::new(Purpose::SecondDice),
            ],
        })
    }

    /// Makes the labels of the garbler's inputs under every scheme from the seed, so that instances
    /// can be garbled before those inputs are known: with
    /// [`begin_without_inputs`](Self::begin_without_inputs). The evaluator must do
    /// [the same](crate::Evaluator::expecting_garbler_labels), and the active labels are sent.
    ///
    /// # Panics
    /// If an instance has begun.
    #[must_use]
    pub fn sending_garbler_labels(mut self) -> Self {
        assert!(!self.frame.has_begun(), "before the first instance");
        self.inputs.sends_labels = true;
        self
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
        self.inputs.secret.delta()
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
        self.frame.next_instance(lanes)?;
        let expected = self.inputs.owners.count(Party::Garbler);
        if let Some(wrong) = garbler_bits.iter().find(|bits| bits.len() != expected) {
            return Err(GarbleError::InputCount {
                expected,
                found: wrong.len(),
            });
        }
        if !self.inputs.sends_labels {
            self.inputs.bits = garbler_bits.to_vec();
        }
        self.begin(lanes);
        Ok(())
    }

    /// Begins the next instances side by side, as
    /// [`begin_side_by_side`](Self::begin_side_by_side), whatever the garbler's inputs are going to
    /// be.
    ///
    /// # Errors
    /// [`GarbleError::Unfinished`] while chunks of the previous instances are missing,
    /// [`GarbleError::LaneCount`], [`GarbleError::TooManyGates`].
    ///
    /// # Panics
    /// Where the labels of these inputs are not sent: see
    /// [`sending_garbler_labels`](Self::sending_garbler_labels).
    pub fn begin_without_inputs(&mut self, lanes: usize) -> Result<(), GarbleError> {
        assert!(
            self.inputs.sends_labels,
            "labels that are not sent depend on inputs"
        );
        self.frame.next_instance(lanes)?;
        self.begin(lanes);
        Ok(())
    }

    /// Leaves out the instances before `instance`, which is the next to begin: another garbler of the
    /// same program, parameters and seed does those, on another thread.
    ///
    /// # Errors
    /// [`GarbleError::Unfinished`] while chunks of the previous instance are missing.
    ///
    /// # Panics
    /// If `instance` has begun already.
    ///
    /// # Security
    /// No instance may be garbled by both with different inputs.
    pub fn skip_to(&mut self, instance: u64) -> Result<(), GarbleError> {
        self.frame.leave_out(instance)
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
    /// [`Scheme::sends_garbler_labels`] or [`sending_garbler_labels`](Self::sending_garbler_labels)
    /// says so; elsewhere the evaluator derives the same labels.
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
        let Inputs { secret, public, .. } = &self.inputs;
        let scratch = &mut Scratch::default();
        let positions = self.inputs.positions(Party::Garbler, range);
        if !self.inputs.sends_labels {
            let instance = Instances::one(instance);
            public.labels(instance, positions, scratch, |_, labels| {
                out.extend_from_slice(&labels[0].to_bytes());
            });
            return;
        }
        secret.pairs(
            Party::Garbler,
            instance,
            positions,
            scratch,
            |i, [zero, one]| {
                let active = zero ^ (zero ^ one).masked(garbler_bits.get(i));
                out.extend_from_slice(&active.to_bytes());
            },
        );
    }

    /// Appends the labels of value 0 of the evaluator's input bits `range` to `out`, for any
    /// instance, begun or not.
    ///
    /// # Panics
    /// If `range` reaches past the evaluator's input bits.
    pub fn evaluator_zero_labels(&self, instance: u64, range: Range<usize>, out: &mut Vec<Label>) {
        out.reserve(range.len());
        let scratch = &mut Scratch::default();
        let positions = self.inputs.positions(Party::Evaluator, range);
        (self.inputs.secret).pairs(Party::Evaluator, instance, positions, scratch, |_, pair| {
            out.push(pair[0]);
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
        out.reserve(range.len());
        let scratch = &mut Scratch::default();
        let positions = self.inputs.positions(Party::Evaluator, range);
        (self.inputs.secret).pairs(Party::Evaluator, instance, positions, scratch, |_, pair| {
            out.push(pair);
        });
    }

    /// Hands out both labels of evaluator's input bits of any instance, by position, each with what came with its position,
    /// unless they were [adopted](Self::adopt). At most one of each may ever leave this process.
    ///
    /// # Panics
    /// If there is no such bit.
    pub fn evaluator_labels<T: Copy + Default>(
        &self,
        instance: u64,
        positions: impl IntoIterator<Item = (u32, T)>,
        each: impl FnMut(T, [Label; 2]),
    ) {
        let count = self.inputs.owners.count(Party::Evaluator);
        let positions = positions.into_iter().inspect(|(position, _)| {
            assert!((*position as usize) < count, "past the evaluator's inputs");
        });
        let scratch = &mut Scratch::default();
        (self.inputs.secret).pairs(Party::Evaluator, instance, positions, scratch, each);
    }

    /// Returns how many labels of the evaluator's inputs have been made, all instances and their bits being counted in the order
    /// in which they are read; see [`ReadOrder`](crate::ReadOrder).
    #[must_use]
    pub fn labels_made(&self) -> u64 {
        if self.frame.is_done() {
            let count = self.inputs.owners.count(Party::Evaluator) as u64;
            return self.frame.instances_begun().saturating_mul(count);
        }
        self.reading.next
    }

    /// Takes labels of value 0 for the evaluator's inputs behind the last one [made](Self::labels_made) or adopted: correlated
    /// oblivious transfer gives both parties theirs, so that nothing needs to be sent. They have to be uniform and secret, and the
    /// correlation has to be [`delta`](Self::delta).
    ///
    /// # Panics
    /// If there is no such correlation, or `first` is not the number behind the last one.
    pub fn adopt(&mut self, first: u64, zero_labels: Zeroizing<Vec<Label>>) {
        assert!(self.delta().is_some(), "only under free XOR");
        let made = self.labels_made();
        let adopted = &mut self.reading.adopted;
        if adopted.end() < made {
            adopted.skip_to(made);
        }
        assert_eq!(first, adopted.end(), "labels are adopted in order");
        adopted.push(zero_labels);
    }

    /// Takes what is needed to decode and to check the outputs of the instance just finished; the
    /// next one may then begin. Of instances side by side each call takes those of one, in order.
    ///
    /// # Errors
    /// [`GarbleError::NoOutputs`] where no instance is finished or its outputs were taken.
    pub fn take_outputs(&mut self) -> Result<GarbledOutputs, GarbleError> {
        let delta = self.inputs.secret.delta();
        let take = |frame: &Frame, lane, slot| match delta {
            Some(delta) => [frame.label(slot, lane), frame.label(slot, lane) ^ delta],
            None => [2 * slot, 2 * slot + 1].map(|label| frame.label(label, lane)),
        };
        let (instance, labels) = self.frame.take_outputs(take)?;
        let program = self.frame.program.clone();
        Ok(GarbledOutputs::new(program, instance, labels))
    }

    /// Begins instances that were allowed, and does them if they have no tables.
    fn begin(&mut self, lanes: usize) {
        self.frame.make_room(lanes);
        self.frame.begin(lanes);
        let count = self.inputs.owners.count(Party::Evaluator) as u64;
        self.reading.next = self.frame.instance() * count;
        if let Some(span) = self.frame.free_span(lanes) {
            self.garble(&span, &mut []);
        }
    }

    fn garble(&mut self, span: &Span, chunk: &mut [u8]) {
        let Self {
            frame,
            inputs,
            reading,
            scratch,
            dice,
        } = self;
        let params = frame.params;
        let instances = Instances {
            first: frame.instance(),
            lanes: frame.lanes,
        };
        let per_slot = params.scheme.labels_per_slot();
        let dispatch = frame.dispatch();
        let place = &mut |loads: &[Load], slots: &mut [Label]| match per_slot {
            1 => inputs.place::<1>(loads, dispatch, reading, scratch, slots, instances),
            _ => inputs.place::<2>(loads, dispatch, reading, scratch, slots, instances),
        };
        let start = u128::from_le_bytes(params.start);
        // Unused where there is none.
        let delta = inputs.secret.delta().unwrap_or(Label::ZERO);
        let prg = inputs.secret.prg();
        let tables = TableWriter::new(chunk, span.ciphertext_bytes);
        match params.scheme {
            Scheme::HalfGates if params.rekey_period == 1 => {
                let kernel = HalfGatesGarble::new(PerTweak { start }, delta, tables);
                frame.run(span, kernel, place);
            }
            Scheme::HalfGates => {
                let log_period = params.rekey_period.trailing_zeros();
                let hash = PerPeriod { start, log_period };
                frame.run(span, HalfGatesGarble::new(hash, delta, tables), place);
            }
            Scheme::FixedKey => {
                let kernel = HalfGatesGarble::new(PerPeriod::FIXED_KEY, delta, tables);
                frame.run(span, kernel, place);
            }
            Scheme::Prf => {
                let kernel = PrfGarble {
                    nonce: params.nonce,
                    prg,
                    dice: &mut dice[0],
                    tables,
                };
                frame.run(span, kernel, place);
            }
            Scheme::ThreeHalves => {
                let kernel = ThreeHalvesGarble {
                    start,
                    delta,
                    prg,
                    dice,
                    tables,
                };
                frame.run(span, kernel, place);
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
                evaluator.count_from(instance);
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

    #[test]
    fn inputs_can_be_chosen_after_garbling() {
        let circuit = generators::aes128();
        let program = Arc::new(Program::compile(&circuit));
        let split = InputSplit::first_to_garbler(program.input_widths());
        let all = Bits::from_hex("000102030405060708090a0b0c0d0e0f", 128).unwrap();
        for scheme in Scheme::ALL {
            for lanes in [1, crate::LANES] {
                let params = Params::random(scheme, 1, &mut rand::rng());
                let (backend, limit) = (Backend::best().unwrap(), 1 << 16);
                let mut garbler =
                    Garbler::new(program.clone(), &split, params, Seed::random(), backend)
                        .unwrap()
                        .sending_garbler_labels();
                let mut evaluator = Evaluator::new(program.clone(), &split, params, backend)
                    .unwrap()
                    .expecting_garbler_labels();
                garbler.begin_without_inputs(lanes).unwrap();
                let mut chunks = Vec::new();
                while !garbler.is_instance_done() {
                    let mut chunk = Vec::new();
                    garbler.garble_chunk(limit, &mut chunk).unwrap();
                    chunks.push(chunk);
                }
                // Now the inputs: the key, and the evaluator's plaintext of zeros.
                let (mut given, mut own) = (Vec::new(), Vec::new());
                for instance in 0..lanes as u64 {
                    garbler.garbler_labels(instance, 0..128, &all, &mut given);
                    garbler.evaluator_zero_labels(instance, 0..128, &mut own);
                }
                let given: Vec<Label> = (given.as_chunks().0.iter())
                    .map(|bytes| Label::from_bytes(*bytes))
                    .collect();
                evaluator
                    .begin_side_by_side(lanes, Some(&given), &own)
                    .unwrap();
                for chunk in &chunks {
                    evaluator.evaluate_chunk(chunk, limit).unwrap();
                }
                let sid = [1; 32];
                for _ in 0..lanes {
                    let decode = garbler.take_outputs().unwrap().decode_info(&sid, true);
                    let outputs = evaluator.take_outputs().unwrap();
                    let outputs = outputs.decode(&decode, &sid).unwrap();
                    // AES-128 of zeros under that key.
                    let mut inputs = all.clone();
                    inputs.extend([Bits::zeros(128)]);
                    let expected = circuit.evaluate(&inputs).unwrap();
                    assert_eq!(outputs, expected, "{scheme}, {lanes} lanes");
                }
            }
        }
    }

    #[test]
    fn instances_can_be_shared_out() {
        let program = Arc::new(Program::compile(&generators::aes128()));
        let split = InputSplit::first_to_garbler(program.input_widths());
        for scheme in Scheme::ALL {
            let params = Params::random(scheme, 1, &mut rand::rng());
            let garbler = || {
                let seed = Seed::from_bytes([5; 32]);
                Garbler::new(
                    program.clone(),
                    &split,
                    params,
                    seed,
                    Backend::best().unwrap(),
                )
                .unwrap()
            };
            let garble = |garbler: &mut Garbler| {
                let mut tables = Vec::new();
                garbler.begin_instance(&Bits::zeros(128)).unwrap();
                assert!(garbler.skip_to(u64::MAX).is_err(), "it is not finished");
                while !garbler.garble_chunk(1 << 20, &mut tables).unwrap() {}
                tables
            };
            let mut alone = garbler();
            let whole: Vec<_> = (0..4).map(|_| garble(&mut alone)).collect();
            let mut shared = [garbler(), garbler()];
            for (instance, tables) in whole.iter().enumerate() {
                let garbler = &mut shared[instance % 2];
                garbler.skip_to(instance as u64).unwrap();
                assert!(garble(garbler) == *tables, "{scheme}, instance {instance}");
            }
        }
    }
}
