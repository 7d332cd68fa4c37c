//! Sums of the leaves of one tree, which form `k` columns of a vector OLE. If `r_x` is the stream
//! of leaf `x`, column `j` is the sum of the `r_x` for which bit `j` of `x` is set, and the total
//! is the sum of all `r_x`.
//!
//! With the leaves numbered relative to the hole `alpha`, the columns become `column_j ^ alpha_j *
//! total`. The stream of the hole only affects the total.

use zeroize::{Zeroize, Zeroizing};

use crate::dispatch::{Work, run};
use crate::extension::{Block, SEGMENT_BLOCKS};
use crate::prg::Stream;

/// Distance between the starts of consecutive columns, in blocks. It is not a multiple of a large
/// power of two, so that columns do not compete for the same cache sets.
pub(crate) const STRIDE: usize = SEGMENT_BLOCKS + 4;

const MAX_K: usize = 8;

/// A buffer for one column, aligned to cache lines.
#[derive(Clone, Copy, Zeroize)]
#[repr(align(64))]
struct Buffer([Block; SEGMENT_BLOCKS]);

const ZERO: Block = [0; 2];

/// Buffers of the sums; wiped on drop.
pub(crate) struct Fold {
    odd: Zeroizing<Buffer>,
    /// Sums of the streams of leaves. Item 0 is a temporary sum. Item `i` from 1 to `k - 1` is the
    /// sum of a left subtree at level `i`, which waits for the sum of its right sibling. Item `k`
    /// is the sum of all leaves.
    sums: Zeroizing<[Buffer; MAX_K + 1]>,
}

impl Fold {
    pub(crate) fn new() -> Self {
        Self {
            odd: Zeroizing::new(Buffer([ZERO; SEGMENT_BLOCKS])),
            sums: Zeroizing::new([Buffer([ZERO; SEGMENT_BLOCKS]); MAX_K + 1]),
        }
    }

    /// Sums blocks `position..position + blocks` of the streams of one tree. Writes `k` columns to
    /// `columns`, at intervals of [`STRIDE`] blocks, and returns the total.
    ///
    /// `leaves` are the streams of leaves 1 to `2^k - 1`, preceded by that of leaf 0 if it is
    /// known. An unknown leaf 0 is replaced by zeros.
    ///
    /// Sums of siblings are combined up the tree, like carries in a binary counter. This takes two
    /// additions per leaf instead of `k / 2 + 1`, in memory that stays in the L1 cache.
    pub(crate) fn sum(
        &mut self,
        k: usize,
        leaves: &[Stream],
        position: u64,
        blocks: usize,
        columns: &mut [Block],
    ) -> &[Block] {
        run(Sum {
            k,
            leaves,
            position,
            blocks,
            columns,
            fold: self,
        });
        &self.sums[k].0[..blocks]
    }
}

/// The arguments of [`Fold::sum`]; the total is written to `fold.sums[k]`.
struct Sum<'a> {
    k: usize,
    leaves: &'a [Stream],
    position: u64,
    blocks: usize,
    columns: &'a mut [Block],
    fold: &'a mut Fold,
}

impl Work for Sum<'_> {
    #[inline(always)]
    fn run<const WORDS: usize>(self) {
        let Self {
            k, blocks, columns, ..
        } = self;
        let Fold { odd, sums } = self.fold;
        let odd = &mut odd.0[..blocks];
        let mut leaves = self.leaves.iter();
        let first_known = leaves.len() == 1 << k;
        for pair in 0..1_usize << (k - 1) {
            let carries = pair.trailing_ones() as usize;
            // The sum of both siblings is either a left sibling, which waits for its right sibling,
            // or a carry to the next level.
            let even = &mut sums[usize::from(carries == 0)].0[..blocks];
            let column = &mut columns[..blocks];
            if pair > 0 {
                fill(leaves.next(), self.position, even);
                fill(leaves.next(), self.position, odd);
                add_to_both(column, even, odd);
            } else if first_known {
                fill(leaves.next(), self.position, even);
                fill(leaves.next(), self.position, column);
                add(even, column);
            } else {
                fill(leaves.next(), self.position, column);
                // If `k` is 1, only the party that knows all leaves needs the total.
                if k > 1 {
                    even.copy_from_slice(column);
                }
            }
            for level in 1..=carries {
                let (known, next) = sums.split_at_mut(level + 1);
                let (right, left) = known.split_at_mut(level);
                let (right, left) = (&mut right[0].0[..blocks], &left[0].0[..blocks]);
                let column = &mut columns[level * STRIDE..][..blocks];
                if pair >> level == 0 {
                    column.copy_from_slice(right);
                } else {
                    add(column, right);
                }
                if level < carries {
                    add(right, left);
                } else {
                    sum(&mut next[0].0[..blocks], left, right);
                }
            }
        }
    }
}

fn fill(stream: Option<&Stream>, position: u64, out: &mut [Block]) {
    if let Some(stream) = stream {
        stream.fill(position, out);
    }
}

/// Adds `b` to `a` by XOR.
#[inline(always)]
fn add(a: &mut [Block], b: &[Block]) {
    for (a, b) in a.as_flattened_mut().iter_mut().zip(b.as_flattened()) {
        *a ^= b;
    }
}

/// Sets `a` to the sum of `b` and `c`.
#[inline(always)]
fn sum(a: &mut [Block], b: &[Block], c: &[Block]) {
    let both = b.as_flattened().iter().zip(c.as_flattened());
    for (a, (b, c)) in a.as_flattened_mut().iter_mut().zip(both) {
        *a = b ^ c;
    }
}

/// Adds `c` to both `a` and `b`.
#[inline(always)]
fn add_to_both(a: &mut [Block], b: &mut [Block], c: &[Block]) {
    let both = a.as_flattened_mut().iter_mut().zip(b.as_flattened_mut());
    for ((a, b), c) in both.zip(c.as_flattened()) {
        *a ^= c;
        *b ^= c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::run_portable;

    #[test]
    fn columns_are_sums_over_the_bits_of_the_leaf_number() {
        const BLOCKS: usize = 5;
        for k in [1, 2, 4, 8] {
            let streams: Vec<Stream> = (0..1 << k).map(|x| Stream::new(x, 0)).collect();
            for missing in [0, 1] {
                let mut expected = vec![ZERO; k * STRIDE];
                let mut total = [ZERO; BLOCKS];
                for (x, stream) in streams.iter().enumerate().skip(missing) {
                    let mut leaf = [ZERO; BLOCKS];
                    stream.fill(11, &mut leaf);
                    add(&mut total, &leaf);
                    for j in (0..k).filter(|j| x >> j & 1 == 1) {
                        add(&mut expected[j * STRIDE..][..BLOCKS], &leaf);
                    }
                }
                let mut columns = vec![ZERO; k * STRIDE];
                let mut fold = Fold::new();
                let sum = fold.sum(k, &streams[missing..], 11, BLOCKS, &mut columns);
                // A tree of two leaves without the first does not need the total.
                let has_total = (k, missing) != (1, 1);
                assert!(!has_total || *sum == total);
                assert_eq!(columns, expected);

                columns.fill([7; 2]);
                run_portable(Sum {
                    k,
                    leaves: &streams[missing..],
                    position: 11,
                    blocks: BLOCKS,
                    columns: &mut columns,
                    fold: &mut fold,
                });
                assert!(!has_total || fold.sums[k].0[..BLOCKS] == total);
                for (column, expected) in columns.chunks(STRIDE).zip(expected.chunks(STRIDE)) {
                    assert_eq!(column[..BLOCKS], expected[..BLOCKS]);
                }
            }
        }
    }
}
