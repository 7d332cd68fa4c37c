//! How far a program is at every so many batches, so that whoever cuts it need not walk over all of them.

use super::{Batch, BatchKind, Program};

/// What comes before some batch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Gates of either kind.
    pub gates: u64,
    /// AND gates.
    pub ands: u64,
    /// Input bits that have got their slots.
    pub loads: u64,
}

impl Progress {
    /// Batches from one entry of [`Program::progress`] to the next.
    pub const STRIDE: usize = 64;

    /// Adds a batch.
    fn pass(&mut self, batch: &Batch) {
        let len = u64::from(batch.len);
        match batch.kind {
            BatchKind::Input => self.loads += len,
            BatchKind::Xor => self.gates += len,
            BatchKind::And => {
                self.gates += len;
                self.ands += len;
            }
        }
    }
}

/// Returns what comes before each [`Progress::STRIDE`]th of the batches, from the first on.
pub(super) fn of(batches: &[Batch]) -> Vec<Progress> {
    let mut progress = Progress::default();
    batches
        .chunks(Progress::STRIDE)
        .map(|some| {
            let before = progress;
            some.iter().for_each(|batch| progress.pass(batch));
            before
        })
        .collect()
}

impl Program {
    /// Returns what comes before batch `i * Progress::STRIDE` as entry `i`, for all that there are.
    #[must_use]
    pub fn progress(&self) -> &[Progress] {
        &self.progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn entries_sum_up_what_is_before_them() {
        for name in ["div:64", "aes128", "add:1"] {
            let program = Program::compile(&catalogue::named(name).unwrap());
            let batches = program.batches();
            assert_eq!(
                program.progress().len(),
                batches.len().div_ceil(Progress::STRIDE)
            );
            for (i, entry) in program.progress().iter().enumerate() {
                let before = &batches[..i * Progress::STRIDE];
                let count = |kind| -> u64 {
                    (before.iter().filter(|batch| batch.kind == kind))
                        .map(|batch| u64::from(batch.len))
                        .sum()
                };
                let ands = count(BatchKind::And);
                let expected = Progress {
                    gates: count(BatchKind::Xor) + ands,
                    ands,
                    loads: count(BatchKind::Input),
                };
                assert_eq!(*entry, expected, "{name}, entry {i}");
            }
        }
    }
}
