//! Memory for labels, aligned to cache lines.

use std::ops::{Deref, DerefMut};

use zeroize::Zeroizing;

use crate::Label;

/// Size of a cache line and of the widest register, in bytes.
const CACHE_LINE: usize = 64;

/// Labels, the first of which is aligned to 64 bytes. Wiped on drop.
///
/// The labels of eight instances in a slot then fill exactly two cache lines. Without the
/// alignment, vector loads and stores would cross cache lines, and a store could not be forwarded
/// to the next gate's load. Serial circuits would take up to twice as long.
#[derive(Default)]
pub(crate) struct Slots {
    memory: Zeroizing<Vec<Label>>,
    start: usize,
    len: usize,
}

impl Slots {
    /// Returns `len` labels, all zero.
    pub(crate) fn zero(len: usize) -> Self {
        let spare = CACHE_LINE / Label::BYTES - 1;
        let memory = Zeroizing::new(vec![Label::ZERO; len + spare]);
        // `align_offset` is at most `spare`, or `usize::MAX` if it cannot compute the alignment.
        // The labels are then unaligned, which affects only speed.
        let start = memory.as_ptr().align_offset(CACHE_LINE).min(spare);
        Self { memory, start, len }
    }
}

impl Deref for Slots {
    type Target = [Label];

    #[inline]
    fn deref(&self) -> &[Label] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for Slots {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Label] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_aligned_to_cache_lines() {
        assert!(Slots::default().is_empty());
        for len in [1, 2, 3, 8, 1000] {
            let mut slots = Slots::zero(len);
            assert_eq!(slots.len(), len);
            assert_eq!(slots.as_ptr() as usize % CACHE_LINE, 0);
            slots[len - 1] = Label(1);
            assert_eq!(slots.iter().filter(|label| label.0 != 0).count(), 1);
        }
    }
}
