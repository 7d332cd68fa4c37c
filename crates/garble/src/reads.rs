//! In which order the evaluator's input bits are read, and labels that wait to be.
//!
//! Labels of the evaluator's inputs are counted through all instances: instances side by side come one group after the
//! other, and in a group of `lanes` label `t` belongs to instance `t mod lanes`, to the bit that is read as number
//! `t div lanes`. So an evaluator can begin with the labels that come first, and need not hold those of other gates.

use transpute_circuit::{InputSplit, Program};
use zeroize::{Zeroize, Zeroizing};

use crate::{
    Label,
    inputs::{Owners, Party},
};

/// The evaluator's input bits in the order in which a program reads them; those that no gate and no output reads come last.
#[derive(Clone, Debug)]
pub struct ReadOrder(Vec<u32>);

impl ReadOrder {
    /// Looks at a program whose inputs are the garbler's as `split` says.
    ///
    /// # Panics
    /// If the split is of other inputs.
    #[must_use]
    pub fn new(program: &Program, split: &InputSplit) -> Self {
        assert_eq!(split.widths(), program.input_widths(), "inputs differ");
        let owners = Owners::new(split);
        let count = owners.count(Party::Evaluator);
        let mut order = Vec::with_capacity(count);
        owners.pieces(program.loads(), |party, piece| {
            if party == Party::Evaluator {
                order.extend(piece.positions());
            }
        });
        if order.len() < count {
            let mut is_read = vec![false; count];
            for &position in &order {
                is_read[position as usize] = true;
            }
            let unread = (0..).zip(is_read).filter(|(_, is_read)| !is_read);
            order.extend(unread.map(|(position, _)| position));
        }
        Self(order)
    }

    /// Returns positions among the evaluator's input bits.
    #[must_use]
    pub fn positions(&self) -> &[u32] {
        &self.0
    }
}

/// Labels that follow one another in the count of all. Wiped when they are gone.
#[derive(Default)]
pub(crate) struct LabelQueue {
    labels: Zeroizing<Vec<Label>>,
    /// How many of `labels` are gone.
    gone: usize,
    /// The number of the first one that is not.
    first: u64,
}

impl LabelQueue {
    /// Returns the number behind the last label.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.len() as u64
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.labels.len() - self.gone
    }

    /// Appends labels.
    pub(crate) fn push(&mut self, labels: &[Label]) {
        let held = self.len();
        if self.labels.len() + labels.len() > self.labels.capacity() {
            if held + labels.len() <= self.labels.capacity() / 2 {
                self.labels.copy_within(self.gone.., 0);
                self.labels[held..].zeroize();
                self.labels.truncate(held);
            } else {
                // Not by growing, which could leave a copy of labels behind.
                let mut larger = Vec::with_capacity((held + labels.len()) * 2);
                larger.extend_from_slice(&self.labels[self.gone..]);
                self.labels = Zeroizing::new(larger);
            }
            self.gone = 0;
        }
        self.labels.extend_from_slice(labels);
    }

    /// Forgets the labels before `number`.
    ///
    /// # Panics
    /// If that goes back.
    pub(crate) fn skip_to(&mut self, number: u64) {
        let skipped = number.checked_sub(self.first);
        let skipped = skipped.expect("numbers only go forward");
        let held = self.len();
        if skipped < held as u64 {
            self.gone += skipped as usize;
        } else {
            self.labels.as_mut_slice().zeroize();
            self.labels.clear();
            self.gone = 0;
        }
        self.first = number;
    }

    /// Takes the next `count` labels out, or as many as there are.
    pub(crate) fn take(&mut self, count: usize) -> &[Label] {
        let start = self.gone;
        let count = count.min(self.len());
        self.gone += count;
        self.first += count as u64;
        &self.labels[start..self.gone]
    }
}

#[cfg(test)]
mod tests {
    use transpute_circuit::{Circuit, Gate, Op};

    use super::*;

    #[test]
    fn bits_that_nothing_reads_come_last() {
        let xor = |a, b| Gate { op: Op::Xor, a, b };
        // Bits 1 to 5 are the evaluator's; 1 and 3 are not read.
        let circuit = Circuit::new(vec![1, 5], vec![2], [xor(0, 4), xor(6, 2)], vec![7, 5]);
        let program = Program::compile(&circuit.unwrap());
        let split = InputSplit::first_to_garbler(program.input_widths());
        let order = ReadOrder::new(&program, &split);
        let (read, unread) = order.positions().split_at(3);
        let mut read = read.to_vec();
        read.sort_unstable();
        assert_eq!(read, [1, 3, 4]);
        assert_eq!(unread, [0, 2]);
    }

    fn numbers(labels: &[Label]) -> Vec<u128> {
        labels.iter().map(|label| label.0).collect()
    }

    #[test]
    fn labels_are_taken_in_order_however_they_come() {
        let labels: Vec<Label> = (0..1000_u128)
            .map(Label)
            .collect();
        let mut queue = LabelQueue::default();
        let mut taken = Vec::new();
        for (round, piece) in labels.chunks(7).enumerate() {
            queue.push(piece);
            taken.extend_from_slice(queue.take(round % 14));
        }
        let from = taken.len();
        taken.extend_from_slice(queue.take(usize::MAX));
        assert!(from < 1000);
        assert!(numbers(&taken) == numbers(&labels));
        assert_eq!(queue.end(), 1000);
        queue.push(&labels[..10]);
        queue.skip_to(1004);
        assert_eq!(numbers(queue.take(2)), [4, 5]);
        queue.skip_to(2000);
        assert_eq!((queue.end(), queue.take(1).len()), (2000, 0));
    }
}
