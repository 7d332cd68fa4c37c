//! The numbers of gates and loads before every 64th batch. With them, a program is divided into
//! chunks without a visit of all batches.

use super::{Batch, BatchKind, Program};

/// The number of gates and loads in all batches before a given batch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CompileProgress {
    /// Number of XOR and AND gates before the batch.
    pub gates: u64,
    /// Number of AND gates before the batch.
    pub ands: u64,
    /// Number of loads of input bits before the batch.
    pub loads: u64,
}

impl CompileProgress {
    /// Number of batches from one entry of [`Program::progress`] to the next.
    pub const STRIDE: usize = 64;

    /// Adds the number of gates or loads in a batch.
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

/// Returns the numbers of gates and loads before every [`CompileProgress::STRIDE`]th batch. The
/// first entry is that of the first batch, with zeros.
pub(super) fn of(batches: &[Batch]) -> Vec<CompileProgress> {
    let mut progress = CompileProgress::default();
    batches
        .chunks(CompileProgress::STRIDE)
        .map(|some| {
            let before = progress;
            some.iter().for_each(|batch| progress.pass(batch));
            before
        })
        .collect()
}

impl Program {
    /// Returns the numbers of gates and loads before every [`CompileProgress::STRIDE`]th batch.
    /// Entry `i` has the numbers before batch `i * CompileProgress::STRIDE`.
    #[must_use]
    pub fn progress(&self) -> &[CompileProgress] {
        &self.progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn entries_are_the_totals_of_all_earlier_batches() {
        for name in ["div:64", "aes128", "add:1"] {
            let program = Program::compile(&catalogue::named(name).unwrap());
            let batches = program.batches();
            assert_eq!(
                program.progress().len(),
                batches.len().div_ceil(CompileProgress::STRIDE)
            );
            for (i, entry) in program.progress().iter().enumerate() {
                let before = &batches[..i * CompileProgress::STRIDE];
                let count = |kind| -> u64 {
                    (before.iter().filter(|batch| batch.kind == kind))
                        .map(|batch| u64::from(batch.len))
                        .sum()
                };
                let ands = count(BatchKind::And);
                let expected = CompileProgress {
                    gates: count(BatchKind::Xor) + ands,
                    ands,
                    loads: count(BatchKind::Input),
                };
                assert_eq!(*entry, expected, "{name}, entry {i}");
            }
        }
    }
}
