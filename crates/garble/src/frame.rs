//! What the garbler and the evaluator have in common: the program, the labels of the live wires,
//! the position, and the order in which instances may be begun and finished.
#![expect(
    unsafe_code,
    reason = "label slots are checked where a program is made, not at every gate"
)]

use std::sync::Arc;

use transpute_circuit::{InputSplit, OutputBit, Program};
use zeroize::{Zeroize, Zeroizing};

use crate::{
    Backend, GarbleError, Label, Params,
    chunk::{Cursor, Runs, Span, check_lanes},
    dispatch::Dispatch,
    kernel::{ChunkJob, Kernel, PlaceInputs},
    slots::Slots,
};

/// Tweaks one offset and start value may serve.
const MAX_TWEAKS: u128 = 1 << 56;

/// The shared part of a garbler and an evaluator.
pub(crate) struct Frame {
    pub(crate) program: Arc<Program>,
    pub(crate) params: Params,
    dispatch: Dispatch,
    /// The labels of each slot, and of one spare slot at the end; those of instances side by side
    /// follow one another.
    pub(crate) slots: Slots,
    labels_per_slot: usize,
    /// Above all slots that the program names.
    spare: u32,
    /// Instances in progress.
    pub(crate) lanes: usize,
    /// Instances of those in progress whose outputs were taken.
    taken: usize,
    cursor: Cursor,
    phase: Phase,
    begun: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// Nothing begun, or the outputs were taken.
    Idle,
    /// Chunks are to come.
    Running,
    /// All gates are done.
    Done,
}

impl Frame {
    /// Returns a label of a slot in one lane.
    pub(crate) fn label(&self, slot: usize, lane: usize) -> Label {
        self.slots[slot * self.lanes + lane]
    }

    pub(crate) fn new(
        program: Arc<Program>,
        split: &InputSplit,
        params: Params,
        backend: Backend,
        labels_per_slot: usize,
    ) -> Result<Self, GarbleError> {
        params.validate()?;
        if split.widths() != program.input_widths() {
            return Err(GarbleError::SplitMismatch {
                expected: program.input_widths().to_vec(),
                found: split.widths().to_vec(),
            });
        }
        let dispatch = Dispatch::new(backend)?;
        let spare = program.slot_count();
        Ok(Self {
            params,
            dispatch,
            slots: Slots::default(),
            labels_per_slot,
            // Slots are numbered with 31 bits.
            spare: spare as u32,
            lanes: 1,
            taken: 0,
            cursor: Cursor::default(),
            phase: Phase::Idle,
            begun: 0,
            program,
        })
    }

    /// Gates of one instance that use up tweaks.
    fn tweaked_gates(&self) -> u64 {
        if self.params.scheme.is_free_xor() {
            self.program.and_count()
        } else {
            self.program.gates().len() as u64
        }
    }

    /// Returns the back end.
    pub(crate) fn dispatch(&self) -> Dispatch {
        self.dispatch
    }

    /// Number of the first instance in progress or last finished; 0 before the first.
    pub(crate) fn instance(&self) -> u64 {
        self.begun.saturating_sub(self.lanes as u64)
    }

    /// Id of the first gate of the instances in progress.
    fn first_id(&self) -> u64 {
        // Bounded when the instance was begun.
        self.instance() * self.tweaked_gates()
    }

    /// Checks that the next `lanes` instances may begin side by side, and returns the number of the
    /// first.
    pub(crate) fn next_instance(&self, lanes: usize) -> Result<u64, GarbleError> {
        check_lanes(lanes)?;
        if self.phase == Phase::Running {
            return Err(GarbleError::Unfinished {
                instance: self.instance(),
            });
        }
        let instance = self.begun;
        let gates = (u128::from(instance) + lanes as u128) * u128::from(self.tweaked_gates());
        let tweaks = gates.saturating_mul(u128::from(self.params.scheme.tweaks_per_gate()));
        if tweaks > MAX_TWEAKS || instance > u64::MAX - lanes as u64 {
            return Err(GarbleError::TooManyGates { instance });
        }
        Ok(instance)
    }

    /// Makes room for the labels of instances that [`Frame::next_instance`] allowed.
    pub(crate) fn make_room(&mut self, lanes: usize) {
        let labels = (self.spare as usize + 1) * self.labels_per_slot * lanes;
        if self.slots.len() < labels {
            // Not by growing, which could leave a copy of labels behind.
            self.slots = Slots::zero(labels);
        }
    }

    /// Begins the instances that there is room for.
    pub(crate) fn begin(&mut self, lanes: usize) {
        self.lanes = lanes;
        self.taken = 0;
        self.begun += lanes as u64;
        self.cursor = Cursor::default();
        self.phase = Phase::Running;
    }

    /// Returns the gates of the next chunk, unless no instance is in progress.
    pub(crate) fn span(&self, limit: usize) -> Option<Span> {
        (self.phase == Phase::Running)
            .then(|| (self.cursor).span(&self.program, self.params.scheme, limit, self.lanes))
    }

    /// Returns all gates of instances that have no tables, or `None` where they have some.
    pub(crate) fn free_span(&self, lanes: usize) -> Option<Span> {
        // Any limit: without tables there is one span.
        let span = Cursor::default().span(&self.program, self.params.scheme, 0, lanes);
        (span.bytes() == 0).then_some(span)
    }

    /// Does the gates of the span that comes next.
    pub(crate) fn run<K: Kernel>(&mut self, span: &Span, kernel: K, place: PlaceInputs<'_>) {
        let first_id = self.first_id();
        let runs = Runs::new(&self.program, span, !K::XOR_TABLES);
        // SAFETY: no gate of a program names a slot past those it has, which `spare` is the first of, and its XOR gates have no
        // inversion marks: `Program` promises it, and cannot be made otherwise. There is room for all slots, as `make_room` has
        // made it before the instances were begun.
        let job = unsafe {
            ChunkJob::new(
                kernel,
                place,
                &mut self.slots,
                self.spare,
                self.lanes,
                runs,
                first_id,
            )
        };
        self.dispatch.run(job);
        self.cursor = span.end;
        if self.cursor.at_end(&self.program) {
            self.phase = Phase::Done;
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Takes the outputs of the next instance, once: its number, and what `of` makes of the lane and the slot of each output that
    /// has one.
    pub(crate) fn take_outputs<T: Zeroize>(
        &mut self,
        of: impl Fn(&Self, usize, usize) -> T,
    ) -> Result<(u64, Zeroizing<Vec<T>>), GarbleError> {
        let lane = self.take()?;
        let outputs = self.program.outputs();
        let mut labels = Zeroizing::new(Vec::with_capacity(outputs.len()));
        for output in outputs {
            if let OutputBit::Slot { slot, .. } = *output {
                labels.push(of(self, lane, slot as usize));
            }
        }
        Ok((self.instance() + lane as u64, labels))
    }

    /// Allows the outputs of each instance to be taken once; returns its lane.
    fn take(&mut self) -> Result<usize, GarbleError> {
        if self.phase != Phase::Done {
            return Err(GarbleError::NoOutputs);
        }
        let lane = self.taken;
        self.taken += 1;
        if self.taken == self.lanes {
            self.phase = Phase::Idle;
        }
        Ok(lane)
    }

    /// Returns the number of the next instance.
    pub(crate) fn instances_begun(&self) -> u64 {
        self.begun
    }

    /// Says whether any instance has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun > 0
    }

    /// Leaves out the instances before `instance`.
    pub(crate) fn leave_out(&mut self, instance: u64) -> Result<(), GarbleError> {
        if self.phase == Phase::Running {
            return Err(GarbleError::Unfinished {
                instance: self.instance(),
            });
        }
        assert!(instance >= self.begun, "instances only go forward");
        self.begun = instance;
        self.phase = Phase::Idle;
        Ok(())
    }

    /// Starts counting instances at `begun`, to reach the limits in tests.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, begun: u64) {
        self.begun = begun;
    }
}

#[cfg(test)]
mod tests {
    use transpute_circuit::generators;

    use super::*;
    use crate::Scheme;

    #[test]
    fn gate_ids_go_on_across_instances() {
        let program = Arc::new(Program::compile(&generators::aes128()));
        let split = InputSplit::first_to_garbler(program.input_widths());
        for scheme in Scheme::ALL {
            let params = Params::random(scheme, 1, &mut rand::rng());
            let backend = Backend::Portable;
            let mut frame = Frame::new(program.clone(), &split, params, backend, 1).unwrap();
            let per_instance = match scheme {
                Scheme::Prf => program.gates().len() as u64,
                _ => program.and_count(),
            };
            for instance in 0..3 {
                assert_eq!(frame.next_instance(1), Ok(instance));
                frame.skip_to(instance);
                frame.begin(1);
                assert_eq!(frame.instance(), instance);
                assert_eq!(frame.first_id(), instance * per_instance);
                frame.phase = Phase::Done;
            }
        }
    }
}
