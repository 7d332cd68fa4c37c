//! Draws random cases from strata. The order is such that every prefix is a fair sample.

use std::ops::Range;

use transpute_netem::{
    model::derive_seed,
    scenario::{CrossDirection, CrossTraffic, PathConfig, Scenario},
};
use transpute_units::Bandwidth;

use super::{MAX_LINE_SECONDS, SelectionCase};

/// Ranges of the number of AND gates of all evaluations together.
const SIZES: [Range<f64>; 5] = [1e3..1e4, 1e4..1e5, 1e5..1e6, 1e6..3e6, 3e6..1e7];

/// Ranges of round-trip times in milliseconds.
const ROUND_TRIP_TIMES: [Range<f64>; 4] = [0.5..5.0, 5.0..40.0, 40.0..150.0, 150.0..600.0];

/// Ranges of the loss probability in each direction. `None` is a path without loss.
const LOSSES: [Option<Range<f64>>; 4] =
    [None, Some(1e-5..1e-3), Some(1e-3..1e-2), Some(1e-2..3e-2)];

/// Ranges of rates in Mbit/s.
const RATES: [Range<f64>; 3] = [10.0..50.0, 50.0..200.0, 200.0..1000.0];

/// Range of queue limits, as multiples of the bandwidth-delay product.
const QUEUES: Range<f64> = 0.1..2.0;

/// Minimum queue limit in bytes, about twenty packets.
const MIN_QUEUE: f64 = 32_768.0;

/// One in this number of consecutive cases has a firewall that drops UDP.
const BLOCKED_EVERY: usize = 10;

/// One in this number of consecutive cases shares its path with other flows.
const SHARED_EVERY: usize = 5;

/// Maximum number of draws from a stratum in one round. If all drawn cases exceed
/// [`MAX_LINE_SECONDS`], the stratum is skipped.
const ATTEMPTS: u32 = 16;

/// Number of AND gates per candidate of a `min-of-candidates` circuit. `AND_OF_AES` and
/// `AND_OF_CANDIDATES` are the AND gates of `aes128` and of `min-of-candidates:2501x20`.
const AND_PER_CANDIDATE: f64 = 40.0;
const AND_OF_AES: u64 = 6400;
const AND_OF_CANDIDATES: u64 = 100_000;

/// Draws `count` cases. With the same seed, the cases of a smaller count are a prefix of the cases
/// of a larger count.
///
/// Size, round-trip time, loss and rate are divided into ranges. Every combination of ranges is a
/// stratum. All strata are drawn from once, in random order, before any is drawn from again. Within
/// a range, values are distributed uniformly on a logarithmic scale, and so are queue limits.
///
/// A case that takes longer than [`MAX_LINE_SECONDS`] at the link rate is drawn again. A stratum of
/// large circuits and low rates may be skipped. One in ten cases has a firewall that drops UDP. One
/// in five cases has one or two competing flows.
#[must_use]
pub fn draw(count: usize, seed: u64) -> Vec<SelectionCase> {
    let mut random = Random { seed, rolled: 0 };
    let mut cases = Vec::with_capacity(count);
    while cases.len() < count {
        let mut strata: Vec<_> = strata().collect();
        for last in (1..strata.len()).rev() {
            strata.swap(last, random.below(last + 1));
        }
        for stratum in strata {
            if cases.len() == count {
                break;
            }
            let number = cases.len();
            let drawn = (0..ATTEMPTS)
                .map(|_| stratum.case(number, &mut random))
                .find(|case| case.line_seconds() <= MAX_LINE_SECONDS);
            cases.extend(drawn);
        }
    }
    cases
}

/// A stratum: one range of each quantity.
#[derive(Clone)]
struct Stratum {
    size: Range<f64>,
    rtt: Range<f64>,
    loss: Option<Range<f64>>,
    rate: Range<f64>,
}

fn strata() -> impl Iterator<Item = Stratum> {
    SIZES.iter().flat_map(|size| {
        ROUND_TRIP_TIMES.iter().flat_map(move |rtt| {
            LOSSES.iter().flat_map(move |loss| {
                RATES.iter().map(move |rate| Stratum {
                    size: size.clone(),
                    rtt: rtt.clone(),
                    loss: loss.clone(),
                    rate: rate.clone(),
                })
            })
        })
    })
}

impl Stratum {
    fn case(&self, number: usize, random: &mut Random) -> SelectionCase {
        let rtt_ms = rounded(random.within(&self.rtt));
        let rate_mbit = rounded(random.within(&self.rate));
        let loss = (self.loss.as_ref()).map_or(0.0, |range| rounded(random.within(range)));
        let rate = Bandwidth::from_megabits_per_second(rate_mbit);
        let product = rate.bytes_per_second() * rtt_ms / 1e3;
        let queue = (product * random.within(&QUEUES)).max(MIN_QUEUE);
        let mut path = PathConfig::default();
        path.delay_ms = rtt_ms / 2.0;
        path.loss = loss;
        path.udp_blocked = number % BLOCKED_EVERY == BLOCKED_EVERY - 1;
        path.rate_mbit = Some(rate_mbit);
        // The value is positive and far below 2^53, so the cast is exact.
        path.queue_bytes = Some(rounded(queue) as u64);
        let flows = 1 + u32::from(random.chance());
        let cross_traffic = (number % SHARED_EVERY == SHARED_EVERY / 2).then(|| CrossTraffic {
            flows,
            congestion_control: "cubic".to_owned(),
            direction: CrossDirection::Up,
        });
        let (circuit, batch, and_gates) = workload(random.within(&self.size), random.chance());
        SelectionCase {
            scenario: Scenario {
                name: format!("cell-{number:03}"),
                description: String::new(),
                up: path.clone(),
                down: path,
                mtu: 1500,
                congestion_control: None,
                socket_buffer: None,
                cross_traffic,
                // A seed of 32 bits is exact in every JSON parser.
                seed: random.next() >> 32,
            },
            circuit,
            batch,
            and_gates,
        }
    }
}

/// Returns a circuit, the number of evaluations, and the total number of AND gates, which is about
/// `size`. If `alone` is true, a size below a million is a single evaluation of one circuit. A
/// larger size is always a batch, because every run generates its circuit, which takes long.
fn workload(size: f64, alone: bool) -> (String, u64, u64) {
    let candidates = (size / AND_PER_CANDIDATE).round().max(1.0);
    let batch_of = |circuit: &str, and: u64| {
        let batch = (size / and as f64).round().max(1.0) as u64;
        (circuit.to_owned(), batch, batch * and)
    };
    if size < 1.5 * AND_OF_AES as f64 || (alone && size < 1e6) {
        // The casts are exact, because both are small integers.
        let and = (candidates * AND_PER_CANDIDATE) as u64;
        let name = format!("min-of-candidates:{}x20", candidates as u64 + 1);
        (name, 1, and)
    } else if alone {
        batch_of("min-of-candidates:2501x20", AND_OF_CANDIDATES)
    } else {
        batch_of("aes128", AND_OF_AES)
    }
}

/// Rounds to two significant digits.
fn rounded(value: f64) -> f64 {
    let text = format!("{value:.1e}");
    // Parsing cannot fail, because the text is a formatted number.
    text.parse().unwrap_or(value)
}

/// A random number generator. The draws would change if a library changed its algorithm, so this
/// type does not use one.
struct Random {
    seed: u64,
    rolled: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.rolled += 1;
        derive_seed(self.seed, self.rolled)
    }

    /// Returns a random number below `limit`, which is small.
    fn below(&mut self, limit: usize) -> usize {
        (((self.next() >> 32) * limit as u64) >> 32) as usize
    }

    fn chance(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    /// Returns a random number in the range, distributed uniformly on a logarithmic scale.
    fn within(&mut self, range: &Range<f64>) -> f64 {
        // A double represents the upper 53 bits exactly.
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        range.start * (range.end / range.start).powf(unit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::{DEFAULT_CUT_OFF, Part};
    use super::*;

    #[test]
    fn a_seed_draws_the_same_and_more_goes_on() {
        let cases = draw(240, 1);
        assert_eq!(cases.len(), 240);
        assert_eq!(draw(100, 1), cases[..100]);
        assert_ne!(draw(100, 2), cases[..100]);
        // Large workloads are drawn too, for paths with a high rate.
        let large = cases.iter().filter(|case| case.and_gates > 3_000_000);
        assert!(large.count() >= 10);
        let different: HashSet<_> = cases.iter().map(|case| format!("{case:?}")).collect();
        assert_eq!(different.len(), cases.len());
    }

    #[test]
    fn cases_are_valid_and_in_range() {
        for case in draw(400, 7) {
            let scenario = &case.scenario;
            scenario.validate().unwrap();
            assert!(case.line_seconds() <= MAX_LINE_SECONDS);
            // A circuit has a whole number of candidates or AES blocks, so the size is rounded.
            assert!((900..=11_000_000).contains(&case.and_gates), "{case:?}");
            assert!((0.5..=600.0).contains(&scenario.rtt_ms()));
            assert!((0.0..=0.03).contains(&scenario.up.loss));
            let rate = scenario.up.rate_mbit.unwrap();
            assert!((10.0..=1000.0).contains(&rate));
            assert_eq!(scenario.up, scenario.down);
        }
    }

    #[test]
    fn every_beginning_is_a_sample_of_all() {
        let cases = draw(240, 1);
        for part in [&cases[..80], &cases[80..160], &cases[160..]] {
            let count = |wanted: &dyn Fn(&SelectionCase) -> bool| {
                part.iter().filter(|case| wanted(case)).count()
            };
            assert_eq!(count(&|case| case.scenario.blocks_udp()), 8);
            assert_eq!(count(&|case| case.scenario.cross_traffic.is_some()), 16);
            for range in SIZES {
                let sized = count(&|case| range.contains(&(case.and_gates as f64)));
                assert!(sized >= 3, "{range:?}: {sized} of {}", part.len());
            }
            for range in ROUND_TRIP_TIMES {
                let near = count(&|case| range.contains(&case.scenario.rtt_ms()));
                assert!(near >= 12, "{range:?}: {near}");
            }
            let unseen = count(&|case| case.part() == Part::Unseen);
            assert!((20..=60).contains(&unseen), "{unseen}");
        }
    }

    #[test]
    fn a_sweep_takes_about_an_hour() {
        let transports = [
            "tcp:cc=cubic",
            "tcp:cc=bbr",
            "tcp-striped:cc=cubic",
            "tcp-striped:cc=bbr",
            "quic",
            "rudp",
        ];
        let seconds: f64 = (draw(204, 1).iter())
            .flat_map(|case| transports.map(|name| case.estimate(name, DEFAULT_CUT_OFF)))
            .map(|time| time.as_secs_f64())
            .sum();
        assert!((3000.0..4800.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn workloads_have_about_the_size() {
        assert_eq!(workload(1e3, false).0, "min-of-candidates:26x20");
        assert_eq!(workload(64_000.0, false), ("aes128".to_owned(), 10, 64_000));
        assert_eq!(workload(64_000.0, true).2, 64_000);
        let (circuit, batch, and_gates) = workload(2.04e6, true);
        assert_eq!((circuit.as_str(), batch), ("min-of-candidates:2501x20", 20));
        assert_eq!(and_gates, 2_000_000);
    }

    #[test]
    fn two_digits_count() {
        assert_eq!(rounded(123.4), 120.0);
        assert_eq!(rounded(0.000_127), 0.000_13);
        assert_eq!(rounded(9.96), 10.0);
    }
}
