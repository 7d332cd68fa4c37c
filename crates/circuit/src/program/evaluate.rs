//! Evaluates a program on plaintext bits, without garbling.

use super::{BatchKind, INVERT, OutputBit, Program};
use crate::Bits;

impl Program {
    /// Evaluates the program on plaintext bits, without garbling. `inputs` and the result are the
    /// concatenations of all input values and all output values.
    ///
    /// # Panics
    /// Panics if the length of `inputs` differs from the number of input bits.
    #[must_use]
    pub fn evaluate(&self, inputs: &Bits) -> Bits {
        assert_eq!(inputs.len(), self.input_bits(), "input bits");
        let mut slots = Bits::zeros(self.slot_count());
        let read = |slots: &Bits, operand: u32| {
            slots.get((operand & !INVERT) as usize) != (operand & INVERT != 0)
        };
        let (mut gates, mut loads) = (self.gates.iter(), self.loads.iter());
        for batch in &self.batches {
            if batch.kind == BatchKind::Input {
                for load in loads.by_ref().take(batch.len as usize) {
                    slots.set(load.slot as usize, inputs.get(load.input as usize));
                }
                continue;
            }
            for gate in gates.by_ref().take(batch.len as usize) {
                let (a, b) = (read(&slots, gate.a), read(&slots, gate.b));
                let bit = match batch.kind {
                    BatchKind::And => a & b,
                    _ => a ^ b,
                };
                slots.set(gate.out as usize, bit);
            }
        }
        (self.outputs.iter())
            .map(|output| match *output {
                OutputBit::Constant(bit) => bit,
                OutputBit::Slot { slot, invert } => slots.get(slot as usize) != invert,
            })
            .collect()
    }
}
