//! Bytes that arrived, by time of arrival.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bytes that arrived in each interval since the first packet.
///
/// The last interval is the last one in which any byte arrived. Recording ends after an hour.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// Bytes of IP packets that arrived at B.
    pub up: Vec<u64>,
    /// Bytes of IP packets that arrived at A.
    pub down: Vec<u64>,
}

impl Timeline {
    /// The length of an interval.
    pub const INTERVAL: Duration = Duration::from_millis(10);

    /// The maximum number of intervals that are recorded: one hour.
    const MAX_SAMPLES: usize = 360_000;

    /// Adds the bytes that arrived at this time after the first packet, in the directions up and
    /// down.
    pub(super) fn record(&mut self, at: Duration, bytes: [u64; 2]) {
        // The cast saturates far beyond the last interval that is recorded.
        let index = (at.as_millis() / Self::INTERVAL.as_millis()) as usize;
        if index >= Self::MAX_SAMPLES {
            return;
        }
        for (direction, bytes) in [&mut self.up, &mut self.down].into_iter().zip(bytes) {
            if direction.len() <= index {
                direction.resize(index + 1, 0);
            }
            direction[index] += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_land_in_their_interval() {
        let mut timeline = Timeline::default();
        timeline.record(Duration::from_micros(9_999), [1, 0]);
        timeline.record(Duration::from_micros(9_999), [2, 5]);
        timeline.record(Duration::from_millis(30), [0, 7]);
        timeline.record(Duration::from_secs(4000), [9, 9]);
        assert_eq!(timeline.up, [3, 0, 0, 0]);
        assert_eq!(timeline.down, [5, 0, 0, 7]);
    }
}
