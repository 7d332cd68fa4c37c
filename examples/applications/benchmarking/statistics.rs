//! The statistics: their layout in the circuit's output, their presentation, and their computation
//! in the clear for comparison.

use std::fmt;

use serde::Serialize;
use transpute::Bits;

/// Number of bits of a figure.
pub(crate) const FIGURE_BITS: usize = 32;

/// Number of decimal places of printed averages and variances.
const PLACES: u32 = 6;

/// Returns the number of significant bits of `value`.
pub(crate) fn bit_length(value: u128) -> usize {
    (u128::BITS - value.leading_zeros()) as usize
}

/// The width of each result in the output of the circuit. The order of the results is: sum, sum of
/// squares, median, maximum, sum of the top quarter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Layout {
    companies: usize,
    /// Number of companies in the top quarter.
    pub(crate) top: usize,
    /// Width of the sum, in bits.
    pub(crate) sum: usize,
    /// Width of the sum of squares, in bits.
    pub(crate) squares: usize,
    /// Width of the sum of the top quarter, in bits.
    pub(crate) top_sum: usize,
}

impl Layout {
    /// Returns the layout for this number of companies.
    pub(crate) fn new(companies: usize) -> Self {
        let largest = u128::from(u32::MAX);
        // In the paper, the smallest figure of the top quarter has rank (3 n + 3) / 4, rounded up,
        // in ascending order. `top` is the number of figures from this rank to rank n.
        let top = (companies.saturating_add(1) / 4).max(1);
        Self {
            companies,
            top,
            sum: bit_length(companies as u128 * largest),
            squares: bit_length(companies as u128 * largest * largest),
            top_sum: bit_length(top as u128 * largest),
        }
    }

    /// Returns the total width of the results, in bits.
    pub(crate) fn width(&self) -> usize {
        self.widths().iter().sum()
    }

    /// Returns the index of the median in descending order, counted from 0. In ascending order, the
    /// median has rank n / 2, rounded up.
    pub(crate) fn above_median(&self) -> usize {
        self.companies / 2
    }

    fn widths(&self) -> [usize; 5] {
        [
            self.sum,
            self.squares,
            FIGURE_BITS,
            FIGURE_BITS,
            self.top_sum,
        ]
    }
}

/// The results that companies learn: exact integers, from which averages and variance are derived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Statistics {
    companies: usize,
    sum: u128,
    sum_of_squares: u128,
    median: u128,
    maximum: u128,
    top_sum: u128,
}

impl Statistics {
    /// Computes the statistics from plain figures.
    ///
    /// # Panics
    /// Panics if there are no figures.
    pub(crate) fn of(figures: &[u32]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_unstable();
        let wide = |figure: &u32| u128::from(*figure);
        let top = Layout::new(sorted.len()).top;
        Self {
            companies: sorted.len(),
            sum: sorted.iter().map(wide).sum(),
            sum_of_squares: sorted.iter().map(|figure| wide(figure).pow(2)).sum(),
            median: wide(&sorted[sorted.len().div_ceil(2) - 1]),
            maximum: wide(&sorted[sorted.len() - 1]),
            top_sum: sorted.iter().rev().take(top).map(wide).sum(),
        }
    }

    /// Parses the results for this number of companies. Returns `None` if the number of bits does
    /// not match.
    pub(crate) fn from_bits(companies: usize, bits: &Bits) -> Option<Self> {
        let layout = Layout::new(companies);
        if bits.len() != layout.width() {
            return None;
        }
        let mut start = 0;
        let mut next = |width: usize| {
            start += width;
            bits.slice(start - width..start).to_u128()
        };
        let [sum, sum_of_squares, median, maximum, top_sum] = layout.widths().map(&mut next);
        Some(Self {
            companies,
            sum: sum?,
            sum_of_squares: sum_of_squares?,
            median: median?,
            maximum: maximum?,
            top_sum: top_sum?,
        })
    }

    /// Returns the number of companies that took part.
    pub(crate) fn companies(&self) -> usize {
        self.companies
    }

    /// Returns the statistics as text for output.
    pub(crate) fn report(&self) -> Report {
        let (n, top) = (self.companies as u128, Layout::new(self.companies).top);
        // The products are below 2^85, so they do not overflow. The subtraction saturates, because
        // dishonest servers may send a sum that is too large for the sum of squares.
        let spread = (n * self.sum_of_squares).saturating_sub(self.sum * self.sum);
        Report {
            companies: self.companies,
            average: decimal(self.sum, n),
            variance: decimal(spread, n * n),
            median: self.median,
            maximum: self.maximum,
            best_in_class: decimal(self.top_sum, top as u128),
            exact: Exact {
                sum: self.sum.to_string(),
                sum_of_squares: self.sum_of_squares.to_string(),
                top_quarter: top,
                top_quarter_sum: self.top_sum.to_string(),
            },
        }
    }
}

/// The statistics in the form that is printed or written as JSON.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Report {
    companies: usize,
    average: String,
    variance: String,
    median: u128,
    maximum: u128,
    best_in_class: String,
    exact: Exact,
}

/// The exact integers, as text because JSON parsers may round large numbers.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
struct Exact {
    sum: String,
    sum_of_squares: String,
    top_quarter: usize,
    top_quarter_sum: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "companies      {}", self.companies)?;
        writeln!(f, "average        {}", self.average)?;
        writeln!(f, "variance       {}", self.variance)?;
        writeln!(f, "median         {}", self.median)?;
        writeln!(f, "maximum        {}", self.maximum)?;
        write!(
            f,
            "best in class  {} (average of the top {})",
            self.best_in_class, self.exact.top_quarter
        )
    }
}

/// Formats a fraction with [`PLACES`] decimal places, rounded to nearest, halves up.
fn decimal(numerator: u128, denominator: u128) -> String {
    let unit = 10_u128.pow(PLACES);
    let denominator = denominator.max(1);
    let (whole, rest) = (numerator / denominator, numerator % denominator);
    // No overflow: the denominator is at most the square of the number of companies.
    let places = (2 * rest * unit + denominator) / (2 * denominator);
    let (whole, places) = (whole + places / unit, places % unit);
    format!("{whole}.{places:0width$}", width = PLACES as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_to_the_nearest() {
        for (numerator, denominator, text) in [
            (0, 7, "0.000000"),
            (1, 3, "0.333333"),
            (2, 3, "0.666667"),
            (1, 2_000_000, "0.000001"),
            (999_999_999, 1_000_000_000, "1.000000"),
            (u128::from(u64::MAX), 1, "18446744073709551615.000000"),
        ] {
            assert_eq!(decimal(numerator, denominator), text);
        }
    }

    #[test]
    fn ranks_are_those_of_the_paper() {
        for n in 3..200_usize {
            let layout = Layout::new(n);
            let least = (3 * n + 3).div_ceil(4);
            assert_eq!(layout.top, n - least + 1, "{n}");
            assert_eq!(n - layout.above_median(), n.div_ceil(2), "{n}");
        }
    }

    #[test]
    fn a_known_sample_has_the_statistics_computed_by_hand() {
        let report = Statistics::of(&[2, 4, 4, 4, 5, 5, 7, 9]).report();
        assert_eq!(
            report.to_string(),
            "companies      8\n\
             average        5.000000\n\
             variance       4.000000\n\
             median         4\n\
             maximum        9\n\
             best in class  8.000000 (average of the top 2)"
        );
    }

    #[test]
    fn results_for_another_number_of_companies_are_rejected() {
        let bits = Bits::zeros(Layout::new(8).width());
        assert!(Statistics::from_bits(8, &bits).is_some());
        assert!(Statistics::from_bits(9, &bits).is_none());
        assert!(Statistics::from_bits(0, &Bits::new()).is_none());
    }
}
