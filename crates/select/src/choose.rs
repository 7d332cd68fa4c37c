//! The trait [`Chooser`], its input and output types, and the chooser by predicted time.

use std::{borrow::Cow, fmt::Debug};

#[cfg(feature = "serde")]
use serde::Serialize;
use transpute_transport::{CongestionControl, Registry, Throughput};

use crate::{
    DirectionEstimate, Model, PathEstimate, Prediction, SelectError, Spec, UdpStatus, Workload,
    path::Seconds,
};

/// A transport counts as noticeably faster than the chosen one if it is faster by more than this
/// factor.
const NOTICEABLE: f64 = 1.05;

/// Chooses a transport.
pub trait Chooser: Debug + Send + Sync {
    /// Returns the name of this chooser in reports, such as `rule`.
    fn name(&self) -> &str;

    /// Returns the model that predicts the times in the ranking.
    fn model(&self) -> &Model {
        Model::shipped()
    }

    /// Returns the score of a candidate. The candidate with the smallest score is chosen.
    fn score(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidate: &Candidate,
        prediction: &Prediction,
    ) -> f64;

    /// Explains in a text why the first item of `ranking` is chosen. `ranking` has at least two
    /// items.
    fn reason(&self, path: &PathEstimate, workload: &Workload, ranking: &[Ranked]) -> String;

    /// Ranks the candidates, best first. Candidates with equal scores keep their order.
    ///
    /// # Errors
    /// Returns [`SelectError::NoCandidate`] if no candidate can be used. Returns
    /// [`SelectError::Number`] if a number is out of range.
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
    /// The reason why the transport cannot be used: it failed to connect, or the peer does not
    /// offer it. `None` if it can be used.
    pub unavailable: Option<String>,
}

/// A candidate with its rank.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Ranked {
    /// The transport.
    pub transport: Spec,
    /// The predicted time of the workload over this transport.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub prediction: Prediction,
    /// The score of this transport. A smaller score is better.
    pub score: f64,
}

/// A ranking of transports, the first of which is chosen, with the reason.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Choice {
    /// All usable transports, best first; never empty.
    ranking: Vec<Ranked>,
    /// The transports that cannot be used, each with the reason.
    pub excluded: Vec<(Spec, String)>,
    /// The name of the chooser.
    pub chooser: String,
    /// The reason why the first transport of the ranking is chosen, as text.
    pub reason: String,
    /// Predicted probability that no other transport is more than 5 % faster than the chosen one.
    pub confidence: f64,
}

/// A chooser by predicted time.
#[derive(Clone, Debug)]
pub struct ModelChooser(Cow<'static, Model>);

impl Candidate {
    /// Returns an available candidate for a built-in transport. `text` is its name, optionally with
    /// settings.
    ///
    /// # Errors
    /// Returns [`SelectError::Transport`] if `text` cannot be parsed.
    pub fn new(text: &str) -> Result<Self, SelectError> {
        Ok(text.parse::<Spec>()?.into())
    }

    /// Returns available candidates for all transports of a registry that `auto` may choose. `auto`
    /// compares these unless the user names others.
    #[must_use]
    pub fn all(registry: &Registry) -> Vec<Self> {
        let names = registry.candidates().map(|transport| transport.name());
        // A name that is not a valid word cannot be written with settings, so it cannot be chosen.
        let specs = names.filter_map(|name| Spec::in_registry(name, registry).ok());
        specs.map(Self::from).collect()
    }

    /// Returns the reason why this transport cannot be used on `path`, or `None` if it can be used.
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
    /// Returns an available candidate.
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
        // The index exists, because a ranking is never empty.
        &self.ranking[0].transport
    }

    /// Returns the prediction for the chosen transport.
    #[must_use]
    pub fn prediction(&self) -> &Prediction {
        &self.ranking[0].prediction
    }

    /// Replaces the predicted times by those for `path`, which was measured after the choice. The
    /// order of the ranking does not change.
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

/// Returns the probability that no other transport is noticeably faster than the first. It is
/// approximated by the minimum, over the other transports, of the probability that this one
/// transport is not noticeably faster. The prediction errors of two transports are assumed to be
/// independent.
fn confidence(ranking: &[Ranked]) -> f64 {
    let first = &ranking[0].prediction;
    (ranking[1..].iter())
        .map(|ranked| {
            let other = &ranked.prediction;
            let lead = (other.seconds * NOTICEABLE / first.seconds).ln();
            let sigma = first.sigma.hypot(other.sigma).max(f64::MIN_POSITIVE);
            // If both times are 0, the quotient is NaN. `clamp` keeps NaN, and `f64::min` ignores
            // it.
            normal((lead / sigma).clamp(-40.0, 40.0))
        })
        .fold(1.0, f64::min)
}

/// Returns the standard normal distribution function, accurate to three digits, by the logistic
/// approximation of Bowling et al., 2009.
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
    /// Creates a chooser that predicts times with `model`.
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
