//! `--scheme`: one garbling scheme, or several of which the fastest is chosen.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use transpute::{
    Config, Scheme, SchemeSet,
    select::{Bandwidth, SchemeChoice},
};

use crate::{flags::parse_scheme, output::milliseconds};

/// The value of `--scheme` that requests a choice among schemes.
const AUTO: &str = "auto";

/// The schemes that this party allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SchemeWish {
    /// One scheme and no other.
    Only(Scheme),
    /// The fastest of these schemes on the path. The connecting party predicts which one that is.
    Among(SchemeSet),
}

impl SchemeWish {
    /// Sets the schemes in the settings of a session.
    pub(crate) fn apply(self, config: &mut Config) {
        (config.scheme, config.other_schemes) = match self {
            Self::Only(scheme) => (scheme, SchemeSet::EMPTY),
            // The parser rejects empty sets.
            Self::Among(set) => (set.iter().next().unwrap_or(config.scheme), set),
        };
    }
}

impl FromStr for SchemeWish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix(AUTO) else {
            return parse_scheme(text).map(Self::Only);
        };
        if rest.is_empty() {
            return Ok(Self::Among(SchemeSet::RECOMMENDED));
        }
        let Some(names) = rest.strip_prefix(':') else {
            return parse_scheme(text).map(Self::Only);
        };
        let mut set = SchemeSet::EMPTY;
        for name in names.split(',') {
            let scheme = parse_scheme(name)?;
            if !scheme.is_free_xor() {
                return Err(format!(
                    "{scheme} cannot be one of several to choose from: its labels are made in another way"
                ));
            }
            set = set.with(scheme);
        }
        Ok(Self::Among(set))
    }
}

impl fmt::Display for SchemeWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(scheme) => scheme.fmt(f),
            Self::Among(SchemeSet::RECOMMENDED) => f.pad(AUTO),
            Self::Among(set) => write!(f, "{AUTO}:{set}"),
        }
    }
}

/// The reason for a party's preferred garbling scheme, in the JSON report of a run.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SchemeReport {
    /// The fastest scheme that this party allows. If the peer does not allow it, another scheme is
    /// in use.
    pub(crate) preferred: String,
    pub(crate) reason: String,
    /// The assumed rate of the path towards the evaluator. None if it is unlimited.
    pub(crate) rate_mbit: Option<f64>,
    /// True if the rate was measured, not assumed.
    pub(crate) is_rate_known: bool,
    /// The predictions for all allowed schemes, fastest first.
    pub(crate) predictions: Vec<SchemePrediction>,
}

/// The predicted time to garble and transfer the tables with a scheme.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SchemePrediction {
    pub(crate) scheme: String,
    pub(crate) ms: f64,
    /// The bottleneck: `bytes` (the transfer of the tables) or `computing`.
    pub(crate) limit: String,
}

impl SchemeReport {
    pub(crate) fn new(choice: &SchemeChoice) -> Self {
        Self {
            preferred: choice.chosen().name.to_owned(),
            reason: choice.to_string(),
            rate_mbit: choice.rate.map(Bandwidth::megabits_per_second),
            is_rate_known: choice.is_rate_known,
            predictions: (choice.ranking.iter())
                .map(|time| SchemePrediction {
                    scheme: time.name.to_owned(),
                    ms: std::time::Duration::try_from_secs_f64(time.seconds)
                        .map_or(f64::MAX, milliseconds),
                    limit: match time.is_limited_by_bytes {
                        true => "bytes",
                        false => "computing",
                    }
                    .to_owned(),
                })
                .collect(),
        }
    }

    /// Returns a line of text about the scheme in use.
    pub(crate) fn line(&self, used: &str) -> String {
        match used == self.preferred {
            true => format!("{used}: {}", self.reason),
            false => format!(
                "{used}, since the peer does not allow {}: {}",
                self.preferred, self.reason
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_back() {
        for (text, allowed) in [
            ("half-gates", SchemeSet::of(&[Scheme::HalfGates])),
            ("prf", SchemeSet::of(&[Scheme::Prf])),
            ("auto", SchemeSet::RECOMMENDED),
            (
                "auto:half-gates,fixed-key",
                SchemeSet::of(&[Scheme::HalfGates, Scheme::FixedKey]),
            ),
            ("auto:three-halves", SchemeSet::of(&[Scheme::ThreeHalves])),
        ] {
            let wish: SchemeWish = text.parse().unwrap();
            assert_eq!(wish.to_string(), text);
            let mut config = Config::default();
            wish.apply(&mut config);
            assert_eq!(config.allowed_schemes(), allowed, "{text}");
        }
        // The names may be in any order.
        let wish: SchemeWish = "auto:three-halves,half-gates".parse().unwrap();
        assert_eq!(wish.to_string(), AUTO);
    }

    #[test]
    fn what_is_no_wish_is_named() {
        for (text, complaint) in [
            ("auto:", "unknown garbling scheme \"\""),
            ("auto:half-gates,halfgates", "did you mean half-gates?"),
            (
                "auto:half-gates,prf",
                "prf cannot be one of several to choose from",
            ),
            ("automatic", "unknown garbling scheme \"automatic\""),
        ] {
            let error = text.parse::<SchemeWish>().unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
