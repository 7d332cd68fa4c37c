//! The layout of a batch: its groups of eight evaluations and single evaluations, and the bytes
//! that the garbler sends for them.

use std::sync::Arc;

use transpute_circuit::InputSplit;
use transpute_garble::{ChunkPlan, GarbleError, LANES, decode_len, lanes};

use crate::{Role, SessionError, terms::RunTerms};

/// Maximum number of transfers that the evaluator requests beyond those whose labels the evaluated
/// tables have read. If the next chunk reads more labels, the evaluator requests all of them. With
/// several threads, it requests at least one whole group. Each transfer takes 16 bytes of memory on
/// each side.
pub(crate) const OT_WINDOW: u64 = 1 << 18;

/// The chunks of the tables of a group of evaluations that are garbled together.
#[derive(Clone, Default)]
struct Chunks {
    count: u64,
    bytes: u64,
    /// Length of each chunk, in bytes.
    lens: Arc<[u32]>,
    /// The chunks that read a label of the evaluator's inputs for the first time, in order.
    reads: Arc<[Read]>,
}

#[derive(Clone, Copy)]
struct Read {
    /// The number of the chunk, from 0.
    chunk: u64,
    /// Number of bytes of all earlier chunks.
    bytes: u64,
    /// Number of labels that this and all earlier chunks read, of all evaluations of the group.
    labels: u64,
}

impl Chunks {
    fn new(plan: ChunkPlan<'_>, split: Option<&InputSplit>, lanes: usize) -> Self {
        let mut sum = Self::default();
        let (mut labels, mut all, mut lens) = (0, Vec::new(), Vec::new());
        let mut add = |(bytes, reads): (usize, usize)| {
            labels += (lanes * reads) as u64;
            if reads > 0 {
                all.push(Read {
                    chunk: sum.count,
                    bytes: sum.bytes,
                    labels,
                });
            }
            // The cast is exact, because a chunk has at most 1 MiB.
            lens.push(bytes as u32);
            sum.count += 1;
            sum.bytes += bytes as u64;
        };
        match split {
            Some(split) => plan.with_reads(split).for_each(&mut add),
            None => plan.map(|bytes| (bytes, 0)).for_each(&mut add),
        }
        (sum.reads, sum.lens) = (all.into(), lens.into());
        sum
    }

    /// Returns the number of labels that the first `chunks` chunks read.
    fn labels_of(&self, chunks: u64) -> u64 {
        let before = self.reads.partition_point(|read| read.chunk < chunks);
        self.reads[..before].last().map_or(0, |read| read.labels)
    }

    /// Returns the number of labels read by the chunks that start within the first `bytes` bytes.
    fn labels_within(&self, bytes: u64) -> u64 {
        let before = self.reads.partition_point(|read| read.bytes < bytes);
        self.reads[..before].last().map_or(0, |read| read.labels)
    }

    /// Returns the number of bytes of tables that can be evaluated with the first `labels` labels.
    fn evaluable(&self, labels: u64) -> u64 {
        let within = self.reads.partition_point(|read| read.labels <= labels);
        self.reads.get(within).map_or(self.bytes, |read| read.bytes)
    }
}

/// The layout of the bytes that the garbler sends without a request. Both sides compute it.
#[derive(Clone)]
pub(crate) struct Layout {
    batch: u64,
    /// Number of evaluations that are garbled in groups of [`LANES`]. They are the first ones of
    /// the batch.
    together: u64,
    group: Chunks,
    single: Chunks,
    /// Number of bytes per evaluation, other than tables, that the garbler sends without a request.
    untabled: u64,
    /// Number of labels of the evaluator's inputs per evaluation.
    choices: u64,
    /// Whether a table can be evaluated as soon as the labels of the evaluator's inputs that it
    /// reads have arrived. If false, all labels of its evaluation must have arrived.
    is_gradual: bool,
}

impl Layout {
    pub(crate) fn new(terms: &RunTerms) -> Result<Self, GarbleError> {
        let config = &terms.config;
        let limit = config.chunk_len as usize;
        let split = (terms.choices > 0).then_some(&terms.split);
        let chunks = |lanes, split| {
            let plan = ChunkPlan::side_by_side(&terms.program, config.scheme, limit, lanes)?;
            Ok(Chunks::new(plan, split, lanes))
        };
        let (mut together, mut group) = (0, Chunks::default());
        if lanes(&terms.program, limit, config.batch) == LANES {
            together = config.batch - config.batch % LANES as u64;
            group = chunks(LANES, split)?;
        }
        Ok(Self {
            batch: config.batch,
            together,
            group,
            single: chunks(1, split.filter(|_| together < config.batch))?,
            untabled: untabled_bytes(terms),
            choices: terms.choices as u64,
            is_gradual: !terms.sends_garbler_labels(),
        })
    }

    /// Returns the bytes of all tables of the batch, for the largest of the allowed schemes.
    pub(crate) fn max_tables(terms: &RunTerms) -> Result<u64, SessionError> {
        let mut most = 0;
        for scheme in terms.config.allowed_schemes().iter() {
            let mut terms = terms.clone();
            terms.config.scheme = scheme;
            most = most.max(Self::new(&terms)?.total_tables());
        }
        Ok(most)
    }

    /// Returns the number of evaluations that are garbled together with evaluation `begun`,
    /// including this one: [`LANES`] or 1.
    pub(crate) fn lanes(&self, begun: u64) -> usize {
        if begun < self.together { LANES } else { 1 }
    }

    /// Returns the number of transfers of all evaluations up to `instance`, and of those garbled
    /// together with it.
    pub(crate) fn choices_through(&self, instance: u64) -> u64 {
        let lanes = self.lanes(instance) as u64;
        (instance / lanes + 1) * lanes * self.choices
    }

    /// Returns the bytes of the tables of `lanes` evaluations.
    pub(crate) fn tables(&self, lanes: usize) -> u64 {
        self.chunks(lanes).bytes
    }

    /// Returns the number of bytes, other than tables, that the garbler sends without a request for
    /// `lanes` evaluations.
    pub(crate) fn untabled(&self, lanes: usize) -> u64 {
        self.untabled.saturating_mul(lanes as u64)
    }

    /// Returns the number of bytes, other than tables, that the garbler sends without a request for
    /// the whole batch.
    pub(crate) fn total_untabled(&self) -> u64 {
        self.untabled.saturating_mul(self.batch)
    }

    /// Returns [`Layout::untabled`] of the largest group of the batch.
    pub(crate) fn max_untabled(&self) -> u64 {
        self.untabled(self.lanes(0))
    }

    /// Returns the maximum number of transfers that may be requested beyond those of the
    /// evaluations that the garbler has started. It includes two whole groups, because an evaluator
    /// with several threads requests whole groups.
    pub(crate) fn max_asked(&self) -> u64 {
        let groups = 2 * self.choices * self.lanes(0) as u64;
        groups.saturating_add(OT_WINDOW)
    }

    /// Returns the bytes of all tables of the batch.
    pub(crate) fn total_tables(&self) -> u64 {
        self.sum(self.batch, self.group.bytes, self.single.bytes)
    }

    /// Returns the number of chunks of all tables of the batch.
    pub(crate) fn total_chunks(&self) -> u64 {
        self.sum(self.batch, self.group.count, self.single.count)
    }

    /// Returns the length, in bytes, of the chunk with this number in the batch, from 0. `None` if
    /// the batch has fewer chunks.
    pub(crate) fn chunk_len(&self, number: u64) -> Option<usize> {
        let in_groups = self.sum(self.together, self.group.count, 0);
        let (of, number) = match number.checked_sub(in_groups) {
            _ if number >= self.total_chunks() => return None,
            Some(number) => (&self.single, number),
            None => (&self.group, number),
        };
        let index = number.checked_rem(of.count)?;
        of.lens.get(index as usize).map(|len| *len as usize)
    }

    /// Returns the number of labels that the evaluator needs to evaluate the chunk after the first
    /// `chunks` chunks of `lanes` evaluations. After the last chunk, or if a table needs all labels
    /// of its evaluation, it is the number of all labels.
    pub(crate) fn labels_due(&self, lanes: usize, chunks: u64) -> u64 {
        let of = self.chunks(lanes);
        if chunks < of.count && self.is_gradual {
            of.labels_of(chunks + 1)
        } else {
            lanes as u64 * self.choices
        }
    }

    /// Returns the number of labels that the first `chunks` chunks of `lanes` evaluations read.
    pub(crate) fn labels_read(&self, lanes: usize, chunks: u64) -> u64 {
        self.chunks(lanes).labels_of(chunks)
    }

    /// Returns the number of labels read by the chunks that start within the first `bytes` bytes of
    /// `lanes` evaluations.
    pub(crate) fn labels_within(&self, lanes: usize, bytes: u64) -> u64 {
        self.chunks(lanes).labels_within(bytes)
    }

    fn chunks(&self, lanes: usize) -> &Chunks {
        if lanes == 1 {
            &self.single
        } else {
            &self.group
        }
    }

    /// Returns the number of bytes, of those sent without a request, that the evaluator can use
    /// with the first `answered` labels of its inputs. If the evaluator has no inputs, `answered`
    /// is a number of evaluations.
    pub(crate) fn unasked(&self, answered: u64) -> u64 {
        let group = self.group.bytes.saturating_add(self.untabled(LANES));
        let single = self.single.bytes.saturating_add(self.untabled);
        if self.choices == 0 {
            return self.sum(answered, group, single);
        }
        let evaluations = answered / self.choices;
        let whole = self.sum(evaluations, group, single);
        // The evaluations of a group receive their labels together.
        let lanes = self.lanes(evaluations);
        let labels = answered - (evaluations - evaluations % lanes as u64) * self.choices;
        if !self.is_gradual || labels == 0 {
            return whole;
        }
        let part = self.chunks(lanes).evaluable(labels);
        whole.saturating_add(part.saturating_add(self.untabled(lanes)))
    }

    /// Returns the sum over the first `evaluations` evaluations: `per_group` for each whole group,
    /// and `per_single` for each single evaluation.
    fn sum(&self, evaluations: u64, per_group: u64, per_single: u64) -> u64 {
        let groups = evaluations.min(self.together) / LANES as u64;
        let singles = evaluations.saturating_sub(self.together);
        let singles = singles.saturating_mul(per_single);
        groups.saturating_mul(per_group).saturating_add(singles)
    }
}

/// Returns the number of bytes per evaluation, other than tables, that the garbler sends without a
/// request.
pub(crate) fn untabled_bytes(terms: &RunTerms) -> u64 {
    let labels = if terms.sends_garbler_labels() {
        16 * terms.split.garbler_bits()
    } else {
        0
    };
    (labels + decode_bytes(terms)) as u64
}

/// Returns the bytes of decoding information per evaluation.
pub(crate) fn decode_bytes(terms: &RunTerms) -> usize {
    if terms.config.output.reaches(Role::Evaluator) {
        decode_len(&terms.program, terms.config.output_check)
    } else {
        0
    }
}
