//! Memory for labels that begins where a cache line does.

use std::ops::{Deref, DerefMut};

use zeroize::Zeroizing;

use crate::Label;

/// Bytes of a cache line, and of the widest register.
const LINE: usize = 64;

/// Labels, the first of which is at a multiple of 64 bytes. Wiped on drop.
///
/// A vector of labels of eight instances is then two whole lines. Vectors that lie across lines
/// cost the division of every load and store, and labels just written cannot be passed on to
/// the gate that waits for them: serial circuits become up to twice as slow.
#[derive(Default)]
pub(crate) struct Slots {
    memory: Zeroizing<Vec<Label>>,
    start: usize,
    len: usize,
}

impl Slots {
    /// Makes `len` labels, all zero.
    pub(crate) fn zero(len: usize) -> Self {
        let spare = LINE / Label::BYTES - 1;
        let memory = Zeroizing::new(vec![Label::ZERO; len + spare]);
        // At most `spare`, unless the address is not known; speed alone depends on it.
        let start = memory.as_ptr().align_offset(LINE).min(spare);
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
    fn labels_begin_at_a_line_and_are_all_there() {
        assert!(Slots::default().is_empty());
        for len in [1, 2, 3, 8, 1000] {
            let mut slots = Slots::zero(len);
            assert_eq!(slots.len(), len);
            assert_eq!(slots.as_ptr() as usize % LINE, 0);
            slots[len - 1] = Label(1);
            assert_eq!(slots.iter().filter(|label| label.0 != 0).count(), 1);
        }
    }
}
