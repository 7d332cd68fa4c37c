//! Orders the gates of one window, which is a sequence of gates that the compiler reorders.

use super::{
    BatchKind, INVERT,
    schedule::{Emitter, Places},
};
use crate::{Op, Wire};

/// AND gates get only ticks that are multiples of this number. A tick is a step of the schedule.
///
/// Each gate gets the earliest tick that is later than those of its operands. Gates of one kind
/// with the same tick form a batch. If AND gates could have any tick, those of parallel carry
/// chains would spread over all ticks, with a few gates at each. With multiples of 3, they form
/// larger batches. A period of 3 delays no gate of an adder, because at most two XOR gates separate
/// successive AND gates there.
///
/// Measured: the percentage of AND gates, and that of XOR gates, in batches of 8 gates or more. The
/// last row is a schedule with the smallest possible number of AND batches.
///
/// | period | SHA-256 | 64-bit multiplier |
/// | --- | --- | --- |
/// | 3 | 98, 99 | 97, 96 |
/// | 1 | 15, 99 | 83, 98 |
/// | fewest AND batches | 99, 65 | 99, 49 |
const AND_PERIOD: u32 = 3;

/// Minimum number of gates of a window that ends before it has the maximum number of gates.
const MIN_WINDOW_GATES: usize = 2048;

/// Average number of gates per batch from which on a window ends early: the first for programs with
/// at most [`FEW_SLOTS`] slots, the second for those with more.
///
/// Longer batches are faster only while the labels fit in the CPU caches. Measured with MinCut:
/// with 16 instead of 32, the program has half the slots (6,754 instead of 13,499). Eight
/// evaluations side by side then take 14 % less time, and a single evaluation takes 5 % more.
const GATES_PER_BATCH: [usize; 2] = [32, 16];

/// The largest number of slots whose labels fit in the CPU caches when eight evaluations are
/// garbled side by side. Their labels then take 512 KiB.
const FEW_SLOTS: u32 = 4096;

/// A gate of the window, not yet appended to the program. Its operands are roots, possibly with
/// [`INVERT`].
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) wire: Wire,
}

/// The gates of the current window.
#[derive(Default)]
pub(super) struct Window {
    /// The output wire of the window's first gate. Roots with smaller numbers are not outputs of
    /// gates in the window.
    first: Wire,
    gates: Vec<Pending>,
    /// Input bits that are read for the first time in this window.
    pub(super) inputs: Vec<Wire>,
    /// For each gate, its time: twice its tick, plus 1 for an AND gate.
    times: Vec<u32>,
    /// The largest time of a gate, plus one.
    end: u32,
    /// Indices of the gates, sorted by time.
    order: Vec<u32>,
    /// For each time, the index in `order` after the last gate with this time.
    ends: Vec<u32>,
}

impl Window {
    /// Returns the number of gates in the window.
    pub(super) fn len(&self) -> usize {
        self.gates.len()
    }

    /// Returns whether the window has enough gates for long batches. `slots` is the number of slots
    /// used so far. With more gates, the labels of a batch would not fit in the CPU caches.
    pub(super) fn is_wide(&self, slots: u32) -> bool {
        let wide = GATES_PER_BATCH[usize::from(slots > FEW_SLOTS)];
        self.len() >= MIN_WINDOW_GATES && self.len() >= wide * self.end as usize
    }

    /// Adds a gate, with `wire` as its output, after the gates that it reads.
    pub(super) fn push(&mut self, op: Op, operands: [Wire; 2], wire: Wire, places: &mut Places) {
        let is_and = op == Op::And;
        if self.gates.is_empty() {
            self.first = wire;
        }
        let mut tick = 0;
        let [a, b] = operands.map(|operand| {
            let value = places.resolve(operand);
            if value.root() >= self.first {
                let time = self.times[places.slot(value.root()) as usize];
                tick = tick.max(time / 2 + 1);
            }
            places.want(value.root(), &mut self.inputs);
            let invert = is_and && value.is_inverted();
            value.root() | if invert { INVERT } else { 0 }
        });
        if is_and {
            tick = tick.next_multiple_of(AND_PERIOD);
        }
        let time = 2 * tick + u32::from(is_and);
        self.end = self.end.max(time + 1);
        places.set(wire, self.gates.len() as u32);
        self.gates.push(Pending { a, b, wire });
        self.times.push(time);
    }

    /// Appends the loads and gates of the window to the program, and empties the window.
    pub(super) fn flush(&mut self, emitter: &mut Emitter) {
        self.sort();
        emitter.load(&mut self.inputs);
        let mut start = 0;
        for (time, &end) in self.ends.iter().enumerate() {
            let gates = &self.order[start..end as usize];
            start = end as usize;
            if !gates.is_empty() {
                let kind = match time % 2 {
                    0 => BatchKind::Xor,
                    _ => BatchKind::And,
                };
                emitter.emit(kind, gates.iter().map(|&gate| self.gates[gate as usize]));
            }
        }
        self.gates.clear();
        self.times.clear();
        self.end = 0;
    }

    /// Computes `order` and `ends`. Gates with the same time keep their order.
    fn sort(&mut self) {
        self.ends.clear();
        self.ends.resize(self.end as usize, 0);
        for &time in &self.times {
            self.ends[time as usize] += 1;
        }
        let mut start = 0;
        for end in &mut self.ends {
            start += std::mem::replace(end, start);
        }
        self.order.resize(self.times.len(), 0);
        for (gate, &time) in (0..).zip(&self.times) {
            let end = &mut self.ends[time as usize];
            self.order[*end as usize] = gate;
            *end += 1;
        }
    }
}
