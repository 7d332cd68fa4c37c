//! Checks the invariants of a [`Program`] that was not made by the compiler.

use thiserror::Error;

use super::{BatchKind, INVERT, Load, OutputBit, Program};
use crate::Bits;

/// The reason why a program is invalid: an invariant of [`Program`] that it violates, or an
/// inconsistent count.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ProgramError {
    /// The batch lengths do not add up to the number of gates or loads, or a batch is empty.
    #[error("the batches have {expected} {what} in all and at least one each, not {found}")]
    BatchLengths {
        /// What the batches contain: gates or loads.
        what: &'static str,
        /// The number of these gates or loads in the program.
        expected: usize,
        /// The sum of the batch lengths, or 0 if a batch is empty.
        found: u64,
    },
    /// The encoded kind of a batch is not XOR, AND or input.
    #[error("the kind of a batch is not XOR, AND or input")]
    UnknownKind,
    /// A load names an input bit that the program does not have.
    #[error("load {load} names input bit {input} of {inputs}")]
    InputRange {
        /// Index of the load in [`Program::loads`].
        load: usize,
        /// The number of the input bit that the load names.
        input: u32,
        /// The program's number of input bits.
        inputs: usize,
    },
    /// A load writes a slot whose number is not below the number of slots.
    #[error("load {load} uses slot {slot} of {slots}")]
    LoadRange {
        /// Index of the load in [`Program::loads`].
        load: usize,
        /// The number of the slot that the load writes.
        slot: u32,
        /// The program's number of slots.
        slots: u32,
    },
    /// Two loads name the same input bit.
    #[error("load {load} is the second one of input bit {input}")]
    LoadedTwice {
        /// Index of the second load in [`Program::loads`].
        load: usize,
        /// The number of the input bit that both loads name.
        input: u32,
    },
    /// Two loads of one batch write the same slot.
    #[error("load {load} and another load of its batch both use slot {slot}")]
    DependentLoad {
        /// Index of the second load in [`Program::loads`].
        load: usize,
        /// The number of the slot that both loads write.
        slot: u32,
    },
    /// The program's total of AND or XOR gates differs from the sum of the batch lengths.
    #[error("the batches have {expected} {kind:?} gates, not {found}")]
    Count {
        /// The kind of gate with the wrong total.
        kind: BatchKind,
        /// The sum of the lengths of the batches of this kind.
        expected: u64,
        /// The program's total of gates of this kind.
        found: u64,
    },
    /// A gate uses a slot whose number is not below the number of slots.
    #[error("gate {gate} uses slot {slot} of {slots}")]
    SlotRange {
        /// Index of the gate in [`Program::gates`].
        gate: usize,
        /// The number of the slot that the gate reads or writes.
        slot: u32,
        /// The program's number of slots.
        slots: u32,
    },
    /// A gate reads a slot to which no earlier gate or load writes a label.
    #[error("gate {gate} reads slot {slot}, which holds no label yet")]
    Undefined {
        /// Index of the gate in [`Program::gates`].
        gate: usize,
        /// The number of the slot without a label.
        slot: u32,
    },
    /// A gate uses a slot that a gate of the same batch writes.
    #[error("gate {gate} and another gate of its batch both use slot {slot}, which one writes")]
    Dependent {
        /// Index in [`Program::gates`] of the gate that reads the slot, or of the second gate that
        /// writes it.
        gate: usize,
        /// The number of the slot that both gates use.
        slot: u32,
    },
    /// An operand of an XOR gate is inverted.
    #[error("xor gate {gate} has an inverted operand")]
    InvertedXor {
        /// Index of the gate in [`Program::gates`].
        gate: usize,
    },
    /// The number of output bits differs from the sum of the output widths, or the program has too
    /// many input bits or slots.
    #[error("there are {expected} {what}, not {found}")]
    Widths {
        /// The name of the counted things: output bits, input bits or slots.
        what: &'static str,
        /// The sum of the output widths, or the largest valid number of input bits or slots.
        expected: u64,
        /// The program's number of output bits, input bits or slots.
        found: u64,
    },
    /// An output bit names a slot that does not exist or holds no label.
    #[error("output bit {bit} names slot {slot}, which holds no label")]
    Output {
        /// Index of the output bit in [`Program::outputs`].
        bit: usize,
        /// The number of the slot.
        slot: u32,
    },
    /// The program's digest differs from the hash of its encoding.
    #[error("the digest does not match the program")]
    Digest,
}

/// The batch number for a slot that no batch has written yet.
const UNWRITTEN: u32 = 0;

/// Number of the first batch. Batch numbers fit in 32 bits, because a program has fewer than 2^31
/// batches of gates and fewer than 2^31 batches of loads.
const FIRST_BATCH: u32 = 1;

impl Program {
    /// Checks all documented invariants and the digest of a program from an untrusted source.
    ///
    /// The check allocates 4 bytes per slot and 1 bit per input bit. It cannot detect that the
    /// program computes another function than its circuit, because it does not read the circuit.
    ///
    /// # Errors
    /// Returns the [`ProgramError`] of the first violation found.
    pub fn check(&self) -> Result<(), ProgramError> {
        self.check_with(self.compute_digest())
    }

    /// Does the same as [`check`](Self::check) with the hash of the program's encoding, which the
    /// caller has computed.
    pub(super) fn check_with(&self, digest: [u8; 32]) -> Result<(), ProgramError> {
        self.check_counts()?;
        self.check_slots()?;
        if digest != self.digest {
            return Err(ProgramError::Digest);
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), ProgramError> {
        let sum = |widths: &[u32]| widths.iter().map(|&width| u64::from(width)).sum::<u64>();
        let outputs = sum(&self.output_widths);
        if outputs != self.outputs.len() as u64 {
            return Err(ProgramError::Widths {
                what: "output bits",
                expected: outputs,
                found: self.outputs.len() as u64,
            });
        }
        let inputs = sum(&self.input_widths);
        let slots = u64::from(self.slot_count);
        // Every slot in use is written by a gate or a load. Without this limit, a file of a few
        // bytes could cause the allocation of memory for any number of slots.
        let used = (self.gates.len() + self.loads.len()) as u64;
        for (what, expected, found) in [
            ("slots at most", used, slots),
            ("input bits at most", u64::from(INVERT) - 1, inputs),
        ] {
            if found > expected {
                return Err(ProgramError::Widths {
                    what,
                    expected,
                    found,
                });
            }
        }
        let empty = self.batches.iter().any(|batch| batch.len == 0);
        let count = |kind| -> u64 {
            (self.batches.iter().filter(|batch| batch.kind == kind))
                .map(|batch| u64::from(batch.len))
                .sum()
        };
        let gates = count(BatchKind::Xor) + count(BatchKind::And);
        for (what, expected, found) in [
            ("gates", self.gates.len(), gates),
            ("loads", self.loads.len(), count(BatchKind::Input)),
        ] {
            if empty || found != expected as u64 {
                return Err(ProgramError::BatchLengths {
                    what,
                    expected,
                    found: if empty { 0 } else { found },
                });
            }
        }
        for (kind, found) in [
            (BatchKind::Xor, self.xor_count),
            (BatchKind::And, self.and_count),
        ] {
            if count(kind) != found {
                return Err(ProgramError::Count {
                    kind,
                    expected: count(kind),
                    found,
                });
            }
        }
        Ok(())
    }

    fn check_slots(&self) -> Result<(), ProgramError> {
        // For each slot, the number of the batch that wrote it last.
        let mut writers = vec![UNWRITTEN; self.slot_count()];
        let mut loads = Loads::of(self);
        let mut rest = &self.gates[..];
        for (batch, number) in self.batches.iter().zip(FIRST_BATCH..) {
            if batch.kind == BatchKind::Input {
                loads.check(batch.len as usize, number, &mut writers)?;
                continue;
            }
            let first = self.gates.len() - rest.len();
            let gates;
            (gates, rest) = rest.split_at(batch.len as usize);
            let range = |gate, slot| ProgramError::SlotRange {
                gate,
                slot,
                slots: self.slot_count,
            };
            for (gate, operation) in (first..).zip(gates) {
                let slot = operation.out;
                let writer = (writers.get_mut(slot as usize)).ok_or_else(|| range(gate, slot))?;
                if *writer == number {
                    return Err(ProgramError::Dependent { gate, slot });
                }
                *writer = number;
            }
            // No gate of the batch may read a slot that any gate of the batch writes.
            for (gate, operation) in (first..).zip(gates) {
                if batch.kind == BatchKind::Xor && (operation.a | operation.b) & INVERT != 0 {
                    return Err(ProgramError::InvertedXor { gate });
                }
                for slot in [operation.a & !INVERT, operation.b & !INVERT] {
                    let writer = writers.get(slot as usize);
                    match *writer.ok_or_else(|| range(gate, slot))? {
                        UNWRITTEN => return Err(ProgramError::Undefined { gate, slot }),
                        writer if writer == number => {
                            return Err(ProgramError::Dependent { gate, slot });
                        }
                        _ => {}
                    }
                }
            }
        }
        for (bit, output) in self.outputs.iter().enumerate() {
            if let OutputBit::Slot { slot, .. } = *output
                && writers
                    .get(slot as usize)
                    .is_none_or(|&writer| writer == UNWRITTEN)
            {
                return Err(ProgramError::Output { bit, slot });
            }
        }
        Ok(())
    }
}

/// The state of the check of a program's loads. The first `done` loads are checked.
struct Loads<'a> {
    program: &'a Program,
    done: usize,
    /// For each input bit, whether a checked load names it.
    seen: Bits,
}

impl<'a> Loads<'a> {
    fn of(program: &'a Program) -> Self {
        Self {
            program,
            done: 0,
            seen: Bits::zeros(program.input_bits()),
        }
    }

    /// Checks the next `count` loads, which form the batch with this number, and enters the number
    /// in `writers` for the slots that they write.
    fn check(
        &mut self,
        count: usize,
        number: u32,
        writers: &mut [u32],
    ) -> Result<(), ProgramError> {
        let loads = (self.done..).zip(&self.program.loads[self.done..][..count]);
        for (load, &Load { input, slot }) in loads {
            if input as usize >= self.seen.len() {
                let inputs = self.seen.len();
                return Err(ProgramError::InputRange {
                    load,
                    input,
                    inputs,
                });
            }
            if self.seen.get(input as usize) {
                return Err(ProgramError::LoadedTwice { load, input });
            }
            self.seen.set(input as usize, true);
            let slots = self.program.slot_count;
            let writer = (writers.get_mut(slot as usize)).ok_or(ProgramError::LoadRange {
                load,
                slot,
                slots,
            })?;
            if std::mem::replace(writer, number) == number {
                return Err(ProgramError::DependentLoad { load, slot });
            }
        }
        self.done += count;
        Ok(())
    }
}
