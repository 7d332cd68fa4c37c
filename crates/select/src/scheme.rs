//! Which garbling scheme is the fastest on a path: fewer bytes, or less computing.

use std::{fmt, time::Duration};

use transpute_transport::PathClass;

/// What an AND gate costs under a garbling scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeCost {
    /// The scheme's name.
    pub name: &'static str,
    /// Bytes of tables for an AND gate.
    pub and_bytes: f64,
    /// Seconds for an AND gate on one core: to garble, the slower of the two sides.
    pub and_s: f64,
}

impl SchemeCost {
    /// The schemes with free XOR on a typical machine: one core of a server of 2023 with VAES-512, one instance of MinCut
    /// (10^6 AND gates) at a time. Bytes follow from the schemes (docs/protocol.md, "Tables"); seconds are measured:
    /// `cargo bench -p transpute-benches --bench garbling -- mincut` (docs/performance.md, "MinCut, one": 69, 84 and 42 million
    /// AND gates per second). Only their ratios to the path's rate matter.
    pub const TYPICAL: [Self; 3] = [
        Self {
            name: "half-gates",
            and_bytes: 32.0,
            and_s: 14.5e-9,
        },
        Self {
            name: "fixed-key",
            and_bytes: 32.0,
            and_s: 11.9e-9,
        },
        Self {
            name: "three-halves",
            and_bytes: 24.625,
            and_s: 23.8e-9,
        },
    ];

    /// Returns the cost of the scheme with this name on a typical machine.
    #[must_use]
    pub fn typical(name: &str) -> Option<Self> {
        Self::TYPICAL.into_iter().find(|cost| cost.name == name)
    }
}

/// The rate that is assumed of a path whose rate is not known, bytes per second: 100 Mbit/s, as for planning oblivious transfers.
/// Up to 8 Gbit/s the choice is the same.
pub const ASSUMED_RATE: f64 = 12.5e6;

/// What the choice of a scheme depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeQuestion<'a> {
    /// The allowed schemes; of two that are equally fast the first is chosen.
    pub costs: &'a [SchemeCost],
    /// AND gates of all evaluations.
    pub and_gates: u64,
    /// Rate of the path from the garbler to the evaluator, bytes per second; `None` if it is not known.
    pub rate: Option<f64>,
    /// Round-trip time of the path; `None` if it is not known.
    pub rtt: Option<Duration>,
}

/// Why the tables of a scheme take as long as they do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SchemeLimit {
    /// The path carries them.
    Bytes,
    /// The garbler makes them.
    Computing,
}

/// The rate that a choice was made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SchemeRate {
    /// It was known, bytes per second.
    Known(f64),
    /// It was not known: [`ASSUMED_RATE`].
    Assumed,
    /// It was not known and the path is within one host ([`PathClass::SameHost`]): it limits nothing.
    Unlimited,
}

/// A scheme, and how long its tables take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeTime {
    /// The scheme's name.
    pub name: &'static str,
    /// To make the tables of all AND gates or to carry them, whichever takes longer.
    pub seconds: f64,
    /// Which of the two that is.
    pub limit: SchemeLimit,
}

/// The chosen scheme, and why. [`Display`](fmt::Display) explains it.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeChoice {
    /// All allowed schemes, the fastest first.
    pub ranking: Vec<SchemeTime>,
    /// The path's rate.
    pub rate: SchemeRate,
}

impl SchemeChoice {
    /// Returns the chosen scheme.
    #[must_use]
    pub fn chosen(&self) -> &SchemeTime {
        // There is at least one: `choose_scheme` returns none of an empty list.
        &self.ranking[0]
    }
}

/// Chooses the scheme whose tables are made and carried the soonest; `None` if none is allowed.
///
/// Garbling, sending and evaluating overlap, so the slowest of them sets the pace: `max(bytes / rate, computing)`.
#[must_use]
pub fn choose_scheme(question: &SchemeQuestion<'_>) -> Option<SchemeChoice> {
    let known = (question.rate).filter(|rate| *rate >= 1.0 && rate.is_finite());
    let class = question.rtt.map(PathClass::of);
    let (rate, bytes_per_s) = match known {
        Some(rate) => (SchemeRate::Known(rate), rate),
        None if class == Some(PathClass::SameHost) => (SchemeRate::Unlimited, f64::INFINITY),
        None => (SchemeRate::Assumed, ASSUMED_RATE),
    };
    let gates = question.and_gates as f64;
    let mut ranking: Vec<_> = (question.costs.iter())
        .map(|cost| {
            let (carrying, computing) = (cost.and_bytes / bytes_per_s, cost.and_s);
            SchemeTime {
                name: cost.name,
                seconds: gates * carrying.max(computing),
                limit: match carrying > computing {
                    true => SchemeLimit::Bytes,
                    false => SchemeLimit::Computing,
                },
            }
        })
        .collect();
    ranking.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    (!ranking.is_empty()).then_some(SchemeChoice { ranking, rate })
}

impl fmt::Display for SchemeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen = self.chosen();
        let rate = match self.rate {
            SchemeRate::Known(rate) => format!("at {:.0} Mbit/s", rate * 8e-6),
            SchemeRate::Assumed => format!(
                "at an assumed {:.0} Mbit/s, since the rate is not known",
                ASSUMED_RATE * 8e-6
            ),
            SchemeRate::Unlimited => "on a path within one host".to_owned(),
        };
        let limit = match chosen.limit {
            SchemeLimit::Bytes => "bytes limit",
            SchemeLimit::Computing => "computing limits",
        };
        let ms = |time: &SchemeTime| time.seconds * 1e3;
        write!(
            f,
            "{limit} {rate}: tables take {:.1} ms by {}",
            ms(chosen),
            chosen.name
        )?;
        for other in &self.ranking[1..] {
            write!(f, ", {:.1} ms by {}", ms(other), other.name)?;
        }
        Ok(())
    }
}
