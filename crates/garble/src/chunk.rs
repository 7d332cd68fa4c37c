//! Division of the tables of an instance into chunks.
//!
//! Both parties compute the chunk boundaries from the program, the scheme and the maximum chunk
//! length, so neither relies on lengths sent by the peer.
//!
//! # Rule
//! Every gate has a cost in bits. Under free XOR, an XOR gate costs nothing; an AND gate costs 256
//! bits (half-gates, fixed-key) or 192 + 5 bits (three-halves). Under prf, an XOR gate costs 128
//! bits and an AND gate 256 + 4 bits.
//!
//! A chunk contains as many whole gates, in program order, as fit into the maximum chunk length. It
//! may therefore end anywhere in a batch. A gate without cost, or the load of an input, belongs to
//! the chunk of the gate before it. At the start of an instance, such gates and loads belong to the
//! first chunk. An instance without any cost has no chunks.
//!
//! If several instances are garbled side by side, the tables of a gate for all of these instances
//! are adjacent. The cost of a gate is then the sum over these instances.
//!
//! # Layout
//! A chunk consists of the ciphertexts of all its gates in program order, and a trailer. The
//! trailer holds the extra bits of the AND gates in program order, packed from bit 0 of each byte
//! upwards; bits past the last one are zero. The length of the chunk is the sum of the costs in
//! bytes, rounded up.

use std::iter;

use transpute_circuit::{
    Batch, BatchKind, CompileProgress, InputSplit, Load, Program, ProgramGate,
};

use crate::{GarbleError, Scheme, inputs::Owners};

/// The smallest accepted maximum chunk length, in bytes for each instance in the chunk.
pub const MIN_CHUNK_LIMIT: usize = 64;

/// Number of instances that are garbled side by side, if [`lanes`] allows it.
///
/// Each operation on a gate then works on a vector that holds that gate's labels of all these
/// instances. The vectors are full even if each gate depends on the previous one, and the labels of
/// a vector are adjacent in memory.
pub const LANES: usize = 8;

/// The maximum number of slots of a program whose instances are garbled side by side. With this
/// number, [`LANES`] instances have 32 MiB of labels.
const MAX_LANED_SLOTS: usize = 1 << 18;

/// The maximum number of input bits of a program whose instances are garbled side by side. With
/// this number, [`LANES`] instances have 64 MiB of input labels.
const MAX_LANED_INPUTS: usize = 1 << 19;

/// Returns the number of instances to garble side by side if `left` instances remain. The result is
/// [`LANES`] if at least that many remain, the program has at most 262,144 slots and 524,288 input
/// bits, and chunks may have at least 512 bytes; otherwise it is 1.
///
/// The rule bounds memory. Both parties must follow it, because it determines the order of the
/// tables.
#[must_use]
pub fn lanes(program: &Program, limit: usize, left: u64) -> usize {
    let fits = program.slot_count() <= MAX_LANED_SLOTS && program.input_bits() <= MAX_LANED_INPUTS;
    if fits && limit >= LANES * MIN_CHUNK_LIMIT && left >= LANES as u64 {
        LANES
    } else {
        1
    }
}

/// Iterates over the lengths of all chunks of one instance in bytes, in order.
///
/// # Examples
/// ```
/// # use transpute_circuit::{Circuit, Gate, Op, Program};
/// # let and = |a, b| Gate { op: Op::And, a, b };
/// # let gates = [and(0, 1), and(0, 2), and(1, 3)];
/// # let circuit = Circuit::new(vec![2], vec![3], gates, vec![2, 3, 4])?;
/// use transpute_garble::{ChunkPlan, Scheme};
/// let program = Program::compile(&circuit);
/// assert_eq!(program.and_count(), 3);
/// let chunks: Vec<usize> = ChunkPlan::new(&program, Scheme::ThreeHalves, 64)?.collect();
/// // 2 * 197 bits and 197 bits.
/// assert_eq!(chunks, [50, 25]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChunkPlan<'a> {
    program: &'a Program,
    scheme: Scheme,
    limit: usize,
    lanes: usize,
    cursor: Cursor,
}

impl<'a> ChunkPlan<'a> {
    /// Returns the plan for chunks of at most `limit` bytes.
    ///
    /// # Errors
    /// Returns [`GarbleError::ChunkLimit`] if `limit` is under [`MIN_CHUNK_LIMIT`].
    pub fn new(program: &'a Program, scheme: Scheme, limit: usize) -> Result<Self, GarbleError> {
        Self::side_by_side(program, scheme, limit, 1)
    }

    /// Returns the plan for `lanes` instances side by side, which is 1 or [`LANES`].
    ///
    /// # Errors
    /// Returns [`GarbleError::LaneCount`] for any other number of instances. Returns
    /// [`GarbleError::ChunkLimit`] if `limit` is under [`MIN_CHUNK_LIMIT`] per instance.
    pub fn side_by_side(
        program: &'a Program,
        scheme: Scheme,
        limit: usize,
        lanes: usize,
    ) -> Result<Self, GarbleError> {
        check_lanes(lanes)?;
        check_limit(limit, lanes)?;
        Ok(Self {
            program,
            scheme,
            limit,
            lanes,
            cursor: Cursor::default(),
        })
    }

    /// Iterates over the chunks. Each item is the length of the chunk in bytes, and the number of
    /// the evaluator's input labels that the chunk reads per instance.
    ///
    /// # Panics
    /// Panics if `split` does not match the program's inputs.
    pub fn with_reads(
        mut self,
        split: &InputSplit,
    ) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        assert_eq!(split.widths(), self.program.input_widths(), "inputs differ");
        let owners = Owners::new(split);
        iter::from_fn(move || {
            let span = self.next_span()?;
            let reads = owners.count_evaluators(span.loads(self.program));
            Some((span.bytes(), reads))
        })
    }

    /// Returns the sum of the lengths of the remaining chunks.
    #[must_use]
    pub fn total_bytes(self) -> u64 {
        self.map(|length| length as u64).sum()
    }

    fn next_span(&mut self) -> Option<Span> {
        let span = self
            .cursor
            .span(self.program, self.scheme, self.limit, self.lanes);
        self.cursor = span.end;
        (span.bytes() > 0).then_some(span)
    }
}

impl Iterator for ChunkPlan<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.next_span().map(|span| span.bytes())
    }
}

/// Returns the number of bytes of tables of one instance.
///
/// # Errors
/// Returns [`GarbleError::ChunkLimit`] if `limit`, the maximum chunk length, is under
/// [`MIN_CHUNK_LIMIT`].
pub fn table_bytes(program: &Program, scheme: Scheme, limit: usize) -> Result<u64, GarbleError> {
    Ok(ChunkPlan::new(program, scheme, limit)?.total_bytes())
}

pub(crate) fn check_limit(limit: usize, lanes: usize) -> Result<(), GarbleError> {
    let min = lanes * MIN_CHUNK_LIMIT;
    if limit < min {
        return Err(GarbleError::ChunkLimit { min, found: limit });
    }
    Ok(())
}

pub(crate) fn check_lanes(lanes: usize) -> Result<(), GarbleError> {
    match lanes {
        1 | LANES => Ok(()),
        _ => Err(GarbleError::LaneCount { found: lanes }),
    }
}

/// A position between two gates of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    batch: usize,
    done_in_batch: u32,
    gate: usize,
    load: usize,
    and: u64,
}

/// The gates of one chunk.
pub(crate) struct Span {
    pub(crate) start: Cursor,
    pub(crate) end: Cursor,
    pub(crate) ciphertext_bytes: usize,
    trailer_bits: usize,
}

impl Span {
    /// Returns the length of the chunk.
    pub(crate) fn bytes(&self) -> usize {
        self.ciphertext_bytes + self.trailer_bits.div_ceil(8)
    }

    /// Returns the loads in the chunk.
    pub(crate) fn loads<'p>(&self, program: &'p Program) -> &'p [Load] {
        &program.loads()[self.start.load..self.end.load]
    }
}

impl Cursor {
    /// Returns whether the position is after the last gate.
    pub(crate) fn at_end(self, program: &Program) -> bool {
        self.batch >= program.batches().len()
    }

    /// Returns the last position in [`Program::progress`] that is reached within the budget, and
    /// subtracts the cost of the skipped gates from the budget.
    ///
    /// The method replaces a loop over all batches. A serial circuit has four batches per AND gate,
    /// and the loop would take a fifth of the garbling time.
    fn skip(self, program: &Program, budget: &mut u64, (and_cost, xor_cost): (u64, u64)) -> Self {
        let cost = |to: &CompileProgress| {
            let ands = to.ands - self.and;
            ands * and_cost + (to.gates - self.gate as u64 - ands) * xor_cost
        };
        let first = self.batch / CompileProgress::STRIDE + 1;
        let Some(ahead) = program.progress().get(first..) else {
            return self;
        };
        let Some(passed) = ahead
            .partition_point(|to| cost(to) <= *budget)
            .checked_sub(1)
        else {
            return self;
        };
        let to = &ahead[passed];
        *budget -= cost(to);
        Self {
            batch: (first + passed) * CompileProgress::STRIDE,
            done_in_batch: 0,
            // The counts fit in `usize`: they are positions in slices of the program.
            gate: to.gates as usize,
            load: to.loads as usize,
            and: to.ands,
        }
    }

    /// Returns the gates of the chunk that starts at this position. If `limit` is below
    /// [`MIN_CHUNK_LIMIT`] per lane, that minimum is used.
    pub(crate) fn span(
        self,
        program: &Program,
        scheme: Scheme,
        limit: usize,
        lanes: usize,
    ) -> Span {
        let cost = |bytes: usize, bits: usize| (lanes * (8 * bytes + bits)) as u64;
        let and_cost = cost(scheme.and_bytes(), scheme.and_bits());
        let xor_cost = cost(scheme.xor_bytes(), 0);
        // The budget is in bits, like the costs. If it saturates, it still exceeds the cost of any
        // program.
        let mut budget = (limit.max(lanes * MIN_CHUNK_LIMIT) as u64).saturating_mul(8);
        let mut end = self.skip(program, &mut budget, (and_cost, xor_cost));
        let mut ands = end.and - self.and;
        for batch in &program.batches()[end.batch.min(program.batches().len())..] {
            let left = batch.len - end.done_in_batch;
            let is_and = batch.kind == BatchKind::And;
            let cost = match batch.kind {
                BatchKind::And => and_cost,
                BatchKind::Xor => xor_cost,
                BatchKind::Input => 0,
            };
            // This cannot overflow: there are fewer than 2^31 gates of less than 2^12 bits each.
            let whole = u64::from(left) * cost;
            let taken = if whole <= budget {
                left
            } else {
                // The quotient fits because it is less than `left`. There is one division per
                // chunk, because a division takes as long as a small batch.
                (budget / cost) as u32
            };
            budget -= u64::from(taken) * cost;
            match batch.kind {
                BatchKind::Input => end.load += taken as usize,
                _ => end.gate += taken as usize,
            }
            ands += if is_and { u64::from(taken) } else { 0 };
            if taken < left {
                end.done_in_batch += taken;
                break;
            }
            end.batch += 1;
            end.done_in_batch = 0;
        }
        end.and = self.and + ands;
        let xors = end.gate - self.gate - ands as usize;
        Span {
            start: self,
            end,
            ciphertext_bytes: lanes
                * (ands as usize * scheme.and_bytes() + xors * scheme.xor_bytes()),
            trailer_bits: lanes * ands as usize * scheme.and_bits(),
        }
    }
}

/// Gates or loads that a kernel processes in one step: independent gates of one batch, XOR gates of
/// consecutive batches, or loads of one batch.
pub(crate) struct Run<'a> {
    pub(crate) kind: BatchKind,
    pub(crate) gates: &'a [ProgramGate],
    /// The loads; if there are any, `gates` is empty.
    pub(crate) loads: &'a [Load],
    /// Number of gates in the program before the first gate of this run.
    pub(crate) gate: u64,
    /// Number of AND gates in the program before the first gate of this run.
    pub(crate) and: u64,
}

/// Iterates over the runs of a span.
pub(crate) struct Runs<'a> {
    /// The batches that are not completely returned yet, starting with the one of the next gate.
    batches: &'a [Batch],
    /// Number of gates of the first batch that were already returned.
    done_in_batch: u32,
    /// The gates of the span that the iterator has not returned yet.
    gates: &'a [ProgramGate],
    /// The loads of the span that the iterator has not returned yet.
    loads: &'a [Load],
    gate: u64,
    and: u64,
    joins_xors: bool,
}

impl<'a> Runs<'a> {
    /// Returns the runs of a span. `joins_xors` merges consecutive XOR batches into one run, for
    /// kernels that process XOR gates one by one. A serial circuit has several XOR batches between
    /// two AND gates, and CPUs often mispredict the branch at the end of each run.
    pub(crate) fn new(program: &'a Program, span: &Span, joins_xors: bool) -> Self {
        let Cursor {
            batch,
            done_in_batch,
            gate,
            load,
            and,
        } = span.start;
        Self {
            batches: &program.batches()[batch.min(program.batches().len())..],
            done_in_batch,
            gates: &program.gates()[gate..span.end.gate],
            loads: &program.loads()[load..span.end.load],
            gate: gate as u64,
            and,
            joins_xors,
        }
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Run<'a>> {
        let (first, mut batches) = self.batches.split_first()?;
        let kind = first.kind;
        let mut len = (first.len - self.done_in_batch) as usize;
        if kind == BatchKind::Input {
            // The chunk contains either all loads of a batch or none. If fewer loads remain, this
            // batch belongs to a later chunk.
            let (loads, rest) = self.loads.split_at_checked(len)?;
            (self.batches, self.loads) = (batches, rest);
            return Some(Run {
                kind,
                gates: &[],
                loads,
                gate: self.gate,
                and: self.and,
            });
        }
        if self.gates.is_empty() {
            return None;
        }
        if kind == BatchKind::Xor && self.joins_xors {
            while let Some((next, rest)) = batches.split_first()
                && next.kind == BatchKind::Xor
            {
                len += next.len as usize;
                batches = rest;
            }
        }
        let (gates, rest) = self.gates.split_at(len.min(self.gates.len()));
        let run = Run {
            kind,
            gates,
            loads: &[],
            gate: self.gate,
            and: self.and,
        };
        self.batches = batches;
        self.done_in_batch = 0;
        self.gates = rest;
        self.gate += gates.len() as u64;
        if kind == BatchKind::And {
            self.and += gates.len() as u64;
        }
        Some(run)
    }
}
