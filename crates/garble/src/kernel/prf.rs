//! Garbling from a pseudorandom function alone (Gueron, Lindell, Nof, Pinkas, CCS 2015): 16 bytes
//! per XOR gate, 32 bytes and 4 bits per AND gate.
//!
//! `F_k(g, side, tag) = AES_k(LE64(256 g + 16 side + tag) || LE64(nonce))`, where the key is a whole
//! label, `side` is 0 for the first operand and 1 for the second, and the tag is made of colours.
//! The side and the nonce are not in the paper: without a side a gate with the same wire twice
//! would cancel to zero, and the nonce keeps one search for keys from serving many sessions.
//!
//! Everything is computed by colour and only then assigned to values, so that no step depends on a
//! permute bit.

use super::{
    Group, Kernel, KeyCache,
    tape::{self, Scratch, TableReader, TableWriter},
};
use crate::{
    Label,
    engine::{Index, Isa, Lanes, Wide},
    seed::{Dice, SecretPrg},
};

/// Bytes of the table of an XOR gate.
const XOR_BYTES: usize = 16;

/// Bytes of the table of an AND gate.
const AND_BYTES: usize = 32;

/// Bits of the table of an AND gate in the trailer.
const AND_BITS: u32 = 4;

/// The number of the second operand in PRF inputs.
const RIGHT: u64 = 16;

/// The garbler's role. Slot `s` has its labels of value 0 and 1 at `2 s` and `2 s + 1`.
pub(crate) struct PrfGarble<'a> {
    pub(crate) nonce: u64,
    pub(crate) prg: &'a SecretPrg,
    pub(crate) dice: &'a mut Dice,
    pub(crate) tables: TableWriter<'a>,
}

/// The two labels of an operand, by colour.
struct Operand<I: Isa, const N: usize> {
    /// All ones where the label of value 0 has colour 1.
    permute: Lanes<I, N>,
    by_colour: [Lanes<I, N>; 2],
}

impl<I: Isa, const N: usize> Operand<I, N> {
    /// Reads the labels; the values of inverted operands are swapped.
    #[inline(always)]
    fn read(w: Wide<I, N>, slots: &[Label], slot: Index, inverted: u32) -> Self {
        let (mut zero, mut one) = (slot, slot);
        for (i, slot) in slot.into_iter().enumerate() {
            let swap = inverted >> i & 1;
            zero[i] = 2 * slot + swap;
            one[i] = 2 * slot + (1 - swap);
        }
        let (zero, one) = (w.gather(slots, &zero), w.gather(slots, &one));
        let permute = w.colour_mask(zero);
        let swap = w.and(permute, w.xor(zero, one));
        Self {
            permute,
            by_colour: [w.xor(zero, swap), w.xor(one, swap)],
        }
    }
}

impl Kernel for PrfGarble<'_> {
    const XOR_TABLES: bool = true;

    #[inline(always)]
    fn and_group<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        _cache: &mut KeyCache<I>,
        slots: &mut [Label],
        group: Group<'_>,
    ) {
        let width = Wide::<I, N>::WIDTH;
        let lanes = (1 << width) - 1;
        let a = Operand::read(w, slots, group.a(), group.inverted_a());
        let b = Operand::read(w, slots, group.b(), group.inverted_b());
        let r = self.dice.eight(self.prg, group.id) & lanes;

        // Rows by the colours of the operands, row 2 ca + cb.
        let left = blocks(w, group.id, 0, self.nonce);
        let right = blocks(w, group.id, RIGHT, self.nonce);
        let tags = [w.splat(1), w.splat(2), w.splat(3)];
        let (left1, right1) = (w.xor(left, tags[0]), w.xor(right, tags[0]));
        let (left2, right2) = (w.xor(left, tags[1]), w.xor(right, tags[1]));
        let (left3, right3) = (w.xor(left, tags[2]), w.xor(right, tags[2]));
        let [a0, a1] = w.encrypt_keyed(a.by_colour[0], [left, left1]);
        let [a2, a3] = w.encrypt_keyed(a.by_colour[1], [left2, left3]);
        let [b0, b2] = w.encrypt_keyed(b.by_colour[0], [right, right2]);
        let [b1, b3] = w.encrypt_keyed(b.by_colour[1], [right1, right3]);
        let rows = [w.xor(a0, b0), w.xor(a1, b1), w.xor(a2, b2), w.xor(a3, b3)];
        let colour = w.splat(1);
        let body = w.splat(!1);
        let (k0, k1) = (w.and(rows[0], body), w.and(rows[1], body));
        let (k2, k3) = (w.and(rows[2], body), w.and(rows[3], body));

        // u = 2 (1 ^ pa) + (1 ^ pb) is the row in which both operands are 1.
        let (pa, pb) = (a.permute, b.permute);
        // T1 = pa ? K2 ^ K3 : K0 ^ K1;  T2 = pb ? K1 ^ K3 : K0 ^ K2
        let all = w.xor(w.xor(k0, k1), w.xor(k2, k3));
        let t1 = w.xor(w.xor(k0, k1), w.and(pa, all));
        let t2 = w.xor(w.xor(k0, k2), w.and(pb, all));
        // (C0, C1) = u == 0 ? (S, K0) : (K0, S), S = K1 ^ K2 ^ K3
        let swap = w.and(w.and(pa, pb), all);
        let (c0, c1) = (w.xor(k0, swap), w.xor(w.xor(k0, all), swap));
        let permute = w.and(w.mask(r), colour);
        write_labels(
            w,
            slots,
            group.out(),
            w.xor(c0, permute),
            w.xor(w.xor(c1, permute), colour),
        );

        let mut scratch: Scratch = [0; _];
        let place = self
            .tables
            .group(&mut scratch, AND_BYTES, group.live, width);
        w.store(t1, place, AND_BYTES);
        w.store(t2, &mut place[16..], AND_BYTES);
        self.tables.keep(&scratch, AND_BYTES, group.live, width);

        // The colour of the output in each row, masked by the bit cut off its key.
        let (pa, pb) = (w.colours(pa), w.colours(pb));
        let mut bits = 0;
        for (row, x) in rows.into_iter().enumerate() {
            let a_one = if row & 2 == 0 { pa } else { !pa };
            let b_one = if row & 1 == 0 { pb } else { !pb };
            let mask = (w.colours(x) ^ r ^ (a_one & b_one)) & lanes;
            bits |= tape::spread(mask, AND_BITS) << row;
        }
        self.tables.push_bits(bits, AND_BITS * group.live as u32);
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        slots: &mut [Label],
        group: Group<'_>,
    ) {
        let width = Wide::<I, N>::WIDTH;
        let a = Operand::read(w, slots, group.a(), 0);
        let b = Operand::read(w, slots, group.b(), 0);
        let left = blocks(w, group.id, 0, self.nonce);
        let right = blocks(w, group.id, RIGHT, self.nonce);
        let [a0] = w.encrypt_keyed(a.by_colour[0], [left]);
        let [a1] = w.encrypt_keyed(a.by_colour[1], [w.xor(left, w.splat(1))]);
        let [b0] = w.encrypt_keyed(b.by_colour[0], [right]);
        let [b1] = w.encrypt_keyed(b.by_colour[1], [w.xor(right, w.splat(1))]);
        let (pa, pb) = (a.permute, b.permute);
        let difference = w.xor(a0, a1);
        let table = w.xor(w.xor(b0, b1), difference);
        // F_a of value 0 ^ F_b of value 0 ^ (pb ? T : 0); where pb is set the difference of the
        // two F_b cancels.
        let c0 = w.xor(w.xor(a0, b0), w.and(w.xor(pa, pb), difference));
        let c1 = w.xor(c0, difference);
        let (colour, body) = (w.splat(1), w.splat(!1));
        let permute = w.and(w.xor(pa, pb), colour);
        write_labels(
            w,
            slots,
            group.out(),
            w.xor(w.and(c0, body), permute),
            w.xor(w.xor(w.and(c1, body), permute), colour),
        );

        let mut scratch: Scratch = [0; _];
        let place = self
            .tables
            .group(&mut scratch, XOR_BYTES, group.live, width);
        w.store(table, place, XOR_BYTES);
        self.tables.keep(&scratch, XOR_BYTES, group.live, width);
    }
}

/// The PRF inputs of a group for one side, with tag 0. Tags are added by exclusive or.
#[inline(always)]
fn blocks<I: Isa, const N: usize>(w: Wide<I, N>, id: u64, side: u64, nonce: u64) -> Lanes<I, N> {
    w.counter(256 * id + side, 256, nonce)
}

#[inline(always)]
fn write_labels<I: Isa, const N: usize>(
    w: Wide<I, N>,
    slots: &mut [Label],
    slot: Index,
    zero: Lanes<I, N>,
    one: Lanes<I, N>,
) {
    w.scatter(zero, slots, &slot.map(|slot| 2 * slot));
    w.scatter(one, slots, &slot.map(|slot| 2 * slot + 1));
}

/// The evaluator's role.
pub(crate) struct PrfEvaluate<'a> {
    pub(crate) nonce: u64,
    pub(crate) tables: TableReader<'a>,
}

impl Kernel for PrfEvaluate<'_> {
    const XOR_TABLES: bool = true;

    #[inline(always)]
    fn and_group<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        _cache: &mut KeyCache<I>,
        slots: &mut [Label],
        group: Group<'_>,
    ) {
        let width = Wide::<I, N>::WIDTH;
        let mut scratch: Scratch = [0; _];
        let tables = self
            .tables
            .group(&mut scratch, AND_BYTES, group.live, width);
        let (t1, t2) = (w.load(tables, AND_BYTES), w.load(&tables[16..], AND_BYTES));
        let packed = self.tables.take_bits(AND_BITS * group.live as u32);

        let (a, b) = (w.gather(slots, &group.a()), w.gather(slots, &group.b()));
        let (ca, cb) = (w.colour_mask(a), w.colour_mask(b));
        let row = w.xor(w.and(ca, w.splat(2)), w.and(cb, w.splat(1)));
        let left = blocks(w, group.id, 0, self.nonce);
        let right = blocks(w, group.id, RIGHT, self.nonce);
        let [fa] = w.encrypt_keyed(a, [w.xor(left, row)]);
        let [fb] = w.encrypt_keyed(b, [w.xor(right, row)]);
        let x = w.xor(fa, fb);
        let (i, j) = (w.colours(a), w.colours(b));
        let mut colours = w.colours(x);
        for row in 0..4 {
            let a_here = if row & 2 == 0 { !i } else { i };
            let b_here = if row & 1 == 0 { !j } else { j };
            colours ^= tape::collect(packed >> row, AND_BITS) & a_here & b_here;
        }
        let body = w.xor(x, w.xor(w.and(ca, t2), w.and(cb, t1)));
        let out = w.xor(w.and(body, w.splat(!1)), w.and(w.mask(colours), w.splat(1)));
        w.scatter(out, slots, &group.out());
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        slots: &mut [Label],
        group: Group<'_>,
    ) {
        let width = Wide::<I, N>::WIDTH;
        let mut scratch: Scratch = [0; _];
        let tables = self
            .tables
            .group(&mut scratch, XOR_BYTES, group.live, width);
        let table = w.load(tables, XOR_BYTES);
        let (a, b) = (w.gather(slots, &group.a()), w.gather(slots, &group.b()));
        let one = w.splat(1);
        let left = blocks(w, group.id, 0, self.nonce);
        let right = blocks(w, group.id, RIGHT, self.nonce);
        let [fa] = w.encrypt_keyed(a, [w.xor(left, w.and(a, one))]);
        let [fb] = w.encrypt_keyed(b, [w.xor(right, w.and(b, one))]);
        let c = w.xor(w.xor(fa, fb), w.and(w.colour_mask(b), table));
        let colour = w.and(w.xor(a, b), one);
        let out = w.xor(w.and(c, w.splat(!1)), colour);
        w.scatter(out, slots, &group.out());
    }
}
