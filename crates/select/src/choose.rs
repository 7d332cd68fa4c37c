//! Choosing a transport: the trait, the choice, and the chooser by model.

use std::borrow::Cow;

use serde::Serialize;

use crate::{
    Candidate, Family, Model, PathEstimate, Prediction, SelectError, Settlement, Spec, TimeParts,
    Workload,
    path::{Seconds, Short},
    settle::{self, INSURANCE, NEXT_DOOR_S},
    terms::Plausible,
};

/// A gain that a prediction cannot promise, as a fraction: below it, the order of the candidates decides.
const TIE: f64 = 0.02;

/// Losses that a look has not ruled out if it was too short to count for much: of a train that a short queue cut off after two
/// dozen packets none is lost on most paths that lose one in a hundred.
const SHORT_LOOK: f64 = 0.05;

/// Picks a transport.
///
/// Implement it to decide by rules of your own; [`Choice::of`] makes the answer.
pub trait Chooser: Send + Sync {
    /// Returns what stands in reports, such as `model`.
    fn name(&self) -> &str;

    /// Ranks the candidates, best first. Their order decides where nothing else does.
    ///
    /// # Errors
    /// [`SelectError::NoCandidate`] if none can be used; [`SelectError::Number`] if the path has a number that is none.
    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError>;

    /// Tells whether knowing the path better could change the choice, and what it could gain.
    ///
    /// A chooser that does not look at the path need not: that is the default.
    ///
    /// # Errors
    /// Those of [`choose`](Self::choose).
    fn settlement(
        &self,
        _path: &PathEstimate,
        _workload: &Workload,
        _candidates: &[Candidate],
    ) -> Result<Settlement, SelectError> {
        Ok(Settlement::SETTLED)
    }
}

/// A candidate in its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The transport.
    pub transport: Spec,
    /// What the model predicts.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// What it was ranked by, smallest first: the time to expect on average with the user's bias, for the chooser by model.
    pub score: f64,
}

/// Which transport, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// All that can be used, best first; never empty.
    ranking: Vec<Ranked>,
    /// The others, and why they cannot.
    pub excluded: Vec<(Spec, String)>,
    /// What chose.
    pub chooser: String,
    /// Why the first one, for people to read.
    pub reason: String,
    /// How likely no other one is more than 5 % faster, by what is known of path and model.
    pub confidence: f64,
}

/// A user's leaning towards or away from a transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Bias {
    /// The transport, by name or with settings.
    pub transport: String,
    /// What its time is multiplied by: below 1 it is preferred.
    pub factor: f64,
}

/// Chooses by predicted time: the default.
#[derive(Clone, Debug)]
pub struct ModelChooser {
    model: Cow<'static, Model>,
    biases: Vec<Bias>,
    stick: Option<(Spec, f64)>,
}

/// Takes the transport of that name, if it can be used, without looking at the path.
#[derive(Clone, Debug)]
pub struct Named(Spec);

impl Choice {
    /// Makes a choice from candidates in the order of `score`, which is smallest for the best; equal ones stay in the order
    /// of the candidates. `reason` is asked when the order is known.
    ///
    /// # Errors
    /// [`SelectError::NoCandidate`]; [`SelectError::Number`].
    pub fn of(
        chooser: &str,
        model: &Model,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
        score: impl Fn(&Spec, &Prediction) -> f64,
        reason: impl FnOnce(&[Ranked]) -> String,
    ) -> Result<Self, SelectError> {
        path.validate()?;
        let plausible = Plausible::of(path);
        let mut ranking: Vec<Ranked> = Vec::with_capacity(candidates.len());
        let mut excluded = Vec::new();
        for candidate in candidates {
            if let Some(why) = candidate.obstacle(path) {
                excluded.push((candidate.spec.clone(), why.into_owned()));
                continue;
            }
            let mut substitute = None;
            let ready = model.ready(&candidate.spec, path, &mut substitute);
            let prediction = ready.predict(&plausible, workload, candidate.setup);
            ranking.push(Ranked {
                score: score(&candidate.spec, &prediction),
                transport: candidate.spec.clone(),
                prediction,
            });
        }
        // Stable.
        ranking.sort_by(|a, b| a.score.total_cmp(&b.score));
        if ranking.is_empty() {
            return Err(SelectError::NoCandidate {
                reasons: (excluded.iter())
                    .map(|(spec, why)| format!("{spec}: {why}"))
                    .collect(),
            });
        }
        let reason = reason(&ranking);
        let confidence = confidence(&ranking);
        Ok(Self {
            ranking,
            excluded,
            chooser: chooser.to_owned(),
            reason,
            confidence,
        })
    }

    /// Returns the transport chosen.
    #[must_use]
    pub fn winner(&self) -> &Spec {
        // Made with one at least.
        &self.ranking[0].transport
    }

    /// Returns what is predicted for the transport chosen.
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

/// Returns how likely no other one is more than 5 % faster than the first.
///
/// Errors of the model count as independent from one transport to another; what is not known of the path hits all alike and
/// is left out: whether it matters is what [`Settlement`] tells.
fn confidence(ranking: &[Ranked]) -> f64 {
    let Some((first, others)) = ranking.split_first() else {
        return 0.0;
    };
    (others.iter())
        .map(|other| {
            let lead = (other.prediction.seconds * 1.05 / first.prediction.seconds).ln();
            let sigma = (first.prediction.sigma_model).hypot(other.prediction.sigma_model);
            match lead.is_finite() && sigma > 0.0 {
                true => normal(lead / sigma),
                false => f64::from(u8::from(lead.is_nan() || lead >= 0.0)),
            }
        })
        .fold(1.0, f64::min)
}

/// The standard normal distribution function, to three digits: A logistic curve after Bowling et al., 2009.
fn normal(x: f64) -> f64 {
    1.0 / (1.0 + (-(0.070_56 * x.powi(3) + 1.597_6 * x)).exp())
}

impl Default for ModelChooser {
    /// With the model that comes with this crate, without leanings.
    fn default() -> Self {
        Self {
            model: Cow::Borrowed(Model::shipped()),
            biases: Vec::new(),
            stick: None,
        }
    }
}

impl ModelChooser {
    /// Chooses by this model.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self {
            model: Cow::Owned(model),
            ..Self::default()
        }
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Leans towards or away from a transport.
    ///
    /// # Errors
    /// [`SelectError::Number`] unless the factor is between 0.01 and 100.
    pub fn with_bias(mut self, bias: Bias) -> Result<Self, SelectError> {
        crate::error::checked("bias", bias.factor, (0.01, 100.0), "0.01 to 100")?;
        self.biases.push(bias);
        Ok(self)
    }

    /// Stays with a transport unless another one is faster by this fraction of its time: for runs one after the other, which
    /// should not go back and forth between two that are about as good.
    ///
    /// # Errors
    /// [`SelectError::Number`] unless the gain is between 0 and 10.
    pub fn with_stickiness(mut self, transport: Spec, gain: f64) -> Result<Self, SelectError> {
        crate::error::checked("gain", gain, (0.0, 10.0), "0 to 10")?;
        self.stick = Some((transport, gain));
        Ok(self)
    }

    /// Returns what the time of a transport is multiplied by.
    pub(crate) fn factor(&self, spec: &Spec) -> f64 {
        let biases = (self.biases.iter())
            .filter(|bias| bias.transport == spec.as_str() || bias.transport == spec.name())
            .map(|bias| bias.factor);
        let stuck = match &self.stick {
            Some((held, gain)) if held == spec => 1.0 / (1.0 + gain),
            _ => 1.0,
        };
        biases.product::<f64>() * stuck
    }

    /// Returns what tipped it. `is_short_look`: whether losses may not have been seen.
    fn reason(&self, ranking: &[Ranked], candidates: &[Candidate], is_short_look: bool) -> String {
        let [first, others @ ..] = ranking else {
            return String::new();
        };
        let time = Seconds(first.prediction.seconds);
        // The next one; or one that is faster, where the user leans to another.
        let fastest = (others.iter())
            .min_by(|a, b| a.prediction.seconds.total_cmp(&b.prediction.seconds))
            .filter(|other| other.prediction.seconds < first.prediction.seconds);
        let Some(second) = fastest.or(others.first()) else {
            return format!(
                "{} is the only one that can be used, about {time}",
                first.transport
            );
        };
        let mut reason = format!(
            "{} about {time}, {} {}",
            first.transport,
            second.transport,
            Seconds(second.prediction.seconds)
        );
        let gain = second.prediction.seconds - first.prediction.seconds;
        let is_wanted = self.factor(&first.transport) != self.factor(&second.transport);
        let expected = |ranked: &Ranked| ranked.prediction.seconds * ranked.prediction.excess;
        let is_doubted = (candidates.iter())
            .any(|candidate| candidate.spec == second.transport && candidate.doubt > 0.0);
        if gain < 0.0 && expected(first) <= expected(second) && !is_wanted {
            reason.push_str("; but the time of that varies more");
        } else if gain < 0.0 && !is_wanted && is_doubted {
            reason.push_str("; but it may not come up: nothing has come over UDP so far");
        } else if gain < 0.0 && !is_wanted && is_short_look && bears_losses(&first.transport) {
            reason.push_str("; but losses would slow that down, and few packets were looked at");
        } else if gain < 0.0 && !is_wanted {
            reason.push_str("; but that has still to connect");
        } else if gain < 0.0 {
            reason.push_str("; preferred all the same, as was asked for");
        } else if gain <= TIE * first.prediction.seconds {
            reason.push_str("; no difference to speak of");
        } else if let Some((Some(what), saved)) =
            tipping(&first.prediction.parts, &second.prediction.parts)
        {
            reason.push_str(&format!("; {what} {}", Seconds(saved)));
        }
        reason
    }
}

/// Says whether a transport takes as long with losses as without.
fn bears_losses(spec: &Spec) -> bool {
    spec.law(None).family == Family::Rate
}

/// Returns which part of the time differs most, and by how many seconds. Computing has no words: how much of it overlaps
/// with sending means nothing to a reader.
fn tipping(first: &TimeParts, second: &TimeParts) -> Option<(Option<&'static str>, f64)> {
    [
        (
            Some("a shorter set-up saves"),
            first.setup_s,
            second.setup_s,
        ),
        (
            Some("fewer round trips save"),
            first.rounds_s,
            second.rounds_s,
        ),
        (
            Some("starting at a higher rate saves"),
            first.growth_s,
            second.growth_s,
        ),
        (
            Some("a higher rate saves"),
            first.transfer_s,
            second.transfer_s,
        ),
        (Some("bearing losses saves"), first.loss_s, second.loss_s),
        (None, first.compute_s, second.compute_s),
    ]
    .into_iter()
    .map(|(what, first, second)| (what, second - first))
    .max_by(|a, b| a.1.total_cmp(&b.1))
    .filter(|&(_, saved)| saved > 0.0)
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
        let (_, busier) = workload.busier(path);
        let is_short_look = (busier.loss).is_some_and(|loss| {
            loss.lost() == 0 && loss.sent() > 0 && loss.interval().1 > SHORT_LOOK
        });
        let expected = |spec: &Spec, prediction: &Prediction| {
            let is_to_come = prediction.parts.setup_s > 0.0;
            let doubt = match is_to_come && path.rtt_s() < NEXT_DOOR_S {
                // Processors decide there, of which predictions know least: what is there already is only given up for
                // more than their error.
                true => 1.0 + prediction.sigma_model,
                false => 1.0,
            };
            // The others may take several times as long.
            let insured = match is_short_look && !bears_losses(spec) {
                true => 1.0 + INSURANCE,
                false => 1.0,
            };
            prediction.seconds * prediction.excess * self.factor(spec) * doubt * insured
        };
        let rank = |candidates: &[Candidate], score: &dyn Fn(&Spec, &Prediction) -> f64| {
            let reason = |ranking: &[Ranked]| self.reason(ranking, candidates, is_short_look);
            Choice::of(
                self.name(),
                &self.model,
                path,
                workload,
                candidates,
                score,
                reason,
            )
        };
        let choice = rank(candidates, &expected)?;
        if candidates.iter().all(|candidate| candidate.doubt <= 0.0) {
            return Ok(choice);
        }
        let candidate_of = |spec: &Spec| candidates.iter().find(|one| one.spec == *spec);
        let is_sure = |ranked: &&Ranked| {
            candidate_of(&ranked.transport).is_some_and(|candidate| candidate.doubt <= 0.0)
        };
        let best_sure = (choice.ranking.iter().find(is_sure)).map_or(f64::INFINITY, |r| r.score);
        rank(candidates, &|spec, prediction| {
            let seconds = expected(spec, prediction);
            let doubted =
                |candidate: &Candidate| candidate.doubted(seconds, best_sure, path.rtt_s());
            candidate_of(spec).map_or(seconds, doubted)
        })
    }

    fn settlement(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Settlement, SelectError> {
        settle::settlement(self, path, workload, candidates)
    }
}

impl Named {
    /// Takes a transport by name and settings.
    ///
    /// # Errors
    /// [`SelectError::Transport`].
    pub fn new(text: &str) -> Result<Self, SelectError> {
        Ok(Self(text.parse()?))
    }
}

impl Chooser for Named {
    fn name(&self) -> &str {
        "named"
    }

    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError> {
        let Some(found) = candidates.iter().find(|candidate| candidate.spec == self.0) else {
            let known: Vec<&str> = candidates.iter().map(|c| c.spec.as_str()).collect();
            return Err(SelectError::NotACandidate {
                name: self.0.to_string(),
                known: known.join(", "),
            });
        };
        Choice::of(
            self.name(),
            Model::shipped(),
            path,
            workload,
            std::slice::from_ref(found),
            |_, prediction| prediction.seconds,
            |_| "asked for by name".to_owned(),
        )
    }
}

/// How much a choice's confidence is worth in words.
pub(crate) fn sureness(confidence: f64) -> String {
    format!("{} %", Short((confidence * 100.0).round().min(99.0)))
}
