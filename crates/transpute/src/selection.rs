//! The result of choosing a transport: the measured path, the assumed workload, and the predicted
//! time of each candidate.

#[cfg(feature = "serde")]
use serde::Serialize;
use transpute_select::{
    Choice, Chooser, DirectionEstimate, MAX_RATE, MIN_RATE, PathEstimate, Spec, Workload,
};
use transpute_transport::{PathSample, TrainResult};
use transpute_units::{Bandwidth, KnownDirection, Loss};

/// The choice of a transport.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Selection {
    /// The measured path.
    pub path: PathEstimate,
    /// The expected workload of the link, as the chooser assumed it.
    pub workload: Workload,
    /// The choice, with the predictions for all candidates.
    pub choice: Choice,
    /// The transports that were chosen earlier but then failed, each with its error.
    pub failed: Vec<(Spec, String)>,
    /// Time from the start of connecting to the choice, in seconds.
    pub decided_after_s: f64,
}

impl Selection {
    /// Updates the predicted times with `link`, the present measurements of the link. The results of
    /// the probe trains of `rudp` may arrive some milliseconds after a transport was chosen. This
    /// function does not choose another transport.
    pub fn update(&mut self, chooser: &dyn Chooser, link: &PathSample) {
        for (known, train) in [
            (&mut self.path.up, link.sent_train),
            (&mut self.path.down, link.received_train),
        ] {
            if train.is_some() {
                *known = direction(train);
            }
        }
        (self.choice).predict(chooser.model(), &self.path, &self.workload);
    }
}

/// Converts the peer's report on a probe train to an estimate of one direction of the path. The
/// peer may report any number, so values that no path can have are ignored.
pub(crate) fn direction(train: Option<TrainResult>) -> DirectionEstimate {
    let Some(train) = train else {
        return DirectionEstimate::default();
    };
    let rate = (train.rate)
        .map(|rate| Bandwidth::from_bytes_per_second(rate as f64))
        .filter(|rate| (MIN_RATE..=MAX_RATE).contains(rate));
    let lost = train.clear.saturating_sub(train.clear_received);
    DirectionEstimate {
        known: KnownDirection {
            rate,
            loss: match train.clear {
                0 => None,
                sent => Loss::new(lost.into(), sent.into()),
            },
            queue_bytes: train.queue_bytes(),
        },
        // `error_permille` is half the width of the confidence interval: two standard errors.
        rate_error: f64::from(train.error_permille.min(1000)) / 2000.0,
        is_lower_bound: train.at_least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(rate: Option<u64>, error_permille: u16, clear: (u8, u8)) -> Option<TrainResult> {
        let mut train = TrainResult::default();
        (train.sent, train.received) = (32, 30);
        (train.rate, train.error_permille) = (rate, error_permille);
        (train.clear, train.clear_received) = clear;
        Some(train)
    }

    #[test]
    fn a_train_tells_rate_and_loss() {
        let known = direction(train(Some(12_500_000), 100, (32, 30)));
        let rate = Some(Bandwidth::from_megabits_per_second(100.0));
        assert_eq!((known.known.rate, known.rate_error), (rate, 0.05));
        assert_eq!(known.known.loss, Loss::new(2, 32));
        let nothing = DirectionEstimate::default();
        assert_eq!(direction(train(None, 0, (0, 0))), nothing);
        assert_eq!(direction(None), nothing);
    }

    #[test]
    fn reports_that_no_path_fulfils_are_ignored() {
        for rate in [0, u64::MAX] {
            let known = direction(train(Some(rate), 100, (32, 32)));
            assert_eq!(known.known.rate, None);
        }
        let wide = direction(train(Some(1_000_000), u16::MAX, (32, 40)));
        assert!(wide.known.rate.is_some());
        assert_eq!(wide.rate_error, 0.5);
        assert_eq!(wide.known.loss, Loss::new(0, 32));
    }
}
