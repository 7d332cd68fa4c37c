//! The choice of the transport, in the report of `transpute run`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use transpute::auto::Selection;
use transpute_select::{
    Chooser, End, ModelChooser, PaperRules, PathEstimate, Ranked, Rule, Spec, Workload,
};

/// The method of the choice.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum By {
    /// The class of the path, whether UDP passes, and the number of bytes
    #[default]
    Rule,
    /// The time that the model predicts
    Model,
    /// The rules of transputation-2020, section 4.1
    Paper,
}

impl By {
    /// Returns the chooser. `model` replaces the built-in model.
    pub(crate) fn chooser(self, model: Option<transpute_select::Model>) -> Arc<dyn Chooser> {
        match (self, model) {
            (Self::Rule, _) => Arc::new(Rule),
            (Self::Paper, _) => Arc::new(PaperRules),
            (Self::Model, Some(model)) => Arc::new(ModelChooser::new(model)),
            (Self::Model, None) => Arc::new(ModelChooser::default()),
        }
    }
}

/// The choice of a transport, in the JSON report of a run.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SelectionReport {
    /// The chosen transport, with its settings.
    pub(crate) transport: String,
    /// The name of the chooser.
    pub(crate) chooser: String,
    pub(crate) reason: String,
    /// Probability that no other transport is more than 5 % faster.
    pub(crate) confidence: f64,
    /// Time from the start of connecting to the choice.
    pub(crate) decided_after_ms: f64,
    /// Predictions for all candidates, best first: the time from the first packet to the output.
    pub(crate) predictions: Vec<PredictionReport>,
    /// Candidates that could not be chosen, with the reasons.
    pub(crate) excluded: Vec<Obstacle>,
    /// Transports that were chosen earlier and failed, with the reasons.
    pub(crate) failed: Vec<Obstacle>,
    pub(crate) path: PathEstimate,
    /// The workload for which the transport was chosen.
    pub(crate) workload: Workload,
}

/// A predicted time in seconds, its 80 % interval, and its parts.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PredictionReport {
    pub(crate) transport: String,
    pub(crate) seconds: f64,
    pub(crate) low_s: f64,
    pub(crate) high_s: f64,
    pub(crate) setup_s: f64,
    pub(crate) rounds_s: f64,
    pub(crate) growth_s: f64,
    pub(crate) transfer_s: f64,
    pub(crate) loss_s: f64,
    pub(crate) compute_s: f64,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Obstacle {
    pub(crate) transport: String,
    pub(crate) why: String,
}

impl SelectionReport {
    pub(crate) fn new(selection: &Selection) -> Self {
        let choice = &selection.choice;
        let obstacles = |list: &[(Spec, String)]| {
            let obstacle = |(spec, why): &(Spec, String)| Obstacle {
                transport: spec.to_string(),
                why: why.clone(),
            };
            list.iter().map(obstacle).collect()
        };
        Self {
            transport: choice.winner().to_string(),
            chooser: choice.chooser.clone(),
            reason: choice.reason.clone(),
            confidence: choice.confidence,
            decided_after_ms: selection.decided_after_s * 1e3,
            predictions: choice.ranking().iter().map(PredictionReport::new).collect(),
            // `choice.excluded` also contains the failed transports.
            excluded: obstacles(&choice.excluded),
            failed: obstacles(&selection.failed),
            path: selection.path.clone(),
            workload: selection.workload,
        }
    }

    /// Returns a line with the chosen transport, the reason, and the predicted time.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("{}: {}", self.transport, self.reason);
        if let (true, Some(prediction)) = (self.is_limit_known(), self.predictions.first()) {
            let PredictionReport {
                seconds,
                low_s,
                high_s,
                ..
            } = prediction;
            line.push_str(&format!(
                "; expected {seconds:.3} s ({low_s:.3} to {high_s:.3})"
            ));
        }
        for failed in &self.failed {
            line.push_str(&format!("; {} failed: {}", failed.transport, failed.why));
        }
        line
    }

    /// Returns whether the rate of the path was measured, or the processors limit the time, because
    /// both parties are on one host. Only then is the predicted time printed.
    ///
    /// Without a measured rate, the model assumes a typical one. This assumption is wrong by
    /// several times in data centres.
    fn is_limit_known(&self) -> bool {
        let tables = match self.workload.garbler {
            End::Connector => &self.path.up,
            End::Listener => &self.path.down,
        };
        self.path.is_local() || (tables.known.rate.is_some() && !tables.is_lower_bound)
    }
}

impl PredictionReport {
    fn new(ranked: &Ranked) -> Self {
        let (low_s, high_s) = ranked.prediction.interval();
        let parts = &ranked.prediction.parts;
        Self {
            transport: ranked.transport.to_string(),
            seconds: ranked.prediction.seconds,
            low_s,
            high_s,
            setup_s: parts.setup_s,
            rounds_s: parts.rounds_s,
            growth_s: parts.growth_s,
            transfer_s: parts.transfer_s,
            loss_s: parts.loss_s,
            compute_s: parts.compute_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use transpute_select::{Bandwidth, Candidate, DirectionEstimate, KnownDirection};

    use super::*;

    fn measured() -> DirectionEstimate {
        KnownDirection::of_rate(Bandwidth::from_megabits_per_second(100.0)).into()
    }

    fn report(by: By, down: DirectionEstimate, failed: Vec<(Spec, String)>) -> SelectionReport {
        let mut path = PathEstimate::of_rtt(0.1).unwrap();
        path.down = down;
        let workload = Workload::transfer(End::Listener, 30_000_000);
        let candidates = ["tcp", "rudp"].map(|name| Candidate::new(name).unwrap());
        let choice = (by.chooser(None).choose(&path, &workload, &candidates)).unwrap();
        let report = SelectionReport::new(&Selection {
            path,
            workload,
            choice,
            failed,
            decided_after_s: 0.25,
        });
        // The demo parses the reports of its child processes.
        let text = serde_json::to_string(&report).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_line_has_reason_prediction_and_failures() {
        let failed = vec![("quic".parse().unwrap(), "gone".into())];
        for by in [By::Rule, By::Model] {
            let report = report(by, measured(), failed.clone());
            let line = report.line();
            assert!(line.starts_with("rudp: "), "{line}");
            assert!(line.contains("; expected 2."), "{line}");
            assert!(line.ends_with("); quic failed: gone"), "{line}");
            assert_eq!(report.predictions.len(), 2);
            assert!(report.predictions[0].seconds < report.predictions[1].seconds);
            assert_eq!(report.decided_after_ms, 250.0);
        }
    }

    #[test]
    fn no_time_is_printed_for_a_path_whose_rate_is_unknown() {
        let lower_bound = DirectionEstimate {
            is_lower_bound: true,
            ..measured()
        };
        for down in [DirectionEstimate::default(), lower_bound] {
            let line = report(By::Rule, down, Vec::new()).line();
            assert!(!line.contains("expected"), "{line}");
            assert!(line.contains("wide-area path"), "{line}");
        }
    }

    #[test]
    fn every_chooser_gives_its_reason() {
        let report = report(By::Paper, DirectionEstimate::default(), Vec::new());
        assert_eq!(report.chooser, "paper");
        let line = report.line();
        assert!(
            line.contains("W·t") && line.starts_with(&report.transport),
            "{line}"
        );
    }
}
