//! From columns of bits to rows: 128 columns become one 128-bit string per OT.

use zeroize::Zeroizing;

use crate::dispatch::{Work, run};
use crate::extension::{Block, from_block};

/// Columns of a matrix, and bits of a row.
pub(crate) const COLUMNS: usize = 128;

/// Tiles of 128 x 128 bits that are transposed side by side: one cache line of every column.
const TILES: usize = 4;

/// 64-bit words of a column in [`TILES`] tiles.
const LANES: usize = 2 * TILES;

type Tile = [[u64; LANES]; COLUMNS];

/// Appends rows `0..n` of a matrix to `rows`: bit `i` of row `r` is bit `r % 128` of block
/// `r / 128` of column `i`. Column `i` starts at `columns[i * stride]`.
pub(crate) fn append_rows(columns: &[Block], stride: usize, n: usize, rows: &mut Vec<u128>) {
    rows.reserve(n);
    let mut tile = Zeroizing::new([[0; LANES]; COLUMNS]);
    let blocks = n.div_ceil(COLUMNS);
    for first in (0..blocks).step_by(TILES) {
        let used = TILES.min(blocks - first);
        load(&mut tile, columns, stride, first, used);
        run(Quarters(&mut tile));
        for j in 0..used {
            let wanted = COLUMNS.min(n - (first + j) * COLUMNS);
            rows.extend(
                tile[..wanted]
                    .iter()
                    .map(|row| from_block([row[2 * j], row[2 * j + 1]])),
            );
        }
    }
}

/// Loads blocks `first..first + used` of every column, with the two off-diagonal 64 x 64
/// quarters of each tile swapped: the first step of its transposition.
fn load(tile: &mut Tile, columns: &[Block], stride: usize, first: usize, used: usize) {
    const HALF: usize = COLUMNS / 2;
    let (upper, lower) = tile.split_at_mut(HALF);
    for (i, (upper, lower)) in upper.iter_mut().zip(lower).enumerate() {
        let a = &columns[i * stride + first..][..used];
        let b = &columns[(i + HALF) * stride + first..][..used];
        for (j, (a, b)) in a.iter().zip(b).enumerate() {
            [upper[2 * j], lower[2 * j]] = *a;
            [upper[2 * j + 1], lower[2 * j + 1]] = *b;
        }
    }
}

/// Transposes every 64 x 64 quarter: recursive swaps of off-diagonal squares (Warren, Hacker's
/// Delight, section 7-3), three sizes per pass over the rows.
struct Quarters<'a>(&'a mut Tile);

impl Work for Quarters<'_> {
    #[inline(always)]
    fn run<const WORDS: usize>(self) {
        pass::<8, WORDS>(self.0);
        pass::<1, WORDS>(self.0);
    }
}

/// Swaps squares of sides `4 * STEP`, `2 * STEP` and `STEP`, in `WORDS` quarters at a time.
#[inline(always)]
fn pass<const STEP: usize, const WORDS: usize>(tile: &mut Tile) {
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

/// Swaps the high `side` bits of every `2 * side` in row `a` with the low ones in row `b`.
#[inline(always)]
fn swap<const WORDS: usize>(rows: &mut [[u64; WORDS]; 8], a: usize, b: usize, side: usize) {
    // Ones in the low `side` bits of every `2 * side`.
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
    use crate::dispatch::run_portable;
    use crate::extension::to_block;

    /// The definition, bit by bit.
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
    fn every_back_end_gives_the_same_tile() {
        let mut chosen: Tile = std::array::from_fn(|i| {
            std::array::from_fn(|j| (i as u64 + 7).wrapping_pow(j as u32 * 2 + 21))
        });
        let mut portable = chosen;
        run(Quarters(&mut chosen));
        run_portable(Quarters(&mut portable));
        assert_eq!(chosen, portable);
    }

    #[test]
    fn agrees_with_the_definition() {
        let mut state = 1_u128;
        for (blocks, stride) in [(1, 1), (2, 3), (3, 3), (4, 5), (5, 8), (9, 9)] {
            let columns: Vec<Block> = (0..COLUMNS * stride)
                .map(|_| {
                    state = state.wrapping_mul(0xda94_2042_e4dd_58b5_1234_5678_9abc_def1) + 1;
                    to_block(state ^ state >> 61)
                })
                .collect();
            for n in [blocks * 128, blocks * 128 - 1, blocks * 128 - 127] {
                let mut rows = vec![42];
                append_rows(&columns, stride, n, &mut rows);
                assert_eq!(rows[0], 42);
                assert_eq!(rows[1..], naive(&columns, stride, n), "{n} rows");
            }
        }
    }
}
