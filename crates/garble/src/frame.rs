//! What the garbler and the evaluator have in common: the program, the labels of the live wires,
//! the position, and the order in which instances may be begun and finished.

use std::sync::Arc;

use transpute_circuit::{InputSplit, Program};
use zeroize::Zeroizing;

use crate::{
    Backend, GarbleError, Label, Params,
    backend::Dispatch,
    chunk::{Cursor, Runs, Span},
    kernel::{ChunkJob, Kernel},
};

/// Tweaks one offset and start value may serve.
const MAX_TWEAKS: u128 = 1 << 56;

/// The shared part of a garbler and an evaluator.
pub(crate) struct Frame {
    pub(crate) program: Arc<Program>,
    pub(crate) params: Params,
    dispatch: Dispatch,
    /// The labels of each slot, and of one spare slot at the end.
    pub(crate) slots: Zeroizing<Vec<Label>>,
    spare: u32,
    /// Slots of the garbler's input bits, in wire order.
    pub(crate) garbler_slots: Vec<u32>,
    /// Slots of the evaluator's input bits, in wire order.
    pub(crate) evaluator_slots: Vec<u32>,
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
        let spare = program.slot_count().max(program.input_bits());
        let labels = (spare + 1) * labels_per_slot;
        Ok(Self {
            params,
            dispatch,
            slots: Zeroizing::new(vec![Label::ZERO; labels]),
            // Slots are numbered with 31 bits.
            spare: spare as u32,
            garbler_slots: split.ranges(true).flatten().collect(),
            evaluator_slots: split.ranges(false).flatten().collect(),
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

    /// Number of the instance in progress or last finished; 0 before the first.
    pub(crate) fn instance(&self) -> u64 {
        self.begun.saturating_sub(1)
    }

    /// Id of the first gate of this instance.
    fn first_id(&self) -> u64 {
        // Bounded when the instance was begun.
        self.instance() * self.tweaked_gates()
    }

    /// Checks that the next instance may begin, and returns its number.
    pub(crate) fn next_instance(&self) -> Result<u64, GarbleError> {
        if self.phase == Phase::Running {
            return Err(GarbleError::Unfinished {
                instance: self.instance(),
            });
        }
        let instance = self.begun;
        let gates = (u128::from(instance) + 1) * u128::from(self.tweaked_gates());
        let tweaks = gates.saturating_mul(u128::from(self.params.scheme.tweaks_per_gate()));
        if tweaks > MAX_TWEAKS || instance == u64::MAX {
            return Err(GarbleError::TooManyGates { instance });
        }
        Ok(instance)
    }

    /// Begins the instance that [`Frame::next_instance`] allowed.
    pub(crate) fn begin(&mut self) {
        self.begun += 1;
        self.cursor = Cursor::default();
        self.phase = Phase::Running;
    }

    /// Returns the gates of the next chunk, unless no instance is in progress.
    pub(crate) fn span(&self, limit: usize) -> Option<Span> {
        (self.phase == Phase::Running)
            .then(|| (self.cursor).span(&self.program, self.params.scheme, limit))
    }

    /// Does the gates of the span that comes next.
    pub(crate) fn run(&mut self, span: &Span, kernel: impl Kernel) {
        self.dispatch.run(ChunkJob {
            kernel,
            first_id: self.first_id(),
            spare: self.spare,
            runs: Runs::new(&self.program, span),
            slots: &mut self.slots,
        });
        self.cursor = span.end;
        if self.cursor.at_end(&self.program) {
            self.phase = Phase::Done;
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Allows the outputs to be taken once.
    pub(crate) fn take(&mut self) -> Result<(), GarbleError> {
        if self.phase != Phase::Done {
            return Err(GarbleError::NoOutputs);
        }
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
                assert_eq!(frame.next_instance(), Ok(instance));
                frame.skip_to(instance);
                frame.begin();
                assert_eq!(frame.instance(), instance);
                assert_eq!(frame.first_id(), instance * per_instance);
                frame.phase = Phase::Done;
            }
        }
    }
}
