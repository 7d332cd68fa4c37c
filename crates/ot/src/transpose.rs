//! Transposition of a bit matrix: 128 columns become one 128-bit row per OT.

use zeroize::{Zeroize, Zeroizing};

use crate::extension::{Block, from_block};
#[cfg(target_arch = "x86_64")]
use crate::wide::{Scratch, Wide};

/// Number of columns of a matrix, which is the number of bits of a row.
pub(crate) const COLUMNS: usize = 128;

/// Number of 128 x 128 tiles that are transposed together. A column has one cache line in these
/// tiles.
pub(crate) const TILES: usize = 4;

/// Number of rows that [`TILES`] tiles have together.
pub(crate) const TILE_ROWS: usize = COLUMNS * TILES;

/// Number of 64-bit words of a column in [`TILES`] tiles.
const LANES: usize = 2 * TILES;

type Tile = [[u64; LANES]; COLUMNS];

/// Transposes matrices of 128 columns. Its buffers are reused between calls and wiped on drop.
pub(crate) struct Transposer {
    kernel: Kernel,
    rows: Box<Zeroizing<Rows>>,
}

enum Kernel {
    Portable(Box<Zeroizing<Tile>>),
    #[cfg(target_arch = "x86_64")]
    Wide(Box<Scratch>),
}

/// The rows of [`TILES`] tiles, aligned to cache lines.
#[derive(Zeroize)]
#[repr(align(64))]
struct Rows([u128; TILE_ROWS]);

impl Transposer {
    /// Returns the fastest implementation that this CPU supports.
    pub(crate) fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Wide::detect() {
            return Self::with(Kernel::Wide(Box::new(Scratch::new(wide))));
        }
        Self::portable()
    }

    fn portable() -> Self {
        let tile = Box::new(Zeroizing::new([[0; LANES]; COLUMNS]));
        Self::with(Kernel::Portable(tile))
    }

    fn with(kernel: Kernel) -> Self {
        let rows = Box::new(Zeroizing::new(Rows([0; TILE_ROWS])));
        Self { kernel, rows }
    }

    /// Appends rows `0..n` of a matrix to `rows`: bit `i` of row `r` is bit `r % 128` of block
    /// `r / 128` of column `i`. Column `i` starts at `columns[i * stride]`.
    pub(crate) fn append_rows(
        &mut self,
        columns: &[Block],
        stride: usize,
        n: usize,
        rows: &mut Vec<u128>,
    ) {
        rows.reserve(n);
        for first in (0..n.div_ceil(COLUMNS)).step_by(TILES) {
            let count = TILE_ROWS.min(n - first * COLUMNS);
            if first + TILES <= stride {
                self.transpose(&columns[first..], stride);
            } else {
                // The columns end within these tiles, so they are padded with zeros.
                let mut last = Zeroizing::new([[0; 2]; COLUMNS * TILES]);
                for (i, column) in last.chunks_mut(TILES).enumerate() {
                    let used = stride - first;
                    column[..used].copy_from_slice(&columns[i * stride + first..][..used]);
                }
                self.transpose(&*last, TILES);
            }
            rows.extend_from_slice(&self.rows.0[..count]);
        }
    }

    /// Transposes the first [`TILES`] blocks of every column.
    fn transpose(&mut self, columns: &[Block], stride: usize) {
        let rows = &mut self.rows.0;
        match &mut self.kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Wide(scratch) => scratch.transpose(columns, stride, rows),
            Kernel::Portable(tile) => {
                load(tile, columns, stride);
                pass::<8>(tile);
                pass::<1>(tile);
                for (j, rows) in rows.chunks_mut(COLUMNS).enumerate() {
                    for (out, row) in rows.iter_mut().zip(tile.iter()) {
                        *out = from_block([row[2 * j], row[2 * j + 1]]);
                    }
                }
            }
        }
    }
}

/// Loads the first [`TILES`] blocks of every column, with the two off-diagonal 64 x 64 quarters of
/// each tile swapped, which is the first step of the transposition.
fn load(tile: &mut Tile, columns: &[Block], stride: usize) {
    const HALF: usize = COLUMNS / 2;
    let (upper, lower) = tile.split_at_mut(HALF);
    for (i, (upper, lower)) in upper.iter_mut().zip(lower).enumerate() {
        let a = &columns[i * stride..][..TILES];
        let b = &columns[(i + HALF) * stride..][..TILES];
        for (j, (a, b)) in a.iter().zip(b).enumerate() {
            [upper[2 * j], lower[2 * j]] = *a;
            [upper[2 * j + 1], lower[2 * j + 1]] = *b;
        }
    }
}

/// Performs one of the two passes that transpose every 64 x 64 quarter: swaps the off-diagonal
/// squares of sides `4 * STEP`, `2 * STEP` and `STEP` (Warren, Hacker's Delight, section 7-3).
fn pass<const STEP: usize>(tile: &mut Tile) {
    /// Number of 64-bit words in the vectors of the baseline target.
    const WORDS: usize = 2;
    for high in (0..COLUMNS).step_by(8 * STEP) {
        for base in high..high + STEP {
            for lane in (0..LANES).step_by(WORDS) {
                let mut rows = [[0; WORDS]; 8];
                for (i, row) in rows.iter_mut().enumerate() {
                    row.copy_from_slice(&tile[base + i * STEP][lane..lane + WORDS]);
                }
                for i in 0..4 {
                    swap(&mut rows, i, i + 4, 4 * STEP);
                }
                for i in [0, 1, 4, 5] {
                    swap(&mut rows, i, i + 2, 2 * STEP);
                }
                for i in [0, 2, 4, 6] {
                    swap(&mut rows, i, i + 1, STEP);
                }
                for (i, row) in rows.iter().enumerate() {
                    tile[base + i * STEP][lane..lane + WORDS].copy_from_slice(row);
                }
            }
        }
    }
}

/// Swaps the high `side` bits of every `2 * side` bits in row `a` with the low `side` bits in row
/// `b`.
#[inline(always)]
fn swap<const WORDS: usize>(rows: &mut [[u64; WORDS]; 8], a: usize, b: usize, side: usize) {
    // Ones in the low `side` bits of every `2 * side` bits.
    let mask = u64::MAX / ((1 << side) + 1);
    let (mut upper, mut lower) = (rows[a], rows[b]);
    for (upper, lower) in upper.iter_mut().zip(&mut lower) {
        let difference = (*upper >> side ^ *lower) & mask;
        *lower ^= difference;
        *upper ^= difference << side;
    }
    (rows[a], rows[b]) = (upper, lower);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::to_block;

    /// Transposes bit by bit, following the definition.
    fn naive(columns: &[Block], stride: usize, n: usize) -> Vec<u128> {
        (0..n)
            .map(|r| {
                (0..COLUMNS)
                    .map(|i| (from_block(columns[i * stride + r / 128]) >> (r % 128) & 1) << i)
                    .sum()
            })
            .collect()
    }

    #[test]
    fn agrees_with_the_definition() {
        let mut state = 1_u128;
        for (blocks, stride) in [(1, 1), (2, 3), (3, 3), (4, 5), (5, 8), (9, 9), (12, 68)] {
            let columns: Vec<Block> = (0..COLUMNS * stride)
                .map(|_| {
                    state = state.wrapping_mul(0xda94_2042_e4dd_58b5_1234_5678_9abc_def1) + 1;
                    to_block(state ^ state >> 61)
                })
                .collect();
            for n in [blocks * 128, blocks * 128 - 1, blocks * 128 - 127] {
                let mut rows = vec![42];
                Transposer::new().append_rows(&columns, stride, n, &mut rows);
                assert_eq!(rows[0], 42);
                assert_eq!(rows[1..], naive(&columns, stride, n), "{n} rows");
                rows.truncate(1);
                Transposer::portable().append_rows(&columns, stride, n, &mut rows);
                assert_eq!(rows[1..], naive(&columns, stride, n), "{n} rows");
            }
        }
    }
}
