//! Orders a program's gates and assigns slots to its wires.

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

/// Orders the kept gates within windows of at most `window` gates, and assigns a slot to each input
/// bit and gate output that is read.
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

/// The marker in [`Places`] of an input bit that no gate has read yet. Slot numbers are smaller.
const UNPLACED: u32 = INVERT - 2;
/// The marker in [`Places`] of an input bit that is read for the first time in the current window.
const WANTED: u32 = INVERT - 3;

/// The current place of each root: a slot, an index in the window, or a marker.
pub(super) struct Places {
    /// For each wire, its folded value. In the value of a root, the place replaces the root's
    /// number: the index in the window while its gate is in the window, and the slot afterwards.
    values: Vec<Value>,
    /// For each root, the number of reads by outputs and by gates that are not yet in the program.
    uses: UseCounts,
    /// The number of input bits. Wires with smaller numbers are input bits.
    inputs: u32,
}

impl Places {
    /// Returns the folded value of a wire that a later gate or output reads.
    ///
    /// The uses distinguish roots from other wires: a root that is still to be read has uses left,
    /// and a wire that is not a root never has uses.
    pub(super) fn resolve(&self, wire: Wire) -> Value {
        let value = self.values[wire as usize];
        if self.uses.is_used(wire) {
            Value::new(wire, value.is_inverted())
        } else {
            value
        }
    }

    /// Adds `root` to `wanted` if it is an input bit that is neither in a slot nor in `wanted`.
    pub(super) fn want(&mut self, root: Wire, wanted: &mut Vec<Wire>) {
        if root < self.inputs && self.slot(root) == UNPLACED {
            self.set(root, WANTED);
            wanted.push(root);
        }
    }

    /// Returns the place of a root: its slot, or its index in the window.
    pub(super) fn slot(&self, root: Wire) -> u32 {
        self.values[root as usize].root()
    }

    /// Sets the place of a root: its slot, or its index in the window.
    pub(super) fn set(&mut self, root: Wire, place: u32) {
        let value = &mut self.values[root as usize];
        *value = Value::new(place, value.is_inverted());
    }
}

/// The program under construction, with the slots of its wires.
pub(super) struct Emitter {
    gates: Vec<ProgramGate>,
    loads: Vec<Load>,
    batches: Vec<Batch>,
    slots: Slots,
    pub(super) places: Places,
    /// The largest number of a slot that a gate reads.
    highest: u32,
}

impl Emitter {
    /// Appends a batch that loads the input bits in `inputs`, and empties `inputs`.
    pub(super) fn load(&mut self, inputs: &mut Vec<Wire>) {
        if inputs.is_empty() {
            return;
        }
        // Adjacent input bits are usually transferred and read together, so they get slots in
        // order.
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
        // Slots are freed only after the loop, so that no gate of the batch writes a slot that
        // another gate of the batch reads.
        for root in gates.flat_map(|gate| [gate.a & !INVERT, gate.b & !INVERT]) {
            if self.places.uses.release(root) {
                self.slots.free(self.places.slot(root));
            }
        }
    }
}

/// The free slots, and the number of all slots. The slot freed last is reused first, because its
/// memory is likely to be in the CPU caches.
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
