//! The evaluator's side of one garbling.

use std::sync::Arc;

use transpute_circuit::{InputSplit, Load, OutputBit, Program};
use zeroize::Zeroizing;

use crate::{
    Backend, EvaluatedOutputs, GarbleError, Label, Params, Scheme,
    chunk::{Span, check_limit},
    frame::Frame,
    inputs::{Owners, Party, PublicLabels},
    kernel::{
        HalfGatesEvaluate, PerPeriod, PerTweak, PrfEvaluate, TableReader, ThreeHalvesEvaluate,
    },
    seed::Scratch,
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
    /// Labels of the instances in progress, instance by instance: the garbler's where they are given, and the evaluator's.
    given: [Zeroizing<Vec<Label>>; 2],
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
    /// active labels of both parties' input bits, instance by instance; see
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
        let copy = |labels: &[Label]| Zeroizing::new(labels.to_vec());
        self.begin_with_labels(lanes, garbler_labels.map(copy), copy(evaluator_labels))
    }

    /// Does what [`begin_side_by_side`](Self::begin_side_by_side) does, without a copy of the labels.
    ///
    /// # Errors
    /// Those of [`begin_side_by_side`](Self::begin_side_by_side).
    pub fn begin_with_labels(
        &mut self,
        lanes: usize,
        garbler_labels: Option<Zeroizing<Vec<Label>>>,
        evaluator_labels: Zeroizing<Vec<Label>>,
    ) -> Result<(), GarbleError> {
        self.frame.next_instance(lanes)?;
        let Inputs {
            owners,
            expects_labels,
            ..
        } = &self.inputs;
        let given = garbler_labels.unwrap_or_default();
        let sent = match expects_labels {
            true => lanes * owners.count(Party::Garbler),
            false => 0,
        };
        let own = lanes * owners.count(Party::Evaluator);
        check_count("garbler", sent, given.len())?;
        check_count("evaluator", own, evaluator_labels.len())?;
        self.inputs.given = [given, evaluator_labels];
        self.frame.make_room(lanes);
        self.frame.begin(lanes);
        self.skip_free_instance();
        Ok(())
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
    /// [`GarbleError::ChunkLength`].
    pub fn evaluate_chunk(&mut self, chunk: &[u8], max_len: usize) -> Result<(), GarbleError> {
        check_limit(max_len, self.frame.lanes)?;
        let span = self.frame.span(max_len).ok_or(GarbleError::NoInstance)?;
        if chunk.len() != span.bytes() {
            return Err(GarbleError::ChunkLength {
                expected: span.bytes(),
                found: chunk.len(),
            });
        }
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
        self.frame.leave_out(instance)
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
        let lane = self.frame.take()?;
        let lanes = self.frame.lanes;
        let outputs = self.frame.program.outputs();
        let mut labels = Zeroizing::new(Vec::with_capacity(outputs.len()));
        for output in outputs {
            if let OutputBit::Slot { slot, .. } = *output {
                labels.push(self.frame.slots[slot as usize * lanes + lane]);
            }
        }
        let program = self.frame.program.clone();
        Ok(EvaluatedOutputs::new(
            program,
            self.frame.instance() + lane as u64,
            labels,
        ))
    }

    /// See [`Frame::skip_to`].
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, begun: u64) {
        self.frame.skip_to(begun);
    }

    /// Does an instance that has no tables.
    fn skip_free_instance(&mut self) {
        // Any limit: without tables there is one span.
        if let Some(span) = self.frame.span(0)
            && span.bytes() == 0
        {
            self.evaluate(&span, &[]);
        }
    }

    fn evaluate(&mut self, span: &Span, chunk: &[u8]) {
        let Self {
            frame,
            inputs,
            scratch,
        } = self;
        let (instance, lanes, params) = (frame.instance(), frame.lanes, frame.params);
        let place = &mut |loads: &[Load], slots: &mut [Label]| {
            inputs.place(loads, scratch, slots, instance, lanes)
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
    /// Puts the labels of inputs into their slots, those of the `lanes` instances from `instance` on side by side.
    fn place(
        &self,
        loads: &[Load],
        scratch: &mut Scratch,
        slots: &mut [Label],
        instance: u64,
        lanes: usize,
    ) {
        self.owners.pieces(loads, |party, piece| {
            for lane in 0..lanes {
                let positions = piece.with(|_, slot| slot);
                if party == Party::Garbler && !self.expects_labels {
                    let instance = instance + lane as u64;
                    self.public
                        .labels(instance, positions, scratch, |slot, label| {
                            slots[slot as usize * lanes + lane] = label;
                        });
                    continue;
                }
                let count = self.owners.count(party);
                let labels = &self.given[party as usize][lane * count..][..count];
                for (position, slot) in positions {
                    slots[slot as usize * lanes + lane] = labels[position as usize];
                }
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
