//! Orders the gates of one window.

use super::{
    BatchKind, INVERT,
    schedule::{Emitter, Places},
};
use crate::{Op, Wire};

/// AND gates run only at ticks that are multiples of this number.
///
/// Every gate runs as early as its operands allow, on a clock where each gate takes one tick. Gates
/// of one kind that run at the same tick form a batch. If AND gates could start at any tick, the
/// ANDs of parallel carry chains would spread over all ticks, a few at each. If each AND gate waits
/// for the next multiple of 3, they form larger batches. A period of 3 delays nothing in an adder,
/// where at most two XOR gates separate successive ANDs.
///
/// Measured: percentage of the AND gates, then of the XOR gates, that are in batches of 8 gates or
/// more.
///
/// | period | SHA-256 | 64-bit multiplier |
/// | --- | --- | --- |
/// | 3 | 98, 99 | 97, 96 |
/// | 1 (no waiting) | 15, 99 | 83, 98 |
/// | fewest AND batches | 99, 65 | 99, 49 |
const AND_PERIOD: u32 = 3;

/// Minimum number of gates of a window that ends early.
const MIN_WINDOW_GATES: usize = 2048;

/// Average number of gates per batch at which a window ends early, for programs with at most
/// [`FEW_SLOTS`] slots and for those with more.
///
/// Longer batches are faster only while the labels fit in the caches. For eight instances, the
/// limit is about 512 KiB of labels. Measured with MinCut: with 16 instead of 32, eight instances
/// in parallel use half the slots (6,754 instead of 13,499) and 14 % less time. A single instance
/// takes 5 % more time.
const GATES_PER_BATCH: [usize; 2] = [32, 16];

/// The largest number of slots for which the labels of eight instances fit in the caches (512 KiB).
const FEW_SLOTS: u32 = 4096;

/// A gate that is not yet emitted; its operands are roots, possibly with [`INVERT`].
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) wire: Wire,
}

/// The gates that are ordered together.
#[derive(Default)]
pub(super) struct Window {
    /// The output wire of the first gate; lower roots already have slots.
    first: Wire,
    gates: Vec<Pending>,
    /// Input bits that are first read in this window.
    pub(super) inputs: Vec<Wire>,
    /// For each gate, twice its tick, plus 1 for AND.
    times: Vec<u32>,
    /// The largest item of `times`, plus one.
    end: u32,
    /// Indices of the gates, sorted by time.
    order: Vec<u32>,
    /// For each time, the end of its gates in `order`.
    ends: Vec<u32>,
}

impl Window {
    /// Returns the number of gates.
    pub(super) fn len(&self) -> usize {
        self.gates.len()
    }

    /// Returns whether there are enough gates for long batches, given the number of slots used so
    /// far. More gates would only spread the labels of a batch over more memory than the caches
    /// hold.
    pub(super) fn is_wide(&self, slots: u32) -> bool {
        let wide = GATES_PER_BATCH[usize::from(slots > FEW_SLOTS)];
        self.len() >= MIN_WINDOW_GATES && self.len() >= wide * self.end as usize
    }

    /// Adds a gate; its operands must have been added before.
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

    /// Emits all gates and empties the window.
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

    /// Sorts the gates by time; the sort is stable.
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
