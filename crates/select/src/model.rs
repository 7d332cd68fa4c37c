//! The cost model: at most five fitted parameters for each transport, each with a physical meaning.

#[cfg(feature = "serde")]
mod json;
mod shipped;

use std::{collections::BTreeMap, sync::LazyLock};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use transpute_transport::{Profile, Throughput};

use crate::{FitErrors, Spec};

/// Version of the JSON format of model files.
const FORMAT: u32 = 2;

/// Standard deviation of the logarithm of the predicted time without a fit: a factor of 1.4. It is
/// a factor of 2 for a transport that is missing in the model's runs or has no profile.
const THEORY_SIGMA: f64 = 0.35;
const UNKNOWN_SIGMA: f64 = 0.7;

/// The cost model: fitted parameters of each transport.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Model {
    format: u32,
    /// The runs that the model was fitted to.
    pub fitted_to: RunSet,
    /// The fit of each transport.
    pub transports: BTreeMap<Spec, Fitted>,
}

/// The runs that a model was fitted to.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RunSet {
    /// The name of the set, which describes its runs.
    pub name: String,
    /// Number of runs.
    pub runs: usize,
    /// Number of cells, which are combinations of path and workload.
    pub cells: usize,
    /// Number of cells that were not used for the fit, but to check it.
    pub held_out_cells: usize,
}

/// The result of a fit for one transport.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Fitted {
    /// The parameters.
    pub parameters: Parameters,
    /// Standard deviation of the logarithm of measured over predicted time.
    pub sigma: f64,
    /// Prediction errors in the cells to which the parameters were fitted.
    pub fit: FitErrors,
    /// Prediction errors in the cells that were not used for the fit. `None` if there are none.
    pub held_out: Option<FitErrors>,
}

/// The parameters of a transport in the cost model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Parameters<T = Estimate> {
    /// Time of the set-up in addition to its round trips, in seconds: cryptography and scheduling
    /// at both ends.
    pub setup_s: T,
    /// Share of the bottleneck's rate that payload reaches; the rest is headers, corrections and
    /// idle time.
    pub rate_share: T,
    /// Processor time per byte at the busier end, in seconds, for framing, encrypting, copying and
    /// sending.
    pub byte_s: T,
    /// For loss-based congestion control, this factor multiplies the average window that RFC 9438
    /// predicts. For other transports, it is the loss probability that halves the rate.
    pub loss: T,
    /// Number of round trips in which the rate doubles at the start of a connection. `None` if the
    /// set-up measures the rate.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub doubling_round_trips: Option<T>,
}

/// A value with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Estimate {
    /// The most likely value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The most likely values of the parameters, without their intervals.
pub(crate) type Values = Parameters<f64>;

impl Values {
    /// Returns the values before any fit, taken from the literature and the source code of the
    /// transports.
    pub(crate) fn theory(profile: &Profile) -> Self {
        Self {
            // The time of an Ed25519 signature and an X25519MLKEM768 key exchange at each end, and
            // of waking two processes.
            setup_s: 2e-3,
            // Packets of 1,500 bytes carry 1,448 bytes of payload.
            rate_share: 0.96,
            // AES-GCM and two copies run at 3 to 4 Gbit/s (docs/performance.md).
            byte_s: 2.3e-9,
            loss: match profile.throughput {
                Throughput::Model => 0.05,
                Throughput::MeasuredRate => 0.2,
                _ => 1.0,
            },
            doubling_round_trips: (profile.throughput != Throughput::MeasuredRate).then_some(1.0),
        }
    }
}

impl<T: Copy> Parameters<T> {
    /// Returns the parameters in the order of [`named`](Self::named).
    pub(crate) fn from_slice(all: &[T]) -> Self {
        Self {
            setup_s: all[0],
            rate_share: all[1],
            byte_s: all[2],
            loss: all[3],
            doubling_round_trips: all.get(4).copied(),
        }
    }

    /// Returns the parameters with their names, in the order of the file.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, T)> {
        let doubling = (self.doubling_round_trips).map(|it| ("doubling_round_trips", it));
        [
            ("setup_s", self.setup_s),
            ("rate_share", self.rate_share),
            ("byte_s", self.byte_s),
            ("loss", self.loss),
        ]
        .into_iter()
        .chain(doubling)
    }

    pub(crate) fn map<U: Copy>(&self, of: impl Fn(T) -> U) -> Parameters<U> {
        let all: Vec<U> = self.named().map(|(_, it)| of(it)).collect();
        Parameters::from_slice(&all)
    }
}

impl Fitted {
    /// Returns the parameters of the theory for a profile, with `sigma` as the standard deviation.
    fn theory(profile: &Profile, sigma: f64) -> Self {
        Self {
            parameters: Values::theory(profile).map(|value| Estimate {
                value,
                low: value,
                high: value,
            }),
            sigma,
            fit: FitErrors::default(),
            held_out: None,
        }
    }
}

impl Model {
    pub(crate) fn new(fitted_to: RunSet, transports: BTreeMap<Spec, Fitted>) -> Self {
        Self {
            format: FORMAT,
            fitted_to,
            transports,
        }
    }

    /// Returns the built-in model.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Model> = LazyLock::new(shipped::model);
        &SHIPPED
    }

    /// Returns a model without fits. It predicts with parameters from the literature.
    #[must_use]
    pub fn theory() -> Self {
        let runs = RunSet {
            name: "theory, fitted to no runs".to_owned(),
            ..RunSet::default()
        };
        Self::new(runs, BTreeMap::new())
    }

    /// Returns the parameters for a transport. They come from the fit of the same transport and
    /// settings, else from a fit with other settings but the same way to find the rate, else from
    /// the theory.
    pub(crate) fn fitted(&self, spec: &Spec, profile: &Profile) -> Fitted {
        // The model of plain `tcp` depends on the kernel's default congestion control.
        let follows = |known: &Spec| known.profile_under(None).throughput == profile.throughput;
        let exact = self.transports.get(spec).filter(|_| follows(spec));
        let is_named = |known: &Spec| known.name() == spec.name();
        let similar = || {
            let known = |known: &Spec| is_named(known) && follows(known);
            (self.transports.iter()).find_map(|(spec, fitted)| known(spec).then_some(fitted))
        };
        (exact.or_else(similar).cloned()).unwrap_or_else(|| {
            let is_known = self.transports.is_empty() || self.transports.keys().any(is_named);
            let sigma = match is_known && spec.profile().is_some() {
                true => THEORY_SIGMA,
                false => UNKNOWN_SIGMA,
            };
            Fitted::theory(profile, sigma)
        })
    }
}
