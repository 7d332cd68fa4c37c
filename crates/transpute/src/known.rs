//! What is known of a path for planning oblivious transfers.

use transpute_select::Direction;
use transpute_session::{KnownPath, Role};
use transpute_transport::{LinkInfo, LinkSnapshot};

use crate::auto::Selection;

/// Returns what is known of the path when the link is there.
pub(crate) fn known_path(
    info: &LinkInfo,
    link: &LinkSnapshot,
    selection: Option<&Selection>,
    role: Role,
) -> Option<KnownPath> {
    let handshake = info.timings.handshake;
    let rtt = (link.path.min_rtt)
        .or(link.path.rtt)
        .or((!handshake.is_zero()).then_some(handshake))?;
    let mut path = KnownPath::of(rtt);
    if let Some(selection) = selection {
        // Whoever has a selection is the connector, and measured both directions.
        let rate = |sense: &Direction| sense.rate.as_ref().map(|rate| rate.bits_per_second / 8.0);
        let (up, down) = (rate(&selection.path.up), rate(&selection.path.down));
        (path.to_garbler, path.to_evaluator) = match role {
            Role::Evaluator => (up, down),
            Role::Garbler => (down, up),
        };
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use transpute_session::SAME_HOST_RTT;
    use transpute_transport::PathClass;

    #[test]
    fn transfers_are_planned_for_the_same_classes_of_paths() {
        let below = SAME_HOST_RTT - Duration::from_nanos(1);
        assert_eq!(PathClass::of(below), PathClass::SameHost);
        assert_eq!(PathClass::of(SAME_HOST_RTT), PathClass::SameLan);
    }
}
