//! The order of a program's gates, and the slots of their labels.

use super::{
    Batch, BatchKind, INVERT, ProgramGate,
    fold::{Folded, UseCounts, Value},
};
use crate::{Circuit, Op, Wire};

/// The outcome of [`schedule`].
pub(super) struct Scheduled {
    pub(super) gates: Vec<ProgramGate>,
    pub(super) batches: Vec<Batch>,
    pub(super) slot_count: u32,
    pub(super) places: Places,
}

/// Orders the gates window by window and gives each wire a slot.
pub(super) fn schedule(circuit: &Circuit, folded: Folded, window: usize) -> Scheduled {
    let mut emitter = Emitter {
        gates: Vec::with_capacity((folded.and_count + folded.xor_count) as usize),
        batches: Vec::new(),
        slots: Slots::new(circuit.input_bits(), &folded.uses),
        places: Places {
            values: folded.values,
            uses: folded.uses,
        },
    };
    let mut pending = Window::default();
    for (wire, gate) in (circuit.input_bits()..).zip(circuit.gates()) {
        if !emitter.places.uses.is_used(wire) {
            continue;
        }
        pending.push(gate.op, [gate.a, gate.b], wire, &mut emitter.places);
        if pending.gates.len() == window {
            pending.flush(&mut emitter);
        }
    }
    pending.flush(&mut emitter);
    emitter.batches.shrink_to_fit();
    Scheduled {
        gates: emitter.gates,
        batches: emitter.batches,
        slot_count: emitter.slots.count,
        places: emitter.places,
    }
}

/// Where the label of each wire is.
pub(super) struct Places {
    /// For a root: before its window nothing of interest, in its window its position there, then
    /// its slot, in the place of the root; the inversion stays. For other wires what they carry.
    values: Vec<Value>,
    /// Uses that are still to come.
    uses: UseCounts,
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

    /// Returns the slot of a root, whose gate was emitted.
    pub(super) fn slot(&self, root: Wire) -> u32 {
        self.values[root as usize].root()
    }

    /// Sets the slot of a root, or its position in the window.
    fn set(&mut self, root: Wire, place: u32) {
        let value = &mut self.values[root as usize];
        *value = Value::new(place, value.is_inverted());
    }
}

/// A gate whose operands are roots, perhaps with [`INVERT`].
#[derive(Clone, Copy)]
struct Pending {
    a: u32,
    b: u32,
    wire: Wire,
}

/// When a gate can run at the earliest, counted from the start of its window.
#[derive(Clone, Copy, Default)]
struct Time {
    /// The number of AND gates on the longest path to its inputs.
    level: u32,
    /// The number of XOR gates of the same level on the longest path to it; unused for AND.
    step: u32,
    is_and: bool,
}

/// Gates that are put in order together.
#[derive(Default)]
struct Window {
    /// The wire of the first gate; operands below are in slots already.
    first: Wire,
    gates: Vec<Pending>,
    times: Vec<Time>,
    /// XOR steps of each level.
    steps: Vec<u32>,
    /// First the number, then the end of the gates of each batch in `order`.
    ends: Vec<u32>,
    order: Vec<u32>,
}

impl Window {
    fn push(&mut self, op: Op, operands: [Wire; 2], wire: Wire, places: &mut Places) {
        let is_and = op == Op::And;
        if self.gates.is_empty() {
            self.first = wire;
        }
        let mut time = Time {
            is_and,
            ..Time::default()
        };
        let [a, b] = operands.map(|operand| {
            let value = places.resolve(operand);
            if value.root() >= self.first {
                let before = self.times[places.slot(value.root()) as usize];
                let level = before.level + u32::from(before.is_and);
                let step = if before.is_and { 0 } else { before.step + 1 };
                if (level, step) > (time.level, time.step) {
                    (time.level, time.step) = (level, step);
                }
            }
            let invert = is_and && value.is_inverted();
            value.root() | if invert { INVERT } else { 0 }
        });
        let level = time.level as usize;
        if self.steps.len() <= level {
            self.steps.resize(level + 1, 0);
        }
        if !is_and {
            self.steps[level] = self.steps[level].max(time.step + 1);
        }
        places.set(wire, self.gates.len() as u32);
        self.gates.push(Pending { a, b, wire });
        self.times.push(time);
    }

    /// Emits all gates and becomes empty.
    fn flush(&mut self, emitter: &mut Emitter) {
        // Level by level, first the XOR steps, then the AND gates.
        let mut batches = 0;
        for steps in &mut self.steps {
            let first = batches;
            batches += *steps + 1;
            *steps = first;
        }
        let batch_of = |time: &Time| {
            let level = time.level as usize;
            if time.is_and {
                self.steps.get(level + 1).map_or(batches, |&next| next) as usize - 1
            } else {
                (self.steps[level] + time.step) as usize
            }
        };
        self.ends.resize(batches as usize, 0);
        for time in &self.times {
            self.ends[batch_of(time)] += 1;
        }
        let mut start = 0;
        for end in &mut self.ends {
            start += std::mem::replace(end, start);
        }
        self.order.resize(self.gates.len(), 0);
        for (gate, time) in (0..).zip(&self.times) {
            let end = &mut self.ends[batch_of(time)];
            self.order[*end as usize] = gate;
            *end += 1;
        }
        let mut start = 0;
        for &end in &self.ends {
            let gates = &self.order[start..end as usize];
            if let Some(&first) = gates.first() {
                let kind = match self.times[first as usize].is_and {
                    true => BatchKind::And,
                    false => BatchKind::Xor,
                };
                emitter.emit(kind, gates.iter().map(|&gate| self.gates[gate as usize]));
            }
            start = end as usize;
        }
        self.gates.clear();
        self.times.clear();
        self.steps.clear();
        self.ends.clear();
    }
}

/// Appends batches to the program.
struct Emitter {
    gates: Vec<ProgramGate>,
    batches: Vec<Batch>,
    slots: Slots,
    places: Places,
}

impl Emitter {
    fn emit(&mut self, kind: BatchKind, gates: impl ExactSizeIterator<Item = Pending> + Clone) {
        self.batches.push(Batch {
            kind,
            len: gates.len() as u32,
        });
        for Pending { a, b, wire } in gates.clone() {
            let out = self.slots.take();
            self.gates.push(ProgramGate {
                a: self.places.slot(a & !INVERT) | a & INVERT,
                b: self.places.slot(b & !INVERT) | b & INVERT,
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
struct Slots {
    free: Vec<u32>,
    count: u32,
}

impl Slots {
    /// Starts with the input bits in the first slots, those that nobody reads being free.
    fn new(input_bits: u32, uses: &UseCounts) -> Self {
        let unread = |wire: &Wire| !uses.is_used(*wire);
        Self {
            free: (0..input_bits).rev().filter(unread).collect(),
            count: input_bits,
        }
    }

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
