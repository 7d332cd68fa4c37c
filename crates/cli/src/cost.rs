//! Predicts time, traffic and cost of many runs.
//!
//! The cost model is that of Rebane, *A feasibility analysis of secure multiparty computation
//! deployments*, 2012, section 7.2. Each party rents a machine by the hour and pays for outgoing
//! traffic by the gigabyte.

use serde::Serialize;

use transpute_select::{Choice, Workload};

use crate::failure::Failure;

/// Ratio of bytes in IP packets to bytes of protocol frames. It accounts for the headers of TLS,
/// TCP or UDP, and IP. [`Plan::new`] adds retransmissions.
const WIRE: f64 = 1.05;

/// Largest loss probability that a plan accounts for. Predictions for a larger one are meaningless.
const MAX_LOSS: f64 = 0.99;

/// Number of bytes in a gigabyte, as providers bill it.
const GIGABYTE: f64 = 1e9;

/// Prices of a cloud provider. All prices and costs have the same, unspecified currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Prices {
    /// Price of a gigabyte (10^9 bytes) of outgoing traffic. Incoming traffic is free.
    pub(crate) per_gigabyte: f64,
    /// Price of an hour of one machine.
    pub(crate) per_hour: f64,
}

/// Predicted time, traffic and cost of a number of runs in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// Number of runs.
    pub(crate) runs: u64,
    /// Duration of all runs, in seconds.
    pub(crate) seconds: f64,
    /// Interval that contains the duration with a probability of about 80 % if the path does not
    /// change, in seconds. The errors of runs on one path are correlated, so the relative width
    /// does not decrease with the number of runs.
    pub(crate) interval_s: (f64, f64),
    /// Bytes on the wire from garbler to evaluator.
    pub(crate) garbler_bytes: f64,
    /// Bytes on the wire from evaluator to garbler.
    pub(crate) evaluator_bytes: f64,
    /// Cost of the traffic of both parties.
    pub(crate) traffic_cost: f64,
    /// Cost of both machines.
    pub(crate) machine_cost: f64,
}

impl Prices {
    /// Checks that prices are valid.
    pub(crate) fn new(per_gigabyte: f64, per_hour: f64) -> Result<Self, Failure> {
        for (flag, price) in [
            ("--price-per-gb", per_gigabyte),
            ("--price-per-hour", per_hour),
        ] {
            if !(0.0..=1e9).contains(&price) {
                return Err(Failure::usage(format!(
                    "{flag}: expected 0 to 1e9, got {price}"
                )));
            }
        }
        Ok(Self {
            per_gigabyte,
            per_hour,
        })
    }
}

impl Plan {
    /// Predicts `runs` runs of a workload over the chosen transport. `loss` has the loss
    /// probabilities towards the evaluator and towards the garbler. Retransmissions of lost packets
    /// add to the billed traffic.
    pub(crate) fn new(
        choice: &Choice,
        workload: &Workload,
        loss: (f64, f64),
        runs: u64,
        prices: Prices,
    ) -> Self {
        let again = |loss: f64| WIRE / (1.0 - loss.clamp(0.0, MAX_LOSS));
        let (to_evaluator, to_garbler) = (again(loss.0), again(loss.1));
        let prediction = choice.prediction();
        let n = runs as f64;
        let (low, high) = prediction.interval();
        let (garbler, evaluator) = (
            n * workload.garbler_bytes as f64 * to_evaluator,
            n * workload.evaluator_bytes as f64 * to_garbler,
        );
        Self {
            runs,
            seconds: n * prediction.seconds,
            interval_s: (n * low, n * high),
            garbler_bytes: garbler,
            evaluator_bytes: evaluator,
            traffic_cost: (garbler + evaluator) / GIGABYTE * prices.per_gigabyte,
            machine_cost: 2.0 * n * prediction.seconds / 3600.0 * prices.per_hour,
        }
    }

    /// Returns the total cost.
    pub(crate) fn cost(&self) -> f64 {
        self.traffic_cost + self.machine_cost
    }
}

#[cfg(test)]
mod tests {
    use transpute_select::{Candidate, Chooser, End, PathEstimate, Rule};

    use super::*;

    #[test]
    fn plans_reproduce_the_survey_of_rebane() {
        // Table 17: 35.5 MB at 0.1 and 0.2 USD/GB cost 0.0036 and 0.0071 USD. The plan adds
        // 5 % for headers.
        let work = Workload::transfer(End::Connector, 35_500_000);
        let path = PathEstimate::of_rtt(0.11).unwrap();
        let tcp = [Candidate::new("tcp").unwrap()];
        let choice = Rule.choose(&path, &work, &tcp).unwrap();
        for (price, expected) in [(0.1, 0.0036), (0.2, 0.0071)] {
            let prices = Prices::new(price, 0.12).ok().unwrap();
            let plan = Plan::new(&choice, &work, (0.0, 0.0), 1, prices);
            assert!((plan.traffic_cost / 1.05 - expected).abs() < 6e-5);
            // Both machines are rented for the whole duration.
            let hours = plan.seconds / 3600.0;
            assert!((plan.machine_cost - 2.0 * hours * 0.12).abs() < 1e-12);
            assert!(plan.interval_s.0 < plan.seconds && plan.seconds < plan.interval_s.1);
        }
        // Lost packets are billed and retransmitted.
        let lossy = Plan::new(&choice, &work, (0.5, 0.0), 10, Prices::default());
        assert!((lossy.garbler_bytes / (10.0 * 35.5e6 * 1.05 * 2.0) - 1.0).abs() < 1e-9);
        assert!(Prices::new(-1.0, 0.0).is_err() && Prices::new(f64::NAN, 0.0).is_err());
    }
}
