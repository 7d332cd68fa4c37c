//! How the evaluations of a batch are garbled: eight side by side or one by one, and in how many bytes.

use std::sync::Arc;

use transpute_circuit::InputSplit;
use transpute_garble::{ChunkPlan, GarbleError, LANES, decode_len, lanes};

use crate::{Role, SessionError, terms::Terms};

/// Transfers that may be asked for beyond those whose labels were read, at most, unless the next chunk reads more; each takes 16
/// bytes on both sides.
pub(crate) const OT_WINDOW: u64 = 1 << 18;

/// The chunks of evaluations that are garbled together.
#[derive(Clone, Default)]
struct Chunks {
    count: u64,
    bytes: u64,
    /// The length of each.
    lens: Arc<[u32]>,
    /// Where labels of the evaluator's inputs are read that were not read before, in order.
    reads: Arc<[Read]>,
}

#[derive(Clone, Copy)]
struct Read {
    /// The chunk that reads, counted from 0.
    chunk: u64,
    /// Bytes of the chunks before it.
    bytes: u64,
    /// Labels that it and the chunks before it read, of all evaluations together.
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
            // At most a mebibyte.
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

    /// Labels that the first `chunks` read.
    fn labels_of(&self, chunks: u64) -> u64 {
        let before = self.reads.partition_point(|read| read.chunk < chunks);
        self.reads[..before].last().map_or(0, |read| read.labels)
    }

    /// Labels that the chunks read that begin in the first `bytes`.
    fn labels_within(&self, bytes: u64) -> u64 {
        let before = self.reads.partition_point(|read| read.bytes < bytes);
        self.reads[..before].last().map_or(0, |read| read.labels)
    }

    /// Bytes that can be evaluated with the first `labels`.
    fn evaluable(&self, labels: u64) -> u64 {
        let within = self.reads.partition_point(|read| read.labels <= labels);
        self.reads.get(within).map_or(self.bytes, |read| read.bytes)
    }
}

/// What both sides know beforehand about what the garbler sends unasked.
#[derive(Clone)]
pub(crate) struct Layout {
    batch: u64,
    /// Evaluations that are garbled side by side; a multiple of [`LANES`], from the first one on.
    together: u64,
    group: Chunks,
    single: Chunks,
    /// Bytes per evaluation besides tables.
    untabled: u64,
    /// Labels of the evaluator's inputs per evaluation.
    choices: u64,
    /// Whether tables can be evaluated as soon as there are the evaluator's labels that they read.
    is_gradual: bool,
}

impl Layout {
    pub(crate) fn new(terms: &Terms) -> Result<Self, GarbleError> {
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

    /// Returns the bytes of all tables of the batch, under the scheme with the most of those that are allowed.
    pub(crate) fn max_tables(terms: &Terms) -> Result<u64, SessionError> {
        let mut most = 0;
        for scheme in terms.config.allowed_schemes().iter() {
            let mut terms = terms.clone();
            terms.config.scheme = scheme;
            most = most.max(Self::new(&terms)?.total_tables());
        }
        Ok(most)
    }

    /// Evaluations that are garbled together from number `begun` on, all before being finished.
    pub(crate) fn lanes(&self, begun: u64) -> usize {
        if begun < self.together { LANES } else { 1 }
    }

    /// Number of transfers up to the last one of an evaluation. Evaluations that are garbled
    /// together have theirs at the same time.
    pub(crate) fn choices_through(&self, instance: u64) -> u64 {
        let lanes = self.lanes(instance) as u64;
        (instance / lanes + 1) * lanes * self.choices
    }

    /// Bytes of the tables of as many evaluations.
    pub(crate) fn tables(&self, lanes: usize) -> u64 {
        self.chunks(lanes).bytes
    }

    /// Bytes besides tables that are sent unasked about as many evaluations.
    pub(crate) fn untabled(&self, lanes: usize) -> u64 {
        self.untabled.saturating_mul(lanes as u64)
    }

    /// Bytes besides tables that are sent unasked about the whole batch.
    pub(crate) fn total_untabled(&self) -> u64 {
        self.untabled.saturating_mul(self.batch)
    }

    /// The most of [`Layout::untabled`].
    pub(crate) fn max_untabled(&self) -> u64 {
        self.untabled(self.lanes(0))
    }

    /// How many transfers the evaluator may be ahead of the evaluations that the garbler has begun. One that evaluates on several
    /// threads asks for whole groups.
    pub(crate) fn max_asked(&self) -> u64 {
        let groups = 2 * self.choices * self.lanes(0) as u64;
        groups.saturating_add(OT_WINDOW)
    }

    /// Bytes of all tables of the batch.
    pub(crate) fn total_tables(&self) -> u64 {
        self.sum(self.batch, self.group.bytes, self.single.bytes)
    }

    /// Chunks of all tables of the batch.
    pub(crate) fn total_chunks(&self) -> u64 {
        self.sum(self.batch, self.group.count, self.single.count)
    }

    /// Returns the length of a chunk of the batch, counted from 0; `None` if there are fewer.
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

    /// Labels that the evaluator needs for the chunk after `chunks` of as many evaluations; all, if that is the end, or if the lead
    /// counts until then.
    pub(crate) fn labels_due(&self, lanes: usize, chunks: u64) -> u64 {
        let of = self.chunks(lanes);
        if chunks < of.count && self.is_gradual {
            of.labels_of(chunks + 1)
        } else {
            lanes as u64 * self.choices
        }
    }

    /// Labels that the first `chunks` of as many evaluations read.
    pub(crate) fn labels_read(&self, lanes: usize, chunks: u64) -> u64 {
        self.chunks(lanes).labels_of(chunks)
    }

    /// Labels that chunks read which begin in the first `bytes` of as many evaluations.
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

    /// Bytes that are sent unasked about what can be evaluated with the first `answered` labels of the evaluator's inputs; where
    /// there are none, with those of as many evaluations.
    pub(crate) fn unasked(&self, answered: u64) -> u64 {
        let group = self.group.bytes.saturating_add(self.untabled(LANES));
        let single = self.single.bytes.saturating_add(self.untabled);
        if self.choices == 0 {
            return self.sum(answered, group, single);
        }
        let evaluations = answered / self.choices;
        let whole = self.sum(evaluations, group, single);
        // Evaluations of an unfinished group have their labels at the same time.
        let lanes = self.lanes(evaluations);
        let labels = answered - (evaluations - evaluations % lanes as u64) * self.choices;
        if !self.is_gradual || labels == 0 {
            return whole;
        }
        let part = self.chunks(lanes).evaluable(labels);
        whole.saturating_add(part.saturating_add(self.untabled(lanes)))
    }

    /// Adds up what the first `evaluations` have for each whole group and for each single one.
    fn sum(&self, evaluations: u64, per_group: u64, per_single: u64) -> u64 {
        let groups = evaluations.min(self.together) / LANES as u64;
        let singles = evaluations.saturating_sub(self.together);
        let singles = singles.saturating_mul(per_single);
        groups.saturating_mul(per_group).saturating_add(singles)
    }
}

/// Bytes per evaluation, besides tables, that the garbler sends unasked.
pub(crate) fn untabled_bytes(terms: &Terms) -> u64 {
    let labels = if terms.sends_garbler_labels() {
        16 * terms.split.garbler_bits()
    } else {
        0
    };
    (labels + decode_bytes(terms)) as u64
}

/// Bytes of decoding information per evaluation.
pub(crate) fn decode_bytes(terms: &Terms) -> usize {
    if terms.config.output.reaches(Role::Evaluator) {
        decode_len(&terms.program, terms.config.output_check)
    } else {
        0
    }
}
