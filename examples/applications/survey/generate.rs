//! Random data for trials: answers like those of a survey, and transactions with correlated items.
//!
//! A seed always gives the same data.

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

use crate::{
    error::TableError,
    file::Shares,
    table::{Table, width_of},
};

/// Returns random answers below `values`. Each question has its own distribution of answers.
///
/// # Errors
/// Returns [`TableError::Shape`] if the table would be too large or empty.
pub(crate) fn answers(
    rows: usize,
    columns: usize,
    values: u64,
    seed: u64,
) -> Result<Table, TableError> {
    let mut random = StdRng::seed_from_u64(seed);
    // For up to 64 values, each question has random frequencies of its answers. For more values,
    // answers have a triangular distribution.
    let popularity: Vec<Vec<f64>> = match values {
        ..=64 => (0..columns)
            .map(|_| (0..values).map(|_| random.random_range(0.2..1.0)).collect())
            .collect(),
        _ => Vec::new(),
    };
    let mut cells = Vec::new();
    for _ in 0..rows {
        for column in 0..columns {
            let value = match popularity.get(column) {
                Some(weights) => draw(weights, &mut random),
                None => random
                    .random_range(0..values)
                    .midpoint(random.random_range(0..values)),
            };
            // The cast is lossless, because answers have at most 32 bits.
            cells.push(value as u32);
        }
    }
    Table::new(columns, width_of(values), cells)
}

fn draw(weights: &[f64], random: &mut StdRng) -> u64 {
    let mut left = random.random_range(0.0..weights.iter().sum());
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    found.unwrap_or(weights.len() - 1) as u64
}

/// Returns random transactions: rows of zeros and ones, in which groups of three to five items
/// often occur together.
///
/// # Errors
/// Returns [`TableError::Shape`] if the table would be too large or empty.
pub(crate) fn baskets(rows: usize, items: usize, seed: u64) -> Result<Table, TableError> {
    let mut random = StdRng::seed_from_u64(seed);
    let alone: Vec<f64> = (0..items).map(|_| random.random_range(0.02..0.3)).collect();
    let groups: Vec<(f64, Vec<usize>)> = (0..items.div_ceil(5))
        .map(|_| {
            let size = random.random_range(3..=5);
            let members = (0..size).map(|_| random.random_range(0..items.max(1)));
            let members = members.collect();
            (random.random_range(0.1..0.5), members)
        })
        .collect();
    let mut cells = Vec::new();
    for _ in 0..rows {
        let mut row: Vec<u32> = (alone.iter())
            .map(|&p| random.random_bool(p).into())
            .collect();
        for (p, members) in &groups {
            if random.random_bool(*p) {
                members.iter().for_each(|&item| row[item] = 1);
            }
        }
        cells.extend(row);
    }
    Table::new(items, 1, cells)
}

/// Splits each answer of a table into two XOR shares: a random number, and the XOR of this number
/// and the answer. In production, each respondent splits its own row.
///
/// # Errors
/// Returns [`TableError::Shape`] if the table is invalid.
pub(crate) fn share(table: &Table) -> Result<[Shares; 2], TableError> {
    // `rand::rng` is cryptographically secure, and the operating system seeds it.
    let mut random = rand::rng();
    let tag = random.next_u64();
    let mask = u32::MAX >> (32 - table.width());
    let own: Vec<u32> = (0..table.rows() * table.columns())
        .map(|_| random.next_u32() & mask)
        .collect();
    let other = (table.iter().flatten().zip(&own)).map(|(cell, share)| cell ^ share);
    let other = other.collect();
    let shares = |cells| -> Result<Shares, TableError> {
        let table = Table::new(table.columns(), table.width(), cells)?;
        Ok(Shares { tag, table })
    };
    Ok([shares(own)?, shares(other)?])
}
