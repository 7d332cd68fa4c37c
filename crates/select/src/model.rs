//! The cost model: at most five fitted parameters for each transport, each with a physical meaning.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{Family, Goodness, Law, SelectError, Spec, error::checked};

/// Version of the JSON.
const FORMAT: u32 = 2;

/// Limit of a model file, in bytes; the shipped one has 5 kB.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The model that comes with this crate.
const DEFAULT: &str = include_str!("../model/default.json");

/// Standard deviation of the logarithm of the time where nothing was fitted: a factor of 1.4, or of 2 for an unknown transport.
const THEORY_SIGMA: f64 = 0.35;
const GENERIC_SIGMA: f64 = 0.7;

/// Fitted parameters by transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    runs: RunSet,
    transports: BTreeMap<Spec, Fitted>,
}

/// The runs that a model was fitted to.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunSet {
    /// A description for people.
    pub name: String,
    /// Number of runs.
    pub runs: usize,
    /// Number of cells: a cell is a path and a workload.
    pub cells: usize,
    /// Number of cells that were left out of the fit to check it.
    pub held_out_cells: usize,
}

/// The result of a fit for one transport.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The parameters.
    pub parameters: Parameters,
    /// Standard deviation of the logarithm of measured over predicted time.
    pub sigma: f64,
    /// Errors in the cells that the fit has seen.
    pub fit: Goodness,
    /// Errors in the cells that it has not seen.
    pub held_out: Option<Goodness>,
}

/// The parameters of a transport.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Time of the set-up beyond its round trips, in seconds: cryptography and scheduling at both ends.
    pub setup_s: Estimate,
    /// Share of the bottleneck's rate that payload reaches; the rest is headers, corrections and idle time.
    pub rate_share: Estimate,
    /// Processor time that a byte takes at the busier end to be framed, encrypted, copied and sent, in seconds.
    pub byte_s: Estimate,
    /// Of a window: factor on the average window that RFC 9438 predicts with losses. Of the others: the loss that halves their rate.
    pub loss: Estimate,
    /// Round trips until the rate has doubled while a connection starts; absent where the set-up has measured the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubling_round_trips: Option<Estimate>,
}

/// A value with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The most likely value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The values of [`Parameters`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Values {
    pub(crate) setup_s: f64,
    pub(crate) rate_share: f64,
    pub(crate) byte_s: f64,
    pub(crate) loss: f64,
    pub(crate) doubling_round_trips: f64,
}

impl Values {
    /// Returns the values in the literature and the sources of the transports, before any fit.
    pub(crate) fn theory(law: &Law) -> Self {
        Self {
            // An Ed25519 signature and an X25519MLKEM768 key exchange on either side, and waking two processes.
            setup_s: 2e-3,
            // 1,448 bytes of payload in packets of 1,500.
            rate_share: 0.96,
            // docs/performance.md: AES-GCM and two copies at 3 to 4 Gbit/s.
            byte_s: 2.3e-9,
            loss: match law.family {
                Family::Window => 1.0,
                Family::Model => 0.05,
                Family::Rate => 0.2,
            },
            doubling_round_trips: 1.0,
        }
    }

    /// Returns the values in the order of [`Parameters::named`].
    pub(crate) fn to_vec(self, law: &Law) -> Vec<f64> {
        let mut all = vec![self.setup_s, self.rate_share, self.byte_s, self.loss];
        if law.family != Family::Rate {
            all.push(self.doubling_round_trips);
        }
        all
    }

    pub(crate) fn from_slice(all: &[f64]) -> Self {
        Self {
            setup_s: all[0],
            rate_share: all[1],
            byte_s: all[2],
            loss: all[3],
            doubling_round_trips: all.get(4).copied().unwrap_or(1.0),
        }
    }
}

impl Estimate {
    fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
        }
    }
}

impl Parameters {
    /// Returns the parameters in the order of [`Values::to_vec`].
    pub(crate) fn from_slice(all: &[Estimate]) -> Self {
        Self {
            setup_s: all[0],
            rate_share: all[1],
            byte_s: all[2],
            loss: all[3],
            doubling_round_trips: all.get(4).copied(),
        }
    }

    /// Returns the parameters with their names, in the order of the file.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Estimate)> {
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

    pub(crate) fn values(&self) -> Values {
        let all: Vec<f64> = self.named().map(|(_, estimate)| estimate.value).collect();
        Values::from_slice(&all)
    }

    fn validate(&self) -> Result<(), SelectError> {
        for (field, Estimate { value, low, high }) in self.named() {
            let expected = "a value from 1e-12 to 1e3 within its interval";
            checked(field, value, (1e-12, 1e3), expected)?;
            checked(field, value, (low, high), expected)?;
        }
        Ok(())
    }
}

impl Fitted {
    /// Returns the theory of a law.
    pub(crate) fn theory(law: &Law) -> Self {
        let values = Values::theory(law).to_vec(law);
        let estimates: Vec<Estimate> = values.into_iter().map(Estimate::exact).collect();
        Self {
            parameters: Parameters::from_slice(&estimates),
            sigma: match law.is_generic {
                true => GENERIC_SIGMA,
                false => THEORY_SIGMA,
            },
            fit: Goodness::default(),
            held_out: None,
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
                    // A test reads it. If it were wrong all the same, the theory would do.
                    tracing::error!(%error, "cannot read the shipped model");
                    Model::theory()
                },
            )
        });
        &SHIPPED
    }

    /// Returns the laws with the parameters of the literature, fitted to nothing.
    #[must_use]
    pub fn theory() -> Self {
        let runs = RunSet {
            name: "theory, fitted to no runs".to_owned(),
            ..RunSet::default()
        };
        Self::new(runs, BTreeMap::new())
    }

    /// Returns the runs that it was fitted to.
    #[must_use]
    pub fn runs(&self) -> &RunSet {
        &self.runs
    }

    /// Returns the fit of each transport, by name.
    pub fn transports(&self) -> impl Iterator<Item = (&Spec, &Fitted)> {
        self.transports.iter()
    }

    /// Returns the fit of a transport with this law: with these settings, else with others of the same family, else the theory.
    pub(crate) fn fitted(&self, spec: &Spec, law: &Law) -> Fitted {
        // Plain `tcp` follows another law where the kernel's congestion control is another.
        let follows = |known: &Spec| known.law(None).family == law.family;
        let exact = self.transports.get(spec).filter(|_| follows(spec));
        let similar = || {
            let known = |known: &Spec| known.name() == spec.name() && follows(known);
            (self.transports.iter()).find_map(|(spec, fitted)| known(spec).then_some(fitted))
        };
        (exact.or_else(similar).cloned()).unwrap_or_else(|| Fitted::theory(law))
    }

    /// Parses and checks the JSON of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`SelectError::Content`], which names `origin`.
    pub fn from_json(text: &str, origin: &str) -> Result<Self, SelectError> {
        let content = |problem: String| SelectError::Content {
            origin: origin.to_owned(),
            problem,
        };
        let file: ModelFile =
            serde_json::from_str(text).map_err(|error| content(error.to_string()))?;
        if file.format != FORMAT {
            let found = file.format;
            return Err(content(format!(
                "a model of format {found}; expected {FORMAT}"
            )));
        }
        for (spec, fitted) in &file.transports {
            (fitted.parameters.validate())
                .and_then(|()| checked("sigma", fitted.sigma, (0.0, 10.0), "0 to 10"))
                .map_err(|error| content(format!("{spec}: {error}")))?;
        }
        Ok(Self::new(file.fitted_to, file.transports))
    }

    /// Returns the model as JSON, with its format and the runs it was fitted to.
    #[must_use]
    pub fn to_json(&self) -> String {
        let file = ModelFile {
            format: FORMAT,
            fitted_to: self.runs.clone(),
            transports: self.transports.clone(),
        };
        // Strings, finite numbers, and maps with strings for keys: nothing that JSON cannot hold.
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
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

    /// Writes the model to a file.
    ///
    /// # Errors
    /// [`SelectError::File`].
    pub fn save(&self, path: &Path) -> Result<(), SelectError> {
        fs::write(path, self.to_json()).map_err(|source| SelectError::File {
            path: path.to_owned(),
            source,
        })
    }
}

/// [`Model`] in a file.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    format: u32,
    fitted_to: RunSet,
    transports: BTreeMap<Spec, Fitted>,
}
