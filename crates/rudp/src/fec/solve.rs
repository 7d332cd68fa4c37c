//! Missing symbols as the solution of a small system of linear equations.
//!
//! The decoder of the Reed-Solomon crate begins each block with two transforms over all 65,536 elements of the field,
//! whatever the block has: more work than the rest for blocks of a few hundred symbols, of which a few are missing. Here
//! the parity of what did come is made anew, which is as fast as encoding. Its difference to the parity that came is the
//! parity of the missing symbols alone: as many equations as unknowns, with coefficients from encoding a unit matrix.

use reed_solomon_simd::ReedSolomonEncoder;
use reed_solomon_simd::engine::tables::{ExpLog, get_exp_log, mul};
use reed_solomon_simd::engine::{DefaultEngine, Engine, GF_MODULUS};

/// A symbol in the order in which the crate keeps it: chunks of 32 lower and 32 upper bytes of elements.
type Chunks = Vec<[u8; 64]>;

/// Elements of a chunk.
const ELEMENTS: usize = 32;

/// Solves for missing symbols, with buffers and coefficients kept from block to block.
pub(super) struct Solver {
    /// Made when there is something to solve: it needs the tables of [`warm_up`](super::warm_up).
    engine: Option<DefaultEngine>,
    code: Option<ReedSolomonEncoder>,
    /// Coefficients of parity symbols, one row each, for blocks of this size.
    coefficients: Vec<u16>,
    size: (usize, usize),
}

/// A block with symbols missing.
pub(super) struct Unsolved<'a> {
    /// All symbols in order; zeros where one is missing.
    pub(super) symbols: &'a [Vec<u8>],
    /// Which ones are missing.
    pub(super) missing: &'a [usize],
    /// Parity symbols that came, with their indices: as many as are missing, or more.
    pub(super) parity: &'a [(usize, &'a [u8])],
    /// How many parity symbols were made.
    pub(super) parity_count: usize,
}

impl Solver {
    pub(super) fn new() -> Self {
        Self {
            engine: None,
            code: None,
            coefficients: Vec::new(),
            size: (0, 0),
        }
    }

    /// Returns the missing symbols in order, or `None` where the numbers do not fit together.
    pub(super) fn solve(&mut self, block: &Unsolved<'_>) -> Option<Vec<Vec<u8>>> {
        let (count, unknowns) = (block.symbols.len(), block.missing.len());
        let length = block.symbols.first()?.len();
        let parity = block.parity.get(..unknowns)?;
        self.prepare(count, block.parity_count)?;
        // The parity of the missing symbols alone.
        let mut sides = Vec::with_capacity(unknowns);
        let made = self.encode(count, block.parity_count, length, block.symbols)?;
        for (index, symbol) in parity {
            let mut side = made.get(*index)?.clone();
            if symbol.len() != side.len() {
                return None;
            }
            (side.iter_mut().zip(*symbol)).for_each(|(byte, came)| *byte ^= came);
            sides.push(to_chunks(&side));
        }
        let mut matrix = Vec::with_capacity(unknowns);
        for (index, _) in parity {
            let row = self.coefficients.get(index * count..)?.get(..count)?;
            let row = block.missing.iter().map(|&column| row.get(column).copied());
            matrix.push(row.collect::<Option<Vec<_>>>()?);
        }
        let inverse = invert(matrix)?;
        let tables = get_exp_log();
        let engine = self.engine.get_or_insert_with(DefaultEngine::new);
        let solve = |row: &Vec<u16>| {
            let mut sum = vec![[0; 64]; length.div_ceil(64)];
            for (&factor, side) in row.iter().zip(&sides).filter(|(factor, _)| **factor != 0) {
                let mut term = side.clone();
                engine.mul(&mut term, tables.log[usize::from(factor)]);
                (sum.as_flattened_mut().iter_mut().zip(term.as_flattened()))
                    .for_each(|(byte, term)| *byte ^= term);
            }
            from_chunks(&sum, length)
        };
        Some(inverse.iter().map(solve).collect())
    }

    /// Finds the coefficients for blocks of this size by encoding a unit matrix: symbol i has a one as its element i.
    fn prepare(&mut self, count: usize, parity: usize) -> Option<()> {
        if self.size == (count, parity) {
            return Some(());
        }
        let chunks = count.div_ceil(ELEMENTS);
        let one = get_exp_log().exp[0].to_le_bytes();
        let units: Vec<_> = (0..count)
            .map(|n| {
                let mut unit = vec![0; chunks * 64];
                let at = n / ELEMENTS * 64 + n % ELEMENTS;
                (unit[at], unit[at + ELEMENTS]) = (one[0], one[1]);
                unit
            })
            .collect();
        let made = self.encode(count, parity, chunks * 64, &units)?;
        self.coefficients.clear();
        for row in &made {
            self.coefficients.extend((0..count).map(|n| {
                let at = n / ELEMENTS * 64 + n % ELEMENTS;
                u16::from_le_bytes([row[at], row[at + ELEMENTS]])
            }));
        }
        self.size = (count, parity);
        Some(())
    }

    fn encode(
        &mut self,
        count: usize,
        parity: usize,
        length: usize,
        symbols: &[Vec<u8>],
    ) -> Option<Vec<Vec<u8>>> {
        let code = match &mut self.code {
            Some(code) => {
                code.reset(count, parity, length).ok()?;
                code
            }
            none => none.insert(ReedSolomonEncoder::new(count, parity, length).ok()?),
        };
        for symbol in symbols {
            code.add_original_shard(symbol).ok()?;
        }
        let made = code.encode().ok()?;
        Some(made.recovery_iter().map(<[u8]>::to_vec).collect())
    }
}

/// Inverts a square matrix over the field. `None`: it has no inverse.
fn invert(mut matrix: Vec<Vec<u16>>) -> Option<Vec<Vec<u16>>> {
    let ExpLog { exp, log } = get_exp_log();
    let n = matrix.len();
    let mut inverse: Vec<Vec<u16>> = (0..n)
        .map(|row| {
            (0..n)
                .map(|column| if row == column { exp[0] } else { 0 })
                .collect()
        })
        .collect();
    for column in 0..n {
        let pivot = (column..n).find(|&row| matrix[row][column] != 0)?;
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let scale = (GF_MODULUS - log[usize::from(matrix[column][column])]) % GF_MODULUS;
        for element in matrix[column].iter_mut().chain(&mut inverse[column]) {
            *element = mul(*element, scale, exp, log);
        }
        let (pivot, pivot_inverse) = (matrix[column].clone(), inverse[column].clone());
        for row in (0..n).filter(|&row| row != column) {
            let factor = matrix[row][column];
            if factor == 0 {
                continue;
            }
            let factor = log[usize::from(factor)];
            for (element, pivot) in (matrix[row].iter_mut().zip(&pivot))
                .chain(inverse[row].iter_mut().zip(&pivot_inverse))
            {
                *element ^= mul(*pivot, factor, exp, log);
            }
        }
    }
    Some(inverse)
}

/// Brings a symbol into the order of the crate: the rest after whole chunks is one half lower bytes, one half upper.
fn to_chunks(symbol: &[u8]) -> Chunks {
    let mut chunks = vec![[0; 64]; symbol.len().div_ceil(64)];
    for (chunk, bytes) in chunks.iter_mut().zip(symbol.chunks(64)) {
        let (lower, upper) = bytes.split_at(bytes.len() / 2);
        chunk[..lower.len()].copy_from_slice(lower);
        chunk[ELEMENTS..ELEMENTS + upper.len()].copy_from_slice(upper);
    }
    chunks
}

fn from_chunks(chunks: &[[u8; 64]], length: usize) -> Vec<u8> {
    let mut symbol = Vec::with_capacity(length);
    for chunk in chunks {
        let half = (length - symbol.len()).min(64) / 2;
        symbol.extend_from_slice(&chunk[..half]);
        symbol.extend_from_slice(&chunk[ELEMENTS..ELEMENTS + half]);
    }
    symbol
}
