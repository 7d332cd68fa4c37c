//! How the tables of an instance are cut into chunks.
//!
//! Both parties compute the cuts from the program, the scheme and the longest chunk allowed; no
//! length ever has to be believed.
//!
//! # The rule
//! Every gate has a cost in bits: under free XOR an XOR gate costs nothing; an AND gate costs 256
//! bits (half-gates, fixed-key) or 192 + 5 bits (three-halves); under prf an XOR gate costs 128
//! bits and an AND gate 256 + 4 bits. A chunk takes whole gates in program order for as long as
//! the sum of their costs is at most 8 times the limit in bytes, and so may end anywhere in a
//! batch. Where instances are garbled side by side, a gate is a gate of all of them and has the cost
//! of all, and their tables follow one another gate by gate. Gates that cost nothing, and inputs that get their slots, go with the
//! gates before them, at the start of an instance with the first chunk. An instance without any cost has no chunks.
//!
//! # The layout
//! The ciphertexts of all gates in program order, then the trailer: the extra bits of the AND gates
//! in program order, packed from bit 0 of each byte upwards; bits past the last are zero. The sum
//! of the costs in bytes, rounded up, is the length.

use std::iter;

use transpute_circuit::{Batch, BatchKind, InputSplit, Load, Program, ProgramGate, Progress};

use crate::{GarbleError, Scheme, inputs::Owners};

/// The smallest limit on the length of a chunk for each instance in it, in bytes.
pub const MIN_CHUNK_LIMIT: usize = 64;

/// Instances that are garbled side by side, where [`lanes`] allows it.
///
/// Every operation is then on vectors of one gate's labels of all of these instances, wherever the
/// gates depend on one another, and labels are read and written a whole vector at a time.
pub const LANES: usize = 8;

/// The most slots, and input bits, of a program whose instances are garbled side by side: 32 and 64 MiB of labels.
const MAX_LANED_SLOTS: usize = 1 << 18;
const MAX_LANED_INPUTS: usize = 1 << 19;

/// Returns how many instances are to be garbled side by side where `left` are still to come:
/// [`LANES`] if there are as many and the program has at most 262,144 slots and 524,288 input bits and chunks may be as long as
/// 512 bytes, and else 1.
///
/// The rule keeps memory bounded. Both parties must follow it, since it
/// decides the order of the tables.
#[must_use]
pub fn lanes(program: &Program, limit: usize, left: u64) -> usize {
    let fits = program.slot_count() <= MAX_LANED_SLOTS && program.input_bits() <= MAX_LANED_INPUTS;
    if fits && limit >= LANES * MIN_CHUNK_LIMIT && left >= LANES as u64 {
        LANES
    } else {
        1
    }
}

/// The lengths of all chunks of one instance, in order.
///
/// # Examples
/// ```
/// # use transpute_circuit::{Circuit, Gate, Op, Program};
/// # let and = |a, b| Gate { op: Op::And, a, b };
/// # let circuit = Circuit::new(vec![2], vec![3], [and(0, 1), and(0, 2), and(1, 3)], vec![2, 3, 4])?;
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
    /// Plans chunks of at most `limit` bytes.
    ///
    /// # Errors
    /// [`GarbleError::ChunkLimit`] where `limit` is under [`MIN_CHUNK_LIMIT`].
    pub fn new(program: &'a Program, scheme: Scheme, limit: usize) -> Result<Self, GarbleError> {
        Self::side_by_side(program, scheme, limit, 1)
    }

    /// Plans the chunks of `lanes` instances side by side, 1 or [`LANES`].
    ///
    /// # Errors
    /// [`GarbleError::LaneCount`]; [`GarbleError::ChunkLimit`] where `limit` is under
    /// [`MIN_CHUNK_LIMIT`] for each instance.
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

    /// Iterates over the chunks, with how many labels of the evaluator's inputs each reads: lengths, and labels of one instance.
    ///
    /// # Panics
    /// If the split is of another program's inputs.
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

    /// Returns the sum of all lengths that are still to come.
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

/// Returns how many bytes of tables one instance has in all.
///
/// # Errors
/// [`GarbleError::ChunkLimit`] where `limit`, the longest chunk, is under [`MIN_CHUNK_LIMIT`].
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

/// A position in a program, between two gates.
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
    /// Length of the chunk.
    pub(crate) fn bytes(&self) -> usize {
        self.ciphertext_bytes + self.trailer_bits.div_ceil(8)
    }

    /// Returns the inputs that get their slots in it.
    pub(crate) fn loads<'p>(&self, program: &'p Program) -> &'p [Load] {
        &program.loads()[self.start.load..self.end.load]
    }
}

impl Cursor {
    /// Says whether all gates are done.
    pub(crate) fn at_end(self, program: &Program) -> bool {
        self.batch >= program.batches().len()
    }

    /// Goes to the last entry of [`Program::progress`] that costs of AND and of XOR gates allow, taking them from the budget.
    ///
    /// A serial circuit has four batches for each AND gate: to walk over all of them takes a fifth of the time of garbling.
    fn skip(self, program: &Program, budget: &mut u64, (and_cost, xor_cost): (u64, u64)) -> Self {
        let cost = |to: &Progress| {
            let ands = to.ands - self.and;
            ands * and_cost + (to.gates - self.gate as u64 - ands) * xor_cost
        };
        let first = self.batch / Progress::STRIDE + 1;
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
            batch: (first + passed) * Progress::STRIDE,
            done_in_batch: 0,
            // They fit: they are positions among what the program has in memory.
            gate: to.gates as usize,
            load: to.loads as usize,
            and: to.ands,
        }
    }

    /// Returns the gates of the chunk that starts here. The limit has been checked, or counts as
    /// [`MIN_CHUNK_LIMIT`] for each lane.
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
        // Costs are counted in bits; a limit past what any program needs changes nothing.
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
            // No overflow: fewer than 2^31 gates of less than 2^12 bits.
            let whole = u64::from(left) * cost;
            let taken = if whole <= budget {
                left
            } else {
                // Fits: it is less than `left`. Divided once a chunk, since a division takes as
                // long as a small batch.
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

/// Gates of one kind: independent ones of one batch, or XOR gates of batches that follow one another; or inputs of one batch.
pub(crate) struct Run<'a> {
    pub(crate) kind: BatchKind,
    pub(crate) gates: &'a [ProgramGate],
    /// Inputs that get their slots; then there are no gates.
    pub(crate) loads: &'a [Load],
    /// Position of the first one among all gates.
    pub(crate) gate: u64,
    /// Number of AND gates before it.
    pub(crate) and: u64,
}

/// Iterates over the runs of a span.
pub(crate) struct Runs<'a> {
    /// From the one that the next gate is in.
    batches: &'a [Batch],
    /// How many gates of the first of the batches are done.
    done_in_batch: u32,
    /// Those of the span that are still to come.
    gates: &'a [ProgramGate],
    /// Likewise.
    loads: &'a [Load],
    gate: u64,
    and: u64,
    joins_xors: bool,
}

impl<'a> Runs<'a> {
    /// With `joins_xors`, XOR batches that follow one another make one run, for kernels that do
    /// their gates one by one: a serial circuit has several between any two AND gates, and the end
    /// of each is a jump that processors foresee badly.
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
            // Inputs are never done in part; those after the span are not of it.
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
