//! Orders a program's gates and assigns slots to their labels.

use super::{
    Batch, BatchKind, INVERT, Load, ProgramGate,
    fold::{Folded, UseCounts, Value},
    window::{Pending, Window},
};
use crate::{Circuit, Wire};

/// The result of [`schedule`].
pub(super) struct Scheduled {
    pub(super) gates: Vec<ProgramGate>,
    pub(super) loads: Vec<Load>,
    pub(super) batches: Vec<Batch>,
    pub(super) slot_count: u32,
    pub(super) places: Places,
}

/// Orders the gates window by window and assigns a slot to each wire.
pub(super) fn schedule(circuit: &Circuit, folded: Folded, window: usize) -> Scheduled {
    let mut emitter = Emitter {
        gates: Vec::with_capacity((folded.and_count + folded.xor_count) as usize),
        loads: Vec::new(),
        batches: Vec::new(),
        slots: Slots::default(),
        places: Places {
            values: folded.values,
            uses: folded.uses,
            inputs: circuit.input_bits(),
        },
        highest: 0,
    };
    for input in 0..circuit.input_bits() {
        emitter.places.set(input, UNPLACED);
    }
    let mut pending = Window::default();
    for (wire, gate) in (circuit.input_bits()..).zip(circuit.gates()) {
        if !emitter.places.uses.is_used(wire) {
            continue;
        }
        pending.push(gate.op, [gate.a, gate.b], wire, &mut emitter.places);
        if pending.len() == window || pending.is_wide(emitter.slots.count) {
            pending.flush(&mut emitter);
        }
    }
    pending.flush(&mut emitter);
    for &output in circuit.outputs() {
        let root = emitter.places.resolve(output).root();
        emitter.places.want(root, &mut pending.inputs);
    }
    emitter.load(&mut pending.inputs);
    emitter.batches.shrink_to_fit();
    assert!(
        emitter.highest < emitter.slots.count || emitter.gates.is_empty(),
        "gates read what is in a slot"
    );
    Scheduled {
        gates: emitter.gates,
        loads: emitter.loads,
        batches: emitter.batches,
        slot_count: emitter.slots.count,
        places: emitter.places,
    }
}

/// The place, in [`Places`], of an input bit that no gate has read yet. Slot numbers are smaller.
const UNPLACED: u32 = INVERT - 2;
/// The place, in [`Places`], of an input bit that a gate of the current window is the first to
/// read.
const WANTED: u32 = INVERT - 3;

/// The current place of each wire: a slot, a position in the window, or a marker.
pub(super) struct Places {
    /// A value for each wire. The value of a root contains the position in the window while its
    /// gate is pending, and then the slot, in place of the root. Its inversion is unchanged. Other
    /// wires have their folded value.
    values: Vec<Value>,
    /// For each root, the number of reads by gates and outputs that are not yet emitted.
    uses: UseCounts,
    /// The number of input bits; lower wires are inputs.
    inputs: u32,
}

impl Places {
    /// Returns the value of a wire that a later gate or output reads.
    ///
    /// Only a root that is still to be read has uses left. This distinguishes roots from other
    /// wires without a table.
    pub(super) fn resolve(&self, wire: Wire) -> Value {
        let value = self.values[wire as usize];
        if self.uses.is_used(wire) {
            Value::new(wire, value.is_inverted())
        } else {
            value
        }
    }

    /// If `root` is an input bit without a slot, adds it to `wanted`.
    pub(super) fn want(&mut self, root: Wire, wanted: &mut Vec<Wire>) {
        if root < self.inputs && self.slot(root) == UNPLACED {
            self.set(root, WANTED);
            wanted.push(root);
        }
    }

    /// Returns the slot of a root whose gate was emitted.
    pub(super) fn slot(&self, root: Wire) -> u32 {
        self.values[root as usize].root()
    }

    /// Sets the place of a root: its slot, or its position in the window.
    pub(super) fn set(&mut self, root: Wire, place: u32) {
        let value = &mut self.values[root as usize];
        *value = Value::new(place, value.is_inverted());
    }
}

/// Appends batches to the program.
pub(super) struct Emitter {
    gates: Vec<ProgramGate>,
    loads: Vec<Load>,
    batches: Vec<Batch>,
    slots: Slots,
    pub(super) places: Places,
    /// The highest slot that any gate reads.
    highest: u32,
}

impl Emitter {
    /// Assigns slots to input bits.
    pub(super) fn load(&mut self, inputs: &mut Vec<Wire>) {
        if inputs.is_empty() {
            return;
        }
        // Sort the bits, because adjacent input bits are usually transferred and read together.
        inputs.sort_unstable();
        self.batches.push(Batch {
            kind: BatchKind::Input,
            len: inputs.len() as u32,
        });
        for input in inputs.drain(..) {
            let slot = self.slots.take();
            self.places.set(input, slot);
            self.loads.push(Load { input, slot });
        }
    }

    pub(super) fn emit(
        &mut self,
        kind: BatchKind,
        gates: impl ExactSizeIterator<Item = Pending> + Clone,
    ) {
        self.batches.push(Batch {
            kind,
            len: gates.len() as u32,
        });
        for Pending { a, b, wire } in gates.clone() {
            let out = self.slots.take();
            let operands = [a, b].map(|operand| self.places.slot(operand & !INVERT));
            self.highest = self.highest.max(operands[0]).max(operands[1]);
            self.gates.push(ProgramGate {
                a: operands[0] | a & INVERT,
                b: operands[1] | b & INVERT,
                out,
            });
            self.places.set(wire, out);
        }
        // Slots are freed only after the loop, so that no gate of the batch writes what another one
        // reads.
        for root in gates.flat_map(|gate| [gate.a & !INVERT, gate.b & !INVERT]) {
            if self.places.uses.release(root) {
                self.slots.free(self.places.slot(root));
            }
        }
    }
}

/// The free slots; the slot freed last is reused first, because it is likely to be in the cache.
#[derive(Default)]
struct Slots {
    unused: Vec<u32>,
    count: u32,
}

impl Slots {
    fn take(&mut self) -> u32 {
        self.unused.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }

    fn free(&mut self, slot: u32) {
        self.unused.push(slot);
    }
}
