//! Loops that are compiled a second time for wider vector registers.

#[cfg(target_arch = "x86_64")]
use crate::wide::Wide;

/// A loop over words. All functions it calls must be `#[inline(always)]`, so that they are compiled
/// with the target features too.
pub(crate) trait Work {
    /// Runs the loop with `WORDS` 64-bit words per vector register.
    fn run<const WORDS: usize>(self);
}

/// Runs a loop with the widest instructions that this CPU supports.
pub(crate) fn run(work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = Wide::detect() {
        return wide.run(work);
    }
    run_portable(work);
}

/// Runs a loop with the baseline instructions of the target.
pub(crate) fn run_portable(work: impl Work) {
    work.run::<2>();
}
