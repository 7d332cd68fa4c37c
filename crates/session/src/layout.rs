//! How the evaluations of a batch are garbled: eight side by side or one by one, and in how many bytes.

use transpute_garble::{ChunkPlan, GarbleError, LANES, lanes};

use crate::{garbler::untabled_bytes, session::Terms};

/// The chunks of evaluations that are garbled together.
#[derive(Clone, Copy, Default)]
struct Chunks {
    count: u64,
    bytes: u64,
}

/// What both sides know beforehand about what the garbler sends unasked.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    batch: u64,
    /// Evaluations that are garbled side by side; a multiple of [`LANES`], from the first one on.
    together: u64,
    group: Chunks,
    single: Chunks,
    /// Bytes per evaluation besides tables.
    untabled: u64,
}

impl Layout {
    pub(crate) fn new(terms: &Terms) -> Result<Self, GarbleError> {
        let config = &terms.config;
        let limit = config.chunk_len as usize;
        let chunks = |lanes| {
            let plan = ChunkPlan::side_by_side(&terms.program, config.scheme, limit, lanes)?;
            Ok(plan.fold(Chunks::default(), |sum, len| Chunks {
                count: sum.count + 1,
                bytes: sum.bytes + len as u64,
            }))
        };
        let (mut together, mut group) = (0, Chunks::default());
        if lanes(&terms.program, limit, config.batch) == LANES {
            together = config.batch - config.batch % LANES as u64;
            group = chunks(LANES)?;
        }
        Ok(Self {
            batch: config.batch,
            together,
            group,
            single: chunks(1)?,
            untabled: untabled_bytes(terms),
        })
    }

    /// Evaluations that are garbled together from number `begun` on, all before being finished.
    pub(crate) fn lanes(&self, begun: u64) -> usize {
        if begun < self.together { LANES } else { 1 }
    }

    /// Bytes of the tables of as many evaluations.
    pub(crate) fn tables(&self, lanes: usize) -> u64 {
        if lanes == 1 {
            self.single.bytes
        } else {
            self.group.bytes
        }
    }

    /// Bytes besides tables that are sent unasked about as many evaluations.
    pub(crate) fn untabled(&self, lanes: usize) -> u64 {
        self.untabled.saturating_mul(lanes as u64)
    }

    /// The most of [`Layout::untabled`].
    pub(crate) fn max_untabled(&self) -> u64 {
        self.untabled(self.lanes(0))
    }

    /// Bytes of all tables of the batch.
    pub(crate) fn total_tables(&self) -> u64 {
        self.sum(self.batch, self.group.bytes, self.single.bytes)
    }

    /// Chunks of all tables of the batch.
    pub(crate) fn total_chunks(&self) -> u64 {
        self.sum(self.batch, self.group.count, self.single.count)
    }

    /// Bytes that are sent unasked about the evaluations that can be done with the labels of the
    /// first `labelled` ones.
    pub(crate) fn unasked(&self, labelled: u64) -> u64 {
        let group = self.group.bytes.saturating_add(self.untabled(LANES));
        let single = self.single.bytes.saturating_add(self.untabled);
        self.sum(labelled, group, single)
    }

    /// Adds up what the first `evaluations` have for each whole group and for each single one.
    fn sum(&self, evaluations: u64, per_group: u64, per_single: u64) -> u64 {
        let groups = evaluations.min(self.together) / LANES as u64;
        let singles = evaluations.saturating_sub(self.together);
        let singles = singles.saturating_mul(per_single);
        groups.saturating_mul(per_group).saturating_add(singles)
    }
}
