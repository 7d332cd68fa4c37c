//! The coefficients of the Reed-Solomon code, and the recovery of missing symbols by solving a
//! system of linear equations.

use super::field::{add_product, inverse, product};

/// Returns the factor by which symbol number `symbol` is multiplied in parity symbol number
/// `parity`.
///
/// The factors form a Cauchy matrix (J. Blömer et al., *An XOR-based erasure-resilient coding
/// scheme*, 1995). Its entry in row `parity` and column `symbol` is 1 / (x + y) with x = 255 -
/// `parity` and y = `symbol`. Every square submatrix of a Cauchy matrix is invertible, so any m
/// parity symbols recover any m missing symbols. Each column is then scaled so that row 0 consists
/// of ones: the first parity symbol is the exclusive or of the symbols. The factors do not depend
/// on the size of the block.
///
/// The inverse of x + y exists if x and y differ, which is the case if `parity + symbol < 255`.
/// [`MAX_SYMBOLS`](super::MAX_SYMBOLS) guarantees that.
pub(super) fn coefficient(parity: usize, symbol: usize) -> u8 {
    let (x, first, y) = (0xff ^ parity as u8, 0xff, symbol as u8);
    product(first ^ y, inverse(x ^ y))
}

/// Recovers missing symbols.
///
/// `missing` contains the indices of the missing symbols. `parity` contains the indices of the same
/// number of received parity symbols. `sides` contains these parity symbols, minus the products of
/// all received symbols: the right-hand sides of the equations. Returns the missing symbols in the
/// order of `missing`. Returns `None` if `missing` is empty or the equations have no unique
/// solution.
pub(super) fn solve(
    missing: &[usize],
    parity: &[usize],
    sides: &[Vec<u8>],
) -> Option<Vec<Vec<u8>>> {
    let rows = parity.iter().map(|&parity| {
        let row = missing.iter().map(|&symbol| coefficient(parity, symbol));
        row.collect()
    });
    let length = sides.first()?.len();
    let inverted = invert(rows.collect())?;
    let symbols = inverted.iter().map(|row| {
        let mut symbol = vec![0; length];
        for (&factor, side) in row.iter().zip(sides) {
            add_product(&mut symbol, factor, side);
        }
        symbol
    });
    Some(symbols.collect())
}

/// Inverts a square matrix by Gauss-Jordan elimination. Returns `None` if it is singular.
fn invert(mut rows: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let size = rows.len();
    // The unit matrix on the right becomes the inverse.
    for (n, row) in rows.iter_mut().enumerate() {
        row.resize(2 * size, 0);
        row[size + n] = 1;
    }
    for column in 0..size {
        let pivot = (column..size).find(|&row| rows[row][column] != 0)?;
        rows.swap(column, pivot);
        let scale = inverse(rows[column][column]);
        let pivot: Vec<u8> = (rows[column].iter())
            .map(|&element| product(scale, element))
            .collect();
        for row in &mut rows {
            let factor = row[column];
            add_product(row, factor, &pivot);
        }
        rows[column] = pivot;
    }
    Some(rows.iter().map(|row| row[size..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_parity_symbol_is_the_sum() {
        assert!((0..255).all(|symbol| coefficient(0, symbol) == 1));
        // (0xff ^ 1) / (0xfe ^ 1), computed by hand: 0xfe / 0xff.
        assert_eq!(product(coefficient(1, 1), 0xff), 0xfe);
    }

    #[test]
    fn a_matrix_times_its_inverse_is_the_unit_matrix() {
        for (size, from) in [(1, 0), (2, 3), (40, 80), (127, 0)] {
            let rows: Vec<Vec<u8>> = (0..size)
                .map(|row| (from..from + size).map(|it| coefficient(row, it)).collect())
                .collect();
            let inverse = invert(rows.clone()).unwrap();
            for (n, row) in inverse.iter().enumerate() {
                let mut unit = vec![0; size];
                for (&factor, term) in row.iter().zip(&rows) {
                    add_product(&mut unit, factor, term);
                }
                assert!(
                    unit.iter()
                        .enumerate()
                        .all(|(k, &it)| it == u8::from(k == n))
                );
            }
        }
        assert_eq!(invert(vec![vec![3, 5], vec![3, 5]]), None);
    }
}
