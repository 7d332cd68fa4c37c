//! From a [`Circuit`] to a [`Program`].

use super::{OutputBit, Program, fold::Folded, progress, schedule};
use crate::Circuit;

/// How many gates are put in order at a time, unless fewer make long batches already.
///
/// Gates move only within their window, so the peak number of slots is at most that of the file's
/// order plus one window, while a window is long enough to fill batches.
const WINDOW: usize = 1 << 16;

impl Program {
    /// Compiles a circuit.
    ///
    /// The result depends on the circuit alone. Beyond the circuit and the program this takes
    /// five bytes of memory per wire.
    #[must_use]
    pub fn compile(circuit: &Circuit) -> Self {
        compile(circuit, WINDOW)
    }
}

/// Compiles with windows of the given number of gates.
pub(super) fn compile(circuit: &Circuit, window: usize) -> Program {
    let folded = Folded::new(circuit);
    let (and_count, xor_count) = (folded.and_count, folded.xor_count);
    let scheduled = schedule::schedule(circuit, folded, window);
    let outputs = (circuit.outputs().iter())
        .map(|&wire| {
            let value = scheduled.places.resolve(wire);
            match value.constant() {
                Some(bit) => OutputBit::Constant(bit),
                None => OutputBit::Slot {
                    slot: scheduled.places.slot(value.root()),
                    invert: value.is_inverted(),
                },
            }
        })
        .collect();
    let mut program = Program {
        input_widths: circuit.input_widths().to_vec(),
        output_widths: circuit.output_widths().to_vec(),
        slot_count: scheduled.slot_count,
        loads: scheduled.loads,
        gates: scheduled.gates,
        progress: progress::of(&scheduled.batches),
        batches: scheduled.batches,
        outputs,
        and_count,
        xor_count,
        digest: [0; 32],
    };
    program.digest = program.compute_digest();
    program
}
