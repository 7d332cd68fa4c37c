//! The evaluator of a garbled program.

use std::{cell::OnceCell, sync::Arc};

use transpute_circuit::{InputSplit, Load, Program};
use zeroize::Zeroizing;

use crate::{
    Backend, EvaluatedOutputs, GarbleError, LANES, Label, Params, Scheme,
    chunk::{Span, check_limit},
    dispatch::Dispatch,
    execution::Execution,
    expand::Expand,
    inputs::{Owners, Party, PublicLabels, store},
    kernel::{
        HalfGatesEvaluate, PerPeriod, PerTweak, PrfEvaluate, TableReader, ThreeHalvesEvaluate,
    },
    read_order::{LabelQueue, ReadOrder},
    seed::{Instances, Scratch},
};

/// Evaluates garbled instances of one program, one after the other, chunk by chunk.
///
/// It holds one label per live wire and the labels of the inputs. Altered tables result in wrong
/// labels, not in errors; the output check detects them, see
/// [`GarbledOutputs::decode_info`](crate::GarbledOutputs::decode_info).
///
/// [`Garbler`](crate::Garbler) has an example of both parties. This type does not implement
/// `Debug`, and is wiped on drop.
pub struct Evaluator {
    execution: Execution,
    inputs: Inputs,
    scratch: Scratch,
}

/// The sources of the active input labels: labels that the caller passes, and labels derived from
/// the public seed.
struct Inputs {
    owners: Owners,
    public: PublicLabels,
    /// Whether the caller passes the labels of the garbler's inputs.
    expects_labels: bool,
    /// Active labels of the garbler's inputs, instance by instance; empty unless `expects_labels`.
    given: Zeroizing<Vec<Label>>,
    /// Active labels of the evaluator's inputs that no gate has read yet.
    own: LabelQueue,
    /// The order in which the program reads the evaluator's inputs, computed on first use.
    order: OnceCell<ReadOrder>,
    split: InputSplit,
}

impl Evaluator {
    /// Returns an evaluator for `program`, with the garbler's inputs according to `split`.
    ///
    /// # Errors
    /// Returns [`GarbleError::RekeyPeriod`] for invalid parameters. Returns
    /// [`GarbleError::SplitMismatch`] if `split` does not match the program. Returns
    /// [`GarbleError::BackendUnavailable`] if this CPU lacks the back end.
    pub fn new(
        program: Arc<Program>,
        split: &InputSplit,
        params: Params,
        backend: Backend,
    ) -> Result<Self, GarbleError> {
        Ok(Self {
            execution: Execution::new(program, split, params, backend, 1)?,
            inputs: Inputs {
                owners: Owners::new(split),
                public: PublicLabels::new(params.input_seed),
                expects_labels: params.scheme.sends_garbler_labels(),
                given: Default::default(),
                own: LabelQueue::default(),
                order: OnceCell::new(),
                split: split.clone(),
            },
            scratch: Scratch::default(),
        })
    }

    /// Makes the evaluator expect the labels of the garbler's inputs under every scheme; see
    /// [`Garbler::sending_garbler_labels`](crate::Garbler::sending_garbler_labels).
    ///
    /// # Panics
    /// Panics if an instance has begun.
    #[must_use]
    pub fn expecting_garbler_labels(mut self) -> Self {
        assert!(!self.execution.has_begun(), "before the first instance");
        self.inputs.expects_labels = true;
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

    /// Begins the next instance with the active labels of both parties' input bits. Pass the
    /// garbler's labels if [`Scheme::sends_garbler_labels`] is true or
    /// [`expecting_garbler_labels`](Self::expecting_garbler_labels) was called, and only then.
    ///
    /// # Errors
    /// Returns [`GarbleError::Unfinished`] while chunks of the previous instance are missing.
    /// Returns [`GarbleError::LabelCount`] for a wrong number of labels. Returns
    /// [`GarbleError::TooManyGates`] at the limit of tweaks.
    pub fn begin_instance(
        &mut self,
        garbler_labels: Option<&[Label]>,
        evaluator_labels: &[Label],
    ) -> Result<(), GarbleError> {
        self.begin_side_by_side(1, garbler_labels, evaluator_labels)
    }

    /// Begins the next `lanes` instances, 1 or [`LANES`](crate::LANES), side by side. Takes the
    /// active labels of both parties' input bits, instance by instance; none of them may have been
    /// [added](Self::add_labels). See [`Evaluator::begin_instance`].
    ///
    /// # Errors
    /// Returns [`GarbleError::Unfinished`] while chunks of the previous instances are missing.
    /// Returns [`GarbleError::LaneCount`] for a wrong number of instances. Returns
    /// [`GarbleError::LabelCount`] for a wrong number of labels. Returns
    /// [`GarbleError::TooManyGates`] at the limit of tweaks.
    pub fn begin_side_by_side(
        &mut self,
        lanes: usize,
        garbler_labels: Option<&[Label]>,
        evaluator_labels: &[Label],
    ) -> Result<(), GarbleError> {
        let instance = self.execution.next_instance(lanes)?;
        let count = self.inputs.owners.count(Party::Evaluator);
        check_count("evaluator", lanes * count, evaluator_labels.len())?;
        self.check_given(lanes, garbler_labels.unwrap_or_default())?;
        let order = (self.inputs.order)
            .get_or_init(|| ReadOrder::new(&self.execution.program, &self.inputs.split));
        let mut labels = Zeroizing::new(Vec::with_capacity(evaluator_labels.len()));
        for &position in order.positions() {
            labels
                .extend((0..lanes).map(|lane| evaluator_labels[lane * count + position as usize]));
        }
        self.inputs
            .own
            .skip_to(instance.saturating_mul(count as u64));
        self.inputs.own.push(labels);
        let copy = |labels: &[Label]| Zeroizing::new(labels.to_vec());
        self.begin(lanes, garbler_labels.map(copy))
    }

    /// Appends active labels of the evaluator's input bits to those added before, across all
    /// instances. Labels must come in the order in which they are read. For each bit in
    /// [`ReadOrder`], there is one label per instance that is evaluated side by side. Bits that are
    /// never read come last.
    pub fn add_labels(&mut self, evaluator_labels: Zeroizing<Vec<Label>>) {
        self.inputs.own.push(evaluator_labels);
    }

    /// Begins the next `lanes` instances like [`begin_side_by_side`](Self::begin_side_by_side). The
    /// evaluator's labels come from [`add_labels`](Self::add_labels). They must be added before the
    /// chunk that reads them, or before this call if there are no chunks.
    ///
    /// # Errors
    /// The same as for [`begin_side_by_side`](Self::begin_side_by_side).
    pub fn begin(
        &mut self,
        lanes: usize,
        garbler_labels: Option<Zeroizing<Vec<Label>>>,
    ) -> Result<(), GarbleError> {
        let instance = self.execution.next_instance(lanes)?;
        let given = garbler_labels.unwrap_or_default();
        self.check_given(lanes, &given)?;
        let count = self.inputs.owners.count(Party::Evaluator);
        self.inputs
            .own
            .skip_to(instance.saturating_mul(count as u64));
        let free = self.execution.free_span(lanes);
        if let Some(span) = &free {
            self.check_own(span, lanes)?;
        }
        self.inputs.given = given;
        self.execution.make_room(lanes);
        self.execution.begin(lanes);
        if let Some(span) = free {
            self.evaluate(&span, &[]);
        }
        Ok(())
    }

    fn check_given(&self, lanes: usize, given: &[Label]) -> Result<(), GarbleError> {
        let sent = match self.inputs.expects_labels {
            true => lanes * self.inputs.owners.count(Party::Garbler),
            false => 0,
        };
        check_count("garbler", sent, given.len())
    }

    /// Returns the length of the next chunk in bytes, or `None` if the instance is done. A limit
    /// under [`MIN_CHUNK_LIMIT`](crate::MIN_CHUNK_LIMIT) is raised to that minimum.
    #[must_use]
    pub fn next_chunk_len(&self, max_len: usize) -> Option<usize> {
        self.execution.span(max_len).map(|span| span.bytes())
    }

    /// Evaluates the next chunk, which was garbled with the same `max_len`. After an error, the
    /// evaluator is unchanged.
    ///
    /// # Errors
    /// Returns [`GarbleError::ChunkLimit`] if `max_len` is too small. Returns
    /// [`GarbleError::NoInstance`] if no chunk is expected. Returns [`GarbleError::ChunkLength`] if
    /// the chunk has the wrong length. Returns [`GarbleError::LabelCount`] if labels that the chunk
    /// reads were not added.
    pub fn evaluate_chunk(&mut self, chunk: &[u8], max_len: usize) -> Result<(), GarbleError> {
        check_limit(max_len, self.execution.lanes)?;
        let span = self
            .execution
            .span(max_len)
            .ok_or(GarbleError::NoInstance)?;
        if chunk.len() != span.bytes() {
            return Err(GarbleError::ChunkLength {
                expected: span.bytes(),
                found: chunk.len(),
            });
        }
        self.check_own(&span, self.execution.lanes)?;
        self.evaluate(&span, chunk);
        Ok(())
    }

    /// Skips the instances before `instance`, so that `instance` is the next to begin. Another
    /// evaluator evaluates the skipped ones on another thread.
    ///
    /// # Errors
    /// Returns [`GarbleError::Unfinished`] while chunks of the previous instance are missing.
    ///
    /// # Panics
    /// Panics if `instance` has already begun.
    pub fn skip_to(&mut self, instance: u64) -> Result<(), GarbleError> {
        self.execution.skip_to(instance)?;
        let count = self.inputs.owners.count(Party::Evaluator);
        self.inputs
            .own
            .skip_to(instance.saturating_mul(count as u64));
        Ok(())
    }

    /// Returns the number of instances that are evaluated side by side at present. If none is in
    /// progress, it is the number at the last evaluation.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.execution.lanes
    }

    /// Returns whether all chunks of the present instance were evaluated.
    #[must_use]
    pub fn is_instance_done(&self) -> bool {
        self.execution.is_done()
    }

    /// Takes the output labels of the finished instance, after which the next one may begin. For
    /// instances side by side, each call takes the labels of one instance, in order.
    ///
    /// # Errors
    /// Returns [`GarbleError::NoOutputs`] if no instance is finished or its outputs were taken.
    pub fn take_outputs(&mut self) -> Result<EvaluatedOutputs, GarbleError> {
        let take = |execution: &Execution, lane, slot| execution.label(slot, lane);
        let (instance, labels) = self.execution.take_outputs(take)?;
        let program = self.execution.program.clone();
        Ok(EvaluatedOutputs::new(program, instance, labels))
    }

    /// Sets the number of instances begun, so that tests can reach the limits.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, begun: u64) {
        self.execution.set_begun(begun);
    }

    /// Checks that all evaluator's labels that the gates in `span` read were added.
    fn check_own(&self, span: &Span, lanes: usize) -> Result<(), GarbleError> {
        let loads = span.loads(&self.execution.program);
        let read = lanes * self.inputs.owners.count_evaluators(loads);
        let held = self.inputs.own.len();
        check_count("evaluator", read, held.min(read))
    }

    fn evaluate(&mut self, span: &Span, chunk: &[u8]) {
        let Self {
            execution,
            inputs,
            scratch,
        } = self;
        let params = execution.params;
        let instances = Instances {
            first: execution.instance(),
            lanes: execution.lanes,
        };
        let dispatch = execution.dispatch();
        let place = &mut |loads: &[Load], slots: &mut [Label]| {
            inputs.place(loads, dispatch, scratch, slots, instances);
        };
        let start = u128::from_le_bytes(params.start);
        let tables = TableReader::new(chunk, span.ciphertext_bytes);
        match params.scheme {
            Scheme::HalfGates if params.rekey_period == 1 => {
                let hash = PerTweak { start };
                execution.run(span, HalfGatesEvaluate { hash, tables }, place);
            }
            Scheme::HalfGates => {
                let log_period = params.rekey_period.trailing_zeros();
                let hash = PerPeriod { start, log_period };
                execution.run(span, HalfGatesEvaluate { hash, tables }, place);
            }
            Scheme::FixedKey => {
                let hash = PerPeriod::FIXED_KEY;
                execution.run(span, HalfGatesEvaluate { hash, tables }, place);
            }
            Scheme::Prf => {
                let nonce = params.nonce;
                execution.run(span, PrfEvaluate { nonce, tables }, place);
            }
            Scheme::ThreeHalves => {
                execution.run(span, ThreeHalvesEvaluate { start, tables }, place)
            }
        }
    }
}

impl Inputs {
    /// Copies the labels of the loaded inputs into their slots, for all instances side by side.
    fn place(
        &mut self,
        loads: &[Load],
        dispatch: Dispatch,
        scratch: &mut Scratch,
        slots: &mut [Label],
        instances: Instances,
    ) {
        let lanes = instances.lanes;
        self.owners.pieces(loads, |party, piece| {
            if party == Party::Evaluator {
                self.own.take_each(lanes * piece.len(), |done, labels| {
                    piece.put(done, labels, slots, lanes);
                });
            } else if self.expects_labels {
                let count = self.owners.count(party);
                for (position, slot) in piece.with(|_, slot| slot) {
                    let slots = &mut slots[slot as usize * lanes..][..lanes];
                    for (lane, label) in slots.iter_mut().enumerate() {
                        *label = self.given[lane * count + position as usize];
                    }
                }
            } else if lanes == LANES {
                let (schedule, domain) = self.public.key();
                dispatch.run(Expand {
                    schedule,
                    domain,
                    first: instances.first,
                    piece,
                    active: None,
                    slots,
                });
            } else {
                let positions = piece.with(|_, slot| slot);
                self.public
                    .labels(instances, positions, scratch, |slot, labels| {
                        store(slots, slot as usize * lanes, labels);
                    });
            }
        });
    }
}

fn check_count(party: &'static str, expected: usize, found: usize) -> Result<(), GarbleError> {
    if expected == found {
        Ok(())
    } else {
        Err(GarbleError::LabelCount {
            party,
            expected,
            found,
        })
    }
}
