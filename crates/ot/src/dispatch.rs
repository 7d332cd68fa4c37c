//! Loops that are worth translating once more for a wider CPU.

#[cfg(target_arch = "x86_64")]
use crate::wide::Wide;

/// A loop over words. Implementations are `#[inline(always)]` all the way down, or nothing is
/// gained.
pub(crate) trait Work {
    /// Does the work where `WORDS` words of 64 bits fit a vector register.
    fn run<const WORDS: usize>(self);
}

/// Does the work with the best instructions that this CPU has.
pub(crate) fn run(work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = Wide::detect() {
        return wide.run(work);
    }
    run_portable(work);
}

/// Does the work with the instructions that every CPU of the target has.
pub(crate) fn run_portable(work: impl Work) {
    work.run::<2>();
}
