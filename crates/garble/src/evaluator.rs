//! The evaluator's side of one garbling.

use std::{cell::OnceCell, sync::Arc};

use transpute_circuit::{InputSplit, Load, Program};
use zeroize::Zeroizing;

use crate::{
    Backend, EvaluatedOutputs, GarbleError, LANES, Label, Params, Scheme,
    chunk::{Span, check_limit},
    dispatch::Dispatch,
    expand::Expand,
    frame::Frame,
    inputs::{Owners, Party, PublicLabels, store},
    kernel::{
        HalfGatesEvaluate, PerPeriod, PerTweak, PrfEvaluate, TableReader, ThreeHalvesEvaluate,
    },
    reads::{LabelQueue, ReadOrder},
    seed::{Instances, Scratch},
};

/// Evaluates garbled instances of one program, one after the other, chunk by chunk.
///
/// It holds one label per live wire and those of the inputs. Altered tables give altered labels, not errors; what tells
/// them apart is the output check, see
/// [`GarbledOutputs::decode_info`](crate::GarbledOutputs::decode_info).
///
/// [`Garbler`](crate::Garbler) has an example of both. No `Debug`; wiped on drop.
pub struct Evaluator {
    frame: Frame,
    inputs: Inputs,
    scratch: Scratch,
}

/// Where the labels of inputs come from.
struct Inputs {
    owners: Owners,
    public: PublicLabels,
    /// Whether the labels of the garbler's inputs are given.
    expects_labels: bool,
    /// Labels of the garbler's inputs in the instances in progress, instance by instance, where they are given.
    given: Zeroizing<Vec<Label>>,
    /// Labels of the evaluator's inputs.
    own: LabelQueue,
    /// In which they are read.
    order: OnceCell<ReadOrder>,
    split: InputSplit,
}

impl Evaluator {
    /// Prepares to evaluate `program` with the garbler's inputs as `split` says.
    ///
    /// # Errors
    /// [`GarbleError::RekeyPeriod`], [`GarbleError::SplitMismatch`],
    /// [`GarbleError::BackendUnavailable`].
    pub fn new(
        program: Arc<Program>,
        split: &InputSplit,
        params: Params,
        backend: Backend,
    ) -> Result<Self, GarbleError> {
        Ok(Self {
            frame: Frame::new(program, split, params, backend, 1)?,
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

    /// Expects the labels of the garbler's inputs under every scheme; see
    /// [`Garbler::sending_garbler_labels`](crate::Garbler::sending_garbler_labels).
    ///
    /// # Panics
    /// If an instance has begun.
    #[must_use]
    pub fn expecting_garbler_labels(mut self) -> Self {
        assert!(!self.frame.has_begun(), "before the first instance");
        self.inputs.expects_labels = true;
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

    /// Begins the next instance with the active labels of both parties' input bits. The garbler's
    /// are given where [`Scheme::sends_garbler_labels`] or
    /// [`expecting_garbler_labels`](Self::expecting_garbler_labels) says so and nowhere else.
    ///
    /// # Errors
    /// [`GarbleError::Unfinished`] while chunks of the previous instance are missing,
    /// [`GarbleError::LabelCount`], [`GarbleError::TooManyGates`].
    pub fn begin_instance(
        &mut self,
        garbler_labels: Option<&[Label]>,
        evaluator_labels: &[Label],
    ) -> Result<(), GarbleError> {
        self.begin_side_by_side(1, garbler_labels, evaluator_labels)
    }

    /// Begins the next `lanes` instances, 1 or [`LANES`](crate::LANES), side by side with the
    /// active labels of both parties' input bits, instance by instance, of which none were [added](Self::add_labels); see
    /// [`Evaluator::begin_instance`].
    ///
    /// # Errors
    /// [`GarbleError::Unfinished`] while chunks of the previous instances are missing,
    /// [`GarbleError::LaneCount`], [`GarbleError::LabelCount`], [`GarbleError::TooManyGates`].
    pub fn begin_side_by_side(
        &mut self,
        lanes: usize,
        garbler_labels: Option<&[Label]>,
        evaluator_labels: &[Label],
    ) -> Result<(), GarbleError> {
        let instance = self.frame.next_instance(lanes)?;
        let count = self.inputs.owners.count(Party::Evaluator);
        check_count("evaluator", lanes * count, evaluator_labels.len())?;
        self.check_given(lanes, garbler_labels.unwrap_or_default())?;
        let order = (self.inputs.order)
            .get_or_init(|| ReadOrder::new(&self.frame.program, &self.inputs.split));
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

    /// Appends active labels of the evaluator's input bits, of the next instances that have not got all of theirs, in the order in
    /// which they are read: those of the bit that is read first, one of each instance that is evaluated side by side with the
    /// others, those of the second bit, and at last those that are not read; see [`ReadOrder`].
    pub fn add_labels(&mut self, evaluator_labels: Zeroizing<Vec<Label>>) {
        self.inputs.own.push(evaluator_labels);
    }

    /// Begins the next `lanes` instances as [`begin_side_by_side`](Self::begin_side_by_side), whose evaluator's labels were
    /// [added](Self::add_labels) or are still to come: before the chunk that reads them, and all of them before now where
    /// there are no chunks.
    ///
    /// # Errors
    /// Those of [`begin_side_by_side`](Self::begin_side_by_side).
    pub fn begin(
        &mut self,
        lanes: usize,
        garbler_labels: Option<Zeroizing<Vec<Label>>>,
    ) -> Result<(), GarbleError> {
        let instance = self.frame.next_instance(lanes)?;
        let given = garbler_labels.unwrap_or_default();
        self.check_given(lanes, &given)?;
        let count = self.inputs.owners.count(Party::Evaluator);
        self.inputs
            .own
            .skip_to(instance.saturating_mul(count as u64));
        let free = self.frame.free_span(lanes);
        if let Some(span) = &free {
            self.check_own(span, lanes)?;
        }
        self.inputs.given = given;
        self.frame.make_room(lanes);
        self.frame.begin(lanes);
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

    /// Returns the length of the next chunk, or `None` where the instance is done. A limit under
    /// [`MIN_CHUNK_LIMIT`](crate::MIN_CHUNK_LIMIT) counts as that.
    #[must_use]
    pub fn next_chunk_len(&self, max_len: usize) -> Option<usize> {
        self.frame.span(max_len).map(|span| span.bytes())
    }

    /// Evaluates the next chunk, made with the same `max_len`. A refused chunk changes nothing.
    ///
    /// # Errors
    /// [`GarbleError::ChunkLimit`]; [`GarbleError::NoInstance`] where none is expected;
    /// [`GarbleError::ChunkLength`]; [`GarbleError::LabelCount`] where labels that it reads were not added.
    pub fn evaluate_chunk(&mut self, chunk: &[u8], max_len: usize) -> Result<(), GarbleError> {
        check_limit(max_len, self.frame.lanes)?;
        let span = self.frame.span(max_len).ok_or(GarbleError::NoInstance)?;
        if chunk.len() != span.bytes() {
            return Err(GarbleError::ChunkLength {
                expected: span.bytes(),
                found: chunk.len(),
            });
        }
        self.check_own(&span, self.frame.lanes)?;
        self.evaluate(&span, chunk);
        Ok(())
    }

    /// Leaves out the instances before `instance`, which is the next to begin: another evaluator does
    /// those, on another thread.
    ///
    /// # Errors
    /// [`GarbleError::Unfinished`] while chunks of the previous instance are missing.
    ///
    /// # Panics
    /// If `instance` has begun already.
    pub fn skip_to(&mut self, instance: u64) -> Result<(), GarbleError> {
        self.frame.leave_out(instance)?;
        let count = self.inputs.owners.count(Party::Evaluator);
        self.inputs
            .own
            .skip_to(instance.saturating_mul(count as u64));
        Ok(())
    }

    /// Returns how many instances are in progress or last finished side by side.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.frame.lanes
    }

    /// Says whether there is nothing left to evaluate in this instance.
    #[must_use]
    pub fn is_instance_done(&self) -> bool {
        self.frame.is_done()
    }

    /// Takes the output labels of the instance just finished; the next one may then begin. Of
    /// instances side by side each call takes those of one, in order.
    ///
    /// # Errors
    /// [`GarbleError::NoOutputs`] where no instance is finished or its outputs were taken.
    pub fn take_outputs(&mut self) -> Result<EvaluatedOutputs, GarbleError> {
        let take = |frame: &Frame, lane, slot| frame.label(slot, lane);
        let (instance, labels) = self.frame.take_outputs(take)?;
        let program = self.frame.program.clone();
        Ok(EvaluatedOutputs::new(program, instance, labels))
    }

    /// See [`Frame::skip_to`].
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, begun: u64) {
        self.frame.skip_to(begun);
    }

    /// Checks that all labels are here that a span reads.
    fn check_own(&self, span: &Span, lanes: usize) -> Result<(), GarbleError> {
        let loads = span.loads(&self.frame.program);
        let read = lanes * self.inputs.owners.count_evaluators(loads);
        let held = self.inputs.own.len();
        check_count("evaluator", read, held.min(read))
    }

    fn evaluate(&mut self, span: &Span, chunk: &[u8]) {
        let Self {
            frame,
            inputs,
            scratch,
        } = self;
        let params = frame.params;
        let instances = Instances {
            first: frame.instance(),
            lanes: frame.lanes,
        };
        let dispatch = frame.dispatch();
        let place = &mut |loads: &[Load], slots: &mut [Label]| {
            inputs.place(loads, dispatch, scratch, slots, instances);
        };
        let start = u128::from_le_bytes(params.start);
        let tables = TableReader::new(chunk, span.ciphertext_bytes);
        match params.scheme {
            Scheme::HalfGates if params.rekey_period == 1 => {
                let hash = PerTweak { start };
                frame.run(span, HalfGatesEvaluate { hash, tables }, place);
            }
            Scheme::HalfGates => {
                let log_period = params.rekey_period.trailing_zeros();
                let hash = PerPeriod { start, log_period };
                frame.run(span, HalfGatesEvaluate { hash, tables }, place);
            }
            Scheme::FixedKey => {
                let hash = PerPeriod::FIXED_KEY;
                frame.run(span, HalfGatesEvaluate { hash, tables }, place);
            }
            Scheme::Prf => {
                let nonce = params.nonce;
                frame.run(span, PrfEvaluate { nonce, tables }, place);
            }
            Scheme::ThreeHalves => frame.run(span, ThreeHalvesEvaluate { start, tables }, place),
        }
    }
}

impl Inputs {
    /// Puts the labels of inputs into their slots, those of the instances side by side.
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
