//! Time, traffic and money of many runs.
//!
//! After Rebane, *A feasibility analysis of secure multiparty computation deployments*, 2012, section 7.2: each party rents
//! a machine by the hour and pays for what it sends out by the gigabyte.

use serde::Serialize;

use transpute_select::{Choice, Workload};

use crate::failure::Failure;

/// Bytes of IP packets on the wire per byte of protocol frames: headers of TLS, TCP or UDP, and IP. What is sent again and
/// corrections come on top, see [`Plan::new`].
const WIRE: f64 = 1.05;

/// Loss that is counted at most: beyond it, no plan means anything.
const MAX_LOSS: f64 = 0.99;

/// Bytes of a gigabyte as it is billed.
const GIGABYTE: f64 = 1e9;

/// Prices of a cloud provider, all in one currency of the user's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Prices {
    /// For a gigabyte (10^9 bytes) that leaves a machine; arriving ones are free.
    pub(crate) per_gigabyte: f64,
    /// For an hour of one machine.
    pub(crate) per_hour: f64,
}

/// What a number of runs takes, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// How many runs.
    pub(crate) runs: u64,
    /// How long all of them take, in seconds.
    pub(crate) seconds: f64,
    /// Between which times they take with about 80 % probability, if the path stays as it is. Runs on one path are off together, so that
    /// this does not shrink with their number.
    pub(crate) interval_s: (f64, f64),
    /// Bytes on the wire from garbler to evaluator.
    pub(crate) garbler_bytes: f64,
    /// Bytes on the wire from evaluator to garbler.
    pub(crate) evaluator_bytes: f64,
    /// What the traffic of both parties costs.
    pub(crate) traffic_cost: f64,
    /// What both machines cost for that long.
    pub(crate) machine_cost: f64,
}

impl Prices {
    /// Checks prices.
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
    /// Predicts `runs` runs of a workload over the transport of a choice. `loss` is the probability of loss towards the
    /// evaluator and towards the garbler: what is lost was sent, paid for, and is sent again.
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

    /// Returns what everything costs.
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
        // Table 17: 35.5 MB at 0.1 and 0.2 USD/GB cost 0.0036 and 0.0071 USD. Ours counts headers, 5 %.
        let work = Workload::transfer(End::Connector, 35_500_000);
        let path = PathEstimate::of_rtt(0.11).unwrap();
        let tcp = [Candidate::new("tcp").unwrap()];
        let choice = Rule.choose(&path, &work, &tcp).unwrap();
        for (price, expected) in [(0.1, 0.0036), (0.2, 0.0071)] {
            let prices = Prices::new(price, 0.12).ok().unwrap();
            let plan = Plan::new(&choice, &work, (0.0, 0.0), 1, prices);
            assert!((plan.traffic_cost / 1.05 - expected).abs() < 6e-5);
            // Two machines for as long as it takes.
            let hours = plan.seconds / 3600.0;
            assert!((plan.machine_cost - 2.0 * hours * 0.12).abs() < 1e-12);
            assert!(plan.interval_s.0 < plan.seconds && plan.seconds < plan.interval_s.1);
        }
        // What is lost is paid for and sent again.
        let lossy = Plan::new(&choice, &work, (0.5, 0.0), 10, Prices::default());
        assert!((lossy.garbler_bytes / (10.0 * 35.5e6 * 1.05 * 2.0) - 1.0).abs() < 1e-9);
        assert!(Prices::new(-1.0, 0.0).is_err() && Prices::new(f64::NAN, 0.0).is_err());
    }
}
