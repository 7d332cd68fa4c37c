//! Garbling from a pseudorandom function alone (Gueron, Lindell, Nof, Pinkas, CCS 2015): 16 bytes
//! per XOR gate, 32 bytes and 4 bits per AND gate.
//!
//! `F_k(g, side, tag) = AES_k(LE64(256 g + 16 side + tag) || LE64(nonce))`, where the key `k` is a
//! whole label, `side` is 0 for the first operand and 1 for the second, and `tag` consists of
//! colours. The paper has neither the side nor the nonce. Without the side, the terms of a gate
//! that reads the same wire twice would cancel. Because of the nonce, an attacker needs a separate
//! key search for each session.
//!
//! The kernels compute all values by colour, and assign them to values of wires at the end. So no
//! step depends on a permute bit.

use super::{
    Group, Kernel, LabelAccess,
    table_cursor::{TableReader, TableWriter},
};
use crate::{
    Label,
    engine::{Isa, Lanes, Wide},
    seed::{RandomBits, SecretPrg},
};

/// Length of the table of an XOR gate, in bytes.
const XOR_BYTES: usize = 16;

/// Length of the ciphertexts of an AND gate, in bytes.
const AND_BYTES: usize = 32;

/// Number of bits of an AND gate in the trailer of its chunk.
const AND_BITS: u32 = 4;

/// The side of the second operand, shifted to its place in PRF inputs.
const RIGHT_SIDE: u64 = 16;

/// The garbler's kernel. Slot `s` has its labels of value 0 and 1 at indices `2 s` and `2 s + 1`.
pub(crate) struct PrfGarble<'a> {
    pub(crate) nonce: u64,
    pub(crate) prg: &'a SecretPrg,
    pub(crate) random_bits: &'a mut RandomBits,
    pub(crate) tables: TableWriter<'a>,
}

/// The two labels of an operand, indexed by colour.
struct Operand<I: Isa, const N: usize> {
    /// All ones if the label of value 0 has colour 1.
    permute: Lanes<I, N>,
    by_colour: [Lanes<I, N>; 2],
}

impl<I: Isa, const N: usize> Operand<I, N> {
    #[inline(always)]
    fn new(w: Wide<I, N>, [zero, one]: [Lanes<I, N>; 2]) -> Self {
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
    fn and_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        _keys: &mut I::Keys,
        slots: &mut [Label],
        Group { access, live, id }: Group<P>,
    ) {
        let width = Wide::<I, N>::WIDTH;
        let lanes = (1 << width) - 1;
        let a = Operand::new(w, access.a_pair(w, slots));
        let b = Operand::new(w, access.b_pair(w, slots));
        let r = self.random_bits.eight(self.prg, id) & lanes;

        // The rows are numbered by the colours of the operands: row 2 ca + cb.
        let left = blocks(w, id, 0, self.nonce);
        let right = blocks(w, id, RIGHT_SIDE, self.nonce);
        let tags = [w.splat(1), w.splat(2), w.splat(3)];
        let (left1, right1) = (w.xor(left, tags[0]), w.xor(right, tags[0]));
        let (left2, right2) = (w.xor(left, tags[1]), w.xor(right, tags[1]));
        let (left3, right3) = (w.xor(left, tags[2]), w.xor(right, tags[2]));
        let [[a0, a1], [a2, a3], [b0, b2], [b1, b3]] = w.encrypt_keyed(
            [
                a.by_colour[0],
                a.by_colour[1],
                b.by_colour[0],
                b.by_colour[1],
            ],
            [
                [left, left1],
                [left2, left3],
                [right, right2],
                [right1, right3],
            ],
        );
        let rows = [w.xor(a0, b0), w.xor(a1, b1), w.xor(a2, b2), w.xor(a3, b3)];
        let colour = w.splat(1);
        let body = w.splat(!1);
        let (k0, k1) = (w.and(rows[0], body), w.and(rows[1], body));
        let (k2, k3) = (w.and(rows[2], body), w.and(rows[3], body));

        // Row u = 2 (1 ^ pa) + (1 ^ pb) is the one in which both operands are 1.
        let (pa, pb) = (a.permute, b.permute);
        // T1 = pa ? K2 ^ K3 : K0 ^ K1;  T2 = pb ? K1 ^ K3 : K0 ^ K2
        let all = w.xor(w.xor(k0, k1), w.xor(k2, k3));
        let t1 = w.xor(w.xor(k0, k1), w.and(pa, all));
        let t2 = w.xor(w.xor(k0, k2), w.and(pb, all));
        // (C0, C1) = u == 0 ? (S, K0) : (K0, S), S = K1 ^ K2 ^ K3
        let swap = w.and(w.and(pa, pb), all);
        let (c0, c1) = (w.xor(k0, swap), w.xor(w.xor(k0, all), swap));
        let permute = w.and(w.mask(r), colour);
        let one = w.xor(w.xor(c1, permute), colour);
        access.set_out_pair(w, slots, [w.xor(c0, permute), one]);

        let table = self.tables.group(AND_BYTES, live, width);
        w.store_pairs([t1, t2], table);
        self.tables.keep(AND_BYTES, live, width);

        // For each row, the trailer has the colour of the output label. It is masked with the bit
        // of the row's key that is not used in the ciphertext.
        let (pa, pb) = (w.colours(pa), w.colours(pb));
        let mut bits = 0;
        for (row, x) in rows.into_iter().enumerate() {
            let a_one = if row & 2 == 0 { pa } else { !pa };
            let b_one = if row & 1 == 0 { pb } else { !pb };
            let mask = (w.colours(x) ^ r ^ (a_one & b_one)) & lanes;
            bits |= w.0.spread(mask, AND_BITS) << row;
        }
        self.tables.push_bits(bits, AND_BITS * live as u32);
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        slots: &mut [Label],
        Group { access, live, id }: Group<P>,
    ) {
        let width = Wide::<I, N>::WIDTH;
        let a = Operand::new(w, access.a_pair(w, slots));
        let b = Operand::new(w, access.b_pair(w, slots));
        let left = blocks(w, id, 0, self.nonce);
        let right = blocks(w, id, RIGHT_SIDE, self.nonce);
        let (left1, right1) = (w.xor(left, w.splat(1)), w.xor(right, w.splat(1)));
        let [[a0], [a1], [b0], [b1]] = w.encrypt_keyed(
            [
                a.by_colour[0],
                a.by_colour[1],
                b.by_colour[0],
                b.by_colour[1],
            ],
            [[left], [left1], [right], [right1]],
        );
        let (pa, pb) = (a.permute, b.permute);
        let difference = w.xor(a0, a1);
        let table = w.xor(w.xor(b0, b1), difference);
        // This is F_a of value 0 ^ F_b of value 0 ^ (pb ? T : 0). The inputs are indexed by colour.
        // If pb is set, T and F_b of value 0 together are b0 ^ difference.
        let c0 = w.xor(w.xor(a0, b0), w.and(w.xor(pa, pb), difference));
        let c1 = w.xor(c0, difference);
        let (colour, body) = (w.splat(1), w.splat(!1));
        let permute = w.and(w.xor(pa, pb), colour);
        let zero = w.xor(w.and(c0, body), permute);
        let one = w.xor(w.xor(w.and(c1, body), permute), colour);
        access.set_out_pair(w, slots, [zero, one]);

        w.store(table, self.tables.group(XOR_BYTES, live, width), XOR_BYTES);
        self.tables.keep(XOR_BYTES, live, width);
    }
}

/// Returns the PRF inputs of a group for one side, with tag 0. The caller adds tags by XOR.
#[inline(always)]
fn blocks<I: Isa, const N: usize>(w: Wide<I, N>, id: u64, side: u64, nonce: u64) -> Lanes<I, N> {
    w.counter(256 * id + side, 256, nonce)
}

/// The evaluator's kernel.
pub(crate) struct PrfEvaluate<'a> {
    pub(crate) nonce: u64,
    pub(crate) tables: TableReader<'a>,
}

impl Kernel for PrfEvaluate<'_> {
    const XOR_TABLES: bool = true;

    #[inline(always)]
    fn and_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        _keys: &mut I::Keys,
        slots: &mut [Label],
        Group { access, live, id }: Group<P>,
    ) {
        let table = self.tables.group(AND_BYTES, live, Wide::<I, N>::WIDTH);
        let [t1, t2] = w.load_pairs(table);
        let packed = self.tables.take_bits(AND_BITS * live as u32);

        let (a, b) = (access.a(w, slots), access.b(w, slots));
        let (ca, cb) = (w.colour_mask(a), w.colour_mask(b));
        let row = w.xor(w.and(ca, w.splat(2)), w.and(cb, w.splat(1)));
        let left = blocks(w, id, 0, self.nonce);
        let right = blocks(w, id, RIGHT_SIDE, self.nonce);
        let [[fa], [fb]] = w.encrypt_keyed([a, b], [[w.xor(left, row)], [w.xor(right, row)]]);
        let x = w.xor(fa, fb);
        let (i, j) = (w.colours(a), w.colours(b));
        let mut colours = w.colours(x);
        for row in 0..4 {
            let a_here = if row & 2 == 0 { !i } else { i };
            let b_here = if row & 1 == 0 { !j } else { j };
            colours ^= w.0.collect(packed >> row, AND_BITS) & a_here & b_here;
        }
        let body = w.xor(x, w.xor(w.and(ca, t2), w.and(cb, t1)));
        let out = w.xor(w.and(body, w.splat(!1)), w.and(w.mask(colours), w.splat(1)));
        access.set_out(w, slots, out);
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        slots: &mut [Label],
        Group { access, live, id }: Group<P>,
    ) {
        let table = self.tables.group(XOR_BYTES, live, Wide::<I, N>::WIDTH);
        let table = w.load(table, XOR_BYTES);
        let (a, b) = (access.a(w, slots), access.b(w, slots));
        let one = w.splat(1);
        let left = blocks(w, id, 0, self.nonce);
        let right = blocks(w, id, RIGHT_SIDE, self.nonce);
        let colours = [w.and(a, one), w.and(b, one)];
        let blocks = [[w.xor(left, colours[0])], [w.xor(right, colours[1])]];
        let [[fa], [fb]] = w.encrypt_keyed([a, b], blocks);
        let c = w.xor(w.xor(fa, fb), w.and(w.colour_mask(b), table));
        let colour = w.and(w.xor(a, b), one);
        let out = w.xor(w.and(c, w.splat(!1)), colour);
        access.set_out(w, slots, out);
    }
}
