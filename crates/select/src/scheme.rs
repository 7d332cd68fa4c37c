//! Chooses the fastest garbling scheme for a path: one with fewer bytes, or one with less
//! computing.

use std::{fmt, time::Duration};

use transpute_units::{Bandwidth, PathClass};

/// The cost of an AND gate with a garbling scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeCost {
    /// The scheme's name.
    pub name: &'static str,
    /// Bytes of tables per AND gate.
    pub and_bytes: f64,
    /// Time to garble an AND gate on one core, in seconds. Evaluating is faster.
    pub and_s: f64,
}

impl SchemeCost {
    /// The schemes with free XOR on a typical machine: one core of a server of 2023 with VAES-512,
    /// and one instance of MinCut (10^6 AND gates) at a time. Bytes follow from the schemes
    /// (docs/protocol.md, "Tables"). Times are measured with `cargo bench -p transpute-benches
    /// --bench garbling -- mincut` (docs/performance.md: 69, 84 and 42 million AND gates per
    /// second). Only the ratio of computing time to transfer time matters.
    pub const TYPICAL: [Self; 3] = [
        Self::of("half-gates", 32.0, 14.5e-9),
        Self::of("fixed-key", 32.0, 11.9e-9),
        Self::of("three-halves", 24.625, 23.8e-9),
    ];

    const fn of(name: &'static str, and_bytes: f64, and_s: f64) -> Self {
        Self {
            name,
            and_bytes,
            and_s,
        }
    }

    /// Returns the cost of the scheme with this name on a typical machine.
    #[must_use]
    pub fn typical(name: &str) -> Option<Self> {
        Self::TYPICAL.into_iter().find(|cost| cost.name == name)
    }
}

/// A rate below this one is treated as unknown.
const MIN_RATE: Bandwidth = Bandwidth::from_bytes_per_second(1.0);

/// A scheme, with the predicted time of its tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeTime {
    /// The scheme's name.
    pub name: &'static str,
    /// Time to garble or to transfer the tables of all AND gates, whichever is longer.
    pub seconds: f64,
    /// The transfer of the tables takes longer than garbling them.
    pub is_limited_by_bytes: bool,
}

/// The chosen scheme. [`Display`](fmt::Display) explains the choice in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeChoice {
    /// All allowed schemes, the fastest first.
    pub ranking: Vec<SchemeTime>,
    /// The rate of the path that was used for the comparison. It is `None` if the rate is unknown
    /// and both parties run on one host ([`PathClass::SameHost`]). The transfer time is then
    /// ignored.
    pub rate: Option<Bandwidth>,
    /// The rate was known. If it is false, `rate` is [`Bandwidth::ASSUMED`] or `None`.
    pub is_rate_known: bool,
}

impl SchemeChoice {
    /// Returns the chosen scheme.
    #[must_use]
    pub fn chosen(&self) -> &SchemeTime {
        // The ranking is not empty: `choose_scheme` returns `None` for an empty list.
        &self.ranking[0]
    }
}

/// Chooses the scheme of `costs` that garbles and transfers its tables in the shortest time. If two
/// are equal, the first one is chosen. Returns `None` if `costs` is empty.
///
/// `rate` is the rate of the path from the garbler to the evaluator. Garbling, sending and
/// evaluating overlap, so the slowest of them determines the time: `max(bytes / rate, computing)`.
#[must_use]
pub fn choose_scheme(
    costs: &[SchemeCost],
    and_gates: u64,
    rate: Option<Bandwidth>,
    rtt: Option<Duration>,
) -> Option<SchemeChoice> {
    let known = rate.filter(|rate| *rate >= MIN_RATE);
    let is_local = rtt.map(PathClass::of) == Some(PathClass::SameHost);
    let rate = known.or((!is_local).then_some(Bandwidth::ASSUMED));
    let mut ranking: Vec<_> = (costs.iter())
        .map(|cost| {
            let carrying = rate.map_or(0.0, |rate| rate.seconds_to_send(cost.and_bytes));
            SchemeTime {
                name: cost.name,
                seconds: and_gates as f64 * carrying.max(cost.and_s),
                is_limited_by_bytes: carrying > cost.and_s,
            }
        })
        .collect();
    ranking.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    (!ranking.is_empty()).then_some(SchemeChoice {
        ranking,
        rate,
        is_rate_known: known.is_some(),
    })
}

impl fmt::Display for SchemeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.chosen().is_limited_by_bytes {
            true => "bytes limit ",
            false => "computing limits ",
        })?;
        match self.rate {
            Some(rate) if self.is_rate_known => write!(f, "at {rate:.0}")?,
            Some(rate) => write!(f, "at an assumed {rate:.0}, since the rate is not known")?,
            None => f.write_str("on a path within one host")?,
        }
        let mut separator = ": tables take";
        for time in &self.ranking {
            let (ms, name) = (time.seconds * 1e3, time.name);
            write!(f, "{separator} {ms:.1} ms by {name}")?;
            separator = ",";
        }
        Ok(())
    }
}
