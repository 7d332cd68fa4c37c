//! Garbling and evaluating the gates of one chunk, scheme by scheme.
//!
//! A [`Kernel`] is one role of one scheme. [`ChunkJob`] drives it over the gates of a chunk: it
//! runs inside the function that has the target features of the back end, so the choice of a back
//! end is made once per chunk and everything below is straight vector code.

mod half_gates;
mod hash;
mod prf;
mod tape;
mod three_halves;

pub(crate) use self::{
    half_gates::{HalfGatesEvaluate, HalfGatesGarble},
    hash::{PairHash, PerPeriod, PerTweak},
    prf::{PrfEvaluate, PrfGarble},
    tape::{TableReader, TableWriter},
    three_halves::{ThreeHalvesEvaluate, ThreeHalvesGarble},
};

use transpute_circuit::{BatchKind, INVERT, ProgramGate};

use crate::{
    Label,
    backend::Job,
    chunk::Runs,
    engine::{Index, Isa, MAX_WIDTH, Wide},
};

/// The AES key last expanded, with its number.
pub(crate) type KeyCache<I> = Option<(u64, <I as Isa>::Schedule)>;

/// One role of one scheme.
pub(crate) trait Kernel: Sized {
    /// Whether XOR gates have tables, and count as gates for the tweak.
    const XOR_TABLES: bool;

    /// Does a group of independent AND gates. There are as many gates as `w` is wide, but only the
    /// first `live` have a place in the tables; the others write to the spare slot. Gate `i` has
    /// the id `id + i`.
    fn and_group<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        cache: &mut KeyCache<I>,
        slots: &mut [Label],
        group: Group<'_>,
    );

    /// Does a group of independent XOR gates that have tables.
    fn xor_group<I: Isa, const N: usize>(
        &mut self,
        w: Wide<I, N>,
        slots: &mut [Label],
        group: Group<'_>,
    );
}

/// Independent gates of one kind, as many as a kernel handles together.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    pub(crate) gates: &'a [ProgramGate],
    pub(crate) live: usize,
    pub(crate) id: u64,
}

impl Group<'_> {
    /// Slots of the first operands.
    #[inline(always)]
    fn a(&self) -> Index {
        let mut index = [0; MAX_WIDTH];
        for (slot, gate) in index.iter_mut().zip(self.gates) {
            *slot = gate.a & !INVERT;
        }
        index
    }

    /// Slots of the second operands.
    #[inline(always)]
    fn b(&self) -> Index {
        let mut index = [0; MAX_WIDTH];
        for (slot, gate) in index.iter_mut().zip(self.gates) {
            *slot = gate.b & !INVERT;
        }
        index
    }

    /// Slots of the outputs.
    #[inline(always)]
    fn out(&self) -> Index {
        let mut index = [0; MAX_WIDTH];
        for (slot, gate) in index.iter_mut().zip(self.gates) {
            *slot = gate.out;
        }
        index
    }

    /// Which first operands are inverted; bit `i` is gate `i`.
    #[inline(always)]
    fn inverted_a(&self) -> u32 {
        (self.gates.iter().enumerate()).fold(0, |bits, (i, gate)| bits | gate.a >> 31 << i)
    }

    /// Which second operands are inverted.
    #[inline(always)]
    fn inverted_b(&self) -> u32 {
        (self.gates.iter().enumerate()).fold(0, |bits, (i, gate)| bits | gate.b >> 31 << i)
    }
}

/// The gates of one chunk to be done by a kernel.
pub(crate) struct ChunkJob<'a, K> {
    pub(crate) kernel: K,
    /// Labels by slot; the last slot is spare.
    pub(crate) slots: &'a mut [Label],
    pub(crate) spare: u32,
    pub(crate) runs: Runs<'a>,
    /// Id of the first gate of the instance.
    pub(crate) first_id: u64,
}

impl<K: Kernel> Job for ChunkJob<'_, K> {
    #[inline(always)]
    fn run<I: Isa, const N: usize, J: Isa<Schedule = I::Schedule>>(
        mut self,
        wide: Wide<I, N>,
        narrow: Wide<J, 1>,
    ) {
        let mut cache = None;
        for run in self.runs {
            let position = if K::XOR_TABLES { run.gate } else { run.and };
            let mut id = self.first_id + position;
            if run.kind == BatchKind::Xor && !K::XOR_TABLES {
                free_xors(narrow, self.slots, run.gates);
                continue;
            }
            let width = Wide::<I, N>::WIDTH;
            let mut groups = run.gates.chunks_exact(width);
            for gates in &mut groups {
                let live = width;
                let group = Group { gates, live, id };
                match run.kind {
                    BatchKind::And => self.kernel.and_group(wide, &mut cache, self.slots, group),
                    BatchKind::Xor => self.kernel.xor_group(wide, self.slots, group),
                }
                id += width as u64;
            }
            let rest = groups.remainder();
            if rest.len() <= I::NARROW_REST {
                for gates in rest.chunks_exact(1) {
                    let group = Group { gates, live: 1, id };
                    match run.kind {
                        BatchKind::And => {
                            self.kernel.and_group(narrow, &mut cache, self.slots, group);
                        }
                        BatchKind::Xor => self.kernel.xor_group(narrow, self.slots, group),
                    }
                    id += 1;
                }
                continue;
            }
            let mut padded = [ProgramGate {
                out: self.spare,
                ..rest[0]
            }; MAX_WIDTH];
            padded[..rest.len()].copy_from_slice(rest);
            let (gates, live) = (&padded[..width], rest.len());
            let group = Group { gates, live, id };
            match run.kind {
                BatchKind::And => self.kernel.and_group(wide, &mut cache, self.slots, group),
                BatchKind::Xor => self.kernel.xor_group(wide, self.slots, group),
            }
        }
    }
}

/// XOR gates under free XOR, in either role.
#[inline(always)]
fn free_xors<J: Isa>(narrow: Wide<J, 1>, slots: &mut [Label], gates: &[ProgramGate]) {
    let isa = narrow.0;
    for gate in gates {
        let (a, b) = (isa.gather(slots, &[gate.a]), isa.gather(slots, &[gate.b]));
        isa.scatter(isa.xor(a, b), slots, &[gate.out]);
    }
}

#[cfg(test)]
mod tests;
