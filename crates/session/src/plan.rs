//! The choice of the kind of oblivious transfer by its predicted time on a path.

use std::{fmt, time::Duration};

use transpute_ot::{BASE_COUNT, BaseOt, Extension};
use transpute_units::{Bandwidth, KnownPath, PathClass};

use crate::{
    OtPlan,
    ot_plan::{OT_CHUNK, reply_len},
};

/// Rate that is assumed for a path within one host if its rate is unknown: 10 Gbit/s.
const UNKNOWN_RATE_SAME_HOST: Bandwidth = Bandwidth::from_megabits_per_second(10_000.0);

/// Minimum plausible rate. A path with a lower rate is treated as one with unknown rate.
const MIN_RATE: Bandwidth = Bandwidth::from_bytes_per_second(1.0);

/// Initial congestion window, in bytes: ten segments (RFC 6928). The prediction assumes that the
/// window doubles with every round trip.
const FIRST_WINDOW: f64 = 14_600.0;

/// Computing time of the steps of oblivious transfer on one core, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// Time to compute the message of the base-OT receiver, per base OT.
    pub receiver_start_s: f64,
    /// Time of all computations of the base-OT sender, per base OT.
    pub sender_s: f64,
    /// Time to compute the key of the base-OT receiver, per base OT.
    pub receiver_finish_s: f64,
    /// Computing time of an extension on its slower side, per transfer. The entries are IKNP, and
    /// SoftSpoken with `k` = 2, 4 and 8.
    pub extension_s: [f64; 4],
}

impl Costs {
    /// Returns times that were measured on one core of a server with AVX-512 IFMA. The command is
    /// `cargo test --release -p transpute-ot throughput -- --ignored --nocapture`.
    #[must_use]
    pub(crate) const fn measured(base: BaseOt) -> Self {
        let extension_s = [4.2e-9, 3.7e-9, 5.3e-9, 36e-9];
        match base {
            BaseOt::Ristretto255 => Self {
                receiver_start_s: 8e-6,
                sender_s: 22e-6,
                receiver_finish_s: 4e-6,
                extension_s,
            },
            // ML-KEM-768.
            _ => Self {
                receiver_start_s: 200e-6,
                sender_s: 430e-6,
                receiver_finish_s: 210e-6,
                extension_s,
            },
        }
    }
}

/// The values from which [`plan`] chooses a kind of oblivious transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Question {
    /// Number of transfers: the evaluator's input bits in the whole batch.
    pub transfers: u64,
    /// Whether the two labels of every bit differ by the same offset. In an extension, the garbler
    /// then answers with at most 16 bytes per bit instead of 32.
    pub is_correlated: bool,
    /// The public-key scheme of base OT.
    pub base: BaseOt,
    /// The path from the evaluator's view: `to_peer` is the direction to the garbler.
    pub path: KnownPath,
    /// Computing time of each step of oblivious transfer.
    pub costs: Costs,
    /// Number of transfers in the connection's random-OT pool; `None` if there is no pool.
    pub pool: Option<u64>,
}

/// A plan of oblivious transfers, with the predicted time until the evaluator has all labels of its
/// inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OtPrediction {
    /// The plan.
    pub plan: OtPlan,
    /// Predicted time from the connection of both parties until the evaluator has all labels of its
    /// inputs.
    pub time: Duration,
}

/// The result of choosing an oblivious-transfer plan by predicted times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// The chosen plan, which has the shortest predicted time.
    pub chosen: OtPrediction,
    /// The plan with the second shortest predicted time, if another plan is possible.
    pub runner_up: Option<OtPrediction>,
    /// The path for which the times were predicted, from the evaluator's view.
    pub path: KnownPath,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{} predicted to take {:.1} ms at a round trip of {:.2} ms",
            self.chosen.plan,
            ms(self.chosen.time),
            ms(self.path.rtt.unwrap_or_default())
        )?;
        match self.runner_up {
            Some(second) => write!(f, ", {} {:.1} ms", second.plan, ms(second.time)),
            None => Ok(()),
        }
    }
}

/// Chooses the plan with the shortest predicted time. If two times are equal, it chooses the plan
/// with fewer bytes.
#[must_use]
pub(crate) fn plan(question: &Question) -> Planned {
    let mut all = predictions(question);
    all.sort_by_key(|(bytes, prediction)| (prediction.time, *bytes));
    let mut all = all.into_iter().map(|(_, prediction)| prediction);
    // `all` is empty only without transfers, because an extension is always possible.
    let none = OtPrediction {
        plan: OtPlan::None,
        time: Duration::ZERO,
    };
    Planned {
        chosen: all.next().unwrap_or(none),
        runner_up: all.next(),
        path: question.path,
    }
}

/// Returns a prediction for every possible plan, with the number of bytes of its messages in both
/// directions.
fn predictions(question: &Question) -> Vec<(u64, OtPrediction)> {
    let n = question.transfers;
    let mut all = Vec::new();
    let mut add = |plan, bytes, seconds: f64| {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        all.push((bytes, OtPrediction { plan, time }));
    };
    if n == 0 {
        return all;
    }
    if n <= OtPlan::direct_maximum(question.base) {
        let (bytes, seconds) = direct(question);
        add(OtPlan::Direct, bytes, seconds);
    }
    for (kind, cost) in Extension::ALL.into_iter().zip(question.costs.extension_s) {
        let (bytes, seconds) = extended(question, kind, cost);
        add(OtPlan::Extension(kind), bytes, seconds);
    }
    if question.pool.is_some_and(|pool| pool >= n) {
        let (up, down) = (n.div_ceil(8), n.saturating_mul(32));
        let seconds = rtt(question) + transfer(question, up, down);
        add(OtPlan::Pool, up.saturating_add(down), seconds);
    }
    all
}

fn rtt(question: &Question) -> f64 {
    question.path.rtt.unwrap_or_default().as_secs_f64()
}

/// Returns the time, in seconds, to send `up` bytes to the garbler and then `down` bytes to the
/// evaluator, without propagation delay.
fn transfer(question: &Question, up: u64, down: u64) -> f64 {
    let [to_garbler, to_evaluator] = rates(question);
    to_garbler.seconds_to_send(up as f64) + to_evaluator.seconds_to_send(down as f64)
}

/// Returns the time, in seconds, to send the first `bytes` bytes of one direction of a new
/// connection, without propagation delay. It includes the round trips for which slow start delays
/// these bytes.
fn first_bytes(question: &Question, bytes: u64, rate: Bandwidth) -> f64 {
    let (rtt, mut left) = (rtt(question), bytes as f64);
    let (mut window, mut seconds) = (FIRST_WINDOW, 0.0);
    while left > window && window < rate.bytes_per_second() * rtt {
        left -= window;
        window *= 2.0;
        seconds += rtt;
    }
    seconds + rate.seconds_to_send(left)
}

/// Returns the rate to the garbler and the rate to the evaluator. An assumed rate replaces an
/// unknown one.
fn rates(question: &Question) -> [Bandwidth; 2] {
    let KnownPath {
        rtt,
        to_peer,
        from_peer,
    } = question.path;
    let unknown = match PathClass::of(rtt.unwrap_or_default()) {
        PathClass::SameHost => UNKNOWN_RATE_SAME_HOST,
        _ => Bandwidth::ASSUMED,
    };
    [to_peer, from_peer]
        .map(|direction| (direction.rate.filter(|rate| *rate >= MIN_RATE)).unwrap_or(unknown))
}

/// Predicts direct transfers: one public-key OT per bit. Returns the bytes and the seconds. The
/// evaluator sends a message, and the garbler answers.
fn direct(question: &Question) -> (u64, f64) {
    // The cast is exact, because at most 8,192 transfers are direct.
    let (n, costs) = (question.transfers as usize, &question.costs);
    let up = question.base.receiver_len(n) as u64;
    let down = (question.base.sender_len(n) + 32 * n) as u64;
    let work = costs.receiver_start_s + costs.sender_s + costs.receiver_finish_s;
    // The answer needs no slow start: the garbler's congestion window has grown with its tables.
    let [to_garbler, _] = rates(question);
    let transfer = first_bytes(question, up, to_garbler) + transfer(question, 0, down);
    let seconds = rtt(question) + transfer + n as f64 * work;
    (up + down, seconds)
}

/// Predicts an extension. Returns the bytes and the seconds. The garbler is the receiver of the
/// base OTs. After them, the evaluator sends a stream of requests, which the garbler answers.
fn extended(question: &Question, kind: Extension, cost: f64) -> (u64, f64) {
    let costs = &question.costs;
    let base =
        BASE_COUNT as f64 * (costs.receiver_start_s + costs.sender_s + costs.receiver_finish_s);
    let (base_down, base_up) = (
        question.base.receiver_len(BASE_COUNT) as u64,
        (question.base.sender_len(BASE_COUNT) + kind.setup_len()) as u64,
    );
    let n = question.transfers;
    let chunks = |n: u64| {
        let blocks = n.div_ceil(128).saturating_mul(kind.block_len() as u64);
        // Each segment also contains one block of transfers that are sacrificed, and a consistency
        // check.
        let checks = n.div_ceil(OT_CHUNK as u64) * (kind.block_len() + kind.check_len()) as u64;
        let up = blocks.saturating_add(checks);
        let down = n.saturating_mul(reply_len(question.is_correlated) as u64);
        (up, down, n as f64 * cost)
    };
    let (up, down, work) = chunks(n);
    // Requests, answers and computing overlap, so the slowest of the three determines the time. The
    // first chunk is an exception: its request, computation and answer happen in sequence.
    let (first_up, first_down, first_work) = chunks(n.min(OT_CHUNK as u64));
    // With correlated labels, the garbler usually adopts the labels of later transfers, which then
    // need no answer.
    let down = if question.is_correlated {
        first_down
    } else {
        down
    };
    let [to_garbler, to_evaluator] = rates(question);
    let paces = [
        to_garbler.seconds_to_send((up - first_up) as f64),
        to_evaluator.seconds_to_send((down - first_down) as f64),
        work - first_work,
    ];
    let stream = paces.into_iter().fold(0.0, f64::max);
    let seconds = 1.5 * rtt(question)
        + base
        + first_bytes(question, base_down, to_evaluator)
        + first_bytes(question, base_up + first_up, to_garbler)
        + transfer(question, 0, first_down)
        + first_work
        + stream;
    (
        up.saturating_add(down).saturating_add(base_up + base_down),
        seconds,
    )
}

#[cfg(test)]
mod tests {
    use transpute_units::KnownDirection;

    use super::*;

    fn question(transfers: u64, rtt_ms: f64, mbit: f64) -> Question {
        let direction = KnownDirection::of_rate(Bandwidth::from_megabits_per_second(mbit));
        Question {
            transfers,
            is_correlated: true,
            base: BaseOt::Ristretto255,
            path: KnownPath {
                rtt: Some(Duration::from_secs_f64(rtt_ms / 1e3)),
                to_peer: direction,
                from_peer: direction,
            },
            costs: Costs::measured(BaseOt::Ristretto255),
            pool: None,
        }
    }

    fn chosen(question: Question) -> OtPlan {
        plan(&question).chosen.plan
    }

    #[test]
    fn the_plan_fits_the_path() {
        let extension = OtPlan::Extension;
        for (transfers, rtt_ms, mbit, expected) in [
            (0, 110.0, 1e3, OtPlan::None),
            (1, 0.05, 1e4, OtPlan::Direct),
            // AES-128 over the Atlantic.
            (128, 110.0, 1e3, OtPlan::Direct),
            // 1,000 evaluations of AES-128.
            (128_000, 300.0, 1e3, extension(Extension::SoftSpoken4)),
            (1_000_000, 110.0, 10.0, extension(Extension::SoftSpoken8)),
            (1_000_000, 0.05, 1e5, extension(Extension::SoftSpoken2)),
        ] {
            let choice = plan(&question(transfers, rtt_ms, mbit));
            assert_eq!(choice.chosen.plan, expected, "{transfers}: {choice}");
            assert_eq!(choice.runner_up.is_some(), transfers > 0);
        }
    }

    #[test]
    fn within_a_host_half_a_round_trip_is_worth_nothing() {
        let plan = chosen(question(512, 0.05, 1e4));
        assert!(matches!(plan, OtPlan::Extension(_)), "{plan}");
    }

    #[test]
    fn inside_a_machine_work_counts_and_bytes_hardly() {
        let among = |rtt_us| {
            chosen(Question {
                path: KnownPath::of_rtt(Duration::from_micros(rtt_us)),
                ..question(10_000_000, 1.0, 1.0)
            })
        };
        assert_eq!(among(20), OtPlan::Extension(Extension::SoftSpoken4));
        // For a path beyond one host, the assumed rate is so low that the plan with the fewest
        // bytes is the fastest.
        assert_eq!(among(500), OtPlan::Extension(Extension::SoftSpoken8));
    }

    #[test]
    fn what_does_not_fit_the_first_window_costs_a_round_trip() {
        // The evaluator's message for 512 direct transfers (SHA-256) exceeds the initial congestion
        // window.
        let plan = chosen(question(512, 110.0, 1e3));
        assert!(matches!(plan, OtPlan::Extension(_)), "{plan}");
    }

    #[test]
    fn a_longer_path_is_worth_more_direct_transfers() {
        let last_direct = |rtt_ms| {
            (1..4000)
                .take_while(|n| chosen(question(*n, rtt_ms, 1e3)) == OtPlan::Direct)
                .count()
        };
        let limits = [0.1, 10.0, 50.0, 110.0].map(last_direct);
        assert!(limits.is_sorted(), "{limits:?}");
        assert!(limits[0] < 150 && limits[3] == 14_600 / 64, "{limits:?}");
    }

    #[test]
    fn a_pool_is_used_if_it_is_large_enough() {
        let with = |pool| Question {
            pool: Some(pool),
            ..question(5000, 110.0, 1e3)
        };
        assert_eq!(chosen(with(5000)), OtPlan::Pool);
        assert_ne!(chosen(with(4999)), OtPlan::Pool);
    }

    #[test]
    fn the_large_keys_of_ml_kem_count() {
        let kem = |transfers, mbit| Question {
            base: BaseOt::MlKem768,
            costs: Costs::measured(BaseOt::MlKem768),
            ..question(transfers, 110.0, mbit)
        };
        assert_eq!(chosen(kem(128, 1e3)), OtPlan::Direct);
        // With more transfers, the message of direct transfers would not fit in one frame.
        let most = OtPlan::direct_maximum(BaseOt::MlKem768);
        let extension = chosen(kem(most + 1, 1e3));
        assert!(matches!(extension, OtPlan::Extension(_)));
        // 4.5 kB per transfer take longer than half a round trip on a slow path.
        assert!(matches!(chosen(kem(400, 10.0)), OtPlan::Extension(_)));
    }

    #[test]
    fn no_number_breaks_a_prediction() {
        for transfers in [1, 8192, 8193, 1 << 56, u64::MAX] {
            for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
                for rtt in [Duration::ZERO, Duration::MAX] {
                    let mut asked = question(transfers, 1.0, 1.0);
                    asked.path = KnownPath {
                        rtt: Some(rtt),
                        to_peer: KnownDirection::of_rate(Bandwidth::from_bytes_per_second(rate)),
                        from_peer: KnownDirection::default(),
                    };
                    let choice = plan(&asked);
                    assert_ne!(choice.chosen.plan, OtPlan::None);
                    assert!(!choice.to_string().is_empty());
                }
            }
        }
    }
}
