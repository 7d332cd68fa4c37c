//! Time, traffic and money of many runs.
//!
//! After Rebane, *A feasibility analysis of secure multiparty computation deployments*, 2012, section 7.2: each party rents
//! a machine by the hour and pays for what it sends out by the gigabyte.

use serde::Serialize;

use crate::{Choice, SelectError, Workload, error::checked};

/// Bytes of IP packets on the wire per byte of protocol frames: headers of TLS, TCP or UDP, and IP. What is sent again and
/// corrections come on top, see [`Plan::new`].
const WIRE: f64 = 1.05;

/// Bytes of a gigabyte as it is billed.
const GIGABYTE: f64 = 1e9;

/// What a cloud asks for, in whatever currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Prices {
    /// For a gigabyte (10^9 bytes) that leaves a machine; arriving ones are free.
    pub per_gigabyte: f64,
    /// For an hour of one machine.
    pub per_hour: f64,
}

/// What a number of runs takes, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// How many runs.
    pub runs: u64,
    /// How long all of them take, in seconds.
    pub seconds: f64,
    /// Between which times they take with about 80 % probability, if the path stays as it is. Runs on one path are off together, so that
    /// this does not shrink with their number.
    pub interval_s: (f64, f64),
    /// Bytes on the wire from garbler to evaluator.
    pub garbler_bytes: f64,
    /// Bytes on the wire from evaluator to garbler.
    pub evaluator_bytes: f64,
    /// What the traffic of both parties costs.
    pub traffic_cost: f64,
    /// What both machines cost for that long.
    pub machine_cost: f64,
}

impl Prices {
    /// Checks prices.
    ///
    /// # Errors
    /// [`SelectError::Number`] if one is negative or no number.
    pub fn new(per_gigabyte: f64, per_hour: f64) -> Result<Self, SelectError> {
        let price = (0.0, 1e9);
        Ok(Self {
            per_gigabyte: checked("price per GB", per_gigabyte, price, "0 to 1e9")?,
            per_hour: checked("price per hour", per_hour, price, "0 to 1e9")?,
        })
    }
}

impl Plan {
    /// Predicts `runs` runs of a workload over the transport of a choice. `loss` is the probability of loss towards the
    /// evaluator and towards the garbler: what is lost was sent, paid for, and is sent again.
    ///
    /// # Errors
    /// [`SelectError::Number`] if a loss is no probability below 1.
    pub fn new(
        choice: &Choice,
        workload: &Workload,
        loss: (f64, f64),
        runs: u64,
        prices: Prices,
    ) -> Result<Self, SelectError> {
        let again = |field, loss| {
            checked(field, loss, (0.0, 0.99), "0 to 0.99").map(|loss| WIRE / (1.0 - loss))
        };
        let (to_evaluator, to_garbler) = (again("loss", loss.0)?, again("loss", loss.1)?);
        let prediction = choice.prediction();
        let n = runs as f64;
        let (low, high) = prediction.interval();
        let parts = workload.parts();
        let (garbler, evaluator) = (
            n * parts.garbler_bytes as f64 * to_evaluator,
            n * parts.evaluator_bytes as f64 * to_garbler,
        );
        Ok(Self {
            runs,
            seconds: n * prediction.seconds,
            interval_s: (n * low, n * high),
            garbler_bytes: garbler,
            evaluator_bytes: evaluator,
            traffic_cost: (garbler + evaluator) / GIGABYTE * prices.per_gigabyte,
            machine_cost: 2.0 * n * prediction.seconds / 3600.0 * prices.per_hour,
        })
    }

    /// Returns what everything costs.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.traffic_cost + self.machine_cost
    }
}
