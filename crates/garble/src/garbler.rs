//! The garbler of a program.

mod labels;

use std::{ops::Range, sync::Arc};

use transpute_circuit::{Bits, InputSplit, Load, Program};
use zeroize::Zeroizing;

use labels::{Inputs, Reading};

use crate::{
    Backend, GarbleError, GarbledOutputs, Label, Params, Scheme, Seed,
    chunk::{Span, check_limit},
    execution::Execution,
    inputs::{Owners, Party, PublicLabels, SecretLabels},
    kernel::{HalfGatesGarble, PerPeriod, PerTweak, PrfGarble, TableWriter, ThreeHalvesGarble},
    seed::{Instances, Purpose, RandomBits, Scratch},
};

/// Garbles instances of one program, one after the other, chunk by chunk.
///
/// All instances share one offset, so that they can share one oblivious transfer. Each instance has
/// fresh labels. The gate counter that generates tweaks continues across instances and never
/// decreases, so no instance can be garbled twice.
///
/// A garbler holds the label slots of the program, and no memory per gate. It does not implement
/// `Debug`, because all its state is secret, and is wiped on drop.
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
/// // The evaluator's input is 1. In a protocol it gets the label by oblivious transfer.
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
    execution: Execution,
    inputs: Inputs,
    reading: Reading,
    scratch: Scratch,
    random_bits: [RandomBits; 2],
}

impl Garbler {
    /// Returns a garbler for `program`, with the garbler's inputs according to `split`.
    ///
    /// # Errors
    /// Returns [`GarbleError::RekeyPeriod`] for invalid parameters. Returns
    /// [`GarbleError::SplitMismatch`] if `split` does not match the program. Returns
    /// [`GarbleError::BackendUnavailable`] if this CPU lacks the back end.
    pub fn new(
        program: Arc<Program>,
        split: &InputSplit,
        params: Params,
        seed: Seed,
        backend: Backend,
    ) -> Result<Self, GarbleError> {
        let labels_per_slot = params.scheme.labels_per_slot();
        let sends_labels = params.scheme.sends_garbler_labels();
        let execution = Execution::new(program, split, params, backend, labels_per_slot)?;
        let inputs = Inputs {
            owners: Owners::new(split),
            secret: SecretLabels::new(&seed, params.scheme.is_free_xor()),
            public: PublicLabels::new(params.input_seed),
            sends_labels,
            bits: Vec::new(),
        };
        Ok(Self {
            execution,
            inputs,
            reading: Reading::default(),
            scratch: Scratch::default(),
            random_bits: [
                RandomBits::new(Purpose::FirstGateBits),
                RandomBits::new(Purpose::SecondGateBits),
            ],
        })
    }

    /// Makes the garbler derive the labels of its inputs from the seed under every scheme, so that
    /// instances can be garbled before these inputs are known, with
    /// [`begin_without_inputs`](Self::begin_without_inputs). The active labels must then be sent,
    /// and the evaluator must [expect them](crate::Evaluator::expecting_garbler_labels).
    ///
    /// # Panics
    /// Panics if an instance has begun.
    #[must_use]
    pub fn sending_garbler_labels(mut self) -> Self {
        assert!(!self.execution.has_begun(), "before the first instance");
        self.inputs.sends_labels = true;
        self
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.execution.program
    }

    /// Returns the public parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.execution.params
    }

    /// Returns the offset between the two labels of every wire under free XOR. It is the
    /// correlation for the correlated oblivious transfer of labels.
    #[must_use]
    pub fn delta(&self) -> Option<Label> {
        self.inputs.secret.delta()
    }

    /// Begins the next instance; instances are numbered from 0. Outputs of the previous instance
    /// that were not taken are lost.
    ///
    /// # Errors
    /// Returns [`GarbleError::Unfinished`] while chunks of the previous instance are missing.
    /// Returns [`GarbleError::InputCount`] for a wrong number of bits. Returns
    /// [`GarbleError::TooManyGates`] at the limit of tweaks.
    pub fn begin_instance(&mut self, garbler_bits: &Bits) -> Result<(), GarbleError> {
        self.begin_side_by_side(std::slice::from_ref(garbler_bits))
    }

    /// Begins the next instances side by side, one per item of `garbler_bits`, which is 1 or
    /// [`LANES`](crate::LANES); see [`Garbler::begin_instance`] and [`lanes`](crate::lanes).
    ///
    /// # Errors
    /// Returns [`GarbleError::Unfinished`] while chunks of the previous instances are missing.
    /// Returns [`GarbleError::LaneCount`] for a wrong number of instances. Returns
    /// [`GarbleError::InputCount`] for a wrong number of bits. Returns
    /// [`GarbleError::TooManyGates`] at the limit of tweaks.
    pub fn begin_side_by_side(&mut self, garbler_bits: &[Bits]) -> Result<(), GarbleError> {
        let lanes = garbler_bits.len();
        self.execution.next_instance(lanes)?;
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

    /// Begins the next `lanes` instances before the garbler's inputs are known. Otherwise this is
    /// like [`begin_side_by_side`](Self::begin_side_by_side).
    ///
    /// # Errors
    /// Returns [`GarbleError::Unfinished`] while chunks of the previous instances are missing.
    /// Returns [`GarbleError::LaneCount`] for a wrong number of instances. Returns
    /// [`GarbleError::TooManyGates`] at the limit of tweaks.
    ///
    /// # Panics
    /// Panics if the garbler's labels are not sent: see
    /// [`sending_garbler_labels`](Self::sending_garbler_labels).
    pub fn begin_without_inputs(&mut self, lanes: usize) -> Result<(), GarbleError> {
        assert!(
            self.inputs.sends_labels,
            "labels that are not sent depend on inputs"
        );
        self.execution.next_instance(lanes)?;
        self.begin(lanes);
        Ok(())
    }

    /// Skips the instances before `instance`, so that `instance` is the next to begin. Another
    /// garbler of the same program, parameters and seed garbles the skipped ones on another thread.
    ///
    /// # Errors
    /// Returns [`GarbleError::Unfinished`] while chunks of the previous instance are missing.
    ///
    /// # Panics
    /// Panics if `instance` has already begun.
    ///
    /// # Security
    /// The two garblers must not garble the same instance with different inputs.
    pub fn skip_to(&mut self, instance: u64) -> Result<(), GarbleError> {
        self.execution.skip_to(instance)
    }

    /// Returns the number of instances that are garbled side by side at present. If none is in
    /// progress, it is the number at the last garbling.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.execution.lanes
    }

    /// Returns whether all chunks of the present instance were garbled.
    #[must_use]
    pub fn is_instance_done(&self) -> bool {
        self.execution.is_done()
    }

    /// Returns the length of the next chunk in bytes, or `None` if the instance is done. A limit
    /// under [`MIN_CHUNK_LIMIT`](crate::MIN_CHUNK_LIMIT) is raised to that minimum.
    #[must_use]
    pub fn next_chunk_len(&self, max_len: usize) -> Option<usize> {
        self.execution.span(max_len).map(|span| span.bytes())
    }

    /// Garbles the next chunk, of at most `max_len` bytes, and appends it to `out`. Returns whether
    /// it was the last chunk of the instance. [`ChunkPlan`](crate::ChunkPlan) computes the lengths
    /// in advance.
    ///
    /// # Errors
    /// Returns [`GarbleError::ChunkLimit`] if `max_len` is too small. Returns
    /// [`GarbleError::NoInstance`] if nothing is left to garble.
    pub fn garble_chunk(&mut self, max_len: usize, out: &mut Vec<u8>) -> Result<bool, GarbleError> {
        check_limit(max_len, self.execution.lanes)?;
        let span = self
            .execution
            .span(max_len)
            .ok_or(GarbleError::NoInstance)?;
        let start = out.len();
        out.resize(start + span.bytes(), 0);
        self.garble(&span, &mut out[start..]);
        Ok(self.is_instance_done())
    }

    /// Appends the active labels of the garbler's input bits in `range`, 16 bytes each, to `out`.
    /// `garbler_bits` are all its input bits of that instance. The labels must be sent if
    /// [`Scheme::sends_garbler_labels`] is true or
    /// [`sending_garbler_labels`](Self::sending_garbler_labels) was called; otherwise the evaluator
    /// derives the same labels.
    ///
    /// # Panics
    /// Panics if `range` ends past the garbler's input bits or `garbler_bits`.
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

    /// Appends the labels of value 0 of the evaluator's input bits in `range` to `out`. The
    /// instance need not have begun.
    ///
    /// # Panics
    /// Panics if `range` ends past the evaluator's input bits.
    pub fn evaluator_zero_labels(&self, instance: u64, range: Range<usize>, out: &mut Vec<Label>) {
        out.reserve(range.len());
        let scratch = &mut Scratch::default();
        let positions = self.inputs.positions(Party::Evaluator, range);
        (self.inputs.secret).pairs(Party::Evaluator, instance, positions, scratch, |_, pair| {
            out.push(pair[0]);
        });
    }

    /// Appends both labels of the evaluator's input bits in `range` to `out`. The instance need not
    /// have begun. At most one label of each pair may ever leave this process.
    ///
    /// # Panics
    /// Panics if `range` ends past the evaluator's input bits.
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

    /// For each `(position, tag)` in `positions`, calls `each(tag, labels)`. `labels` are both
    /// labels of the evaluator's input bit at `position` in `instance`, indexed by value. The
    /// labels must not have been [adopted](Self::adopt). At most one label of each pair may ever
    /// leave this process.
    ///
    /// # Panics
    /// Panics if a position is not below the number of the evaluator's input bits.
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

    /// Returns the number of the evaluator's input labels that gates have read so far. The count
    /// includes all instances and follows [`ReadOrder`](crate::ReadOrder). After an instance it
    /// includes bits that are never read.
    #[must_use]
    pub fn labels_made(&self) -> u64 {
        if self.execution.is_done() {
            let count = self.inputs.owners.count(Party::Evaluator) as u64;
            return self.execution.instances_begun().saturating_mul(count);
        }
        self.reading.next
    }

    /// Sets the labels of value 0 of the evaluator's next input bits. `first` is the number of the
    /// first label in the count of [`labels_made`](Self::labels_made), which includes adopted
    /// labels. Correlated oblivious transfer outputs these labels to the garbler and the active
    /// labels to the evaluator, so nothing else is sent for these inputs. The labels must be
    /// uniform and secret, and the correlation must be [`delta`](Self::delta).
    ///
    /// # Panics
    /// Panics if there is no offset, or `first` is not the number of the next label.
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

    /// Takes the labels for decoding and checking the outputs of the finished instance, after which
    /// the next one may begin. For instances side by side, each call takes the labels of one
    /// instance, in order.
    ///
    /// # Errors
    /// Returns [`GarbleError::NoOutputs`] if no instance is finished or its outputs were taken.
    pub fn take_outputs(&mut self) -> Result<GarbledOutputs, GarbleError> {
        let delta = self.inputs.secret.delta();
        let take = |execution: &Execution, lane, slot| match delta {
            Some(delta) => [
                execution.label(slot, lane),
                execution.label(slot, lane) ^ delta,
            ],
            None => [2 * slot, 2 * slot + 1].map(|label| execution.label(label, lane)),
        };
        let (instance, labels) = self.execution.take_outputs(take)?;
        let program = self.execution.program.clone();
        Ok(GarbledOutputs::new(program, instance, labels))
    }

    /// Begins `lanes` instances that passed the checks. If their gates have no tables, this also
    /// garbles them.
    fn begin(&mut self, lanes: usize) {
        self.execution.make_room(lanes);
        self.execution.begin(lanes);
        let count = self.inputs.owners.count(Party::Evaluator) as u64;
        self.reading.next = self.execution.instance() * count;
        if let Some(span) = self.execution.free_span(lanes) {
            self.garble(&span, &mut []);
        }
    }

    fn garble(&mut self, span: &Span, chunk: &mut [u8]) {
        let Self {
            execution,
            inputs,
            reading,
            scratch,
            random_bits,
        } = self;
        let params = execution.params;
        let instances = Instances {
            first: execution.instance(),
            lanes: execution.lanes,
        };
        let per_slot = params.scheme.labels_per_slot();
        let dispatch = execution.dispatch();
        let place = &mut |loads: &[Load], slots: &mut [Label]| match per_slot {
            1 => inputs.place::<1>(loads, dispatch, reading, scratch, slots, instances),
            _ => inputs.place::<2>(loads, dispatch, reading, scratch, slots, instances),
        };
        let start = u128::from_le_bytes(params.start);
        // The kernels of schemes without an offset do not use it.
        let delta = inputs.secret.delta().unwrap_or(Label::ZERO);
        let prg = inputs.secret.prg();
        let tables = TableWriter::new(chunk, span.ciphertext_bytes);
        match params.scheme {
            Scheme::HalfGates if params.rekey_period == 1 => {
                let kernel = HalfGatesGarble::new(PerTweak { start }, delta, tables);
                execution.run(span, kernel, place);
            }
            Scheme::HalfGates => {
                let log_period = params.rekey_period.trailing_zeros();
                let hash = PerPeriod { start, log_period };
                execution.run(span, HalfGatesGarble::new(hash, delta, tables), place);
            }
            Scheme::FixedKey => {
                let kernel = HalfGatesGarble::new(PerPeriod::FIXED_KEY, delta, tables);
                execution.run(span, kernel, place);
            }
            Scheme::Prf => {
                let kernel = PrfGarble {
                    nonce: params.nonce,
                    prg,
                    random_bits: &mut random_bits[0],
                    tables,
                };
                execution.run(span, kernel, place);
            }
            Scheme::ThreeHalves => {
                let kernel = ThreeHalvesGarble {
                    start,
                    delta,
                    prg,
                    random_bits,
                    tables,
                };
                execution.run(span, kernel, place);
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
    fn more_than_2_to_the_56_tweaks_are_rejected() {
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
                garbler.execution.set_begun(instance);
                let refused = Err(GarbleError::TooManyGates { instance });
                assert_eq!(garbler.begin_instance(&bits), refused);
                evaluator.count_from(instance);
                assert_eq!(evaluator.begin_instance(sent, &labels), refused);
            }
            // The last instance that is allowed, because its last tweak is still below the limit.
            garbler.execution.set_begun(last - 1);
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
                // The inputs become known only now: the key, and the evaluator's all-zero
                // plaintext.
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
                    // AES-128 of the zero block under that key.
                    let mut inputs = all.clone();
                    inputs.extend([Bits::zeros(128)]);
                    let expected = circuit.evaluate(&inputs).unwrap();
                    assert_eq!(outputs, expected, "{scheme}, {lanes} lanes");
                }
            }
        }
    }

    #[test]
    fn instances_can_be_split_among_garblers() {
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
