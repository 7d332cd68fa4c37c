//! Half gates (Zahur, Rosulek, Evans, eprint 2014/756): 32 bytes per AND gate.
//!
//! With labels `A`, `B` of value 0, permute bits `pa`, `pb`, the hash `H` and the tweaks `j`,
//! `j + 1`:
//!
//! ```text
//! TG = H(A,j) ^ H(A^D,j) ^ pb D          WG = H(A,j) ^ pa TG
//! TE = H(B,j+1) ^ H(B^D,j+1) ^ A         WE = H(B,j+1) ^ pb (TE ^ A)
//! C  = WG ^ WE;  the table is TG, TE
//! ```

use super::{
    Group, Kernel, PairHash, Place,
    tape::{TableReader, TableWriter},
};
use crate::{
    Label,
    engine::{Isa, Wide},
};

/// Bytes of a table.
const BYTES: usize = 32;

/// The garbler's role.
pub(crate) struct HalfGatesGarble<'a, H> {
    pub(crate) hash: H,
    pub(crate) delta: Label,
    pub(crate) tables: TableWriter<'a>,
}

impl<H: PairHash> Kernel for HalfGatesGarble<'_, H> {
    const XOR_TABLES: bool = false;

    #[inline(always)]
    fn and_group<I: Isa, const N: usize, P: Place>(
        &mut self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        Group { place, live, id }: Group<P>,
    ) {
        let delta = w.splat(self.delta.0);
        let (mut a, mut b) = (place.a(w, slots), place.b(w, slots));
        // An inverted wire is the same label read with the opposite meaning.
        let inverted = place.inverted();
        if inverted != [0, 0] {
            a = w.xor(a, w.and(delta, w.mask(inverted[0])));
            b = w.xor(b, w.and(delta, w.mask(inverted[1])));
        }
        let (pa, pb) = (w.colour_mask(a), w.colour_mask(b));
        // Sigma is linear.
        let (sa, sb, sd) = (w.sigma(a), w.sigma(b), w.sigma(delta));
        let operands = [[sa, w.xor(sa, sd)], [sb, w.xor(sb, sd)]];
        let [ha, hb] = self.hash.pair(w, keys, id, operands);
        let tg = w.xor(w.xor(ha[0], ha[1]), w.and(pb, delta));
        let wg = w.xor(ha[0], w.and(pa, tg));
        // TE ^ A
        let te_a = w.xor(hb[0], hb[1]);
        let we = w.xor(hb[0], w.and(pb, te_a));
        place.set_out(w, slots, w.xor(wg, we));

        let width = Wide::<I, N>::WIDTH;
        let table = self.tables.group(BYTES, live, width);
        w.store_pairs([tg, w.xor(te_a, a)], table);
        self.tables.keep(BYTES, live, width);
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize, P: Place>(
        &mut self,
        _: Wide<I, N>,
        _: &mut [Label],
        _: Group<P>,
    ) {
        // XOR gates have no tables.
    }
}

/// The evaluator's role.
pub(crate) struct HalfGatesEvaluate<'a, H> {
    pub(crate) hash: H,
    pub(crate) tables: TableReader<'a>,
}

impl<H: PairHash> Kernel for HalfGatesEvaluate<'_, H> {
    const XOR_TABLES: bool = false;

    /// `C = H(A,j) ^ c(A) TG ^ H(B,j+1) ^ c(B) (TE ^ A)`, where `c` is the colour.
    #[inline(always)]
    fn and_group<I: Isa, const N: usize, P: Place>(
        &mut self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        Group { place, live, id }: Group<P>,
    ) {
        let table = self.tables.group(BYTES, live, Wide::<I, N>::WIDTH);
        let [tg, te] = w.load_pairs(table);
        let (a, b) = (place.a(w, slots), place.b(w, slots));
        let operands = [[w.sigma(a)], [w.sigma(b)]];
        let [[ha], [hb]] = self.hash.pair(w, keys, id, operands);
        let from_a = w.xor(ha, w.and(w.colour_mask(a), tg));
        let from_b = w.xor(hb, w.and(w.colour_mask(b), w.xor(te, a)));
        place.set_out(w, slots, w.xor(from_a, from_b));
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize, P: Place>(
        &mut self,
        _: Wide<I, N>,
        _: &mut [Label],
        _: Group<P>,
    ) {
        // XOR gates have no tables.
    }
}
