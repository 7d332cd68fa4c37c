//! Classes of paths by round-trip time. All crates of the workspace use the limits defined here.

use std::time::Duration;

/// The class of a path by its round-trip time, which indicates the distance of the two parties. The
/// order is by increasing distance.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PathClass {
    /// Both parties run on one host and communicate over its loopback interface.
    SameHost,
    /// Both parties are in one building or data centre.
    SameLan,
    /// Both parties are in one metropolitan area or in neighbouring ones.
    Metropolitan,
    /// The parties are farther apart than in one metropolitan area or in neighbouring ones.
    WideArea,
}

impl PathClass {
    /// A path with a smaller round-trip time is in class [`PathClass::SameHost`].
    ///
    /// Round-trip time over loopback on a host whose two cores were busy, measured with `TCP_INFO`
    /// on 200 connections: median 12 µs, 95th percentile 108 µs, maximum 276 µs. Between two hosts,
    /// a switch, two network cards and their interrupt moderation take 100 to 500 µs.
    pub const SAME_HOST_LIMIT: Duration = Duration::from_micros(200);

    /// A path with a round-trip time below this limit, but not below
    /// [`SAME_HOST_LIMIT`](Self::SAME_HOST_LIMIT), is in class [`PathClass::SameLan`].
    ///
    /// Light takes 1 ms for a round trip over 100 km of fibre, which is longer than any local
    /// network. Each switch adds only some microseconds.
    pub const SAME_LAN_LIMIT: Duration = Duration::from_millis(1);

    /// A path with a round-trip time below this limit, but not below
    /// [`SAME_LAN_LIMIT`](Self::SAME_LAN_LIMIT), is in class [`PathClass::Metropolitan`].
    ///
    /// 5 ms are enough for 100 km of fibre and the equipment of several providers. On slower paths,
    /// slow start takes a noticeable part of a run. Measured without UDP in 20 cells of
    /// docs/results/selection: one TCP connection is faster than several below the limit, and
    /// slower above it. Any limit from 3 to 50 ms gives almost the same results.
    pub const METROPOLITAN_LIMIT: Duration = Duration::from_millis(5);

    /// Returns the class of a path whose round-trip time without queueing is `rtt`.
    #[must_use]
    pub fn of(rtt: Duration) -> Self {
        if rtt < Self::SAME_HOST_LIMIT {
            Self::SameHost
        } else if rtt < Self::SAME_LAN_LIMIT {
            Self::SameLan
        } else if rtt < Self::METROPOLITAN_LIMIT {
            Self::Metropolitan
        } else {
            Self::WideArea
        }
    }

    /// Returns the name of the class for messages, such as `wide-area path`.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::SameHost => "same host",
            Self::SameLan => "same LAN",
            Self::Metropolitan => "metropolitan path",
            Self::WideArea => "wide-area path",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_begins_the_next_class() {
        let of = |micros| PathClass::of(Duration::from_micros(micros));
        assert_eq!([of(0), of(199)], [PathClass::SameHost; 2]);
        assert_eq!([of(200), of(999)], [PathClass::SameLan; 2]);
        assert_eq!([of(1_000), of(4_999)], [PathClass::Metropolitan; 2]);
        assert_eq!([of(5_000), of(600_000)], [PathClass::WideArea; 2]);
    }

    #[test]
    fn classes_are_ordered_by_distance() {
        assert!(PathClass::SameHost < PathClass::SameLan);
        assert!(PathClass::SameLan < PathClass::Metropolitan);
        assert!(PathClass::Metropolitan < PathClass::WideArea);
    }
}
