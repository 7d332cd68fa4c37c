//! Estimates the remaining time of a matrix from the durations of ended runs.

use std::time::Duration;

/// The durations of ended runs, by cell.
pub(super) struct Estimate {
    /// Sum and count of the durations of each cell.
    cells: Vec<(Duration, u32)>,
}

impl Estimate {
    pub(super) fn new(cells: usize) -> Self {
        Self {
            cells: vec![(Duration::ZERO, 0); cells],
        }
    }

    /// Records the duration of a run of the cell with this index.
    pub(super) fn record(&mut self, cell: usize, time: Duration) {
        self.cells[cell].0 += time;
        self.cells[cell].1 += 1;
    }

    /// Estimates the total duration of one run of each of these cells. A cell without runs is
    /// assumed to take the average of the other cells. None before the first run.
    pub(super) fn remaining(&self, cells: impl Iterator<Item = usize>) -> Option<Duration> {
        let means: Vec<_> = (self.cells.iter())
            .map(|&(sum, count)| sum.checked_div(count))
            .collect();
        let known: Vec<_> = means.iter().flatten().collect();
        let count = u32::try_from(known.len()).ok()?;
        let average = known.into_iter().sum::<Duration>().checked_div(count)?;
        Some(cells.map(|cell| means[cell].unwrap_or(average)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_cells_count_as_the_average() {
        let seconds = Duration::from_secs;
        let mut estimate = Estimate::new(3);
        assert_eq!(estimate.remaining([0, 1].into_iter()), None);
        estimate.record(0, seconds(1));
        estimate.record(0, seconds(3));
        estimate.record(1, seconds(10));
        // The cells take 2 s, 10 s, and an assumed 6 s for the cell without runs.
        assert_eq!(
            estimate.remaining([0, 1, 2, 2].into_iter()),
            Some(seconds(24))
        );
        assert_eq!(estimate.remaining([].into_iter()), Some(Duration::ZERO));
    }
}
