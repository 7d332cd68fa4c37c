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
    Group, Kernel, KeyCache, PairHash,
    tape::{Scratch, TableReader, TableWriter},
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
    fn and_group<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        cache: &mut KeyCache<I>,
        slots: &mut [Label],
        group: Group<'_>,
    ) {
        let delta = w.splat(self.delta.0);
        let (mut a, mut b) = (w.gather(slots, &group.a()), w.gather(slots, &group.b()));
        // An inverted wire is the same label read with the opposite meaning.
        let inverted = (group.inverted_a(), group.inverted_b());
        if inverted != (0, 0) {
            a = w.xor(a, w.and(delta, w.mask(inverted.0)));
            b = w.xor(b, w.and(delta, w.mask(inverted.1)));
        }
        let (pa, pb) = (w.colour_mask(a), w.colour_mask(b));
        // Sigma is linear.
        let (sa, sb, sd) = (w.sigma(a), w.sigma(b), w.sigma(delta));
        let (ha, hb) = self.hash.pair(
            w,
            cache,
            2 * group.id,
            [sa, w.xor(sa, sd)],
            [sb, w.xor(sb, sd)],
        );
        let tg = w.xor(w.xor(ha[0], ha[1]), w.and(pb, delta));
        let wg = w.xor(ha[0], w.and(pa, tg));
        // TE ^ A
        let te_a = w.xor(hb[0], hb[1]);
        let we = w.xor(hb[0], w.and(pb, te_a));
        w.scatter(w.xor(wg, we), slots, &group.out());

        let width = Wide::<I, N>::WIDTH;
        let mut scratch: Scratch = [0; _];
        let place = self.tables.group(&mut scratch, BYTES, group.live, width);
        w.store(tg, place, BYTES);
        w.store(w.xor(te_a, a), &mut place[16..], BYTES);
        self.tables.keep(&scratch, BYTES, group.live, width);
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize>(&mut self, _: Wide<I, N>, _: &mut [Label], _: Group<'_>) {
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
    fn and_group<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        cache: &mut KeyCache<I>,
        slots: &mut [Label],
        group: Group<'_>,
    ) {
        let mut scratch: Scratch = [0; _];
        let width = Wide::<I, N>::WIDTH;
        let tables = self.tables.group(&mut scratch, BYTES, group.live, width);
        let (tg, te) = (w.load(tables, BYTES), w.load(&tables[16..], BYTES));
        let (a, b) = (w.gather(slots, &group.a()), w.gather(slots, &group.b()));
        let ([ha], [hb]) = self
            .hash
            .pair(w, cache, 2 * group.id, [w.sigma(a)], [w.sigma(b)]);
        let from_a = w.xor(ha, w.and(w.colour_mask(a), tg));
        let from_b = w.xor(hb, w.and(w.colour_mask(b), w.xor(te, a)));
        w.scatter(w.xor(from_a, from_b), slots, &group.out());
    }

    #[inline(always)]
    fn xor_group<I: Isa, const N: usize>(&mut self, _: Wide<I, N>, _: &mut [Label], _: Group<'_>) {
        // XOR gates have no tables.
    }
}
