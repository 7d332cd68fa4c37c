//! The trait of choosers, candidates, choices, and the chooser by predicted time.

use std::{borrow::Cow, fmt::Debug};

use serde::Serialize;
use transpute_transport::{CongestionControl, Registry, Throughput};

use crate::{
    DirectionEstimate, Model, PathEstimate, Prediction, SelectError, Spec, UdpStatus, Workload,
    path::Seconds,
};

/// Factor by which another transport must be faster for a choice to count as wrong.
const NOTICEABLE: f64 = 1.05;

/// Chooses a transport.
pub trait Chooser: Debug + Send + Sync {
    /// Returns its name in reports, such as `rule`.
    fn name(&self) -> &str;

    /// Returns the model that predicts times.
    fn model(&self) -> &Model {
        Model::shipped()
    }

    /// Returns the score by which a candidate is ranked, smallest first.
    fn score(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidate: &Candidate,
        prediction: &Prediction,
    ) -> f64;

    /// Returns the reason for the first of these, as text. There are at least two.
    fn reason(&self, path: &PathEstimate, workload: &Workload, ranking: &[Ranked]) -> String;

    /// Ranks the candidates, best first. Their order decides between equal ones.
    ///
    /// # Errors
    /// [`SelectError::NoCandidate`] if no candidate can be used; [`SelectError::Number`] if a
    /// number is out of range.
    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError> {
        path.validate()?;
        let (mut ranking, mut excluded) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let transport = candidate.spec.clone();
            if let Some(why) = candidate.obstacle(path) {
                excluded.push((transport, why));
                continue;
            }
            let prediction = self.model().predict(&transport, path, workload)?;
            ranking.push(Ranked {
                transport,
                prediction,
                score: self.score(path, workload, candidate, &prediction),
            });
        }
        ranking.sort_by(|a, b| a.score.total_cmp(&b.score));
        if ranking.is_empty() {
            let reasons = excluded.iter().map(|(spec, why)| format!("{spec}: {why}"));
            return Err(SelectError::NoCandidate {
                reasons: reasons.collect(),
            });
        }
        Ok(Choice {
            reason: match ranking.len() {
                1 => "the only one that can be used".to_owned(),
                _ => self.reason(path, workload, &ranking),
            },
            confidence: confidence(&ranking),
            ranking,
            excluded,
            chooser: self.name().to_owned(),
        })
    }
}

/// A transport that may be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The transport.
    pub spec: Spec,
    /// The reason for which it cannot be used, if there is one: it failed to connect, or the peer
    /// does not offer it.
    pub unavailable: Option<String>,
}

/// A candidate with its rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The transport.
    pub transport: Spec,
    /// Its predicted time.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// The score by which it was ranked, smallest first.
    pub score: f64,
}

/// The chosen transport, with the reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// All usable transports, best first; never empty.
    ranking: Vec<Ranked>,
    /// The other transports, with the reasons for which they cannot be used.
    pub excluded: Vec<(Spec, String)>,
    /// The name of the chooser.
    pub chooser: String,
    /// The reason for the first one, as text.
    pub reason: String,
    /// Probability, by the model, that no other one is more than 5 % faster.
    pub confidence: f64,
}

/// A chooser by predicted time.
#[derive(Clone, Debug)]
pub struct ModelChooser(Cow<'static, Model>);

impl Candidate {
    /// Makes a usable candidate of a built-in transport, by its name and settings.
    ///
    /// # Errors
    /// [`SelectError::Transport`].
    pub fn new(text: &str) -> Result<Self, SelectError> {
        Ok(text.parse::<Spec>()?.into())
    }

    /// Returns the transports of a registry that `auto` may choose, as usable candidates. They are
    /// compared unless the user names others.
    #[must_use]
    pub fn all(registry: &Registry) -> Vec<Self> {
        let names = registry.candidates().map(|transport| transport.name());
        // A name that is not a valid word cannot be written with settings, so it cannot be chosen.
        let specs = names.filter_map(|name| Spec::in_registry(name, registry).ok());
        specs.map(Self::from).collect()
    }

    /// Returns the reason for which it cannot be used on the path.
    fn obstacle(&self, path: &PathEstimate) -> Option<String> {
        let profile = self.spec.profile_under(None);
        let control = match self.spec.profile().map(|profile| profile.throughput) {
            Some(Throughput::Kernel(control)) => control,
            _ => None,
        };
        let loses = |direction: &DirectionEstimate| {
            direction.known.loss.is_some_and(|loss| loss.lost() > 0)
        };
        let known = &path.kernel.available;
        let lacks = |control: CongestionControl| {
            !known.is_empty() && !known.iter().any(|it| it == control.name())
        };
        let reason = if self.unavailable.is_some() {
            return self.unavailable.clone();
        } else if profile.needs_udp && path.udp == UdpStatus::Blocked {
            "UDP does not pass"
        } else if !profile.repairs_losses && (loses(&path.up) || loses(&path.down)) {
            "packets are lost, and it repairs nothing"
        } else if control.is_some_and(lacks) {
            "the kernel does not have its congestion control"
        } else {
            return None;
        };
        Some(reason.to_owned())
    }
}

impl From<Spec> for Candidate {
    /// Makes a usable candidate.
    fn from(spec: Spec) -> Self {
        Self {
            spec,
            unavailable: None,
        }
    }
}

impl Choice {
    /// Returns the chosen transport.
    #[must_use]
    pub fn winner(&self) -> &Spec {
        // Made with at least one.
        &self.ranking[0].transport
    }

    /// Returns the prediction for the chosen transport.
    #[must_use]
    pub fn prediction(&self) -> &Prediction {
        &self.ranking[0].prediction
    }

    /// Replaces the predicted times by those for `path`, which was measured after the choice. Keeps
    /// the order of the candidates.
    pub fn predict(&mut self, model: &Model, path: &PathEstimate, workload: &Workload) {
        for ranked in &mut self.ranking {
            if let Ok(prediction) = model.predict(&ranked.transport, path, workload) {
                ranked.prediction = prediction;
            }
        }
        self.confidence = confidence(&self.ranking);
    }

    /// Returns all usable transports, best first; never empty.
    #[must_use]
    pub fn ranking(&self) -> &[Ranked] {
        &self.ranking
    }
}

/// Returns the probability that no other one is noticeably faster than the first, with independent
/// errors.
fn confidence(ranking: &[Ranked]) -> f64 {
    let first = &ranking[0].prediction;
    (ranking[1..].iter())
        .map(|ranked| {
            let other = &ranked.prediction;
            let lead = (other.seconds * NOTICEABLE / first.seconds).ln();
            let sigma = first.sigma.hypot(other.sigma).max(f64::MIN_POSITIVE);
            // `clamp` keeps NaN, which occurs if both take no time, and `min` ignores it.
            normal((lead / sigma).clamp(-40.0, 40.0))
        })
        .fold(1.0, f64::min)
}

/// Returns the standard normal distribution function to three digits: a logistic curve after
/// Bowling et al., 2009.
fn normal(x: f64) -> f64 {
    1.0 / (1.0 + (-(0.070_56 * x.powi(3) + 1.597_6 * x)).exp())
}

impl Default for ModelChooser {
    /// Uses the built-in model.
    fn default() -> Self {
        Self(Cow::Borrowed(Model::shipped()))
    }
}

impl ModelChooser {
    /// Makes a chooser with this model.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self(Cow::Owned(model))
    }
}

impl Chooser for ModelChooser {
    fn name(&self) -> &str {
        "model"
    }

    fn model(&self) -> &Model {
        &self.0
    }

    fn score(&self, _: &PathEstimate, _: &Workload, _: &Candidate, it: &Prediction) -> f64 {
        it.seconds
    }

    fn reason(&self, _: &PathEstimate, _: &Workload, ranking: &[Ranked]) -> String {
        let [first, second] = [0, 1].map(|place| Seconds(ranking[place].prediction.seconds));
        format!("predicted {first}, {} {second}", ranking[1].transport)
    }
}
