//! The policy of a race: asks a chooser with everything that the race has learnt.
//!
//! There is nothing to weigh against waiting: where UDP passes, path and connection are known after one round trip, so
//! whatever the chooser wants is picked, and the race waits for it if it is still on its way.

use transpute_transport::{
    Quic, Rudp,
    auto::{Decision, Pick, Policy, Progress, Stage},
};

use crate::{
    Candidate, Choice, Chooser, Kernel, PathEstimate, SelectError, Spec, Workload,
    observe::{self, failure},
};

/// A chooser with its question.
pub(crate) struct Chosen<'a> {
    pub(crate) chooser: &'a dyn Chooser,
    pub(crate) workload: &'a Workload,
    pub(crate) specs: &'a [Spec],
    pub(crate) kernel: &'a Kernel,
}

impl Chosen<'_> {
    /// Returns the path and the choice by what is known; `None` until there was a round trip.
    pub(crate) fn choose(
        &self,
        progress: &Progress,
    ) -> Option<(PathEstimate, Result<Choice, SelectError>)> {
        let path = observe::path(progress, self.kernel)?;
        let candidates = candidates(self.specs, progress);
        let choice = (self.chooser).choose(&path, self.workload, &candidates);
        Some((path, choice))
    }
}

impl Policy for Chosen<'_> {
    fn decide(&self, progress: &Progress) -> Decision {
        let pick = match self.choose(progress) {
            Some((_, Ok(choice))) => choice.winner().as_str().parse::<Pick>().ok(),
            // Nothing can be used yet, or ever: the race knows which.
            Some((_, Err(_))) | None => None,
        };
        pick.map_or(Decision::Wait, Decision::Pick)
    }
}

/// Returns the candidates as the race has them.
pub(crate) fn candidates(specs: &[Spec], progress: &Progress) -> Vec<Candidate> {
    (specs.iter())
        .map(|spec| {
            let (is_up, obstacle) = match spec.name() {
                Quic::NAME => state(&progress.quic),
                Rudp::NAME => state(&progress.rudp),
                _ => state(&progress.tcp),
            };
            let offer = progress.offer.as_ref();
            let is_offered = offer.is_none_or(|offer| offer.allows(spec.name()));
            Candidate {
                spec: spec.clone(),
                is_up,
                unavailable: match is_offered {
                    true => obstacle,
                    false => Some("the listener does not offer it".to_owned()),
                },
            }
        })
        .collect()
}

/// Returns whether a connection is up, and why it cannot be used.
fn state<R>(stage: &Stage<R>) -> (bool, Option<String>) {
    let obstacle = match stage {
        Stage::Absent => Some("it is not available here".to_owned()),
        stage => failure(stage).map(|error| error.root().to_string()),
    };
    (stage.up().is_some(), obstacle)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use transpute_transport::{TransportError, auto::Offer};

    use super::*;
    use crate::{End, Rule};

    fn specs() -> Vec<Spec> {
        ["tcp", "tcp-striped", "quic", "rudp"]
            .map(|name| name.parse().unwrap())
            .to_vec()
    }

    fn decide(progress: &Progress, bytes: u64) -> Decision {
        let kernel = Kernel {
            congestion_control: Some("bbr".to_owned()),
            ..Kernel::default()
        };
        let chosen = Chosen {
            chooser: &Rule,
            workload: &Workload::transfer(End::Listener, bytes).unwrap(),
            specs: &specs(),
            kernel: &kernel,
        };
        chosen.decide(progress)
    }

    fn pick(text: &str) -> Decision {
        Decision::Pick(text.parse().unwrap())
    }

    fn racing(rtt: Duration) -> Progress {
        let mut progress = Progress::default();
        progress.tcp_rtt = Some(rtt);
        (progress.tcp, progress.quic, progress.rudp) =
            (Stage::Pending, Stage::Pending, Stage::Pending);
        progress
    }

    fn blocked<R>() -> Stage<R> {
        Stage::Failed(Arc::new(TransportError::UdpBlocked {
            address: "a:1".to_owned(),
            after: Duration::from_secs(1),
        }))
    }

    const FAR: Duration = Duration::from_millis(110);

    #[test]
    fn it_waits_for_a_round_trip_and_then_for_what_it_wants() {
        assert_eq!(decide(&Progress::default(), 1), Decision::Wait);
        assert_eq!(decide(&racing(FAR), 1), pick("rudp"));
        assert_eq!(decide(&racing(Duration::from_micros(20)), 1), pick("tcp"));
    }

    #[test]
    fn where_udp_is_blocked_the_distance_decides() {
        for (rtt, expected) in [(FAR, "tcp-striped"), (Duration::from_millis(3), "tcp")] {
            let mut progress = racing(rtt);
            (progress.quic, progress.rudp) = (blocked(), blocked());
            assert_eq!(decide(&progress, 36_000_000), pick(expected));
        }
    }

    #[test]
    fn what_the_listener_does_not_offer_is_not_picked() {
        let mut progress = racing(FAR);
        progress.offer = Some(Offer::of(["tcp", "quic"]).unwrap());
        assert_eq!(decide(&progress, 36_000_000), pick("quic"));
        let candidates = candidates(&specs(), &progress);
        let why = candidates.last().and_then(|it| it.unavailable.as_deref());
        assert_eq!(why, Some("the listener does not offer it"));
        progress.quic = Stage::Absent;
        assert_eq!(decide(&progress, 36_000_000), pick("tcp"));
    }

    #[test]
    fn with_nothing_left_it_waits_for_the_race_to_end() {
        let mut progress = racing(FAR);
        (progress.quic, progress.rudp) = (blocked(), blocked());
        progress.tcp = Stage::Absent;
        assert_eq!(decide(&progress, 1), Decision::Wait);
    }
}
