//! The state shared by garbler and evaluator: the program, the labels of the live wires, the
//! position, and the sequence of instances.
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
    kernel::{ChunkJob, Kernel, LoadInputs},
    slots::Slots,
};

/// The maximum number of tweaks with one offset and one [`Params::start`].
const MAX_TWEAKS: u128 = 1 << 56;

/// The shared state of a garbler or an evaluator.
pub(crate) struct Execution {
    pub(crate) program: Arc<Program>,
    pub(crate) params: Params,
    dispatch: Dispatch,
    /// The labels of each slot, followed by one spare slot. The labels of instances side by side
    /// are adjacent.
    pub(crate) slots: Slots,
    labels_per_slot: usize,
    /// Index of the spare slot, which follows the program's slots. Padding gates of incomplete
    /// groups write to it.
    spare: u32,
    /// Number of instances in progress.
    pub(crate) lanes: usize,
    /// Number of instances in progress whose outputs were taken.
    taken: usize,
    cursor: Cursor,
    phase: Phase,
    begun: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// No instance has begun, or all outputs were taken.
    Idle,
    /// Some chunks of the instances in progress are not processed yet.
    Running,
    /// All gates are processed, and some outputs are not taken yet.
    Done,
}

impl Execution {
    /// Returns a label of a slot, for one lane.
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
            // The cast is lossless, because slot numbers have 31 bits.
            spare: spare as u32,
            lanes: 1,
            taken: 0,
            cursor: Cursor::default(),
            phase: Phase::Idle,
            begun: 0,
            program,
        })
    }

    /// Returns the number of gates per instance that use tweaks.
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

    /// Returns the number of the first instance in progress. If none is in progress, it is the
    /// first of the instances finished last, or 0 at the beginning.
    pub(crate) fn instance(&self) -> u64 {
        self.begun.saturating_sub(self.lanes as u64)
    }

    /// Returns the id of the first gate of the instances in progress.
    fn first_id(&self) -> u64 {
        // This cannot overflow: `next_instance` checked the number of tweaks.
        self.instance() * self.tweaked_gates()
    }

    /// Checks that the next `lanes` instances may begin side by side, and returns the number of the
    /// first one.
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

    /// Allocates the slots for `lanes` instances; call [`Execution::next_instance`] before.
    pub(crate) fn make_room(&mut self, lanes: usize) {
        let labels = (self.spare as usize + 1) * self.labels_per_slot * lanes;
        if self.slots.len() < labels {
            // A `Vec` that grows would leave a copy of the labels in the old memory.
            self.slots = Slots::zero(labels);
        }
    }

    /// Begins `lanes` instances; call [`Execution::make_room`] before.
    pub(crate) fn begin(&mut self, lanes: usize) {
        self.lanes = lanes;
        self.taken = 0;
        self.begun += lanes as u64;
        self.cursor = Cursor::default();
        self.phase = Phase::Running;
    }

    /// Returns the gates of the next chunk, or `None` if no instance is in progress.
    pub(crate) fn span(&self, limit: usize) -> Option<Span> {
        (self.phase == Phase::Running)
            .then(|| (self.cursor).span(&self.program, self.params.scheme, limit, self.lanes))
    }

    /// Returns all gates of the instances if they have no tables, else `None`.
    pub(crate) fn free_span(&self, lanes: usize) -> Option<Span> {
        // Gates without tables have no cost, so one span has all of them even with a limit of 0.
        let span = Cursor::default().span(&self.program, self.params.scheme, 0, lanes);
        (span.bytes() == 0).then_some(span)
    }

    /// Runs the kernel on the gates of the next span.
    pub(crate) fn run<K: Kernel>(&mut self, span: &Span, kernel: K, place: LoadInputs<'_>) {
        let first_id = self.first_id();
        let runs = Runs::new(&self.program, span, !K::XOR_TABLES);
        // SAFETY: `Program` guarantees that all slots of gates are below its number of slots, which
        // is `spare`, and that XOR gates have no inversion marks. `make_room` allocated `spare + 1`
        // slots before the instances began.
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

    /// Returns the number of the next finished instance whose outputs were not taken, and `of(lane,
    /// slot)` for each of its outputs with a slot. Marks these outputs as taken.
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

    /// Marks the outputs of the next finished instance as taken, and returns the lane of this
    /// instance.
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

    /// Returns the number of instances begun, which is the number of the next instance.
    pub(crate) fn instances_begun(&self) -> u64 {
        self.begun
    }

    /// Returns whether any instance has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun > 0
    }

    /// Skips the instances before `instance`.
    pub(crate) fn skip_to(&mut self, instance: u64) -> Result<(), GarbleError> {
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

    /// Sets the number of instances begun, so that tests can reach the limits.
    #[cfg(test)]
    pub(crate) fn set_begun(&mut self, begun: u64) {
        self.begun = begun;
    }
}

#[cfg(test)]
mod tests {
    use transpute_circuit::generators;

    use super::*;
    use crate::Scheme;

    #[test]
    fn gate_ids_continue_across_instances() {
        let program = Arc::new(Program::compile(&generators::aes128()));
        let split = InputSplit::first_to_garbler(program.input_widths());
        for scheme in Scheme::ALL {
            let params = Params::random(scheme, 1, &mut rand::rng());
            let backend = Backend::Portable;
            let mut execution =
                Execution::new(program.clone(), &split, params, backend, 1).unwrap();
            let per_instance = match scheme {
                Scheme::Prf => program.gates().len() as u64,
                _ => program.and_count(),
            };
            for instance in 0..3 {
                assert_eq!(execution.next_instance(1), Ok(instance));
                execution.set_begun(instance);
                execution.begin(1);
                assert_eq!(execution.instance(), instance);
                assert_eq!(execution.first_id(), instance * per_instance);
                execution.phase = Phase::Done;
            }
        }
    }
}
