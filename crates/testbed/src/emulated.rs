//! Computes the path estimate that an error-free probe of an emulated path would return.

use std::time::Duration;

use transpute_netem::scenario::{CrossDirection, CrossTraffic, PathConfig, Scenario};
use transpute_select::{
    DirectionEstimate, PathEstimate, SelectError, Source, UdpStatus, lossy_window,
};
use transpute_units::{Bandwidth, KnownDirection, Loss};

use crate::record::Environment;

/// The assumed rate of a path without an emulated bottleneck. Garbling produces tables at a lower
/// rate, so the exact value does not matter.
const UNLIMITED: Bandwidth = Bandwidth::from_megabits_per_second(10_000.0);

/// Average fill of a bottleneck queue, as a fraction, while a CUBIC flow is limited by losses of
/// this queue. The fill varies because CUBIC multiplies its window by `BETA` after each loss.
const QUEUE_IN_USE: f64 = 0.85;

/// Size of a full packet in bytes, as the emulated bottleneck counts it.
const PACKET: f64 = 1500.0;

/// Returns the estimate that a probe without measurement errors would make of an emulated path.
/// Competing flows reduce the rate and add queueing delay.
///
/// In the testbed, "up" is the direction from garbler to evaluator. In an estimate, "up" is the
/// direction from connector to listener. The garbler listens, so the two directions are swapped.
///
/// # Errors
/// Returns [`SelectError::Number`] if a figure of the scenario is outside the range of an estimate.
pub fn path_of(
    scenario: &Scenario,
    environment: Option<&Environment>,
) -> Result<PathEstimate, SelectError> {
    let rtt_s = scenario.rtt_ms() / 1e3;
    let beside = |config, unless| {
        let cross = (scenario.cross_traffic.as_ref()).filter(|cross| cross.direction != unless);
        cross.map_or(CrossEffect::NOBODY, |cross| {
            CrossEffect::of(cross, config, rtt_s)
        })
    };
    let up = beside(&scenario.up, CrossDirection::Down);
    let down = beside(&scenario.down, CrossDirection::Up);
    let mut path = PathEstimate::of_rtt(rtt_s + up.waiting_s + down.waiting_s)?;
    path.up = direction(&scenario.down, down.share)?;
    path.down = direction(&scenario.up, up.share)?;
    path.udp = match scenario.blocks_udp() {
        true => UdpStatus::Blocked,
        false => UdpStatus::Passes,
    };
    path.mtu = Some(scenario.mtu);
    path.source = Source::Emulated;
    let jitter = scenario.up.jitter_ms.max(scenario.down.jitter_ms);
    if jitter > 0.0 {
        path.jitter = Duration::try_from_secs_f64(jitter / 1e3).ok();
    }
    let ceiling = |text: &str| text.split_whitespace().nth(2)?.parse().ok();
    let own = scenario.socket_buffer.map(|bytes| bytes as f64);
    path.kernel.send_ceiling = own.or(environment.and_then(|e| ceiling(&e.tcp_wmem)));
    path.kernel.receive_ceiling = own.or(environment.and_then(|e| ceiling(&e.tcp_rmem)));
    path.kernel.congestion_control = match environment {
        Some(environment) if !environment.congestion_control.is_empty() => {
            Some(environment.congestion_control.clone())
        }
        _ => scenario.congestion_control.clone(),
    };
    path.validate()?;
    Ok(path)
}

/// The effect of competing flows on one direction of a path.
struct CrossEffect {
    /// The share of the rate that remains for the parties, from 0 to 1.
    share: f64,
    /// The queueing delay that the competing flows cause, in seconds.
    waiting_s: f64,
}

impl CrossEffect {
    const NOBODY: Self = Self {
        share: 1.0,
        waiting_s: 0.0,
    };

    /// Computes the effect of CUBIC flows. Usually the parties get a fair share of the rate and the
    /// delay of a full queue. If random loss keeps the flows below their fair share, the parties
    /// get the rest of the rate without delay.
    fn of(cross: &CrossTraffic, config: &PathConfig, rtt_s: f64) -> Self {
        let Some(rate) = config.rate_mbit.map(Bandwidth::from_megabits_per_second) else {
            return Self::NOBODY;
        };
        let flows = f64::from(cross.flows);
        let loss = loss_of(config);
        if cross.congestion_control == "cubic" && loss > 0.0 {
            let taken =
                flows * lossy_window(rtt_s, loss) * PACKET / (rtt_s * rate.bytes_per_second());
            if taken < flows / (flows + 1.0) {
                return Self {
                    share: 1.0 - taken,
                    waiting_s: 0.0,
                };
            }
        }
        let queue = config.queue_limit_bytes().unwrap_or(0) as f64;
        Self {
            share: 1.0 / (flows + 1.0),
            waiting_s: rate.seconds_to_send(QUEUE_IN_USE * queue),
        }
    }
}

/// Returns the configured loss rate of a direction, from 0 to 1, without losses by queue overflow.
fn loss_of(config: &PathConfig) -> f64 {
    // With loss in bursts (Gilbert, 1960), this is the share of the time in the bad state.
    let bursts = config.burst.map_or(0.0, |burst| {
        let bad = burst.p_enter / (burst.p_enter + burst.p_leave).max(f64::MIN_POSITIVE);
        bad * burst.loss_bad + (1.0 - bad) * burst.loss_good
    });
    1.0 - (1.0 - config.loss) * (1.0 - bursts)
}

fn direction(config: &PathConfig, share: f64) -> Result<DirectionEstimate, SelectError> {
    let loss = loss_of(config);
    let rate = config.rate_mbit.map(Bandwidth::from_megabits_per_second);
    let known = KnownDirection {
        rate: Some(rate.map_or(UNLIMITED, |rate| rate * share)),
        loss: Some(
            Loss::known(loss.clamp(0.0, 1.0)).ok_or(SelectError::Number {
                field: "loss",
                expected: "a probability",
                found: loss,
            })?,
        ),
        queue_bytes: config.queue_limit_bytes(),
    };
    Ok(known.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near() -> Scenario {
        Scenario::named("eu-us").unwrap().with_rtt_ms(20.0)
    }

    #[test]
    fn beside_other_flows_a_path_has_its_share() {
        let mut scenario = near().with_rate_mbit(90.0);
        let alone = path_of(&scenario, None).unwrap();
        scenario.cross_traffic = Scenario::named("cross-traffic").unwrap().cross_traffic;
        let flows = scenario.cross_traffic.as_ref().unwrap().flows;
        let shared = path_of(&scenario, None).unwrap();
        let rate = |direction: DirectionEstimate| direction.known.rate.unwrap().bits_per_second();
        // Party A garbles and listens, so the testbed's "up" is the estimate's "down".
        assert!((rate(shared.down) * f64::from(flows + 1) - rate(alone.down)).abs() < 1.0);
        assert_eq!(rate(shared.up), rate(alone.up));
        assert!(shared.rtt > alone.rtt);
    }

    #[test]
    fn flows_that_losses_keep_down_leave_the_rest() {
        // CUBIC has 27 packets in flight at a loss of 0.2 %: 16 Mbit/s over 20 ms.
        let mut scenario = near().with_rate_mbit(160.0).with_loss(0.002);
        scenario.cross_traffic = Scenario::named("cross-traffic").unwrap().cross_traffic;
        let flows = scenario.cross_traffic.as_ref().unwrap().flows;
        let path = path_of(&scenario, None).unwrap();
        let left = path.down.known.rate.unwrap().megabits_per_second() / 160.0;
        let taken = f64::from(flows) * 0.1;
        assert!((1.0 - taken - left).abs() < 0.05, "{left}");
        // The flows are limited by loss, so the queue stays empty.
        assert_eq!(path.rtt, Duration::from_millis(20));
    }
}
