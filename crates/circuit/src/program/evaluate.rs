//! Evaluation of a program in the clear.

use super::{BatchKind, INVERT, OutputBit, Program};
use crate::Bits;

impl Program {
    /// Computes the outputs in the clear, all output values concatenated.
    ///
    /// # Panics
    /// If `inputs` has not as many bits as the program has inputs.
    #[must_use]
    pub fn evaluate(&self, inputs: &Bits) -> Bits {
        assert_eq!(inputs.len(), self.input_bits(), "input bits");
        let mut slots = inputs.clone();
        slots.extend((inputs.len()..self.slot_count()).map(|_| false));
        let read = |slots: &Bits, operand: u32| {
            slots.get((operand & !INVERT) as usize) != (operand & INVERT != 0)
        };
        let mut gates = self.gates.iter();
        for batch in &self.batches {
            for gate in gates.by_ref().take(batch.len as usize) {
                let (a, b) = (read(&slots, gate.a), read(&slots, gate.b));
                let bit = match batch.kind {
                    BatchKind::Xor => a ^ b,
                    BatchKind::And => a & b,
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
