//! A table of numbers: a row for each respondent and a column for each question.

use transpute::Bits;

use crate::error::TableError;

/// Maximum number of cells in a table. That many cells take 64 MiB of memory.
pub(crate) const MAX_CELLS: usize = 1 << 24;

/// Maximum number of columns in a table.
pub(crate) const MAX_COLUMNS: usize = 4096;

/// Maximum width of numbers, in bits.
pub(crate) const MAX_WIDTH: u32 = 32;

/// A table of numbers of one width: answers, or a party's shares of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Table {
    columns: usize,
    width: u32,
    /// The cells, row by row.
    cells: Vec<u32>,
}

impl Table {
    /// Creates a table from its cells, row by row.
    ///
    /// # Errors
    /// Returns [`TableError::Shape`] if the rows are incomplete, or if a cell or the table is too
    /// large.
    pub(crate) fn new(columns: usize, width: u32, cells: Vec<u32>) -> Result<Self, TableError> {
        let refuse = |limit| {
            Err(TableError::Shape {
                rows: cells.len().checked_div(columns).unwrap_or(0),
                columns,
                width,
                limit,
            })
        };
        if !(1..=MAX_COLUMNS).contains(&columns) {
            return refuse("expected 1 to 4096 columns");
        }
        if !(1..=MAX_WIDTH).contains(&width) {
            return refuse("expected 1 to 32 bits");
        }
        if cells.is_empty() || cells.len() > MAX_CELLS || !cells.len().is_multiple_of(columns) {
            return refuse("expected complete rows, at least one, and at most 16,777,216 cells");
        }
        if cells.iter().any(|&cell| u64::from(cell) >> width != 0) {
            return refuse("a cell is too large");
        }
        Ok(Self {
            columns,
            width,
            cells,
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.cells.len() / self.columns
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of bits of each number.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    /// Returns the rows in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.cells.chunks_exact(self.columns)
    }

    /// Returns the numbers in a column, from the first row to the last. Column 0 is the first.
    ///
    /// # Panics
    /// Panics if the column does not exist.
    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = u32> {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        self.cells
            .iter()
            .skip(column)
            .step_by(self.columns)
            .copied()
    }

    /// Appends the numbers of a column to `bits`, least significant bit first.
    ///
    /// # Panics
    /// Panics if the column does not exist.
    pub(crate) fn append_column(&self, column: usize, bits: &mut Bits) {
        for number in self.column(column) {
            for place in 0..self.width {
                bits.push(number >> place & 1 == 1);
            }
        }
    }
}

/// Returns the number of bits for numbers below `values`, which is at least 2.
pub(crate) fn width_of(values: u64) -> u32 {
    (values.max(2) - 1).ilog2() + 1
}
