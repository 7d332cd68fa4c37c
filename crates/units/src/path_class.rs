//! Classes of paths by their round-trip time. The whole workspace uses these limits.

use std::time::Duration;

/// How far apart two parties are, nearest first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PathClass {
    /// Both parties run on one host and communicate over its loopback interface.
    SameHost,
    /// Both parties are in one building or data centre.
    SameLan,
    /// Both parties are in one metropolitan area or in neighbouring ones.
    Metropolitan,
    /// Both parties are farther apart.
    WideArea,
}

impl PathClass {
    /// Paths with a shorter round-trip time are classified as [`PathClass::SameHost`].
    ///
    /// Measured with `TCP_INFO` over loopback while two builds kept both cores busy: median 12 µs,
    /// 95th percentile 108 µs, maximum of 200 connections 276 µs. Between two hosts, a switch, two
    /// network cards and their interrupt moderation take 100 to 500 µs.
    pub const SAME_HOST_LIMIT: Duration = Duration::from_micros(200);

    /// Paths with a shorter round-trip time, of at least
    /// [`SAME_HOST_LIMIT`](Self::SAME_HOST_LIMIT), are classified as [`PathClass::SameLan`].
    ///
    /// A round trip of 1 ms corresponds to 100 km of fibre, more than any local network has.
    /// Switches add some microseconds each.
    pub const SAME_LAN_LIMIT: Duration = Duration::from_millis(1);

    /// Paths with a shorter round-trip time, of at least [`SAME_LAN_LIMIT`](Self::SAME_LAN_LIMIT),
    /// are classified as [`PathClass::Metropolitan`]. The time covers 100 km of fibre and the
    /// equipment of several providers.
    ///
    /// Measured: above this limit, slow start takes a noticeable part of a run. Where UDP is
    /// blocked, one TCP connection is faster than several below the limit, and slower above it (20
    /// cells of docs/results/selection; the result hardly depends on the limit from 3 to 50 ms).
    pub const METROPOLITAN_LIMIT: Duration = Duration::from_millis(5);

    /// Returns the class of a path with this round-trip time.
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

    /// Returns its name for messages, such as `wide-area path`.
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
