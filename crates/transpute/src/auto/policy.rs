//! The policy of a race: passes all results of the race to a chooser, which picks a transport.
//!
//! The race waits for the transport that the chooser prefers, if its connection is not established
//! yet. This wait is short: if UDP passes, path and connection are known after one round trip.

use transpute_select::{
    Candidate, Choice, Chooser, Kernel, MAX_RTT, PathEstimate, SelectError, Source, Spec,
    UdpStatus, Workload,
};
use transpute_transport::{
    ConnectError, PathSample, TransportError,
    auto::{Pick, Policy, RaceProgress, Stage},
};

use crate::selection::direction;

/// Length of the IPv4 and UDP headers of a packet, in bytes.
const UDP_HEADERS: u32 = 28;

/// A chooser, and its inputs that do not change during the race.
pub(super) struct Chosen<'a> {
    pub(super) chooser: &'a dyn Chooser,
    pub(super) workload: &'a Workload,
    pub(super) specs: &'a [Spec],
    pub(super) kernel: &'a Kernel,
}

impl Chosen<'_> {
    /// Returns the path and the choice; `None` until a round trip is complete.
    pub(super) fn choose(
        &self,
        progress: &RaceProgress,
    ) -> Option<(PathEstimate, Result<Choice, SelectError>)> {
        let path = path(progress, self.kernel)?;
        let candidates = candidates(self.specs, progress);
        let choice = (self.chooser).choose(&path, self.workload, &candidates);
        Some((path, choice))
    }
}

impl Policy for Chosen<'_> {
    fn decide(&self, progress: &RaceProgress) -> Option<Pick> {
        let (_, choice) = self.choose(progress)?;
        // An error means that no transport is usable now. The race then waits, or ends if every
        // transport has failed.
        Some(Pick::from(choice.ok()?.winner().as_str()))
    }
}

/// Returns the candidates, each with its state in the race.
pub(super) fn candidates(specs: &[Spec], progress: &RaceProgress) -> Vec<Candidate> {
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

/// Returns the measured path; `None` until a round trip is complete.
pub(super) fn path(progress: &RaceProgress, kernel: &Kernel) -> Option<PathEstimate> {
    let ups = || {
        progress
            .connections()
            .filter_map(|it| Some(&it.stage().up()?.path))
    };
    let rtts = ups().filter_map(PathSample::least_rtt);
    let rtt = rtts.chain(progress.tcp_rtt).min()?;
    // The variation is taken from a connection over the kernel's TCP, which samples the round-trip
    // time more often than the protocols on the UDP port.
    let mut without_udp = progress.connections().filter(|it| !it.uses_udp());
    let variation = without_udp.find_map(|it| it.stage().up()?.path.rtt_variation);
    let largest = ups().find_map(|it| it.largest_datagram);
    Some(PathEstimate {
        rtt: rtt.min(MAX_RTT),
        jitter: variation.map(|variation| variation.min(MAX_RTT)),
        up: direction(ups().find_map(|it| it.sent_train)),
        down: direction(ups().find_map(|it| it.received_train)),
        udp: udp(progress),
        mtu: largest.map(|bytes| u32::from(bytes) + UDP_HEADERS),
        is_one_host: progress.is_one_host,
        kernel: kernel.clone(),
        source: Source::Measured,
    })
}

fn udp(progress: &RaceProgress) -> UdpStatus {
    let over_udp = || progress.connections().filter(|it| it.uses_udp());
    let any = |is: fn(&Stage) -> bool| over_udp().any(|it| is(it.stage()));
    let is_blocked = |stage: &Stage| {
        (stage.error()).is_some_and(|it| {
            matches!(
                it.root(),
                TransportError::Connect(ConnectError::UdpBlocked { .. })
            )
        })
    };
    if any(|stage| stage.up().is_some()) {
        UdpStatus::Passes
    } else if any(is_blocked) && !any(Stage::is_pending) {
        UdpStatus::Blocked
    } else {
        UdpStatus::Unknown
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use transpute_select::{End, Rule};
    use transpute_transport::{Registry, auto::Offer};

    use super::*;

    fn specs() -> Vec<Spec> {
        ["tcp", "tcp-striped", "quic", "rudp"]
            .map(|name| name.parse().unwrap())
            .to_vec()
    }

    fn decide(progress: &RaceProgress, bytes: u64) -> Option<Pick> {
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

    fn racing(rtt: Duration) -> RaceProgress {
        let mut progress = absent();
        progress.tcp_rtt = Some(rtt);
        for name in ["tcp", "quic", "rudp"] {
            progress.set_stage(name, Stage::Pending);
        }
        progress
    }

    fn absent() -> RaceProgress {
        RaceProgress::new(&Registry::with_builtins())
    }

    fn blocked() -> Stage {
        Stage::Failed(Arc::new(TransportError::Connect(
            ConnectError::UdpBlocked {
                address: "a:1".to_owned(),
                after: Duration::from_secs(1),
            },
        )))
    }

    const FAR: Duration = Duration::from_millis(110);

    #[test]
    fn it_waits_for_a_round_trip_and_then_for_what_it_wants() {
        assert_eq!(decide(&RaceProgress::default(), 1), None);
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

    #[test]
    fn the_path_is_known_from_the_first_round_trip_on() {
        let mut progress = absent();
        assert!(path(&progress, &Kernel::default()).is_none());
        progress.tcp_rtt = Some(Duration::from_millis(30));
        let known = path(&progress, &Kernel::default()).unwrap();
        assert_eq!(
            (known.rtt, known.udp),
            (Duration::from_millis(30), UdpStatus::Unknown)
        );
        progress.set_stage("quic", Stage::Pending);
        progress.set_stage("rudp", blocked());
        let udp = |progress: &RaceProgress| path(progress, &Kernel::default()).unwrap().udp;
        // The other UDP transport may still be established.
        assert_eq!(udp(&progress), UdpStatus::Unknown);
        progress.set_stage("quic", Stage::Absent);
        assert_eq!(udp(&progress), UdpStatus::Blocked);
        progress.tcp_rtt = Some(Duration::MAX);
        let known = path(&progress, &Kernel::default()).unwrap();
        assert_eq!(known.rtt, MAX_RTT);
    }
}
