//! Choosing a transport: the trait, the candidates, the choice, and the chooser by predicted time.

use std::borrow::Cow;

use serde::Serialize;

use crate::{Model, PathEstimate, Prediction, SelectError, Spec, Udp, Workload, path::Seconds};

/// Factor by which another transport must be faster for a choice to count as wrong.
const NOTICEABLE: f64 = 1.05;

/// Picks a transport.
///
/// To decide by other rules, implement it; [`Choice::of`] makes the answer.
pub trait Chooser: Send + Sync {
    /// Returns its name in reports, such as `rule`.
    fn name(&self) -> &str;

    /// Ranks the candidates, best first. Their order decides between equal ones.
    ///
    /// # Errors
    /// [`SelectError::NoCandidate`] if none can be used; [`SelectError::Number`] if the path has a number out of range.
    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError>;
}

/// A transport that may be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The transport.
    pub spec: Spec,
    /// Whether its connection is established already.
    pub is_up: bool,
    /// Why it cannot be used, if it cannot: it failed to come up, or the peer does not offer it.
    pub unavailable: Option<String>,
}

/// A candidate in its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The transport.
    pub transport: Spec,
    /// Its predicted time.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// What it was ranked by, smallest first.
    pub score: f64,
}

/// The transport chosen, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// All that can be used, best first; never empty.
    ranking: Vec<Ranked>,
    /// The others, and why they cannot.
    pub excluded: Vec<(Spec, String)>,
    /// The name of the chooser.
    pub chooser: String,
    /// Why the first one, for people.
    pub reason: String,
    /// Probability, by the model, that no other one is more than 5 % faster.
    pub confidence: f64,
}

/// Chooses by predicted time.
#[derive(Clone, Debug)]
pub struct ModelChooser(Cow<'static, Model>);

impl Candidate {
    /// A transport by name and settings that can be used and is not up yet.
    ///
    /// # Errors
    /// [`SelectError::Transport`].
    pub fn new(text: &str) -> Result<Self, SelectError> {
        Ok(Self::of(text.parse()?))
    }

    /// A transport that can be used and is not up yet.
    #[must_use]
    pub fn of(spec: Spec) -> Self {
        Self {
            spec,
            is_up: false,
            unavailable: None,
        }
    }

    /// Marks it as unusable.
    #[must_use]
    pub fn without(self, reason: impl Into<String>) -> Self {
        Self {
            unavailable: Some(reason.into()),
            ..self
        }
    }

    /// Returns why it cannot be used on the path.
    pub(crate) fn obstacle(&self, path: &PathEstimate) -> Option<Cow<'_, str>> {
        if let Some(reason) = &self.unavailable {
            return Some(reason.as_str().into());
        }
        let law = self.spec.law(path.kernel.congestion_control.as_deref());
        let loses = [&path.up, &path.down]
            .into_iter()
            .any(|direction| direction.loss.is_some_and(|loss| loss.lost() > 0));
        let known = &path.kernel.available;
        let lacks = |control: &str| !known.is_empty() && !known.iter().any(|it| it == control);
        if law.needs_udp && path.udp == Udp::Blocked {
            Some("UDP does not pass".into())
        } else if law.dies_of_loss && loses {
            Some("packets are lost, and it repairs nothing".into())
        } else if law.has_kernel_window && self.spec.setting("cc").is_some_and(lacks) {
            Some("the kernel does not have its congestion control".into())
        } else {
            None
        }
    }
}

impl Choice {
    /// Makes a choice from candidates in the order of `score`, smallest first; equal ones stay in the order of the candidates.
    /// `reason` is called with the order.
    ///
    /// # Errors
    /// [`SelectError::NoCandidate`]; [`SelectError::Number`].
    pub fn of(
        chooser: &str,
        model: &Model,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
        score: impl Fn(&Candidate, &Prediction) -> f64,
        reason: impl FnOnce(&[Ranked]) -> String,
    ) -> Result<Self, SelectError> {
        path.validate()?;
        let mut ranking: Vec<Ranked> = Vec::with_capacity(candidates.len());
        let mut excluded = Vec::new();
        for candidate in candidates {
            if let Some(why) = candidate.obstacle(path) {
                excluded.push((candidate.spec.clone(), why.into_owned()));
                continue;
            }
            let prediction = model.predict(&candidate.spec, path, workload)?;
            ranking.push(Ranked {
                score: score(candidate, &prediction),
                transport: candidate.spec.clone(),
                prediction,
            });
        }
        // Stable.
        ranking.sort_by(|a, b| a.score.total_cmp(&b.score));
        if ranking.is_empty() {
            let reasons = excluded.iter().map(|(spec, why)| format!("{spec}: {why}"));
            return Err(SelectError::NoCandidate {
                reasons: reasons.collect(),
            });
        }
        Ok(Self {
            reason: reason(&ranking),
            confidence: confidence(&ranking),
            ranking,
            excluded,
            chooser: chooser.to_owned(),
        })
    }

    /// Returns the transport chosen.
    #[must_use]
    pub fn winner(&self) -> &Spec {
        // Made with one at least.
        &self.ranking[0].transport
    }

    /// Returns the prediction for the transport chosen.
    #[must_use]
    pub fn prediction(&self) -> &Prediction {
        &self.ranking[0].prediction
    }

    /// Returns all that can be used, best first; never empty.
    #[must_use]
    pub fn ranking(&self) -> &[Ranked] {
        &self.ranking
    }
}

/// Returns the probability that no other one is noticeably faster than the first, with independent errors.
fn confidence(ranking: &[Ranked]) -> f64 {
    let [first, others @ ..] = ranking else {
        return 0.0;
    };
    (others.iter())
        .map(|other| {
            let (first, other) = (&first.prediction, &other.prediction);
            let lead = (other.seconds * NOTICEABLE / first.seconds).ln();
            let sigma = first.sigma.hypot(other.sigma).max(f64::MIN_POSITIVE);
            match lead.is_nan() {
                // Both take no time.
                true => 1.0,
                false => normal((lead / sigma).clamp(-40.0, 40.0)),
            }
        })
        .fold(1.0, f64::min)
}

/// The standard normal distribution function, to three digits: a logistic curve after Bowling et al., 2009.
fn normal(x: f64) -> f64 {
    1.0 / (1.0 + (-(0.070_56 * x.powi(3) + 1.597_6 * x)).exp())
}

impl Default for ModelChooser {
    /// With the model that comes with this crate.
    fn default() -> Self {
        Self(Cow::Borrowed(Model::shipped()))
    }
}

impl ModelChooser {
    /// Chooses by this model.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self(Cow::Owned(model))
    }
}

impl Chooser for ModelChooser {
    fn name(&self) -> &str {
        "model"
    }

    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError> {
        let score = |_: &Candidate, prediction: &Prediction| prediction.seconds;
        Choice::of(
            self.name(),
            &self.0,
            path,
            workload,
            candidates,
            score,
            reason,
        )
    }
}

/// Returns the predicted times of the first two.
fn reason(ranking: &[Ranked]) -> String {
    let time = |ranked: &Ranked| Seconds(ranked.prediction.seconds);
    match ranking {
        [first, second, ..] => format!(
            "predicted {}, {} {}",
            time(first),
            second.transport,
            time(second)
        ),
        [only] => format!("the only one that can be used, predicted {}", time(only)),
        [] => String::new(),
    }
}
