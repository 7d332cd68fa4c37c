//! What a computation asks of a path.

use serde::{Deserialize, Serialize};

use crate::{Direction, PathEstimate, SelectError, error::checked};

/// More bytes than any run has.
const MAX_BYTES: f64 = 1e18;

/// Which end of a connection a party is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The one that connects.
    Connector,
    /// The one that listens.
    Listener,
}

/// What a run of the two-party protocol sends, waits for and computes.
///
/// Time starts when the connector's link is up. A listener's is up half a round trip later, and so it sends and answers
/// that much later.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Workload(Parts);

/// The figures of a [`Workload`], as the caller knows them. Times are in seconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Parts {
    /// Which end garbles.
    pub garbler: End,
    /// Bytes of protocol frames from garbler to evaluator: tables, answers of oblivious transfer, labels, decoding
    /// information.
    pub garbler_bytes: u64,
    /// Of these, bytes that cannot leave before the garbler has heard from the evaluator: answers of oblivious transfer,
    /// labels and decoding information.
    pub garbler_late_bytes: u64,
    /// Bytes of protocol frames from evaluator to garbler: oblivious transfer, masked outputs.
    pub evaluator_bytes: u64,
    /// One-way flights from both parties being connected until the evaluator can have its output: 2 with direct oblivious
    /// transfer or none, 3 with an extension (`OtPlan::flights` of transpute-session).
    pub flights: u32,
    /// Processor time of one party that nothing else overlaps: base oblivious transfers.
    pub serial_s: f64,
    /// Processor time of the garbler that overlaps sending.
    pub garble_s: f64,
    /// Processor time of the evaluator that overlaps receiving.
    pub evaluate_s: f64,
}

impl Workload {
    /// Checks figures.
    ///
    /// # Errors
    /// [`SelectError::Number`], which names the field.
    pub fn new(parts: Parts) -> Result<Self, SelectError> {
        let bytes = "0 to 1e18 bytes";
        for (field, value) in [
            ("garbler_bytes", parts.garbler_bytes),
            ("evaluator_bytes", parts.evaluator_bytes),
        ] {
            checked(field, value as f64, (0.0, MAX_BYTES), bytes)?;
        }
        checked(
            "garbler_late_bytes",
            parts.garbler_late_bytes as f64,
            (0.0, parts.garbler_bytes as f64),
            "no more than garbler_bytes",
        )?;
        checked("flights", f64::from(parts.flights), (1.0, 1e6), "1 to 1e6")?;
        for (field, value) in [
            ("serial_s", parts.serial_s),
            ("garble_s", parts.garble_s),
            ("evaluate_s", parts.evaluate_s),
        ] {
            checked(field, value, (0.0, 1e9), "0 to 1e9 seconds")?;
        }
        Ok(Self(parts))
    }

    /// Describes moving bytes one way and nothing else, from the end given.
    ///
    /// # Errors
    /// [`SelectError::Number`].
    pub fn transfer(from: End, bytes: u64) -> Result<Self, SelectError> {
        Self::new(Parts {
            garbler: from,
            garbler_bytes: bytes,
            garbler_late_bytes: 0,
            evaluator_bytes: 0,
            flights: 1,
            serial_s: 0.0,
            garble_s: 0.0,
            evaluate_s: 0.0,
        })
    }

    /// Describes so many runs of this on one connection, `at_once` of them under way at a time, each begun when another is
    /// done: a round trip for each that follows another. What nothing overlaps is done once.
    ///
    /// # Errors
    /// [`SelectError::Number`].
    pub fn repeated(&self, runs: u64, at_once: u64) -> Result<Self, SelectError> {
        let runs = runs.max(1);
        let later = runs.div_ceil(at_once.max(1)) - 1;
        let one = self.0;
        Self::new(Parts {
            garbler_bytes: one.garbler_bytes.saturating_mul(runs),
            garbler_late_bytes: one.garbler_late_bytes.saturating_mul(runs),
            evaluator_bytes: one.evaluator_bytes.saturating_mul(runs),
            flights: u32::try_from(u64::from(one.flights).saturating_add(later.saturating_mul(2)))
                .unwrap_or(u32::MAX),
            garble_s: one.garble_s * runs as f64,
            evaluate_s: one.evaluate_s * runs as f64,
            ..one
        })
    }

    /// Returns the figures.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.0
    }

    /// Returns the bytes from connector to listener.
    #[must_use]
    pub fn bytes_up(&self) -> u64 {
        match self.0.garbler {
            End::Connector => self.0.garbler_bytes,
            End::Listener => self.0.evaluator_bytes,
        }
    }

    /// Returns the bytes from listener to connector.
    #[must_use]
    pub fn bytes_down(&self) -> u64 {
        match self.0.garbler {
            End::Connector => self.0.evaluator_bytes,
            End::Listener => self.0.garbler_bytes,
        }
    }

    /// Returns the bytes that go where more of them go, and that direction of the path.
    pub(crate) fn busier<'a>(&self, path: &'a PathEstimate) -> (u64, &'a Direction) {
        let (up, down) = (self.bytes_up(), self.bytes_down());
        match up >= down {
            true => (up, &path.up),
            false => (down, &path.down),
        }
    }

    /// Returns how many round trips pass from the connector's link being up to the evaluator's output, if bytes and
    /// computing took no time.
    ///
    /// The first flight leaves whichever end the protocol asks to speak first. Of an even number of flights that is the
    /// evaluator (its hello brings back labels and decoding information), of an odd number the garbler. If it is the
    /// listener it can only speak half a round trip after the connector's link is up.
    #[must_use]
    pub fn round_trips(&self) -> f64 {
        let speaks_first = match (self.0.flights % 2, self.0.garbler) {
            (0, End::Connector) => End::Listener,
            (0, End::Listener) => End::Connector,
            (_, end) => end,
        };
        f64::from(self.0.flights) / 2.0 + Self::wait(speaks_first)
    }

    /// Returns after how many round trips an end has its link.
    fn wait(end: End) -> f64 {
        match end {
            End::Connector => 0.0,
            End::Listener => 0.5,
        }
    }

    /// Returns after how many round trips the first table is there, if it took no time to make.
    pub(crate) fn first_table(&self) -> f64 {
        Self::wait(self.0.garbler) + 0.5
    }
}

impl TryFrom<Parts> for Workload {
    type Error = SelectError;

    fn try_from(parts: Parts) -> Result<Self, SelectError> {
        Self::new(parts)
    }
}

impl From<Workload> for Parts {
    fn from(workload: Workload) -> Self {
        workload.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_depend_on_who_speaks_first_and_when_it_can() {
        let round_trips = |garbler, flights| {
            let mut parts = *Workload::transfer(garbler, 0).unwrap().parts();
            parts.flights = flights;
            Workload::new(parts).unwrap().round_trips()
        };
        // docs/protocol.md, with the evaluator connecting: its hello leaves at 0 and is answered at 0.5.
        assert_eq!(round_trips(End::Listener, 2), 1.0);
        // The extension starts with the garbler's message, which leaves at 0.5.
        assert_eq!(round_trips(End::Listener, 3), 2.0);
        assert_eq!(round_trips(End::Connector, 2), 1.5);
        assert_eq!(round_trips(End::Connector, 3), 1.5);
        assert_eq!(round_trips(End::Connector, 1), 0.5);
    }

    #[test]
    fn runs_on_one_connection_take_a_round_trip_for_each_that_follows_another() {
        let one = Workload::new(Parts {
            garbler: End::Listener,
            garbler_bytes: 1000,
            garbler_late_bytes: 100,
            evaluator_bytes: 10,
            flights: 2,
            serial_s: 1.0,
            garble_s: 2.0,
            evaluate_s: 3.0,
        });
        let one = one.unwrap();
        assert_eq!(one.repeated(1, 1).unwrap(), one);
        assert_eq!(one.repeated(0, 0).unwrap(), one);
        for (at_once, round_trips) in [(1, 10.0), (3, 4.0), (10, 1.0), (99, 1.0)] {
            let ten = one.repeated(10, at_once).unwrap();
            assert_eq!(ten.round_trips(), round_trips);
            assert_eq!((ten.bytes_down(), ten.bytes_up()), (10_000, 100));
            assert_eq!(ten.parts().garbler_late_bytes, 1000);
            let Parts {
                serial_s,
                garble_s,
                evaluate_s,
                ..
            } = *ten.parts();
            assert_eq!([serial_s, garble_s, evaluate_s], [1.0, 20.0, 30.0]);
        }
        assert!(one.repeated(u64::MAX, 1).is_err());
    }

    #[test]
    fn figures_that_are_none_are_refused() {
        let good = *Workload::transfer(End::Listener, 1000).unwrap().parts();
        for wrong in [
            Parts {
                serial_s: f64::NAN,
                ..good
            },
            Parts {
                garble_s: -1.0,
                ..good
            },
            Parts {
                garbler_late_bytes: 1001,
                ..good
            },
            Parts { flights: 0, ..good },
            Parts {
                garbler_bytes: u64::MAX,
                ..good
            },
        ] {
            assert!(Workload::new(wrong).is_err(), "{wrong:?}");
        }
        let text = serde_json::to_string(&Workload::new(good).unwrap()).unwrap();
        assert_eq!(
            serde_json::from_str::<Workload>(&text).unwrap().parts(),
            &good
        );
        assert!(serde_json::from_str::<Workload>(&text.replace("1000", "-1")).is_err());
    }
}
