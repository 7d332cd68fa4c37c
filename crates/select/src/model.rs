//! The cost model: how long a workload takes over a transport on a path.
//!
//! `T = fixed + a · set-up + b · round trips + serial + max(c · transfer + g · growth + l · losses, d · computing)`
//!
//! in the spirit of Rebane, *A feasibility analysis of secure multiparty computation deployments*, 2012, section 5, whose
//! `T = f(ping) + bytes / g(bandwidth)` is here with a `g` for each transport that knows of round trips, losses and buffers
//! (the law), so that the effective bandwidth needs no measuring of its own. The factors are fitted; with all of them 1 and
//! `fixed` 0 the model is the theory alone.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    Bound, Goodness, Law, PathEstimate, SelectError, Setup, Shape, Spec, Udp, Workload,
    error::checked,
    terms::{Plausible, Point, Terms},
};

/// The version of the JSON.
const FORMAT: u32 = 1;

/// A model has a few kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The model that comes with this crate.
const DEFAULT: &str = include_str!("../model/default.json");

/// Standard deviation of the logarithm where nothing was fitted.
const THEORY_SIGMA: f64 = 0.35;
const GENERIC_SIGMA: f64 = 0.7;

/// Fitted laws by transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    runs: RunSet,
    transports: BTreeMap<Spec, Fitted>,
}

/// Which runs a model was fitted to.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunSet {
    /// What they are called.
    pub name: String,
    /// How many runs.
    pub runs: usize,
    /// Of how many cells: a cell is a path and a workload.
    pub cells: usize,
    /// How many of the cells were left out of the fit to check it.
    pub held_out_cells: usize,
}

/// What was found for one transport.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// What is no factor.
    pub shape: Shape,
    /// The factors.
    pub factors: Factors,
    /// How far off predictions are.
    pub spread: Spread,
    /// How well the runs fit that the fit saw.
    pub fit: Goodness,
    /// How well those fit that it did not see.
    pub held_out: Option<Goodness>,
}

/// The factors of a model; 1 is the theory, but for `fixed_s`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Factors {
    /// Seconds that every set-up takes beside its round trips.
    pub fixed_s: f64,
    /// On the round trips of the set-up.
    pub setup: f64,
    /// On the round trips of the protocol.
    pub rounds: f64,
    /// On carrying bytes at the rate that is reached.
    pub carriage: f64,
    /// On coming to that rate.
    pub growth: f64,
    /// On what losses add.
    pub loss: f64,
    /// On computing.
    pub compute: f64,
}

/// Standard deviation of the logarithm of measured over predicted time.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Where losses are unlikely to meet the run.
    pub quiet: f64,
    /// Where they are sure to.
    pub lossy: f64,
    /// How much longer a run takes on average than is predicted: predictions are of what is likeliest, and now and then a run takes
    /// much longer.
    #[serde(default)]
    pub excess: Excess,
}

/// How much longer a run takes on average than is predicted, as factors: a timer of 0.2 s is nothing to a long path, and everything to
/// a short one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Excess {
    /// On paths of 20 ms and less.
    pub near: f64,
    /// On paths of 80 ms and more.
    pub far: f64,
}

impl Default for Excess {
    fn default() -> Self {
        Self {
            near: 1.0,
            far: 1.0,
        }
    }
}

impl Excess {
    /// Returns how far a path is, from 0 to 1, given its round-trip time in seconds.
    pub(crate) fn farness(rtt: f64) -> f64 {
        const NEAR_S: f64 = 0.02;
        const FAR_S: f64 = 0.08;
        ((rtt.max(1e-9) / NEAR_S).ln() / (FAR_S / NEAR_S).ln()).clamp(0.0, 1.0)
    }

    fn at(&self, rtt: f64) -> f64 {
        self.near + (self.far - self.near) * Self::farness(rtt)
    }
}

/// A predicted time and what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// From the first packet of the set-up to the output, in seconds.
    pub seconds: f64,
    /// Standard deviation of the logarithm of the time: of what the model does not know, given the path.
    pub sigma_model: f64,
    /// Standard deviation of the logarithm of the time: of what is not known of the path.
    pub sigma_path: f64,
    /// What to expect on average is so many times `seconds`: by it choices are made.
    pub excess: f64,
    /// What the time is made of.
    pub parts: TimeParts,
    /// What bounds the rate towards the evaluator.
    pub bound: Bound,
}

/// Parts of a predicted time, in seconds; their sum is the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeParts {
    /// Until the link is up.
    pub setup_s: f64,
    /// Round trips that the protocol waits for.
    pub rounds_s: f64,
    /// What coming to the rate of the path adds.
    pub growth_s: f64,
    /// The bytes at the rate that is reached.
    pub transfer_s: f64,
    /// What losses add.
    pub loss_s: f64,
    /// Computing that nothing else hides.
    pub compute_s: f64,
}

impl Prediction {
    /// Returns the standard deviation of the logarithm of the time.
    #[must_use]
    pub fn sigma(&self) -> f64 {
        self.sigma_model.hypot(self.sigma_path)
    }

    /// Returns between which times the run takes with about 80 % probability, in seconds.
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        let off = (1.28 * self.sigma()).exp();
        (self.seconds / off, self.seconds * off)
    }
}

/// One transport's law with its fit.
pub(crate) struct Ready<'a> {
    law: Law,
    fitted: &'a Fitted,
}

impl Ready<'_> {
    pub(crate) fn terms(&self, point: &Point, workload: &Workload) -> Terms {
        Terms::of(&self.law, &self.fitted.shape, point, workload)
    }

    /// Returns the time in seconds, of which the set-up is replaced if something is known of it.
    pub(crate) fn seconds(&self, point: &Point, workload: &Workload, setup: Setup) -> f64 {
        let [up, run] = self.terms(point, workload).seconds(&self.fitted.factors);
        setup.left(up, point.rtt) + run
    }

    /// Returns what is left of the set-up, in seconds.
    pub(crate) fn left(&self, point: &Point, workload: &Workload, setup: Setup) -> f64 {
        let [up, _] = self.terms(point, workload).seconds(&self.fitted.factors);
        setup.left(up, point.rtt)
    }

    /// Returns the time to expect on average, in seconds.
    pub(crate) fn expected(&self, point: &Point, workload: &Workload, setup: Setup) -> f64 {
        self.fitted.spread.excess.at(point.rtt) * self.seconds(point, workload, setup)
    }

    /// Says whether its set-up tells rates and losses of the path.
    pub(crate) fn is_probe(&self) -> bool {
        self.law.train_bytes > 0.0
    }

    pub(crate) fn predict(
        &self,
        plausible: &Plausible,
        workload: &Workload,
        setup: Setup,
    ) -> Prediction {
        let factors = &self.fitted.factors;
        let terms = self.terms(&plausible.mid(), workload);
        let mut parts = terms.split(factors);
        let [up, run] = terms.seconds(factors);
        let left = setup.left(up, plausible.mid().rtt);
        parts.setup_s = left;
        let at = |rate, loss| self.seconds(&plausible.at(rate, loss), workload, setup);
        // Two standard deviations each way.
        let quarter = |low: f64, high: f64| (high / low).ln().abs() / 4.0;
        let by_rate = quarter(at(|r| r.low, |l| l.mid), at(|r| r.high, |l| l.mid));
        let by_loss = quarter(at(|r| r.mid, |l| l.low), at(|r| r.mid, |l| l.high));
        let Spread {
            quiet,
            lossy,
            excess,
        } = self.fitted.spread;
        let sigma_path = by_rate.hypot(by_loss);
        Prediction {
            seconds: left + run,
            sigma_model: quiet + (lossy - quiet) * terms.lossiness,
            // Where everything takes no time, nothing is uncertain.
            sigma_path: if sigma_path.is_finite() {
                sigma_path
            } else {
                0.0
            },
            excess: excess.at(plausible.mid().rtt),
            parts,
            bound: terms.bound(factors),
        }
    }
}

impl Model {
    pub(crate) fn new(runs: RunSet, transports: BTreeMap<Spec, Fitted>) -> Self {
        Self { runs, transports }
    }

    /// Returns the model that comes with this crate.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED: std::sync::LazyLock<Model> = std::sync::LazyLock::new(|| {
            Model::from_json(DEFAULT, "the model that comes with transpute").unwrap_or_else(
                |error| {
                    // A test reads it; if it were wrong all the same, the theory still chooses.
                    tracing::error!(%error, "cannot read the shipped model");
                    Model::theory()
                },
            )
        });
        &SHIPPED
    }

    /// Returns the laws as they are in the literature, fitted to nothing.
    #[must_use]
    pub fn theory() -> Self {
        Self::new(
            RunSet {
                name: "theory, fitted to no runs".to_owned(),
                ..RunSet::default()
            },
            BTreeMap::new(),
        )
    }

    /// Returns which runs it was fitted to.
    #[must_use]
    pub fn runs(&self) -> &RunSet {
        &self.runs
    }

    /// Returns what was found for each transport, by name.
    pub fn transports(&self) -> impl Iterator<Item = (&Spec, &Fitted)> {
        self.transports.iter()
    }

    /// Predicts a workload over a transport.
    ///
    /// # Errors
    /// [`SelectError::Number`] if the path has a number that is none.
    pub fn predict(
        &self,
        spec: &Spec,
        path: &PathEstimate,
        workload: &Workload,
    ) -> Result<Prediction, SelectError> {
        path.validate()?;
        let mut substitute = None;
        let ready = self.ready(spec, path, &mut substitute);
        Ok(ready.predict(&Plausible::of(path), workload, Setup::Whole))
    }

    /// Returns what was fitted for a transport: with these settings, or else with others of the same law.
    fn fitted(&self, spec: &Spec, law: &Law) -> Option<&Fitted> {
        // Plain `tcp` follows another law where the kernel's congestion control is another.
        let follows = |known: &Spec| known.law(None).family == law.family;
        let exact = self.transports.get(spec).filter(|_| follows(spec));
        exact.or_else(|| {
            (self.transports.iter())
                .find(|(known, _)| known.name() == spec.name() && follows(known))
                .map(|(_, fitted)| fitted)
        })
    }

    /// Returns what to reckon with where nothing was fitted of a transport under this law: what was fitted of it with another
    /// congestion control, but for how it bears losses; else the theory.
    fn substitute(&self, spec: &Spec, law: &Law) -> Fitted {
        let mut fitted = Fitted::theory(law);
        let same_name = |known: &&Spec| known.name() == spec.name();
        if let Some(other) = self
            .transports
            .keys()
            .find(same_name)
            .and_then(|known| self.transports.get(known))
        {
            fitted.factors = other.factors;
            fitted.shape = Shape {
                loss: fitted.shape.loss,
                ..other.shape
            };
            fitted.spread = Spread {
                quiet: 1.5 * other.spread.quiet,
                ..fitted.spread
            };
        }
        fitted
    }

    /// Returns a transport's law with its fit. What was not fitted is put into `substitute`.
    pub(crate) fn ready<'a>(
        &'a self,
        spec: &Spec,
        path: &PathEstimate,
        substitute: &'a mut Option<Fitted>,
    ) -> Ready<'a> {
        let law = spec.law(path.kernel.congestion_control.as_deref());
        let fitted = match self.fitted(spec, &law) {
            Some(fitted) => fitted,
            None => substitute.insert(self.substitute(spec, &law)),
        };
        Ready { law, fitted }
    }

    /// Reads and checks the JSON of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`SelectError::Content`], which names `origin`.
    pub fn from_json(text: &str, origin: &str) -> Result<Self, SelectError> {
        let content = |problem: String| SelectError::Content {
            origin: origin.to_owned(),
            problem,
        };
        let written: Written =
            serde_json::from_str(text).map_err(|error| content(error.to_string()))?;
        if written.format != FORMAT {
            return Err(content(format!(
                "a model of format {}; expected {FORMAT}",
                written.format
            )));
        }
        for (spec, fitted) in &written.transports {
            (fitted.validate()).map_err(|error| content(format!("{spec}: {error}")))?;
        }
        Ok(Self::new(written.fitted_to, written.transports))
    }

    /// Returns the model as JSON, which names its format and the runs it was fitted to.
    #[must_use]
    pub fn to_json(&self) -> String {
        let written = Written {
            format: FORMAT,
            fitted_to: self.runs.clone(),
            transports: self.transports.clone(),
        };
        // Strings, finite numbers and maps with strings for keys: nothing that JSON cannot hold.
        let mut text = serde_json::to_string_pretty(&written).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// [`SelectError::File`] or [`SelectError::Content`].
    pub fn load(path: &Path) -> Result<Self, SelectError> {
        let cannot = |source| SelectError::File {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(cannot)?;
        let mut text = String::new();
        (file.take(MAX_FILE_BYTES).read_to_string(&mut text)).map_err(cannot)?;
        Self::from_json(&text, &path.display().to_string())
    }

    /// Writes the model to a file, whole or not at all.
    ///
    /// # Errors
    /// [`SelectError::File`].
    pub fn save(&self, path: &Path) -> Result<(), SelectError> {
        crate::files::replace(path, self.to_json().as_bytes())
    }
}

impl Fitted {
    /// Returns the theory of a law.
    pub(crate) fn theory(law: &Law) -> Self {
        let sigma = match law.is_generic {
            true => GENERIC_SIGMA,
            false => THEORY_SIGMA,
        };
        Self {
            shape: Shape::theory(law),
            factors: Factors::THEORY,
            spread: Spread {
                quiet: sigma,
                lossy: 2.0 * sigma,
                excess: Excess::default(),
            },
            fit: Goodness::default(),
            held_out: None,
        }
    }

    fn validate(&self) -> Result<(), SelectError> {
        self.shape.validate()?;
        let Factors {
            fixed_s,
            setup,
            rounds,
            carriage,
            growth,
            loss,
            compute,
        } = self.factors;
        for (field, value) in [
            ("fixed_s", fixed_s),
            ("setup", setup),
            ("rounds", rounds),
            ("carriage", carriage),
            ("growth", growth),
            ("loss", loss),
            ("compute", compute),
            ("spread.quiet", self.spread.quiet),
            ("spread.lossy", self.spread.lossy),
            ("spread.excess.near", self.spread.excess.near),
            ("spread.excess.far", self.spread.excess.far),
        ] {
            checked(field, value, (0.0, 1e3), "0 to 1000")?;
        }
        Ok(())
    }
}

impl Factors {
    /// All 1, nothing fixed.
    pub const THEORY: Self = Self {
        fixed_s: 0.0,
        setup: 1.0,
        rounds: 1.0,
        carriage: 1.0,
        growth: 1.0,
        loss: 1.0,
        compute: 1.0,
    };
}

/// [`Model`] in a file.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u32,
    fitted_to: RunSet,
    transports: BTreeMap<Spec, Fitted>,
}

/// Whether a transport can be used on a path at all, and why not.
pub(crate) fn obstacle(spec: &Spec, path: &PathEstimate) -> Option<&'static str> {
    let law = spec.law(path.kernel.congestion_control.as_deref());
    if law.needs_udp && path.udp == Udp::Blocked {
        return Some("UDP does not pass");
    }
    let lost = |direction: &crate::Direction| direction.loss.is_some_and(|loss| loss.lost() > 0);
    if law.dies_of_loss && (lost(&path.up) || lost(&path.down)) {
        return Some("packets are lost, and it repairs nothing");
    }
    if let Some(control) = spec.setting("cc")
        && law.has_kernel_window
        && !path.kernel.available.is_empty()
        && !path.kernel.available.iter().any(|known| known == control)
    {
        return Some("the kernel does not have its congestion control");
    }
    None
}
