//! The built-in model as constants, so that the library needs no JSON parser. It is
//! `model/default.json`, as `transpute model fit` has written it; a test compares the two.

use super::{Estimate, FORMAT, Fitted, Model, Parameters, RunSet};
use crate::FitErrors;

/// The parameters of a transport and their errors. Each parameter has its value and the lower and
/// upper end of its interval, in the order of the fields of [`Parameters`]. Each [`FitErrors`] has
/// its number of cells and its three errors.
type Row = (
    &'static str,
    [[f64; 3]; 4],
    Option<[f64; 3]>,
    f64,
    [(usize, [f64; 3]); 2],
);

const ROWS: [Row; 6] = [
    (
        "quic",
        [
            [0.001421, 0.0004267, 0.002611],
            [0.8726, 0.822, 0.9378],
            [3.66e-9, 6.427e-10, 1.462e-8],
            [0.0501, 0.02799, 0.1013],
        ],
        Some([2.05, 1.683, 2.385]),
        0.1502,
        [
            (75, [0.08524, 0.256, 0.9811]),
            (102, [0.08863, 0.42, 0.9615]),
        ],
    ),
    (
        "rudp",
        [
            [0.004553, 0.002412, 0.00894],
            [0.9376, 0.9248, 0.9493],
            [1.981e-9, 6.977e-10, 4.377e-9],
            [0.04822, 0.04385, 0.4174],
        ],
        None,
        0.03,
        [
            (52, [0.01295, 0.07192, 0.9984]),
            (102, [0.02837, 0.162, 0.996]),
        ],
    ),
    (
        "tcp",
        [
            [0.00111, 0.0004145, 0.002308],
            [0.9702, 0.8956, 1.017],
            [1.598e-8, 7.616e-10, 1.835e-8],
            [0.6412, 0.4898, 0.8661],
        ],
        Some([1.192, 1.11, 1.319]),
        0.09988,
        [
            (64, [0.06287, 0.203, 0.9877]),
            (76, [0.07553, 0.4075, 0.9747]),
        ],
    ),
    (
        "tcp-striped",
        [
            [0.006837, 0.0006651, 0.07995],
            [0.5738, 0.4252, 0.7193],
            [2.437e-9, 6.279e-10, 2.133e-8],
            [0.7108, 0.4801, 0.9005],
        ],
        Some([2.777, 1.409, 6.031]),
        0.3752,
        [
            (78, [0.2165, 0.5846, 0.8927]),
            (89, [0.3159, 0.6226, 0.9367]),
        ],
    ),
    (
        "tcp-striped:cc=bbr",
        [
            [0.003649, 0.0005611, 0.07157],
            [0.5645, 0.4383, 0.7236],
            [2.297e-9, 5.203e-10, 1.676e-8],
            [0.03345, 0.01996, 0.1502],
        ],
        Some([1.51, 1.082, 2.045]),
        0.3424,
        [
            (83, [0.1809, 0.6418, 0.8912]),
            (117, [0.2755, 0.5892, 0.9279]),
        ],
    ),
    (
        "tcp:cc=bbr",
        [
            [0.001257, 0.0004188, 0.002728],
            [0.946, 0.8352, 1.029],
            [2.425e-8, 9.958e-10, 3.14e-8],
            [0.08538, 0.03481, 0.1803],
        ],
        Some([1.442, 1.322, 1.628]),
        0.143,
        [
            (79, [0.1015, 0.3438, 0.985]),
            (116, [0.07557, 0.3615, 0.9802]),
        ],
    ),
];

pub(super) fn model() -> Model {
    let errors = |(cells, [median_error, p90_error, r2_log]): (usize, [f64; 3])| FitErrors {
        cells,
        median_error,
        p90_error,
        r2_log,
    };
    let transports = ROWS.map(|(name, parameters, doubling, sigma, [fit, held_out])| {
        let [setup_s, rate_share, byte_s, loss] = parameters.map(estimate);
        let fitted = Fitted {
            parameters: Parameters {
                setup_s,
                rate_share,
                byte_s,
                loss,
                doubling_round_trips: doubling.map(estimate),
            },
            sigma,
            fit: errors(fit),
            held_out: Some(errors(held_out)),
        };
        name.parse().ok().map(|spec| (spec, fitted))
    });
    Model {
        format: FORMAT,
        fitted_to: RunSet {
            name: "docs/results/selection".into(),
            runs: 1527,
            cells: 342,
            held_out_cells: 206,
        },
        transports: transports.into_iter().flatten().collect(),
    }
}

fn estimate([value, low, high]: [f64; 3]) -> Estimate {
    Estimate { value, low, high }
}
