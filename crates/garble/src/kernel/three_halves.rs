//! Three halves (Rosulek, Roy, eprint 2021/749): 24 bytes and 5 bits per AND gate.
//!
//! A label `X` is a pair of 64-bit halves `X_L` (bytes 8-15) and `X_R` (bytes 0-7). `A` and `B` are
//! the labels of colour 0, `X = A ^ B`, `(i, j)` the colours of the operands, `(a, b)` the colours
//! at which both operands are 1. The hash gives a half `h` and a bit `e`. The matrices over the
//! columns `A_L A_R B_L B_R` are
//!
//! ```text
//! S1 = [1 1 1 0; 1 0 0 1]   S2 = [1 0 0 1; 0 1 1 1]   P_ij = [0 0 1^i 0; 0 1^j 0 0]
//! R_ij = r_L(i,j) S1 ^ r_R(i,j) S2 ^ P_ij
//! r_L = rho0 ^ i a ^ (i^j)(a^b)   r_R = rho1 ^ j b ^ (i^j)(a^b)
//! l_ij = R_ij (A ^ i D, B ^ j D) ^ [(i,j) = (a,b)] D
//! ```
//!
//! with two dice `rho0`, `rho1` per gate. The table is `G0`, `G1`, `G2` and the bits `z0` to `z4`;
//! each is masked by hashes that the evaluator does not know.

use super::{
    Group, Kernel, KeyCache, hash,
    tape::{self, Scratch, TableReader, TableWriter},
};
use crate::{
    Label,
    engine::{Isa, Lanes, Wide},
    seed::{Dice, SecretPrg},
};

/// Bytes of a table.
const BYTES: usize = 24;

/// Bits of a table in the trailer.
const BITS: u32 = 5;

/// The garbler's role.
pub(crate) struct ThreeHalvesGarble<'a> {
    pub(crate) start: u128,
    pub(crate) delta: Label,
    pub(crate) prg: &'a SecretPrg,
    pub(crate) dice: &'a mut [Dice; 2],
    pub(crate) tables: TableWriter<'a>,
}

impl Kernel for ThreeHalvesGarble<'_> {
    const XOR_TABLES: bool = false;

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
        let delta = w.splat(self.delta.0);
        let rho0 = self.dice[0].eight(self.prg, group.id) & lanes;
        let rho1 = self.dice[1].eight(self.prg, group.id) & lanes;

        let a_zero = w.gather(slots, &group.a());
        let b_zero = w.gather(slots, &group.b());
        // Colours at which an operand is 1: not its permute bit, which inversion flips.
        let at_a = !(w.colours(a_zero) ^ group.inverted_a()) & lanes;
        let at_b = !(w.colours(b_zero) ^ group.inverted_b()) & lanes;
        // The labels of colour 0.
        let a = w.xor(a_zero, w.and(delta, w.colour_mask(a_zero)));
        let b = w.xor(b_zero, w.and(delta, w.colour_mask(b_zero)));
        let x = w.xor(a, b);

        let sigma_delta = w.double_halves(delta);
        let keys = Keys::new(w, self.start, group.id);
        let ha = keys.hash(w, 0, with_offset(w, a, sigma_delta));
        let hb = keys.hash(w, 1, with_offset(w, b, sigma_delta));
        let hx = keys.hash(w, 2, with_offset(w, x, sigma_delta));

        // l_00, l_11 and the left half of l_01.
        let (ad, bd) = (w.xor(a, delta), w.xor(b, delta));
        let l00 = w.xor(
            combine(w, rho0, rho1, a, b),
            w.xor(halves(w, b, a), w.and(delta, w.mask(!at_a & !at_b & lanes))),
        );
        let l11 = w.xor(
            combine(w, rho0 ^ at_a, rho1 ^ at_b, ad, bd),
            w.and(delta, w.mask(at_a & at_b)),
        );
        let l01 = w.xor(
            combine(w, rho0 ^ at_a ^ at_b, rho1 ^ at_a, a, bd),
            w.xor(bd, w.and(delta, w.mask(!at_a & at_b & lanes))),
        );

        let out = w.xor(w.xor(l00, w.join_low(hb[0], ha[0])), w.repeat_low(hx[0]));
        w.scatter(out, slots, &group.out());

        let hashes = w.join_low(w.xor(hb[0], hb[1]), w.xor(ha[0], ha[1]));
        // G0 in the high half, G1 in the low half.
        let g01 = w.xor(w.xor(l00, l11), hashes);
        // G2 in the low half.
        let g2 = w.xor(w.high_to_low(w.xor(l00, l01)), w.xor(hx[0], hx[1]));
        let mut scratch: Scratch = [0; _];
        let place = self.tables.group(&mut scratch, BYTES, group.live, width);
        w.store(w.swap(g01), place, BYTES);
        // Bytes 8-23: G1 again and G2.
        w.store(w.join_low(g01, g2), &mut place[8..], BYTES);
        self.tables.keep(&scratch, BYTES, group.live, width);

        let (ea, eb, ex) = (
            w.high_colours(ha[0]),
            w.high_colours(hb[0]),
            w.high_colours(hx[0]),
        );
        let z = [
            rho0 ^ ea ^ ex,
            rho1 ^ eb ^ ex,
            at_a ^ ea ^ w.high_colours(ha[1]),
            at_b ^ eb ^ w.high_colours(hb[1]),
            at_a ^ at_b ^ ex ^ w.high_colours(hx[1]),
        ];
        let mut bits = 0;
        for (k, z) in z.into_iter().enumerate() {
            bits |= tape::spread(z, BITS) << k;
        }
        self.tables.push_bits(bits, BITS * group.live as u32);
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize>(&mut self, _: Wide<I, N>, _: &mut [Label], _: Group<'_>) {
        // XOR gates have no tables.
    }
}

/// The evaluator's role.
pub(crate) struct ThreeHalvesEvaluate<'a> {
    pub(crate) start: u128,
    pub(crate) tables: TableReader<'a>,
}

impl Kernel for ThreeHalvesEvaluate<'_> {
    const XOR_TABLES: bool = false;

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
        let tables = self.tables.group(&mut scratch, BYTES, group.live, width);
        // G0 high, G1 low; and G1 low, G2 high.
        let g01 = w.swap(w.load(tables, BYTES));
        let g12 = w.load(&tables[8..], BYTES);
        let packed = self.tables.take_bits(BITS * group.live as u32);
        let z = |k: u32| tape::collect(packed >> k, BITS);

        let (a, b) = (w.gather(slots, &group.a()), w.gather(slots, &group.b()));
        let x = w.xor(a, b);
        let (i, j) = (w.colours(a), w.colours(b));
        let keys = Keys::new(w, self.start, group.id);
        let [ha] = keys.hash(w, 0, [w.double_halves(a)]);
        let [hb] = keys.hash(w, 1, [w.double_halves(b)]);
        let [hx] = keys.hash(w, 2, [w.double_halves(x)]);
        let (ea, eb, ex) = (w.high_colours(ha), w.high_colours(hb), w.high_colours(hx));
        let r_left = z(0) ^ i & z(2) ^ (i ^ j) & z(4) ^ ea ^ ex;
        let r_right = z(1) ^ j & z(3) ^ (i ^ j) & z(4) ^ eb ^ ex;

        // P_ij (A, B): B_L where i = 0, A_R where j = 0; and G0 where i = 1, G1 where j = 1.
        let ones = w.splat(!0);
        let at = halves(w, w.colour_mask(a), w.colour_mask(b));
        let p = w.and(halves(w, b, a), w.xor(at, ones));
        let from_tables = w.xor(w.and(g01, at), w.and(w.repeat_high(g12), w.colour_mask(x)));
        let hashes = w.xor(w.join_low(hb, ha), w.repeat_low(hx));
        let out = w.xor(
            w.xor(combine(w, r_left, r_right, a, b), p),
            w.xor(from_tables, hashes),
        );
        w.scatter(out, slots, &group.out());
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize>(&mut self, _: Wide<I, N>, _: &mut [Label], _: Group<'_>) {
        // XOR gates have no tables.
    }
}

/// The keys of the three hashes of a group, `S ^ (3 g + k)`.
struct Keys {
    start: u128,
    tweak: u64,
}

impl Keys {
    #[inline(always)]
    fn new<I: Isa, const N: usize>(_: Wide<I, N>, start: u128, id: u64) -> Self {
        Self {
            start,
            tweak: 3 * id,
        }
    }

    /// Hashes inputs already mapped by sigma: `AES_k(y) ^ y`. The half `h` is the low half of the
    /// result, the bit `e` the lowest bit of the high half.
    ///
    /// Sigma doubles both halves in GF(2^64): tables hold any combination of the halves of the
    /// offset, which the orthomorphism of half gates does not withstand.
    #[inline(always)]
    fn hash<I: Isa, const N: usize, const B: usize>(
        &self,
        w: Wide<I, N>,
        k: u64,
        inputs: [Lanes<I, N>; B],
    ) -> [Lanes<I, N>; B] {
        let keys = w.xor(w.splat(self.start), w.counter(self.tweak + k, 3, 0));
        hash::keyed(w, keys, inputs)
    }
}

/// Sigma of a label and of the label offset by delta.
#[inline(always)]
fn with_offset<I: Isa, const N: usize>(
    w: Wide<I, N>,
    label: Lanes<I, N>,
    sigma_delta: Lanes<I, N>,
) -> [Lanes<I, N>; 2] {
    let sigma = w.double_halves(label);
    [sigma, w.xor(sigma, sigma_delta)]
}

/// `r_L S1 (A, B) ^ r_R S2 (A, B)`, the coefficients given as one bit per lane.
#[inline(always)]
fn combine<I: Isa, const N: usize>(
    w: Wide<I, N>,
    r_left: u32,
    r_right: u32,
    a: Lanes<I, N>,
    b: Lanes<I, N>,
) -> Lanes<I, N> {
    // S1: (A_L ^ A_R ^ B_L, A_L ^ B_R)
    let s1 = w.xor(b, w.xor(w.repeat_high(a), w.low_to_high(a)));
    // S2: (A_L ^ B_R, A_R ^ B_L ^ B_R)
    let s2 = w.xor(a, w.xor(w.repeat_low(b), w.high_to_low(b)));
    w.xor(w.and(s1, w.mask(r_left)), w.and(s2, w.mask(r_right)))
}

/// The high half of one vector and the low half of another.
#[inline(always)]
fn halves<I: Isa, const N: usize>(
    w: Wide<I, N>,
    high: Lanes<I, N>,
    low: Lanes<I, N>,
) -> Lanes<I, N> {
    w.join_low(low, w.swap(high))
}
