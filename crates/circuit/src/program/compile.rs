//! Compiles a [`Circuit`] to a [`Program`].

use super::{OutputBit, Program, fold::Folded, progress, schedule};
use crate::Circuit;

/// Maximum number of gates per window, which is a sequence of gates that the compiler reorders. A
/// window ends earlier if fewer gates already form long batches.
///
/// Gates move only within their window. Compared with the circuit's order of gates, the number of
/// slots therefore grows by at most the number of gates in a window.
const MAX_WINDOW_GATES: usize = 1 << 16;

impl Program {
    /// Compiles a circuit for garbling and evaluation.
    ///
    /// Compilations of equal circuits return equal programs. The compiler needs 5 bytes of memory
    /// per wire in addition to the circuit and the program.
    #[must_use]
    pub fn compile(circuit: &Circuit) -> Self {
        compile(circuit, MAX_WINDOW_GATES)
    }
}

/// Compiles a circuit, and reorders gates within windows of at most `window` gates.
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
