//! The order in which a program reads the evaluator's input bits, and a queue of labels in that
//! order.
//!
//! Labels of the evaluator's inputs are numbered across all instances, group by group of instances
//! side by side. In a group of `lanes` instances, label `t` belongs to instance `t mod lanes` and
//! to the bit that is read as number `t div lanes`. So an evaluator can start with the first
//! labels, without holding those of later gates.

use std::collections::VecDeque;

use transpute_circuit::{InputSplit, Program};
use zeroize::Zeroizing;

use crate::{
    Label,
    inputs::{Owners, Party},
};

/// The order in which a program reads the evaluator's input bits; bits that are never read come
/// last.
#[derive(Clone, Debug)]
pub struct ReadOrder(Vec<u32>);

impl ReadOrder {
    /// Computes the order for a program whose garbler's inputs are given by `split`.
    ///
    /// # Panics
    /// Panics if `split` does not match the program's inputs.
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

    /// Returns the positions among the evaluator's input bits, in the order of reading.
    #[must_use]
    pub fn positions(&self) -> &[u32] {
        &self.0
    }
}

/// A queue of consecutively numbered labels. Labels are wiped after they are removed.
#[derive(Default)]
pub(crate) struct LabelQueue {
    pieces: VecDeque<Zeroizing<Vec<Label>>>,
    /// Number of labels of the first piece that were removed.
    gone: usize,
    /// Total number of labels in the queue.
    len: usize,
    /// The number of the first label.
    first: u64,
}

impl LabelQueue {
    /// Returns the number of labels.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns one more than the number of the last label.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.len as u64
    }

    /// Appends labels.
    pub(crate) fn push(&mut self, labels: Zeroizing<Vec<Label>>) {
        self.len += labels.len();
        self.pieces.push_back(labels);
    }

    /// Removes the labels with numbers below `number`.
    ///
    /// # Panics
    /// Panics if the first label's number is over `number`.
    pub(crate) fn skip_to(&mut self, number: u64) {
        while self.first < number && self.len > 0 {
            self.take((number - self.first) as usize);
        }
        assert!(self.first <= number, "numbers only go forward");
        self.first = number;
    }

    /// Removes and returns at most `count` of the next labels, which are contiguous in memory. The
    /// result is empty only if the queue is empty or `count` is 0.
    pub(crate) fn take(&mut self, count: usize) -> &[Label] {
        while let Some(piece) = self.pieces.front()
            && self.gone == piece.len()
        {
            self.pieces.pop_front();
            self.gone = 0;
        }
        let Some(piece) = self.pieces.front() else {
            return &[];
        };
        let start = self.gone;
        let count = count.min(piece.len() - start);
        self.gone += count;
        self.len -= count;
        self.first += count as u64;
        &piece[start..self.gone]
    }

    /// Removes `count` labels, or all if there are fewer, and returns how many were removed. For
    /// each contiguous slice of them, calls `each` with the number of labels removed before it and
    /// the slice.
    pub(crate) fn take_each(
        &mut self,
        count: usize,
        mut each: impl FnMut(usize, &[Label]),
    ) -> usize {
        let mut done = 0;
        while done < count && self.len > 0 {
            let labels = self.take(count - done);
            each(done, labels);
            done += labels.len();
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use transpute_circuit::{Circuit, Gate, Op};

    use super::*;

    #[test]
    fn unread_bits_come_last() {
        let xor = |a, b| Gate { op: Op::Xor, a, b };
        // Bits 1 to 5 are the evaluator's; bits 1 and 3 are not read.
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
    fn labels_are_taken_in_order_from_pieces_of_any_length() {
        let labels: Vec<Label> = (0..1000).map(Label).collect();
        let mut queue = LabelQueue::default();
        let mut taken = Vec::new();
        let piece = |labels: &[Label]| Zeroizing::new(labels.to_vec());
        for (round, labels) in labels.chunks(7).enumerate() {
            queue.push(piece(labels));
            taken.extend_from_slice(queue.take(round % 14));
        }
        assert_eq!(queue.len(), 1000 - taken.len());
        while queue.len() > 0 {
            taken.extend_from_slice(queue.take(usize::MAX));
        }
        assert!(numbers(&taken) == numbers(&labels));
        assert_eq!((queue.end(), queue.take(1).len()), (1000, 0));
        queue.push(piece(&labels[..3]));
        queue.push(piece(&labels[3..10]));
        queue.skip_to(1004);
        assert_eq!(numbers(queue.take(2)), [4, 5]);
        queue.skip_to(2000);
        assert_eq!((queue.end(), queue.take(1).len()), (2000, 0));
    }
}
