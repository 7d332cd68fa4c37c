//! Access to the labels of a group of gates.
#![expect(
    unsafe_code,
    reason = "label slots are checked where a program is made, not at every gate"
)]

use transpute_circuit::{INVERT, ProgramGate};

use crate::{
    Label,
    engine::{Index, Isa, Lanes, MAX_WIDTH, Wide},
};

/// Reads operands and writes outputs of as many gates as a vector has lanes.
///
/// Methods with `pair` in their name are for schemes with two labels per slot: of value 0 and of
/// value 1. The other methods are for one label per slot.
pub(crate) trait LabelAccess: Copy {
    /// Returns the labels of the gates' first operands.
    fn a<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> Lanes<I, N>;

    /// Returns the labels of the gates' second operands.
    fn b<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> Lanes<I, N>;

    /// Writes the gates' output labels.
    fn set_out<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &mut [Label],
        labels: Lanes<I, N>,
    );

    /// Returns both labels of the first operands, indexed by the value of the operand after a
    /// possible inversion.
    fn a_pair<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> [Lanes<I, N>; 2];

    /// Returns both labels of the second operands, indexed by the value of the operand after a
    /// possible inversion.
    fn b_pair<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> [Lanes<I, N>; 2];

    /// Writes both labels of the outputs.
    fn set_out_pair<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &mut [Label],
        pair: [Lanes<I, N>; 2],
    );

    /// Returns a bit mask of inverted first operands and one of inverted second operands. Bit `i`
    /// belongs to gate `i`.
    fn inverted(self) -> [u32; 2];
}

/// Access to different gates of one instance, with one slot per label.
#[derive(Clone, Copy)]
pub(crate) struct Scattered<'a> {
    gates: &'a [ProgramGate],
}

impl<'a> Scattered<'a> {
    /// # Safety
    /// For every later call of a method, the caller guarantees two conditions. The vector has one
    /// element per gate, at most [`MAX_WIDTH`]. Every slot of a gate exists in the slice passed.
    #[inline(always)]
    pub(crate) unsafe fn new(gates: &'a [ProgramGate]) -> Self {
        Self { gates }
    }

    #[inline(always)]
    fn index(self, slot: impl Fn(&ProgramGate) -> u32) -> Index {
        let mut index = [0; MAX_WIDTH];
        for (index, gate) in index.iter_mut().zip(self.gates) {
            *index = slot(gate);
        }
        index
    }

    /// Returns both labels of one operand of every gate; `of` returns the operand of a gate.
    #[inline(always)]
    fn pair<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &[Label],
        of: impl Fn(&ProgramGate) -> u32,
    ) -> [Lanes<I, N>; 2] {
        // Indices of labels, two per slot: the rotation moves the inversion mark from the top bit
        // to the lowest bit.
        let zero = self.index(|gate| of(gate).rotate_left(1));
        let one = self.index(|gate| of(gate).rotate_left(1) ^ 1);
        // SAFETY: the caller of `new` guarantees that the slots exist, and each has two labels.
        unsafe { [w.gather(slots, &zero), w.gather(slots, &one)] }
    }
}

impl LabelAccess for Scattered<'_> {
    #[inline(always)]
    fn a<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> Lanes<I, N> {
        let index = self.index(|gate| gate.a & !INVERT);
        // SAFETY: the caller of `new` guarantees that the slots exist.
        unsafe { w.gather(slots, &index) }
    }

    #[inline(always)]
    fn b<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> Lanes<I, N> {
        let index = self.index(|gate| gate.b & !INVERT);
        // SAFETY: the caller of `new` guarantees that the slots exist.
        unsafe { w.gather(slots, &index) }
    }

    #[inline(always)]
    fn set_out<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &mut [Label],
        labels: Lanes<I, N>,
    ) {
        let index = self.index(|gate| gate.out);
        // SAFETY: the caller of `new` guarantees that the slots exist.
        unsafe { w.scatter(labels, slots, &index) }
    }

    #[inline(always)]
    fn a_pair<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> [Lanes<I, N>; 2] {
        self.pair(w, slots, |gate| gate.a)
    }

    #[inline(always)]
    fn b_pair<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> [Lanes<I, N>; 2] {
        self.pair(w, slots, |gate| gate.b)
    }

    #[inline(always)]
    fn set_out_pair<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &mut [Label],
        pair: [Lanes<I, N>; 2],
    ) {
        let zero = self.index(|gate| 2 * gate.out);
        let one = self.index(|gate| 2 * gate.out + 1);
        // SAFETY: the caller of `new` guarantees that the slots exist, and each has two labels.
        unsafe {
            w.scatter(pair[0], slots, &zero);
            w.scatter(pair[1], slots, &one);
        }
    }

    #[inline(always)]
    fn inverted(self) -> [u32; 2] {
        let (mut any, mut bits) = (0, [0; 2]);
        for gate in self.gates {
            any |= gate.a | gate.b;
        }
        if any & INVERT != 0 {
            for (i, gate) in self.gates.iter().enumerate() {
                bits[0] |= gate.a >> 31 << i;
                bits[1] |= gate.b >> 31 << i;
            }
        }
        bits
    }
}

/// Access to one gate of as many instances as the width of a vector, with adjacent labels.
#[derive(Clone, Copy)]
pub(crate) struct SideBySide {
    gate: ProgramGate,
}

impl SideBySide {
    /// # Safety
    /// For every later call of a method, the caller guarantees that every slot of the gate exists
    /// in the slice passed. If the gate is an XOR gate, its operands have no inversion marks.
    #[inline(always)]
    pub(crate) unsafe fn new(gate: ProgramGate) -> Self {
        Self { gate }
    }

    /// Processes an XOR gate under free XOR, in either role.
    ///
    /// The function uses the operands as slots without masking, because an XOR gate has no
    /// inversion marks.
    #[inline(always)]
    pub(crate) fn free_xor<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &mut [Label]) {
        let ProgramGate { a, b, out } = self.gate;
        let sum = w.xor(self.load(w, slots, a), self.load(w, slots, b));
        self.store(w, slots, out, sum);
    }

    /// Returns the label at index `number` for all lanes.
    #[inline(always)]
    fn load<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &[Label],
        number: u32,
    ) -> Lanes<I, N> {
        let start = number as usize * Wide::<I, N>::WIDTH;
        let range = start..start + Wide::<I, N>::WIDTH;
        debug_assert!(range.end <= slots.len());
        // SAFETY: the caller of `new` guarantees that the slot exists, and it has a label in every
        // lane.
        w.load_labels(unsafe { slots.get_unchecked(range) })
    }

    #[inline(always)]
    fn store<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &mut [Label],
        number: u32,
        labels: Lanes<I, N>,
    ) {
        let start = number as usize * Wide::<I, N>::WIDTH;
        let range = start..start + Wide::<I, N>::WIDTH;
        debug_assert!(range.end <= slots.len());
        // SAFETY: the caller of `new` guarantees that the slot exists, and it has a label in every
        // lane.
        w.store_labels(labels, unsafe { slots.get_unchecked_mut(range) });
    }
}

impl LabelAccess for SideBySide {
    #[inline(always)]
    fn a<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> Lanes<I, N> {
        self.load(w, slots, self.gate.a & !INVERT)
    }

    #[inline(always)]
    fn b<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> Lanes<I, N> {
        self.load(w, slots, self.gate.b & !INVERT)
    }

    #[inline(always)]
    fn set_out<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &mut [Label],
        labels: Lanes<I, N>,
    ) {
        self.store(w, slots, self.gate.out, labels);
    }

    #[inline(always)]
    fn a_pair<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> [Lanes<I, N>; 2] {
        let zero = self.gate.a.rotate_left(1);
        [self.load(w, slots, zero), self.load(w, slots, zero ^ 1)]
    }

    #[inline(always)]
    fn b_pair<I: Isa, const N: usize>(self, w: Wide<I, N>, slots: &[Label]) -> [Lanes<I, N>; 2] {
        let zero = self.gate.b.rotate_left(1);
        [self.load(w, slots, zero), self.load(w, slots, zero ^ 1)]
    }

    #[inline(always)]
    fn set_out_pair<I: Isa, const N: usize>(
        self,
        w: Wide<I, N>,
        slots: &mut [Label],
        pair: [Lanes<I, N>; 2],
    ) {
        self.store(w, slots, 2 * self.gate.out, pair[0]);
        self.store(w, slots, 2 * self.gate.out + 1, pair[1]);
    }

    #[inline(always)]
    fn inverted(self) -> [u32; 2] {
        let all = (1 << MAX_WIDTH) - 1;
        [self.gate.a, self.gate.b].map(|operand| (operand >> 31) * all)
    }
}
