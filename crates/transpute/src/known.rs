//! The properties of a path that are known when its link is new. They decide the plan of oblivious
//! transfers and the garbling scheme.

use std::time::Duration;

use transpute_session::Role;
use transpute_transport::{LinkInfo, LinkSnapshot};
use transpute_units::KnownPath;

/// Returns the round-trip time of a new link: the minimum measured, or else the duration of the
/// handshake. `None` if neither is known.
pub(crate) fn round_trip(info: &LinkInfo, link: &LinkSnapshot) -> Option<Duration> {
    let handshake = info.timings.handshake;
    (link.path.least_rtt()).or((!handshake.is_zero()).then_some(handshake))
}

/// Converts a path from this party's view to the evaluator's.
pub(crate) fn as_evaluator(path: KnownPath, role: Role) -> KnownPath {
    match role {
        Role::Evaluator => path,
        Role::Garbler => path.reversed(),
    }
}

#[cfg(test)]
mod tests {
    use transpute_units::{Bandwidth, KnownDirection};

    use super::*;

    #[test]
    fn the_evaluator_receives_what_the_garbler_sends() {
        let path = KnownPath {
            to_peer: KnownDirection::of_rate(Bandwidth::ASSUMED),
            ..KnownPath::of_rtt(Duration::from_millis(1))
        };
        assert_eq!(as_evaluator(path, Role::Evaluator), path);
        assert_eq!(as_evaluator(path, Role::Garbler).from_peer, path.to_peer);
    }
}
