//! Half gates (Zahur, Rosulek, Evans, eprint 2014/756): 32 bytes per AND gate.
//!
//! With labels `A`, `B` of value 0, permute bits `pa`, `pb`, the hash `H`, the offset `D` and the
//! tweaks `j`, `j + 1`:
//!
//! ```text
//! TG = H(A,j) ^ H(A^D,j) ^ pb D          WG = H(A,j) ^ pa TG
//! TE = H(B,j+1) ^ H(B^D,j+1) ^ A         WE = H(B,j+1) ^ pb (TE ^ A)
//! C  = WG ^ WE;  the table is TG, TE
//! ```

#![expect(
    unsafe_code,
    reason = "label slots are checked where a program is made, not at every gate"
)]

use transpute_circuit::{INVERT, ProgramGate};

use super::{
    Group, Kernel, LabelAccess, PairHash,
    table_cursor::{TableReader, TableWriter},
};
use crate::{
    Label,
    engine::{Isa, Lanes, MAX_WIDTH, Wide},
};

/// Length of a table, in bytes.
const TABLE_BYTES: usize = 32;

/// The garbler's kernel.
pub(crate) struct HalfGatesGarble<'a, H> {
    hash: H,
    delta: Label,
    /// The offsets to add to the labels of both operands. Bit 0 of the index is set if the first
    /// operand is inverted, bit 1 if the second one is.
    offsets: [[Label; 2]; 4],
    tables: TableWriter<'a>,
}

impl<'a, H> HalfGatesGarble<'a, H> {
    pub(crate) fn new(hash: H, delta: Label, tables: TableWriter<'a>) -> Self {
        let none = Label::ZERO;
        Self {
            hash,
            delta,
            offsets: [[none; 2], [delta, none], [none, delta], [delta; 2]],
            tables,
        }
    }
}

impl<H: PairHash> Kernel for HalfGatesGarble<'_, H> {
    const XOR_TABLES: bool = false;

    #[inline(always)]
    fn and_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        Group { access, live, id }: Group<P>,
    ) {
        let delta = w.splat(self.delta.0);
        let (mut a, mut b) = (access.a(w, slots), access.b(w, slots));
        // An inverted wire has the same labels with swapped values.
        let inverted = access.inverted();
        if inverted != [0, 0] {
            a = w.xor(a, w.and(delta, w.mask(inverted[0])));
            b = w.xor(b, w.and(delta, w.mask(inverted[1])));
        }
        let (pa, pb) = (w.colour_mask(a), w.colour_mask(b));
        // Sigma is linear, so sigma(a ^ delta) = sigma(a) ^ sigma(delta).
        let (sa, sb, sd) = (w.sigma(a), w.sigma(b), w.sigma(delta));
        let operands = [[sa, w.xor(sa, sd)], [sb, w.xor(sb, sd)]];
        let [ha, hb] = self.hash.pair(w, keys, id, operands);
        let tg = w.xor(w.xor(ha[0], ha[1]), w.and(pb, delta));
        let wg = w.xor(ha[0], w.and(pa, tg));
        // TE ^ A
        let te_a = w.xor(hb[0], hb[1]);
        let we = w.xor(hb[0], w.and(pb, te_a));
        access.set_out(w, slots, w.xor(wg, we));

        let width = Wide::<I, N>::WIDTH;
        let table = self.tables.group(TABLE_BYTES, live, width);
        w.store_pairs([tg, w.xor(te_a, a)], table);
        self.tables.keep(TABLE_BYTES, live, width);
    }

    #[inline(always)]
    fn ones_first<I: Isa>(&self, isa: I, keys: &I::Keys, id: u64) -> Option<usize> {
        Some(self.hash.ready(isa, keys, id))
    }

    #[inline(always)]
    unsafe fn and_one<I: Isa, J: Isa<Keys = I::Keys>, const N: usize>(
        &mut self,
        wide: I,
        w: Wide<J, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        (gate, id): (ProgramGate, u64),
    ) {
        self.hash.prepare(wide, keys, id);
        // SAFETY: the caller guarantees that the slots of the gate exist.
        let operands = unsafe { operands(w, slots, gate) };
        let inverted = gate.a >> 31 | gate.b >> 31 << 1;
        let offsets = w.load_labels(&self.offsets[inverted as usize % 4]);
        let operands = w.xor(operands, offsets);
        // The first lane is delta, the second is zero.
        let delta = w.load_labels(&self.offsets[1]);
        let (sigma, sd) = (w.sigma(operands), w.sigma(w.splat(self.delta.0)));
        let permute = w.colour_mask(operands);
        let [zero, one] = self.hash.one(w, keys, id, [sigma, w.xor(sigma, sd)]);
        // TG and TE ^ A
        let sum = w.xor(zero, one);
        let tables = w.xor(sum, w.and(w.swap_lanes(permute), delta));
        let table = w.xor(tables, first_to_second(w, operands));
        w.store(table, self.tables.group(TABLE_BYTES, 1, 1), 16);
        self.tables.keep(TABLE_BYTES, 1, 1);
        // WG and WE
        let halves = w.xor(zero, w.and(permute, tables));
        // SAFETY: the caller guarantees that the output slot of the gate exists.
        unsafe { set_sum(w, halves, slots, gate.out) };
    }
}

/// The evaluator's kernel.
pub(crate) struct HalfGatesEvaluate<'a, H> {
    pub(crate) hash: H,
    pub(crate) tables: TableReader<'a>,
}

impl<H: PairHash> Kernel for HalfGatesEvaluate<'_, H> {
    const XOR_TABLES: bool = false;

    /// Computes `C = H(A,j) ^ c(A) TG ^ H(B,j+1) ^ c(B) (TE ^ A)`, where `c` is the colour.
    #[inline(always)]
    fn and_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        Group { access, live, id }: Group<P>,
    ) {
        let table = self.tables.group(TABLE_BYTES, live, Wide::<I, N>::WIDTH);
        let [tg, te] = w.load_pairs(table);
        let (a, b) = (access.a(w, slots), access.b(w, slots));
        let operands = [[w.sigma(a)], [w.sigma(b)]];
        let [[ha], [hb]] = self.hash.pair(w, keys, id, operands);
        let from_a = w.xor(ha, w.and(w.colour_mask(a), tg));
        let from_b = w.xor(hb, w.and(w.colour_mask(b), w.xor(te, a)));
        access.set_out(w, slots, w.xor(from_a, from_b));
    }

    #[inline(always)]
    fn ones_first<I: Isa>(&self, isa: I, keys: &I::Keys, id: u64) -> Option<usize> {
        Some(self.hash.ready(isa, keys, id))
    }

    #[inline(always)]
    unsafe fn and_one<I: Isa, J: Isa<Keys = I::Keys>, const N: usize>(
        &mut self,
        wide: I,
        w: Wide<J, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        (gate, id): (ProgramGate, u64),
    ) {
        self.hash.prepare(wide, keys, id);
        let table = w.load(self.tables.group(TABLE_BYTES, 1, 1), 16);
        // SAFETY: the caller guarantees that the slots of the gate exist.
        let operands = unsafe { operands(w, slots, gate) };
        let [hash] = self.hash.one(w, keys, id, [w.sigma(operands)]);
        // TG and TE ^ A
        let tables = w.xor(table, first_to_second(w, operands));
        let halves = w.xor(hash, w.and(w.colour_mask(operands), tables));
        // SAFETY: the caller guarantees that the output slot of the gate exists.
        unsafe { set_sum(w, halves, slots, gate.out) };
    }
}

/// Returns both operands of a gate, in two lanes.
///
/// # Safety
/// The slots of the gate exist.
#[inline(always)]
unsafe fn operands<I: Isa, const N: usize>(
    w: Wide<I, N>,
    slots: &[Label],
    gate: ProgramGate,
) -> Lanes<I, N> {
    let mut index = [0; MAX_WIDTH];
    (index[0], index[1]) = (gate.a & !INVERT, gate.b & !INVERT);
    // SAFETY: the caller guarantees that both slots exist; the other indices are 0, which also
    // exists.
    unsafe { w.gather(slots, &index) }
}

/// Moves the first lane to the second, and sets the first lane to zero.
#[inline(always)]
fn first_to_second<I: Isa, const N: usize>(w: Wide<I, N>, pair: Lanes<I, N>) -> Lanes<I, N> {
    let second = w.load_labels(&[Label::ZERO, Label(!0)]);
    w.and(w.swap_lanes(pair), second)
}

/// Writes the XOR of both lanes to a slot.
///
/// # Safety
/// The slot exists.
#[inline(always)]
unsafe fn set_sum<I: Isa, const N: usize>(
    w: Wide<I, N>,
    pair: Lanes<I, N>,
    slots: &mut [Label],
    slot: u32,
) {
    let sum = w.xor(pair, w.swap_lanes(pair));
    // SAFETY: the caller guarantees that the slot exists.
    unsafe { w.0.put_first(sum[0], slots, slot) };
}
