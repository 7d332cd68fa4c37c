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
