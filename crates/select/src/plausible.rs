//! From what is known of a path to figures to reckon with: the likeliest, and how far off they may be.
//!
//! What nobody measured gets a prior. It depends on the round-trip time, because a path of half a millisecond is in one
//! building, and one of 100 ms crosses an ocean.

use crate::{Direction, Loss, PathEstimate};

/// A quantity: the likeliest value, and between which it plausibly is (about 95 %).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) mid: f64,
    pub(crate) high: f64,
}

/// The prior of loss as packets seen elsewhere: so many lost out of so many. Their ratio, 2 in 10,000, is that of an
/// ordinary path; their number, 100, is how much a train has to show before it counts for more.
const PRIOR_LOST: f64 = 0.02;
const PRIOR_SENT: f64 = 100.0;

/// Loss that a long path plausibly has if nobody looked.
const PRIOR_LOSS_HIGH: f64 = 0.01;

/// Round-trip time from which on a path is a long one.
const LONG_S: f64 = 5e-3;

/// How much faster a path may be than a probe that did not fill it could tell.
const LOWER_BOUND_HIGH: f64 = 10.0;
const LOWER_BOUND_MID: f64 = 1.5;

/// Returns the rate of a direction in bits per second.
pub(crate) fn rate(direction: &Direction, rtt: f64) -> Range {
    let Some(rate) = direction.rate else {
        return rate_prior(rtt);
    };
    let mid = rate.bits_per_second;
    let off = 1.0 + 2.0 * rate.relative_error;
    if rate.is_lower_bound {
        Range {
            low: mid / off,
            mid: mid * LOWER_BOUND_MID,
            high: mid * LOWER_BOUND_HIGH,
        }
    } else {
        Range {
            low: mid / off,
            mid,
            high: mid * off,
        }
    }
}

/// A gigabit in the building, and less the farther away.
fn rate_prior(rtt: f64) -> Range {
    // 1 within half a millisecond, 0 from 50 ms on, and even in between on a logarithmic scale.
    let near = ((0.05 / rtt.max(5e-4)).ln() / 100_f64.ln()).clamp(0.0, 1.0);
    let between = |far: f64, here: f64| far * (here / far).powf(near);
    Range {
        low: between(2e7, 4e8),
        mid: between(2e8, 1e9),
        high: between(1e9, 1e10),
    }
}

/// Returns the probability of loss of a direction.
pub(crate) fn loss(direction: &Direction, rtt: f64) -> Range {
    // In a building next to nothing is lost.
    let far = (rtt / LONG_S).min(1.0).powi(2);
    let loss = direction.loss.unwrap_or(Loss::NOTHING);
    let (lost, sent) = (loss.lost() as f64, loss.sent() as f64);
    let mid = (lost + PRIOR_LOST * far) / (sent + PRIOR_SENT);
    let (low, high) = loss.interval();
    let high = match loss.lost() {
        0 => high.min(PRIOR_LOSS_HIGH * far),
        _ => high,
    };
    Range {
        low: low.min(mid),
        mid,
        high: high.max(mid),
    }
}

/// Returns the smaller of both ends' ceilings on what one TCP connection has in flight, in bytes.
pub(crate) fn kernel_window(path: &PathEstimate) -> f64 {
    // What Linux has had for a decade on machines of any size.
    let send = path.kernel.send_ceiling.unwrap_or(4_194_304.0);
    let receive = path.kernel.receive_ceiling.unwrap_or(6_291_456.0);
    send.min(receive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    fn known(lost: u64, sent: u64) -> Direction {
        Direction {
            loss: Some(Loss::new(lost, sent).unwrap()),
            ..Direction::default()
        }
    }

    #[test]
    fn a_measured_loss_overrules_the_prior_as_its_train_grows() {
        let mid = |lost, sent| loss(&known(lost, sent), 0.1).mid;
        assert!((mid(0, 0) - 2e-4).abs() < 1e-9);
        assert!(mid(0, 128) < 1e-4);
        assert!((0.004..0.005).contains(&mid(1, 128)));
        assert!((mid(100, 10_000) - 0.01).abs() < 2e-4);
    }

    #[test]
    fn what_a_short_train_did_not_see_may_still_be_there() {
        let range = loss(&known(0, 128), 0.1);
        assert_eq!((range.low, range.high), (0.0, PRIOR_LOSS_HIGH));
        assert!(loss(&known(0, 100_000), 0.1).high < 5e-5);
        // Next door it is not.
        assert!(loss(&Direction::default(), 5e-4).high < 2e-4);
    }

    #[test]
    fn priors_of_rate_go_from_the_building_to_the_ocean() {
        let range = |rtt| rate(&Direction::default(), rtt);
        assert_eq!(range(1e-4).mid, 1e9);
        assert!((range(0.2).mid - 2e8).abs() < 1.0);
        assert!(range(0.01).mid < 1e9 && range(0.01).mid > 2e8);
        let bound = Direction {
            rate: Some(Rate {
                is_lower_bound: true,
                ..Rate::known(1e8)
            }),
            ..Direction::default()
        };
        assert_eq!(rate(&bound, 0.1).high, 1e9);
    }
}
