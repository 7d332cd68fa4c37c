//! The gate kernels: garbling and evaluating the gates of one chunk, for each scheme.
//!
//! A [`Kernel`] implements garbling or evaluating for one scheme. [`ChunkJob`] runs it over the
//! gates of a chunk, inside the function that enables the target features of the back end. The back
//! end is therefore selected once per chunk.
//!
//! A vector holds either different gates of one instance, whose labels are gathered from arbitrary
//! slots, or one gate of [`LANES`] instances, whose labels are adjacent.
#![expect(
    unsafe_code,
    reason = "label slots are checked where a program is made, not at every gate"
)]

mod half_gates;
mod hash;
mod label_access;
mod prf;
mod table_cursor;
mod three_halves;

pub(crate) use self::{
    half_gates::{HalfGatesEvaluate, HalfGatesGarble},
    hash::{PairHash, PerPeriod, PerTweak},
    label_access::{LabelAccess, Scattered, SideBySide},
    prf::{PrfEvaluate, PrfGarble},
    table_cursor::{TableReader, TableWriter},
    three_halves::{ThreeHalvesEvaluate, ThreeHalvesGarble},
};

use transpute_circuit::{BatchKind, Load, ProgramGate};

use crate::{
    Label,
    chunk::{LANES, Runs},
    dispatch::Job,
    engine::{Isa, MAX_WIDTH, Wide},
};

/// Garbles or evaluates gates under one scheme.
pub(crate) trait Kernel: Sized {
    /// `true` if XOR gates have tables and use tweaks, which is not the case under free XOR.
    const XOR_TABLES: bool;

    /// Garbles or evaluates a group of independent AND gates.
    fn and_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        slots: &mut [Label],
        group: Group<P>,
    );

    /// Returns the number of AND gates, from `id` on, that should be processed one by one although
    /// a group is possible. `None` means that the kernel processes only groups.
    #[inline(always)]
    fn ones_first<I: Isa>(&self, isa: I, keys: &I::Keys, id: u64) -> Option<usize> {
        let _ = (isa, keys, id);
        None
    }

    /// Garbles or evaluates one AND gate on vectors of two labels. Call this only if
    /// [`Kernel::ones_first`] returns a number. `wide` is for computations shared by several gates,
    /// such as key expansion.
    ///
    /// # Safety
    /// All slots of the gate are below the number of slots.
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

    /// Garbles or evaluates a group of independent XOR gates, if they have tables
    /// ([`Kernel::XOR_TABLES`]).
    #[inline(always)]
    fn xor_group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        slots: &mut [Label],
        group: Group<P>,
    ) {
        let _ = (w, slots, group);
    }
}

/// Independent gates of one kind, as many as the width of a vector.
#[derive(Clone, Copy)]
pub(crate) struct Group<P> {
    pub(crate) access: P,
    /// Number of actual gates. The remaining lanes are padding, which has no tables and writes to
    /// the spare slot.
    pub(crate) live: usize,
    /// Id of the first gate; the ids are consecutive.
    pub(crate) id: u64,
}

/// A function that writes the labels of loaded inputs into their slots. One call handles hundreds
/// of inputs.
pub(crate) type LoadInputs<'a> = &'a mut dyn FnMut(&[Load], &mut [Label]);

/// A job that runs a kernel on the gates of one chunk.
pub(crate) struct ChunkJob<'a, K> {
    kernel: K,
    load_inputs: LoadInputs<'a>,
    slots: &'a mut [Label],
    spare: u32,
    lanes: usize,
    runs: Runs<'a>,
    first_id: u64,
}

impl<'a, K: Kernel> ChunkJob<'a, K> {
    /// Returns a job on `slots`, which has the labels of the `lanes` instances (1 or [`LANES`]) of
    /// each slot adjacent; the last slot is `spare`. `first_id` is the id of the first gate of the
    /// instances.
    ///
    /// # Safety
    /// All slots of the gates are at most `spare`, no XOR gate has inversion marks, and `slots` has
    /// the labels that the kernel keeps per slot, for each of the `spare + 1` slots and each lane.
    pub(crate) unsafe fn new(
        kernel: K,
        load_inputs: LoadInputs<'a>,
        slots: &'a mut [Label],
        spare: u32,
        lanes: usize,
        runs: Runs<'a>,
        first_id: u64,
    ) -> Self {
        Self {
            kernel,
            load_inputs,
            slots,
            spare,
            lanes,
            runs,
            first_id,
        }
    }

    /// Runs the kernel on one group of gates.
    #[inline(always)]
    fn group<I: Isa, const N: usize, P: LabelAccess>(
        &mut self,
        w: Wide<I, N>,
        keys: &mut I::Keys,
        kind: BatchKind,
        group: Group<P>,
    ) {
        match kind {
            BatchKind::And => self.kernel.and_group(w, keys, self.slots, group),
            // Inputs are never processed in groups, so this arm handles only XOR gates.
            BatchKind::Xor | BatchKind::Input => self.kernel.xor_group(w, self.slots, group),
        }
    }

    /// Runs the kernel on AND gates of one instance, one by one.
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
            // SAFETY: `ChunkJob::new` requires that all slots of the gates exist.
            unsafe {
                self.kernel
                    .and_one(wide, pair, keys, self.slots, (gate, id))
            };
        }
    }

    /// Runs the kernel on gates of one instance.
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
            // SAFETY: there are as many gates as the vector is wide, and `ChunkJob::new` requires
            // that their slots exist.
            let access = unsafe { Scattered::new(gates) };
            let live = width;
            self.group(wide, keys, kind, Group { access, live, id });
            id += width as u64;
        }
        let rest = groups.remainder();
        if ones_first.is_some() {
            self.ones(wide.0, pair, keys, rest, id);
            return;
        }
        if rest.len() <= I::NARROW_REST {
            for gates in rest.chunks_exact(1) {
                // SAFETY: there is one gate for a vector of one label, and `ChunkJob::new` requires
                // that its slots exist.
                let access = unsafe { Scattered::new(gates) };
                self.group(
                    narrow,
                    keys,
                    kind,
                    Group {
                        access,
                        live: 1,
                        id,
                    },
                );
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
            // SAFETY: there are as many gates as the vector is wide. `ChunkJob::new` requires that
            // their slots and the spare slot exist.
            let access = unsafe { Scattered::new(&padded[..Wide::<I, M>::WIDTH]) };
            self.group(half, keys, kind, Group { access, live, id });
        } else {
            // SAFETY: `padded` has as many gates as the widest vector. `ChunkJob::new` requires
            // that their slots and the spare slot exist.
            let access = unsafe { Scattered::new(&padded[..width]) };
            self.group(wide, keys, kind, Group { access, live, id });
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
                (self.load_inputs)(run.loads, self.slots);
                continue;
            }
            let position = if K::XOR_TABLES { run.gate } else { run.and };
            let mut id = self.first_id + position * lanes as u64;
            let free = run.kind == BatchKind::Xor && !K::XOR_TABLES;
            if lanes == 1 {
                if free {
                    // SAFETY: `ChunkJob::new` requires that the slots of the gates exist and that
                    // XOR gates have no inversion marks.
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
                    // SAFETY: `ChunkJob::new` requires that the slots exist and that XOR gates have
                    // no inversion marks.
                    let access = unsafe { SideBySide::new(gate) };
                    access.free_xor(wide, self.slots);
                }
            } else {
                for &gate in run.gates {
                    // SAFETY: `ChunkJob::new` requires that the slots exist and that XOR gates have
                    // no inversion marks.
                    let (access, live) = (unsafe { SideBySide::new(gate) }, LANES);
                    self.group(wide, &mut keys, run.kind, Group { access, live, id });
                    id += LANES as u64;
                }
            }
        }
    }
}

/// Processes XOR gates of one instance under free XOR, in either role.
///
/// # Safety
/// All slots of the gates are below the number of slots, and no operand has an inversion mark.
#[inline(always)]
unsafe fn free_xors<J: Isa>(narrow: Wide<J, 1>, slots: &mut [Label], gates: &[ProgramGate]) {
    let isa = narrow.0;
    for gate in gates {
        // SAFETY: the caller guarantees that the slots of the gate exist and that its operands have
        // no inversion marks.
        unsafe {
            let (a, b) = (isa.gather(slots, &[gate.a]), isa.gather(slots, &[gate.b]));
            isa.scatter(isa.xor(a, b), slots, &[gate.out]);
        }
    }
}

#[cfg(test)]
mod tests;
