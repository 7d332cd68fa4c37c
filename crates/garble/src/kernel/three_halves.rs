//! Three halves (Rosulek, Roy, eprint 2021/749): 24 bytes and 5 bits per AND gate.
//!
//! A label `X` is a pair of 64-bit halves `X_L` (bytes 8-15) and `X_R` (bytes 0-7). `A` and `B` are
//! the labels of colour 0, `X = A ^ B`, `D` is the offset, `(i, j)` are the colours of the
//! operands, and `(a, b)` are the colours at which both operands are 1. The hash yields a half `h`
//! and a bit `e`. The matrices over the columns `A_L A_R B_L B_R` are
//!
//! ```text
//! S1 = [1 1 1 0; 1 0 0 1]   S2 = [1 0 0 1; 0 1 1 1]   P_ij = [0 0 1^i 0; 0 1^j 0 0]
//! R_ij = r_L(i,j) S1 ^ r_R(i,j) S2 ^ P_ij
//! r_L = rho0 ^ i a ^ (i^j)(a^b)   r_R = rho1 ^ j b ^ (i^j)(a^b)
//! l_ij = R_ij (A ^ i D, B ^ j D) ^ [(i,j) = (a,b)] D
//! ```
//!
//! with two random bits `rho0` and `rho1` per gate ("dicing" in the paper). The table is `G0`,
//! `G1`, `G2` and the bits `z0` to `z4`; each is masked by hashes that the evaluator does not know.

use super::{
    Group, Kernel, LabelAccess,
    hash::keyed,
    table_cursor::{TableReader, TableWriter},
};
use crate::{
    Label,
    engine::{Isa, Lanes, Wide},
    seed::{RandomBits, SecretPrg},
};

/// Length of the ciphertexts of an AND gate, in bytes.
const TABLE_BYTES: usize = 24;

/// Number of bits of an AND gate in the trailer of its chunk.
const TRAILER_BITS: u32 = 5;

/// The garbler's kernel.
pub(crate) struct ThreeHalvesGarble<'a> {
    pub(crate) start: u128,
    pub(crate) delta: Label,
    pub(crate) prg: &'a SecretPrg,
    pub(crate) random_bits: &'a mut [RandomBits; 2],
    pub(crate) tables: TableWriter<'a>,
}

impl Kernel for ThreeHalvesGarble<'_> {
    const XOR_TABLES: bool = false;

    #[inline(always)]
    fn and_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        _keys: &mut I::Keys,
        slots: &mut [Label],
        Group { access, live, id }: Group<P>,
    ) {
        let width = Wide::<I, N>::WIDTH;
        let delta = w.splat(self.delta.0);
        // Each bit is represented as a mask of a whole lane.
        let rho0 = w.mask(self.random_bits[0].eight(self.prg, id));
        let rho1 = w.mask(self.random_bits[1].eight(self.prg, id));

        let (a_zero, b_zero) = (access.a(w, slots), access.b(w, slots));
        let (pa, pb) = (w.colour_mask(a_zero), w.colour_mask(b_zero));
        // The colours at which an operand is 1: the negated permute bits, negated again by an
        // inversion.
        let (mut at_a, mut at_b) = (w.not(pa), w.not(pb));
        let inverted = access.inverted();
        if inverted != [0, 0] {
            at_a = w.xor(at_a, w.mask(inverted[0]));
            at_b = w.xor(at_b, w.mask(inverted[1]));
        }
        // The labels of colour 0.
        let a = w.xor(a_zero, w.and(delta, pa));
        let b = w.xor(b_zero, w.and(delta, pb));
        let x = w.xor(a, b);

        let sigma_delta = w.double_halves(delta);
        let operands = [
            with_offset(w, a, sigma_delta),
            with_offset(w, b, sigma_delta),
            with_offset(w, x, sigma_delta),
        ];
        let [ha, hb, hx] = hash(w, self.start, id, operands);

        // l_00, l_11 and the left half of l_01.
        let (ad, bd) = (w.xor(a, delta), w.xor(b, delta));
        let (not_a, at_ab) = (w.not(at_a), w.xor(at_a, at_b));
        let l00 = w.xor(
            combine(w, rho0, rho1, a, b),
            w.xor(halves(w, b, a), w.and(delta, w.and(not_a, w.not(at_b)))),
        );
        let l11 = w.xor(
            combine(w, w.xor(rho0, at_a), w.xor(rho1, at_b), ad, bd),
            w.and(delta, w.and(at_a, at_b)),
        );
        let l01 = w.xor(
            combine(w, w.xor(rho0, at_ab), w.xor(rho1, at_a), a, bd),
            w.xor(bd, w.and(delta, w.and(not_a, at_b))),
        );

        let out = w.xor(w.xor(l00, w.join_low(hb[0], ha[0])), w.repeat_low(hx[0]));
        access.set_out(w, slots, out);

        let hashes = w.join_low(w.xor(hb[0], hb[1]), w.xor(ha[0], ha[1]));
        // G0 in the high half, G1 in the low half.
        let g01 = w.xor(w.xor(l00, l11), hashes);
        // G2 in the low half.
        let g2 = w.xor(w.high_to_low(w.xor(l00, l01)), w.xor(hx[0], hx[1]));
        let table = self.tables.group(TABLE_BYTES, live, width);
        w.store(w.swap(g01), table, TABLE_BYTES);
        // Bytes 8-23 of the table: G1 again, and G2.
        w.store(w.join_low(g01, g2), &mut table[8..], TABLE_BYTES);
        self.tables.keep(TABLE_BYTES, live, width);

        // The bits `e` are bit 64 of each lane.
        let z = [
            w.xor(rho0, w.xor(ha[0], hx[0])),
            w.xor(rho1, w.xor(hb[0], hx[0])),
            w.xor(at_a, w.xor(ha[0], ha[1])),
            w.xor(at_b, w.xor(hb[0], hb[1])),
            w.xor(at_ab, w.xor(hx[0], hx[1])),
        ];
        let mut bits = 0;
        for (k, z) in z.into_iter().enumerate() {
            bits |= w.0.spread(w.high_colours(z), TRAILER_BITS) << k;
        }
        self.tables.push_bits(bits, TRAILER_BITS * live as u32);
    }
}

/// The evaluator's kernel.
pub(crate) struct ThreeHalvesEvaluate<'a> {
    pub(crate) start: u128,
    pub(crate) tables: TableReader<'a>,
}

impl Kernel for ThreeHalvesEvaluate<'_> {
    const XOR_TABLES: bool = false;

    #[inline(always)]
    fn and_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        _keys: &mut I::Keys,
        slots: &mut [Label],
        Group { access, live, id }: Group<P>,
    ) {
        let width = Wide::<I, N>::WIDTH;
        let tables = self.tables.group(TABLE_BYTES, live, width);
        // G0 high and G1 low; then G1 low and G2 high.
        let g01 = w.swap(w.load(tables, TABLE_BYTES));
        let g12 = w.load(&tables[8..], TABLE_BYTES);
        let packed = self.tables.take_bits(TRAILER_BITS * live as u32);
        let mut z = [w.splat(0); TRAILER_BITS as usize];
        for (k, z) in z.iter_mut().enumerate() {
            *z = w.mask(w.0.collect(packed >> k, TRAILER_BITS));
        }

        let (a, b) = (access.a(w, slots), access.b(w, slots));
        let x = w.xor(a, b);
        let operands = [
            [w.double_halves(a)],
            [w.double_halves(b)],
            [w.double_halves(x)],
        ];
        let [[ha], [hb], [hx]] = hash(w, self.start, id, operands);
        let (i, j, differ) = (w.colour_mask(a), w.colour_mask(b), w.colour_mask(x));
        let both = w.and(differ, z[4]);
        let e_left = w.high_colour_mask(w.xor(ha, hx));
        let e_right = w.high_colour_mask(w.xor(hb, hx));
        let r_left = w.xor(w.xor(z[0], w.and(i, z[2])), w.xor(both, e_left));
        let r_right = w.xor(w.xor(z[1], w.and(j, z[3])), w.xor(both, e_right));

        // P_ij (A, B) is B_L if i = 0 and A_R if j = 0; the tables contribute G0 if i = 1 and G1 if
        // j = 1.
        let at = halves(w, i, j);
        let p = w.and(halves(w, b, a), w.not(at));
        let from_tables = w.xor(w.and(g01, at), w.and(w.repeat_high(g12), differ));
        let hashes = w.xor(w.join_low(hb, ha), w.repeat_low(hx));
        let out = w.xor(
            w.xor(combine(w, r_left, r_right, a, b), p),
            w.xor(from_tables, hashes),
        );
        access.set_out(w, slots, out);
    }
}

/// Hashes three inputs of every gate, to which sigma was applied, under the keys `S ^ (3 g + k)`:
/// `AES_k(y) ^ y`. The half `h` is the low half of the result, and the bit `e` is the lowest bit of
/// the high half.
///
/// Sigma doubles both halves in GF(2^64). Tables contain arbitrary combinations of the halves of
/// the offset, against which the orthomorphism of half gates is not secure.
#[inline(always)]
fn hash<I: Isa, const N: usize, const B: usize>(
    w: Wide<I, N>,
    start: u128,
    id: u64,
    inputs: [[Lanes<I, N>; B]; 3],
) -> [[Lanes<I, N>; B]; 3] {
    let start = w.splat(start);
    let key = |k| w.xor(start, w.counter(3 * id + k, 3, 0));
    keyed(w, [key(0), key(1), key(2)], inputs)
}

/// Returns sigma of `x` and sigma of `x ^ delta`, for each label `x`.
#[inline(always)]
fn with_offset<I: Isa, const N: usize>(
    w: Wide<I, N>,
    label: Lanes<I, N>,
    sigma_delta: Lanes<I, N>,
) -> [Lanes<I, N>; 2] {
    let sigma = w.double_halves(label);
    [sigma, w.xor(sigma, sigma_delta)]
}

/// Returns `r_L S1 (A, B) ^ r_R S2 (A, B)`; the coefficients are masks of lanes.
#[inline(always)]
fn combine<I: Isa, const N: usize>(
    w: Wide<I, N>,
    r_left: Lanes<I, N>,
    r_right: Lanes<I, N>,
    a: Lanes<I, N>,
    b: Lanes<I, N>,
) -> Lanes<I, N> {
    // The two halves of S1 are A_L ^ A_R ^ B_L and A_L ^ B_R.
    let s1 = w.xor(b, w.xor(w.repeat_high(a), w.low_to_high(a)));
    // The two halves of S2 are A_L ^ B_R and A_R ^ B_L ^ B_R.
    let s2 = w.xor(a, w.xor(w.repeat_low(b), w.high_to_low(b)));
    w.xor(w.and(s1, r_left), w.and(s2, r_right))
}

/// Returns the high half of one vector and the low half of another.
#[inline(always)]
fn halves<I: Isa, const N: usize>(
    w: Wide<I, N>,
    high: Lanes<I, N>,
    low: Lanes<I, N>,
) -> Lanes<I, N> {
    w.join_low(low, w.swap(high))
}
