//! The properties of a path that a party knows.

use std::time::Duration;

use crate::{Bandwidth, Loss};

/// The properties of a path that a party knows, by measurement or configuration. `None` means
/// unknown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KnownPath {
    /// The round-trip time of the path without queueing.
    pub rtt: Option<Duration>,
    /// The properties of the direction in which this party sends.
    pub to_peer: KnownDirection,
    /// The properties of the direction in which the peer sends.
    pub from_peer: KnownDirection,
}

/// The properties of one direction of a path that a party knows. `None` means unknown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KnownDirection {
    /// The rate of the bottleneck, which counts packet headers.
    pub rate: Option<Bandwidth>,
    /// The numbers of packets that were sent and lost in this direction.
    pub loss: Option<Loss>,
    /// The capacity of the bottleneck's queue, in bytes.
    pub queue_bytes: Option<u64>,
}

impl KnownPath {
    /// Returns a path of which only the round-trip time is known.
    #[must_use]
    pub fn of_rtt(rtt: Duration) -> Self {
        Self {
            rtt: Some(rtt),
            ..Self::default()
        }
    }

    /// Returns the same path from the view of the peer: the two directions are exchanged.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            rtt: self.rtt,
            to_peer: self.from_peer,
            from_peer: self.to_peer,
        }
    }

    /// Returns this path, with properties from `other` in place of unknown ones.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            rtt: self.rtt.or(other.rtt),
            to_peer: self.to_peer.or(other.to_peer),
            from_peer: self.from_peer.or(other.from_peer),
        }
    }
}

impl KnownDirection {
    /// Returns a direction of which only the rate is known.
    #[must_use]
    pub fn of_rate(rate: Bandwidth) -> Self {
        Self {
            rate: Some(rate),
            ..Self::default()
        }
    }

    /// Returns this direction, with properties from `other` in place of unknown ones.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            rate: self.rate.or(other.rate),
            loss: self.loss.or(other.loss),
            queue_bytes: self.queue_bytes.or(other.queue_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn direction()(
            rate in proptest::option::of(0.0_f64..1e12),
            loss in proptest::option::of(0.0_f64..1.0),
            queue_bytes in proptest::option::of(any::<u64>()),
        ) -> KnownDirection {
            KnownDirection {
                rate: rate.map(Bandwidth::from_bits_per_second),
                loss: loss.and_then(Loss::known),
                queue_bytes,
            }
        }
    }

    prop_compose! {
        fn path()(
            rtt in proptest::option::of(any::<u64>()),
            to_peer in direction(),
            from_peer in direction(),
        ) -> KnownPath {
            KnownPath { rtt: rtt.map(Duration::from_nanos), to_peer, from_peer }
        }
    }

    proptest! {
        #[test]
        fn what_is_known_stays_when_a_path_is_completed(a in path(), b in path()) {
            let both = a.or(b);
            prop_assert_eq!(both.or(a), both);
            prop_assert_eq!(a.or(KnownPath::default()), a);
            prop_assert_eq!(KnownPath::default().or(b), b);
            prop_assert_eq!(both.rtt, a.rtt.or(b.rtt));
            prop_assert_eq!(both.to_peer, a.to_peer.or(b.to_peer));
            prop_assert_eq!(both.from_peer.rate, a.from_peer.rate.or(b.from_peer.rate));
        }

        #[test]
        fn a_path_reversed_twice_is_the_same(a in path(), b in path()) {
            prop_assert_eq!(a.reversed().reversed(), a);
            prop_assert_eq!(a.reversed().to_peer, a.from_peer);
            prop_assert_eq!(a.or(b).reversed(), a.reversed().or(b.reversed()));
        }
    }
}
