//! Garbling and evaluating the gates of one chunk, scheme by scheme.
//!
//! A [`Kernel`] is one role of one scheme. [`ChunkJob`] drives it over the gates of a chunk: it
//! runs inside the function that has the target features of the back end, so the choice of a back
//! end is made once per chunk and everything below is straight vector code.
//!
//! A vector holds either different gates of one instance, whose labels are collected from all over
//! the slots, or one gate of [`LANES`] instances, whose labels lie side by side.
#![expect(
    unsafe_code,
    reason = "label slots are checked where a program is made, not at every gate"
)]

mod half_gates;
mod hash;
mod place;
mod prf;
mod tape;
mod three_halves;

pub(crate) use self::{
    half_gates::{HalfGatesEvaluate, HalfGatesGarble},
    hash::{PairHash, PerPeriod, PerTweak},
    place::{Place, Scattered, SideBySide},
    prf::{PrfEvaluate, PrfGarble},
    tape::{TableReader, TableWriter},
    three_halves::{ThreeHalvesEvaluate, ThreeHalvesGarble},
};

use transpute_circuit::{BatchKind, Load, ProgramGate};

use crate::{
    Label,
    chunk::{LANES, Runs},
    dispatch::Job,
    engine::{Isa, MAX_WIDTH, Wide},
};

/// One role of one scheme.
pub(crate) trait Kernel: Sized {
    /// Whether XOR gates have tables, and count as gates for the tweak.
    const XOR_TABLES: bool;

    /// Does a group of independent AND gates.
    fn and_group<I: Isa, const N: usize, P: Place>(
        &mut self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        group: Group<P>,
    );

    /// How many AND gates from `id` on, at most, are best done one by one even if there are more;
    /// `None` where the kernel does none so.
    #[inline(always)]
    fn ones_first<I: Isa>(&self, isa: I, keys: &I::Keys, id: u64) -> Option<usize> {
        let _ = (isa, keys, id);
        None
    }

    /// Does one AND gate on vectors of two labels, where [`Kernel::ones_first`] allows it. `wide`
    /// is for what serves several gates.
    ///
    /// # Safety
    /// No slot of the gate is past those there are.
    #[inline(always)]
    unsafe fn and_one<I: Isa, J: Isa<Keys = I::Keys>, const N: usize>(
        &mut self,
        wide: I,
        w: Wide<J, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        (gate, id): (ProgramGate, u64),
    ) {
        let _ = (wide, w, keys, slots, gate, id);
    }

    /// Does a group of independent XOR gates, where they have tables ([`Kernel::XOR_TABLES`]).
    #[inline(always)]
    fn xor_group<I: Isa, const N: usize, P: Place>(
        &mut self,
        w: Wide<I, N>,
        slots: &mut [Label],
        group: Group<P>,
    ) {
        let _ = (w, slots, group);
    }
}

/// Independent gates of one kind, as many as a vector is wide.
#[derive(Clone, Copy)]
pub(crate) struct Group<P> {
    pub(crate) place: P,
    /// How many of the gates have a place in the tables; the others write to the spare slot.
    pub(crate) live: usize,
    /// Id of the first gate; those of the others follow.
    pub(crate) id: u64,
}

/// Puts labels of inputs into their slots. It is called for hundreds at a time.
pub(crate) type PlaceInputs<'a> = &'a mut dyn FnMut(&[Load], &mut [Label]);

/// The gates of one chunk to be done by a kernel.
pub(crate) struct ChunkJob<'a, K> {
    kernel: K,
    place: PlaceInputs<'a>,
    slots: &'a mut [Label],
    spare: u32,
    lanes: usize,
    runs: Runs<'a>,
    first_id: u64,
}

impl<'a, K: Kernel> ChunkJob<'a, K> {
    /// Takes the labels by slot, those of the `lanes` instances side by side (1 or [`LANES`]); the
    /// last slot is `spare`. `first_id` is the id of the first gate of the instances.
    ///
    /// # Safety
    /// No gate of the runs names a slot past `spare`, no XOR gate has inversion marks, and `slots`
    /// has the labels that the kernel keeps per slot for each of the `spare + 1` slots of each lane.
    pub(crate) unsafe fn new(
        kernel: K,
        place: PlaceInputs<'a>,
        slots: &'a mut [Label],
        spare: u32,
        lanes: usize,
        runs: Runs<'a>,
        first_id: u64,
    ) -> Self {
        Self {
            kernel,
            place,
            slots,
            spare,
            lanes,
            runs,
            first_id,
        }
    }

    /// Does one group of a run of gates.
    #[inline(always)]
    fn group<I: Isa, const N: usize, P: Place>(
        &mut self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        kind: BatchKind,
        group: Group<P>,
    ) {
        match kind {
            BatchKind::And => self.kernel.and_group(w, keys, self.slots, group),
            // Inputs are no gates.
            BatchKind::Xor | BatchKind::Input => self.kernel.xor_group(w, self.slots, group),
        }
    }

    /// Does AND gates of one instance one by one.
    #[inline(always)]
    fn ones<I: Isa, J: Isa<Keys = I::Keys>, const P: usize>(
        &mut self,
        wide: I,
        pair: Wide<J, P>,
        keys: &mut I::Keys,
        gates: &[ProgramGate],
        first_id: u64,
    ) {
        for (id, &gate) in (first_id..).zip(gates) {
            // SAFETY: slots as `ChunkJob::new` demands.
            unsafe {
                self.kernel
                    .and_one(wide, pair, keys, self.slots, (gate, id))
            };
        }
    }

    /// Does a run of gates of one instance.
    #[inline(always)]
    fn scattered<I: Isa, const N: usize, const M: usize, J, const P: usize, L>(
        &mut self,
        widths: (Wide<I, N>, Wide<I, M>, Wide<J, P>, Wide<L, 1>),
        keys: &mut I::Keys,
        kind: BatchKind,
        mut gates: &[ProgramGate],
        mut id: u64,
    ) where
        J: Isa<Keys = I::Keys>,
        L: Isa<Keys = I::Keys>,
    {
        let (wide, half, pair, narrow) = widths;
        let width = Wide::<I, N>::WIDTH;
        let ones_first = match kind {
            BatchKind::And => self.kernel.ones_first(wide.0, keys, id),
            BatchKind::Xor | BatchKind::Input => None,
        };
        if let Some(count) = ones_first {
            let (ones, rest) = gates.split_at(count.min(gates.len()));
            self.ones(wide.0, pair, keys, ones, id);
            id += ones.len() as u64;
            gates = rest;
        }
        let mut groups = gates.chunks_exact(width);
        for gates in &mut groups {
            // SAFETY: as many gates as the vectors are wide; slots as `ChunkJob::new` demands.
            let place = unsafe { Scattered::new(gates) };
            let live = width;
            self.group(wide, keys, kind, Group { place, live, id });
            id += width as u64;
        }
        let rest = groups.remainder();
        if ones_first.is_some() {
            self.ones(wide.0, pair, keys, rest, id);
            return;
        }
        if rest.len() <= I::NARROW_REST {
            for gates in rest.chunks_exact(1) {
                // SAFETY: one gate; slots as `ChunkJob::new` demands.
                let place = unsafe { Scattered::new(gates) };
                self.group(narrow, keys, kind, Group { place, live: 1, id });
                id += 1;
            }
            return;
        }
        let mut padded = [ProgramGate {
            out: self.spare,
            ..rest[0]
        }; MAX_WIDTH];
        padded[..rest.len()].copy_from_slice(rest);
        let live = rest.len();
        if live <= Wide::<I, M>::WIDTH {
            // SAFETY: as many gates as the vectors are wide; slots as `ChunkJob::new` demands, and
            // the spare one exists too.
            let place = unsafe { Scattered::new(&padded[..Wide::<I, M>::WIDTH]) };
            self.group(half, keys, kind, Group { place, live, id });
        } else {
            // SAFETY: the slots exist as in the other branch, and `padded` has at least as many gates as the widest vectors.
            let place = unsafe { Scattered::new(&padded[..width]) };
            self.group(wide, keys, kind, Group { place, live, id });
        }
    }
}

impl<K: Kernel> Job for ChunkJob<'_, K> {
    #[inline(always)]
    fn run<I: Isa, const N: usize, const M: usize, J, const P: usize, L>(
        mut self,
        wide: Wide<I, N>,
        half: Wide<I, M>,
        pair: Wide<J, P>,
        narrow: Wide<L, 1>,
    ) where
        J: Isa<Keys = I::Keys>,
        L: Isa<Keys = I::Keys>,
    {
        let mut keys = I::Keys::default();
        let lanes = self.lanes;
        while let Some(run) = self.runs.next() {
            if run.kind == BatchKind::Input {
                (self.place)(run.loads, self.slots);
                continue;
            }
            let position = if K::XOR_TABLES { run.gate } else { run.and };
            let mut id = self.first_id + position * lanes as u64;
            let free = run.kind == BatchKind::Xor && !K::XOR_TABLES;
            if lanes == 1 {
                if free {
                    // SAFETY: slots as `ChunkJob::new` demands.
                    unsafe { free_xors(narrow, self.slots, run.gates) };
                } else {
                    self.scattered(
                        (wide, half, pair, narrow),
                        &mut keys,
                        run.kind,
                        run.gates,
                        id,
                    );
                }
            } else if free {
                for &gate in run.gates {
                    // SAFETY: slots as `ChunkJob::new` demands.
                    let place = unsafe { SideBySide::new(gate) };
                    place.free_xor(wide, self.slots);
                }
            } else {
                for &gate in run.gates {
                    // SAFETY: slots as `ChunkJob::new` demands.
                    let (place, live) = (unsafe { SideBySide::new(gate) }, LANES);
                    self.group(wide, &mut keys, run.kind, Group { place, live, id });
                    id += LANES as u64;
                }
            }
        }
    }
}

/// XOR gates of one instance under free XOR, in either role.
///
/// # Safety
/// All slots of the gates are below the number of slots, and no operand has an inversion mark.
#[inline(always)]
unsafe fn free_xors<J: Isa>(narrow: Wide<J, 1>, slots: &mut [Label], gates: &[ProgramGate]) {
    let isa = narrow.0;
    for gate in gates {
        // SAFETY: the caller says that the slots of the gate exist, and its operands have no inversion marks.
        unsafe {
            let (a, b) = (isa.gather(slots, &[gate.a]), isa.gather(slots, &[gate.b]));
            isa.scatter(isa.xor(a, b), slots, &[gate.out]);
        }
    }
}

#[cfg(test)]
mod tests;
