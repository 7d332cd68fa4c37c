//! Checks of the invariants of a program.

use thiserror::Error;

use super::{BatchKind, INVERT, Load, OutputBit, Program};
use crate::Bits;

/// The invariant that a program breaks.
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
    /// The kind of a batch is unknown.
    #[error("the kind of a batch is not XOR, AND or input")]
    UnknownKind,
    /// A load names an input bit that the program does not have.
    #[error("load {load} names input bit {input} of {inputs}")]
    InputRange {
        /// Position of the load.
        load: usize,
        /// The input bit.
        input: u32,
        /// Number of input bits.
        inputs: usize,
    },
    /// A load names a slot past the number of slots.
    #[error("load {load} uses slot {slot} of {slots}")]
    LoadRange {
        /// Position of the load.
        load: usize,
        /// The slot.
        slot: u32,
        /// Number of slots.
        slots: u32,
    },
    /// An input bit is loaded twice.
    #[error("load {load} is the second one of input bit {input}")]
    LoadedTwice {
        /// Position of the load.
        load: usize,
        /// The input bit.
        input: u32,
    },
    /// Two loads of a batch use the same slot.
    #[error("load {load} and another load of its batch both use slot {slot}")]
    DependentLoad {
        /// Position of the second load.
        load: usize,
        /// The slot.
        slot: u32,
    },
    /// The number of AND or XOR gates differs from the sum of the batch lengths.
    #[error("the batches have {expected} {kind:?} gates, not {found}")]
    Count {
        /// The kind of gate.
        kind: BatchKind,
        /// Gates of that kind in the batches.
        expected: u64,
        /// The number of gates of that kind in the program's totals.
        found: u64,
    },
    /// A slot number is not below the number of slots.
    #[error("gate {gate} uses slot {slot} of {slots}")]
    SlotRange {
        /// Position of the gate.
        gate: usize,
        /// The slot.
        slot: u32,
        /// Number of slots.
        slots: u32,
    },
    /// A slot is read before it holds a label.
    #[error("gate {gate} reads slot {slot}, which holds no label yet")]
    Undefined {
        /// Position of the gate.
        gate: usize,
        /// The slot.
        slot: u32,
    },
    /// Two gates of a batch depend on each other.
    #[error("gate {gate} and another gate of its batch both use slot {slot}, which one writes")]
    Dependent {
        /// Position of the gate that reads the slot, or of the second gate that writes it.
        gate: usize,
        /// The slot.
        slot: u32,
    },
    /// An operand of an XOR gate is inverted.
    #[error("xor gate {gate} has an inverted operand")]
    InvertedXor {
        /// Position of the gate.
        gate: usize,
    },
    /// The number of outputs, inputs or slots is inconsistent with the widths or the gates.
    #[error("there are {expected} {what}, not {found}")]
    Widths {
        /// What is counted: outputs, inputs or slots.
        what: &'static str,
        /// The number expected.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// An output uses a slot that holds no label.
    #[error("output bit {bit} names slot {slot}, which holds no label")]
    Output {
        /// Position of the output bit.
        bit: usize,
        /// The slot.
        slot: u32,
    },
    /// The digest does not match the program.
    #[error("the digest does not match the program")]
    Digest,
}

/// The entry in `writers` of a slot that holds no label yet.
const UNWRITTEN: u32 = 0;

/// Number of the first batch. Batch numbers fit in 32 bits: there are fewer than 2^31 batches of
/// gates and fewer than 2^31 batches of inputs.
const FIRST_BATCH: u32 = 1;

impl Program {
    /// Checks all documented invariants and the digest of a program from an untrusted source.
    ///
    /// The check uses 4 bytes of memory per slot and a bit per input bit. It cannot detect that an
    /// output names the slot of a wrong label, because that depends on the circuit.
    ///
    /// # Errors
    /// The [`ProgramError`] of the first invariant that does not hold.
    pub fn check(&self) -> Result<(), ProgramError> {
        self.check_with(self.compute_digest())
    }

    /// Checks the same as [`check`](Self::check), with the digest of the encoding already computed.
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
        // Each slot is written by a gate or a load. Without this limit, a few bytes could claim
        // memory for any number of slots.
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
        // The number of the batch that last wrote each slot.
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

/// The loads that are not yet checked.
struct Loads<'a> {
    program: &'a Program,
    done: usize,
    /// The input bits loaded so far.
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

    /// Checks the loads of the next batch.
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
