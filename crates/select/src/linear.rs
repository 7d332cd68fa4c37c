//! Least squares with few non-negative unknowns.

/// Sweeps over the unknowns after which what is left to gain is below any use.
const SWEEPS: usize = 500;

/// Returns the non-negative `x` that minimizes the weighted sum of `(row · x - target)^2` plus that of
/// `pull_i (x_i - start_i)^2`.
///
/// By minimizing over one unknown after the other, which converges since the sum is convex; with a pull greater than 0 on
/// each the answer is unique. Deterministic.
pub(crate) fn non_negative<const N: usize>(
    rows: impl IntoIterator<Item = ([f64; N], f64, f64)>,
    start: [f64; N],
    pull: [f64; N],
) -> [f64; N] {
    let mut normal = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (row, target, weight) in rows {
        for i in 0..N {
            for j in 0..N {
                normal[i][j] += weight * row[i] * row[j];
            }
            right[i] += weight * row[i] * target;
        }
    }
    for i in 0..N {
        normal[i][i] += pull[i];
        right[i] += pull[i] * start[i];
    }
    let mut x = start.map(|value| value.max(0.0));
    for _ in 0..SWEEPS {
        for i in 0..N {
            if normal[i][i] > 0.0 {
                let others: f64 = (0..N)
                    .filter(|&j| j != i)
                    .map(|j| normal[i][j] * x[j])
                    .sum();
                x[i] = ((right[i] - others) / normal[i][i]).max(0.0);
            }
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_data_give_their_coefficients_back() {
        let rows = (1..20).map(|i| {
            let x = f64::from(i);
            ([1.0, x, x * x], 3.0 + 0.5 * x + 0.25 * x * x, 1.0)
        });
        let [a, b, c] = non_negative(rows, [1.0; 3], [1e-12; 3]);
        assert!((a - 3.0).abs() < 0.05 && (b - 0.5).abs() < 0.02 && (c - 0.25).abs() < 1e-3);
    }

    #[test]
    fn what_would_be_negative_is_nought() {
        let rows = [([1.0, 1.0], 1.0, 1.0), ([1.0, 2.0], 0.5, 1.0)];
        let [a, b] = non_negative(rows, [0.0; 2], [0.0; 2]);
        assert!(b == 0.0 && (a - 0.75).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn without_data_the_start_stays() {
        assert_eq!(non_negative([], [2.0, 3.0], [1.0, 1.0]), [2.0, 3.0]);
    }
}
