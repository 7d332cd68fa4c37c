//! The order of the gates of one window.

use super::{
    BatchKind, INVERT,
    schedule::{Emitter, Places},
};
use crate::{Op, Wire};

/// AND gates run only at ticks that are multiples of this.
///
/// Every gate runs as early as its operands allow, on a clock where each takes one tick, and gates
/// of one kind that run at the same tick make a batch. If AND gates could start at any tick, those
/// of parallel carry chains would spread over all of them, a few each; waiting for the next
/// multiple brings them together. With 3 an AND and the XOR gates up to two deep that lead to the
/// next AND, as in an adder, lose no time. Measured in gates that are in batches of 8 or more, AND
/// and XOR: SHA-256 98 % and 99 %, a 64-bit multiplier 97 % and 96 %; without waiting 15 % and
/// 99 %, 83 % and 98 %; with the fewest batches of AND gates instead 99 % and 65 %, 99 % and 49 %.
const AND_PERIOD: u32 = 3;

/// The fewest gates of a window that ends early.
const MIN_GATES: usize = 2048;

/// How many gates a window that ends early has for each of its times, in a program of few slots and of more.
///
/// Long batches are worth more than short ways as long as the labels are in the caches; with those of eight instances half a
/// mebibyte is where that ends. MinCut, eight side by side, then needs half the slots (6,754 instead of 13,499) and a seventh less
/// time; alone it takes a twentieth longer.
const WIDE: [usize; 2] = [32, 16];

/// The most slots that are few.
const FEW_SLOTS: u32 = 4096;

/// A gate whose operands are roots, perhaps with [`INVERT`].
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) wire: Wire,
}

/// Gates that are put in order together.
#[derive(Default)]
pub(super) struct Window {
    /// The wire of the first gate; operands below are in slots already.
    first: Wire,
    gates: Vec<Pending>,
    /// Input bits that are read here first.
    pub(super) inputs: Vec<Wire>,
    /// For each gate twice its tick, plus 1 for AND.
    times: Vec<u32>,
    /// One more than the largest of `times`.
    end: u32,
    /// Positions of the gates by time.
    order: Vec<u32>,
    /// For each time the end of its gates in `order`.
    ends: Vec<u32>,
}

impl Window {
    /// Returns the number of gates.
    pub(super) fn len(&self) -> usize {
        self.gates.len()
    }

    /// Says whether there are gates enough for long batches, in a program that has come to so many slots. More gates would then
    /// only spread the labels of a batch over more memory than the caches hold.
    pub(super) fn is_wide(&self, slots: u32) -> bool {
        let wide = WIDE[usize::from(slots > FEW_SLOTS)];
        self.len() >= MIN_GATES && self.len() >= wide * self.end as usize
    }

    /// Adds a gate, all of whose operands came before.
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

    /// Emits all gates and becomes empty.
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

    /// Sorts the gates by time, those of the same time staying in order.
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
