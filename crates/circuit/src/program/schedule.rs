//! The order of a program's gates, and the slots of their labels.

use super::{
    Batch, BatchKind, INVERT, Load, ProgramGate,
    fold::{Folded, UseCounts, Value},
    window::{Pending, Window},
};
use crate::{Circuit, Wire};

/// The outcome of [`schedule`].
pub(super) struct Scheduled {
    pub(super) gates: Vec<ProgramGate>,
    pub(super) loads: Vec<Load>,
    pub(super) batches: Vec<Batch>,
    pub(super) slot_count: u32,
    pub(super) places: Places,
}

/// Orders the gates window by window and gives each wire a slot.
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
        emitter.places.set(input, NOWHERE);
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

/// The place of an input bit that nothing has read yet, and of one that the window at hand reads. No slot has so high a number.
const NOWHERE: u32 = INVERT - 2;
const WANTED: u32 = INVERT - 3;

/// Where the label of each wire is.
pub(super) struct Places {
    /// For a root: before its window nothing of interest, in its window its position there, then
    /// its slot, in the place of the root; the inversion stays. For other wires what they carry.
    values: Vec<Value>,
    /// Uses that are still to come.
    uses: UseCounts,
    /// The wires below are inputs.
    inputs: u32,
}

impl Places {
    /// Returns what a wire carries, which some gate or output has still to read.
    ///
    /// A root that is still to be read has uses and other wires have none: this tells the two
    /// apart without a table.
    pub(super) fn resolve(&self, wire: Wire) -> Value {
        let value = self.values[wire as usize];
        if self.uses.is_used(wire) {
            Value::new(wire, value.is_inverted())
        } else {
            value
        }
    }

    /// Notes a root that is read if it is an input bit that is in no slot yet.
    pub(super) fn want(&mut self, root: Wire, wanted: &mut Vec<Wire>) {
        if root < self.inputs && self.slot(root) == NOWHERE {
            self.set(root, WANTED);
            wanted.push(root);
        }
    }

    /// Returns the slot of a root, whose gate was emitted.
    pub(super) fn slot(&self, root: Wire) -> u32 {
        self.values[root as usize].root()
    }

    /// Sets the slot of a root, or its position in the window.
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
    /// The highest slot that a gate reads.
    highest: u32,
}

impl Emitter {
    /// Gives input bits their slots.
    pub(super) fn load(&mut self, inputs: &mut Vec<Wire>) {
        if inputs.is_empty() {
            return;
        }
        // Neighbours are made or read together.
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
        // Only now, so that no gate of the batch writes what another reads.
        for root in gates.flat_map(|gate| [gate.a & !INVERT, gate.b & !INVERT]) {
            if self.places.uses.release(root) {
                self.slots.give_back(self.places.slot(root));
            }
        }
    }
}

/// The slots that hold no label; the one freed last is handed out first, being warm in the cache.
#[derive(Default)]
struct Slots {
    free: Vec<u32>,
    count: u32,
}

impl Slots {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }

    fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }
}
