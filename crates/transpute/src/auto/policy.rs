//! The policy of a race: asks a chooser with everything that the race has learnt.
//!
//! There is nothing to weigh against waiting: where UDP passes, path and connection are known after one round trip, so
//! whatever the chooser wants is picked, and the race waits for it if it is still on its way.

use std::time::Duration;

use transpute_select::{
    Candidate, Choice, Chooser, Direction, Kernel, Loss, MAX_RATE, MAX_RTT_S, MIN_RATE,
    PathEstimate, Rate, SelectError, Source, Spec, Udp, Workload,
};
use transpute_transport::{
    PathSample, TrainResult, TransportError,
    auto::{Pick, Policy, Progress, Stage},
};

/// Bytes of the headers of IPv4 and UDP.
const UDP_HEADERS: u32 = 28;

/// A chooser with its question.
pub(super) struct Chosen<'a> {
    pub(super) chooser: &'a dyn Chooser,
    pub(super) workload: &'a Workload,
    pub(super) specs: &'a [Spec],
    pub(super) kernel: &'a Kernel,
}

impl Chosen<'_> {
    /// Returns the path and the choice by what is known; `None` until there was a round trip.
    pub(super) fn choose(
        &self,
        progress: &Progress,
    ) -> Option<(PathEstimate, Result<Choice, SelectError>)> {
        let path = path(progress, self.kernel)?;
        let candidates = candidates(self.specs, progress);
        let choice = (self.chooser).choose(&path, self.workload, &candidates);
        Some((path, choice))
    }
}

impl Policy for Chosen<'_> {
    fn decide(&self, progress: &Progress) -> Option<Pick> {
        let (_, choice) = self.choose(progress)?;
        // With an error nothing can be used yet, or ever: the race knows which.
        Some(Pick::from(choice.ok()?.winner().as_str()))
    }
}

/// Returns the candidates as the race has them.
pub(super) fn candidates(specs: &[Spec], progress: &Progress) -> Vec<Candidate> {
    (specs.iter())
        .map(|spec| {
            let stage = progress.stage(spec.name());
            let offer = progress.offer.as_ref();
            Candidate {
                spec: spec.clone(),
                unavailable: match stage {
                    _ if offer.is_some_and(|offer| !offer.allows(spec.name())) => {
                        Some("the listener does not offer it".to_owned())
                    }
                    Stage::Absent => Some("it is not available here".to_owned()),
                    stage => stage.error().map(|error| error.root().to_string()),
                },
            }
        })
        .collect()
}

/// Returns what is known of the path; `None` until there was a round trip.
pub(super) fn path(progress: &Progress, kernel: &Kernel) -> Option<PathEstimate> {
    let ups = || {
        progress
            .connections()
            .filter_map(|it| Some(&it.stage().up()?.path))
    };
    let seconds = |time: Duration| time.as_secs_f64().min(MAX_RTT_S);
    let rtts = ups().filter_map(PathSample::least_rtt);
    let rtt_s = seconds(rtts.chain(progress.tcp_rtt).min()?);
    // Within its bounds.
    let mut path = PathEstimate::of_rtt(rtt_s).ok()?;
    path.source = Source::Measured;
    path.kernel = kernel.clone();
    // The kernel samples the round-trip time more often than the protocols on the UDP port do.
    let mut without_udp = progress.connections().filter(|it| !it.uses_udp());
    let variation = without_udp.find_map(|it| it.stage().up()?.path.rtt_variation);
    path.rtt.jitter_s = variation.map(seconds);
    path.udp = udp(progress);
    path.up = direction(ups().find_map(|it| it.sent_train));
    path.down = direction(ups().find_map(|it| it.received_train));
    let largest = ups().find_map(|it| it.largest_datagram);
    path.mtu = largest.map(|bytes| u32::from(bytes) + UDP_HEADERS);
    Some(path)
}

fn udp(progress: &Progress) -> Udp {
    let over_udp = || progress.connections().filter(|it| it.uses_udp());
    let any = |is: fn(&Stage) -> bool| over_udp().any(|it| is(it.stage()));
    let is_blocked = |stage: &Stage| {
        (stage.error()).is_some_and(|it| matches!(it.root(), TransportError::UdpBlocked { .. }))
    };
    if any(|stage| stage.up().is_some()) {
        Udp::Passes
    } else if any(is_blocked) && !any(Stage::is_pending) {
        Udp::Blocked
    } else {
        Udp::Unknown
    }
}

/// Returns what a train told. A peer may report anything: figures that no path has are ignored.
pub(super) fn direction(train: Option<TrainResult>) -> Direction {
    let Some(train) = train else {
        return Direction::default();
    };
    let rate = (train.rate)
        .map(|rate| 8.0 * rate as f64)
        .filter(|rate| (MIN_RATE..=MAX_RATE).contains(rate));
    let lost = train.clear.saturating_sub(train.clear_received);
    Direction {
        rate: rate.map(|bits_per_second| Rate {
            bits_per_second,
            // Half the width of the band that holds it is two standard errors.
            relative_error: f64::from(train.error_permille.min(1000)) / 2000.0,
            is_lower_bound: train.at_least,
        }),
        loss: match train.clear {
            0 => None,
            sent => Loss::new(lost.into(), sent.into()).ok(),
        },
        queue_bytes: train.queue_bytes().map(|bytes| bytes as f64),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use transpute_select::{End, Rule};
    use transpute_transport::{Registry, auto::Offer};

    use super::*;

    fn specs() -> Vec<Spec> {
        ["tcp", "tcp-striped", "quic", "rudp"]
            .map(|name| name.parse().unwrap())
            .to_vec()
    }

    fn decide(progress: &Progress, bytes: u64) -> Option<Pick> {
        let kernel = Kernel {
            congestion_control: Some("bbr".to_owned()),
            ..Kernel::default()
        };
        let chosen = Chosen {
            chooser: &Rule,
            workload: &Workload::transfer(End::Listener, bytes),
            specs: &specs(),
            kernel: &kernel,
        };
        chosen.decide(progress)
    }

    fn pick(text: &str) -> Option<Pick> {
        Some(Pick::from(text))
    }

    fn racing(rtt: Duration) -> Progress {
        let mut progress = absent();
        progress.tcp_rtt = Some(rtt);
        for name in ["tcp", "quic", "rudp"] {
            progress.set_stage(name, Stage::Pending);
        }
        progress
    }

    fn absent() -> Progress {
        Progress::new(&Registry::with_builtins())
    }

    fn blocked() -> Stage {
        Stage::Failed(Arc::new(TransportError::UdpBlocked {
            address: "a:1".to_owned(),
            after: Duration::from_secs(1),
        }))
    }

    const FAR: Duration = Duration::from_millis(110);

    #[test]
    fn it_waits_for_a_round_trip_and_then_for_what_it_wants() {
        assert_eq!(decide(&Progress::default(), 1), None);
        assert_eq!(decide(&racing(FAR), 1), pick("rudp"));
        assert_eq!(decide(&racing(Duration::from_micros(20)), 1), pick("tcp"));
    }

    #[test]
    fn what_the_listener_does_not_offer_is_not_picked() {
        let mut progress = racing(FAR);
        progress.offer = Some(Offer::of(["tcp", "quic"]).unwrap());
        assert_eq!(decide(&progress, 36_000_000), pick("quic"));
        let candidates = candidates(&specs(), &progress);
        let why = candidates.last().and_then(|it| it.unavailable.as_deref());
        assert_eq!(why, Some("the listener does not offer it"));
        progress.set_stage("quic", Stage::Absent);
        assert_eq!(decide(&progress, 36_000_000), pick("tcp"));
    }

    #[test]
    fn with_nothing_left_it_waits_for_the_race_to_end() {
        let mut progress = racing(FAR);
        progress.set_stage("quic", blocked());
        progress.set_stage("rudp", blocked());
        progress.set_stage("tcp", Stage::Absent);
        assert_eq!(decide(&progress, 1), None);
    }

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
        let rate = known.rate.unwrap();
        assert_eq!((rate.bits_per_second, rate.relative_error), (1e8, 0.05));
        assert_eq!(known.loss, Some(Loss::new(2, 32).unwrap()));
        assert_eq!(direction(train(None, 0, (0, 0))), Direction::default());
        assert_eq!(direction(None), Direction::default());
    }

    #[test]
    fn reports_that_no_path_fulfils_are_ignored() {
        for rate in [0, u64::MAX] {
            assert_eq!(direction(train(Some(rate), 100, (32, 32))).rate, None);
        }
        let wide = direction(train(Some(1_000_000), u16::MAX, (32, 40)));
        assert_eq!(wide.rate.unwrap().relative_error, 0.5);
        assert_eq!(wide.loss, Some(Loss::new(0, 32).unwrap()));
    }

    #[test]
    fn the_path_is_known_from_the_first_round_trip_on() {
        let mut progress = absent();
        assert!(path(&progress, &Kernel::default()).is_none());
        progress.tcp_rtt = Some(Duration::from_millis(30));
        let known = path(&progress, &Kernel::default()).unwrap();
        assert_eq!((known.rtt.min_s, known.udp), (0.03, Udp::Unknown));
        progress.set_stage("quic", Stage::Pending);
        progress.set_stage("rudp", blocked());
        let udp = |progress: &Progress| path(progress, &Kernel::default()).unwrap().udp;
        // The other one may still come up.
        assert_eq!(udp(&progress), Udp::Unknown);
        progress.set_stage("quic", Stage::Absent);
        assert_eq!(udp(&progress), Udp::Blocked);
        progress.tcp_rtt = Some(Duration::MAX);
        let known = path(&progress, &Kernel::default()).unwrap();
        assert_eq!(known.rtt.min_s, MAX_RTT_S);
    }
}
