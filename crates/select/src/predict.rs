//! The predicted time of a workload over a transport, and its parts.
//!
//! `T = set-up + round trips + serial computing + |transfer, computing|`. This follows Rebane, *A
//! feasibility analysis of secure multiparty computation deployments*, 2012, section 5. There, `T =
//! f(ping) + bytes / g(bandwidth)`. Here, `f` and `g` follow from the profile of the transport.
//! `|x, y|` is `sqrt(x² + y²)`: transfer and computing overlap, but not perfectly if they take
//! about the same time.

use std::time::Duration;

#[cfg(feature = "serde")]
use serde::Serialize;
use transpute_transport::Profile;
use transpute_units::{Bandwidth, Loss, PathClass};

use crate::{
    Bound, DirectionEstimate, End, Model, PathEstimate, SelectError, Spec, Workload,
    law::{self, Conditions, TransferTime},
    local,
    model::Values,
};

/// Assumed rate of an unmeasured path within a LAN: gigabit Ethernet. The rate assumed for other
/// paths is the median of the wide-area cells in docs/results/selection.
const UNKNOWN_RATE_LAN: Bandwidth = Bandwidth::from_megabits_per_second(1000.0);
const UNKNOWN_RATE: Bandwidth = Bandwidth::from_megabits_per_second(200.0);

/// Standard deviation of the logarithm of an unknown rate: 95 % of the paths are within a factor of
/// 10 of the assumed rate.
const UNKNOWN_RATE_SIGMA: f64 = 1.15;

/// Typical ratio of a path's rate to the rate of a probe train that did not fill the path.
const LOWER_BOUND_FACTOR: f64 = 1.5;

/// Minimum assumed length of an unknown queue, in bytes. The assumed length is one bandwidth-delay
/// product where that is larger.
pub(crate) const DEFAULT_QUEUE: f64 = 262_144.0;

/// Assumed maximum buffers of a TCP connection, in bytes: the defaults of Linux (`tcp_wmem`,
/// `tcp_rmem`).
const DEFAULT_SEND_BUFFER: f64 = 4_194_304.0;
const DEFAULT_RECEIVE_BUFFER: f64 = 6_291_456.0;

/// Prior of a loss estimate: numbers of lost and sent packets that are added to the counted ones.
/// The ratio, 2 in 10,000, is typical of a path. The number of sent packets determines the weight:
/// a probe train of that length has the same weight as the prior.
const PRIOR_LOST: f64 = 0.02;
const PRIOR_SENT: f64 = 100.0;

/// A predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Prediction {
    /// Time from the first packet of the set-up to the output, in seconds.
    pub seconds: f64,
    /// Standard deviation of the logarithm of the time, which combines the errors of the model and
    /// of the measured rate.
    pub sigma: f64,
    /// The parts of the time.
    pub parts: TimeParts,
    /// The component that limits the time.
    pub bound: Bound,
}

/// The parts of a predicted time, in seconds. Their sum is the predicted time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct TimeParts {
    /// Time until the link is established.
    pub setup_s: f64,
    /// Time of the protocol's round trips.
    pub rounds_s: f64,
    /// Additional time at the start, until the full rate is reached.
    pub growth_s: f64,
    /// Time to send the bytes at the full rate.
    pub transfer_s: f64,
    /// Additional time because of losses.
    pub loss_s: f64,
    /// Computing time that does not overlap with the transfer.
    pub compute_s: f64,
}

impl Prediction {
    fn new(parts: TimeParts, bound: Bound, sigma: f64) -> Self {
        Self {
            seconds: parts.total(),
            sigma,
            parts,
            bound,
        }
    }

    /// Returns the 80 % interval of the time, in seconds.
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        let off = (1.28 * self.sigma).exp();
        (self.seconds / off, self.seconds * off)
    }
}

impl Model {
    /// Predicts the time of a workload over a transport, including the set-up.
    ///
    /// # Errors
    /// Returns [`SelectError::Number`] if a number of the path or the workload is out of range.
    pub fn predict(
        &self,
        spec: &Spec,
        path: &PathEstimate,
        workload: &Workload,
    ) -> Result<Prediction, SelectError> {
        path.validate()?;
        workload.validate()?;
        let profile = spec.profile_under(path.kernel.congestion_control.as_deref());
        if path.is_local() {
            let (values, both_ways) = (local::values(&profile), local::conditions(path));
            let (parts, bound) = parts(&profile, &values, &both_ways, workload);
            return Ok(Prediction::new(parts, bound, local::SIGMA));
        }
        let fitted = self.fitted(spec, &profile);
        let values = fitted.parameters.map(|estimate| estimate.value);
        let (parts, bound) = parts(&profile, &values, &both_ways(path), workload);
        // The transfer time is inversely proportional to the rate, so their relative errors are
        // equal.
        let carried = parts.transfer_s / parts.total().max(f64::MIN_POSITIVE);
        let (_, busier) = workload.busier(path);
        let sigma = fitted.sigma.hypot(carried * rate_sigma(busier));
        Ok(Prediction::new(parts, bound, sigma))
    }
}

impl TimeParts {
    /// Returns the predicted time of the whole run, in seconds.
    pub(crate) fn total(&self) -> f64 {
        let waiting = self.setup_s + self.rounds_s + self.growth_s;
        waiting + self.transfer_s + self.loss_s + self.compute_s
    }
}

/// Returns the conditions of both directions of a path, first up, then down. Unknown properties
/// have their assumed values.
pub(crate) fn both_ways(path: &PathEstimate) -> [Conditions; 2] {
    [&path.up, &path.down].map(|direction| {
        let rate = rate(direction, path.rtt);
        Conditions {
            rtt: path.rtt.as_secs_f64(),
            rate,
            loss: loss(direction.known.loss),
            queue: (direction.known.queue_bytes)
                .map_or(rate.bytes_in(path.rtt).max(DEFAULT_QUEUE), |bytes| {
                    bytes as f64
                }),
            kernel_window: kernel_window(path),
        }
    })
}

/// Returns the rate of a direction, or the assumed rate if it is unknown.
pub(crate) fn rate(direction: &DirectionEstimate, rtt: Duration) -> Bandwidth {
    match direction.known.rate {
        Some(rate) if direction.is_lower_bound => rate * LOWER_BOUND_FACTOR,
        Some(rate) => rate,
        None if PathClass::of(rtt) <= PathClass::SameLan => UNKNOWN_RATE_LAN,
        None => UNKNOWN_RATE,
    }
}

fn rate_sigma(direction: &DirectionEstimate) -> f64 {
    match direction.known.rate.is_some() && !direction.is_lower_bound {
        true => direction.rate_error,
        false => UNKNOWN_RATE_SIGMA,
    }
}

fn loss(loss: Option<Loss>) -> f64 {
    let counted = |of: fn(Loss) -> u64| loss.map_or(0.0, |loss| of(loss) as f64);
    (counted(Loss::lost) + PRIOR_LOST) / (counted(Loss::sent) + PRIOR_SENT)
}

/// Returns the maximum number of bytes in flight of one TCP connection: the smaller of the limits
/// of both ends.
pub(crate) fn kernel_window(path: &PathEstimate) -> f64 {
    let send = path.kernel.send_ceiling.unwrap_or(DEFAULT_SEND_BUFFER);
    let receive = (path.kernel.receive_ceiling).unwrap_or(DEFAULT_RECEIVE_BUFFER);
    send.min(receive)
}

/// Returns the parts of the predicted time, and the bottleneck.
pub(crate) fn parts(
    profile: &Profile,
    values: &Values,
    path: &[Conditions; 2],
    workload: &Workload,
) -> (TimeParts, Bound) {
    let work = workload;
    let (to_evaluator, to_garbler) = match work.garbler {
        End::Connector => (0, 1),
        End::Listener => (1, 0),
    };
    let carry =
        |direction: usize, bytes: u64| law::carry(profile, values, &path[direction], bytes as f64);
    let rtt = path[0].rtt;
    let tables = carry(to_evaluator, work.garbler_bytes);
    let requests = carry(to_garbler, work.evaluator_bytes);
    // The garbler's late bytes wait for the evaluator's requests. By then, the transfer of the
    // tables has reached its final rate.
    let late = match work.garbler_bytes {
        0 => 0.0,
        all => tables.transfer * (work.garbler_late_bytes as f64 / all as f64),
    };
    let first = workload.first_table();
    let waiting = (workload.round_trips() - first).max(0.0) * rtt;
    // After the first table, the time is that of the tables, or of a further round trip and the
    // late bytes, whichever is longer.
    let labels = TransferTime {
        transfer: requests.transfer + late,
        ..requests
    };
    let time = |it: &TransferTime| it.transfer + it.growth + it.loss;
    let (waiting, chain) = match waiting + time(&labels) > time(&tables) {
        true => (waiting, labels),
        false => (0.0, tables),
    };
    let carrying = waiting + time(&chain);
    let bytes = work.garbler_bytes.saturating_add(work.evaluator_bytes) as f64;
    let computing = work.garble_s.max(work.evaluate_s) + values.byte_s * bytes;
    let train = path.map(|it| {
        it.rate
            .seconds_to_send(f64::from(profile.probe_bytes).min(it.queue))
    });
    let parts = TimeParts {
        setup_s: values.setup_s
            + f64::from(profile.setup_round_trips) * rtt
            + train[0].max(train[1]),
        rounds_s: first * rtt + waiting,
        growth_s: chain.growth,
        transfer_s: chain.transfer,
        loss_s: chain.loss,
        compute_s: work.serial_s + (carrying.hypot(computing) - carrying),
    };
    let bound = match computing > carrying {
        true => Bound::Processor,
        false => chain.bound,
    };
    (parts, bound)
}

#[cfg(test)]
mod tests {
    use transpute_units::KnownDirection;

    use super::*;

    #[test]
    fn assumptions_are_replaced_by_measurements() {
        let unknown = DirectionEstimate::default();
        let mbit = Bandwidth::from_megabits_per_second;
        let near = Duration::from_micros(100);
        assert_eq!(
            [
                rate(&unknown, near),
                rate(&unknown, PathClass::SAME_LAN_LIMIT)
            ],
            [mbit(1000.0), mbit(200.0)]
        );
        let measured: DirectionEstimate = KnownDirection::of_rate(mbit(50.0)).into();
        assert_eq!(
            (rate(&measured, near), rate_sigma(&measured)),
            (mbit(50.0), 0.0)
        );
        let bound = DirectionEstimate {
            is_lower_bound: true,
            ..KnownDirection::of_rate(mbit(100.0)).into()
        };
        assert_eq!(
            (rate(&bound, near), rate_sigma(&bound)),
            (mbit(150.0), 1.15)
        );
        assert_eq!(
            kernel_window(&PathEstimate::of_rtt(0.1).unwrap()),
            4_194_304.0
        );
    }

    #[test]
    fn a_measured_loss_overrules_the_prior_as_its_train_grows() {
        let of = |lost, sent| loss(Loss::new(lost, sent));
        assert!((of(0, 0) - 2e-4).abs() < 1e-9);
        assert!(of(0, 128) < 1e-4);
        assert!((0.007..0.008).contains(&of(1, 32)));
        assert!((of(100, 10_000) - 0.01).abs() < 2e-4);
    }
}
