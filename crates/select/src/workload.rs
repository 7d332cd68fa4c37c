//! The workload of a computation: its bytes, flights and processor time.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::{DirectionEstimate, PathEstimate, SelectError, error::checked};

/// Maximum accepted number of bytes, far above that of any run.
const MAX_BYTES: f64 = 1e18;

/// One end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum End {
    /// The end that connects.
    Connector,
    /// The end that listens.
    Listener,
}

/// The traffic, flights and processor time of a run of the two-party protocol. Times are in
/// seconds.
///
/// The time starts when the connector's link is established. The listener's link is established
/// half a round trip later, so the listener can send only from then on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
pub struct Workload {
    /// The garbler's end.
    pub garbler: End,
    /// Bytes of protocol frames from garbler to evaluator: tables, answers of oblivious transfer,
    /// labels, decoding information.
    pub garbler_bytes: u64,
    /// The part of `garbler_bytes` that the garbler can send only after it has received a message:
    /// answers of oblivious transfer, labels and decoding information.
    pub garbler_late_bytes: u64,
    /// Bytes of protocol frames from evaluator to garbler: oblivious transfer, masked outputs.
    pub evaluator_bytes: u64,
    /// Number of one-way flights from the connection of both parties to the evaluator's output: 2
    /// with direct oblivious transfer or none, 3 with an extension (`OtPlan::flights` of
    /// transpute-session).
    pub flights: u32,
    /// Processor time that does not overlap with anything else: that of base oblivious transfers.
    pub serial_s: f64,
    /// Processor time of the garbler that overlaps with sending.
    pub garble_s: f64,
    /// Processor time of the evaluator that overlaps with receiving.
    pub evaluate_s: f64,
}

impl Workload {
    /// Checks that every number is in its range. The fields are public, so the choosers and the
    /// model call this first.
    ///
    /// # Errors
    /// Returns [`SelectError::Number`], which names the field.
    pub fn validate(&self) -> Result<(), SelectError> {
        let (bytes, seconds) = ((0.0, MAX_BYTES), (0.0, 1e9));
        let late = (0.0, self.garbler_bytes as f64);
        for (field, value, range, expected) in [
            (
                "garbler_bytes",
                self.garbler_bytes as f64,
                bytes,
                "0 to 1e18 bytes",
            ),
            (
                "evaluator_bytes",
                self.evaluator_bytes as f64,
                bytes,
                "0 to 1e18 bytes",
            ),
            (
                "garbler_late_bytes",
                self.garbler_late_bytes as f64,
                late,
                "no more than garbler_bytes",
            ),
            ("flights", f64::from(self.flights), (1.0, 1e6), "1 to 1e6"),
            ("serial_s", self.serial_s, seconds, "0 to 1e9 seconds"),
            ("garble_s", self.garble_s, seconds, "0 to 1e9 seconds"),
            ("evaluate_s", self.evaluate_s, seconds, "0 to 1e9 seconds"),
        ] {
            checked(field, value, range, expected)?;
        }
        Ok(())
    }

    /// Returns the workload of a one-way transfer from this end, without computing.
    #[must_use]
    pub fn transfer(from: End, bytes: u64) -> Self {
        Self {
            garbler: from,
            garbler_bytes: bytes,
            garbler_late_bytes: 0,
            evaluator_bytes: 0,
            flights: 1,
            serial_s: 0.0,
            garble_s: 0.0,
            evaluate_s: 0.0,
        }
    }

    /// Returns the workload of `runs` runs like this one on one connection, of which `at_once` run
    /// at the same time. A run that must wait for an earlier one adds a round trip. Serial
    /// computing is needed only once.
    #[must_use]
    pub fn repeated(&self, runs: u64, at_once: u64) -> Self {
        let runs = runs.max(1);
        let later = runs.div_ceil(at_once.max(1)) - 1;
        let flights = u64::from(self.flights).saturating_add(later.saturating_mul(2));
        Self {
            garbler_bytes: self.garbler_bytes.saturating_mul(runs),
            garbler_late_bytes: self.garbler_late_bytes.saturating_mul(runs),
            evaluator_bytes: self.evaluator_bytes.saturating_mul(runs),
            flights: flights.try_into().unwrap_or(u32::MAX),
            garble_s: self.garble_s * runs as f64,
            evaluate_s: self.evaluate_s * runs as f64,
            ..*self
        }
    }

    /// Returns the bytes from connector to listener.
    #[must_use]
    pub fn bytes_up(&self) -> u64 {
        match self.garbler {
            End::Connector => self.garbler_bytes,
            End::Listener => self.evaluator_bytes,
        }
    }

    /// Returns the bytes from listener to connector.
    #[must_use]
    pub fn bytes_down(&self) -> u64 {
        match self.garbler {
            End::Connector => self.evaluator_bytes,
            End::Listener => self.garbler_bytes,
        }
    }

    /// Returns the number of bytes in the direction with more bytes, and that direction of `path`.
    pub(crate) fn busier<'a>(&self, path: &'a PathEstimate) -> (u64, &'a DirectionEstimate) {
        let (up, down) = (self.bytes_up(), self.bytes_down());
        match up >= down {
            true => (up, &path.up),
            false => (down, &path.down),
        }
    }

    /// Returns the number of round trips from the time when the connector's link is established to
    /// the evaluator's output, if sending and computing take no time.
    ///
    /// The protocol determines the end that sends the first flight. With an even number of flights
    /// it is the evaluator (its hello is answered with labels and decoding information), with an
    /// odd number the garbler. A listener can only send half a round trip after the connector's
    /// link is established.
    #[must_use]
    pub fn round_trips(&self) -> f64 {
        let speaks_first = match (self.flights % 2, self.garbler) {
            (0, End::Connector) => End::Listener,
            (0, End::Listener) => End::Connector,
            (_, end) => end,
        };
        f64::from(self.flights) / 2.0 + Self::wait(speaks_first)
    }

    /// Returns the time until the link of `end` is established, in round trips.
    fn wait(end: End) -> f64 {
        match end {
            End::Connector => 0.0,
            End::Listener => 0.5,
        }
    }

    /// Returns the time until the first table arrives, in round trips, if garbling takes no time.
    pub(crate) fn first_table(&self) -> f64 {
        Self::wait(self.garbler) + 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_depend_on_who_speaks_first_and_when_it_can() {
        let round_trips = |garbler, flights| {
            let mut work = Workload::transfer(garbler, 0);
            work.flights = flights;
            work.round_trips()
        };
        // docs/protocol.md, with the evaluator connecting: its hello is sent at 0 and answered at
        // 0.5.
        assert_eq!(round_trips(End::Listener, 2), 1.0);
        // The extension starts with the garbler's message, which is sent at 0.5.
        assert_eq!(round_trips(End::Listener, 3), 2.0);
        assert_eq!(round_trips(End::Connector, 2), 1.5);
        assert_eq!(round_trips(End::Connector, 3), 1.5);
        assert_eq!(round_trips(End::Connector, 1), 0.5);
    }

    #[test]
    fn runs_on_one_connection_take_a_round_trip_for_each_that_follows_another() {
        let one = Workload {
            garbler_late_bytes: 100,
            evaluator_bytes: 10,
            flights: 2,
            serial_s: 1.0,
            garble_s: 2.0,
            evaluate_s: 3.0,
            ..Workload::transfer(End::Listener, 1000)
        };
        assert_eq!(one.repeated(1, 1), one);
        assert_eq!(one.repeated(0, 0), one);
        for (at_once, round_trips) in [(1, 10.0), (3, 4.0), (10, 1.0), (99, 1.0)] {
            let ten = one.repeated(10, at_once);
            assert_eq!(ten.round_trips(), round_trips);
            assert_eq!((ten.bytes_down(), ten.bytes_up()), (10_000, 100));
            assert_eq!(ten.garbler_late_bytes, 1000);
            assert_eq!(
                [ten.serial_s, ten.garble_s, ten.evaluate_s],
                [1.0, 20.0, 30.0]
            );
        }
        assert!(one.repeated(u64::MAX, 1).validate().is_err());
    }

    #[test]
    fn figures_that_are_none_are_refused() {
        let good = Workload::transfer(End::Listener, 1000);
        let mut wrong = [good; 5];
        wrong[0].serial_s = f64::NAN;
        wrong[1].garble_s = -1.0;
        wrong[2].garbler_late_bytes = 1001;
        wrong[3].flights = 0;
        wrong[4].garbler_bytes = u64::MAX;
        assert!(wrong.iter().all(|work| work.validate().is_err()));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_comes_back() {
        let good = Workload::transfer(End::Listener, 1000);
        let text = serde_json::to_string(&good).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&text).unwrap(), good);
        assert!(serde_json::from_str::<Workload>(&text.replace("1000", "-1")).is_err());
    }
}
