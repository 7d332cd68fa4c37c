//! The kinds of oblivious transfer.

use std::{fmt, str::FromStr};

use transpute_ot::{BaseOt, Extension, SEGMENT_OTS};

use crate::{
    config_error::{ConfigError, UnknownName},
    wire::MAX_PAYLOAD,
};

/// Maximum number of transfers per `OtExtend` message, which is one segment of the extension.
pub(crate) const OT_CHUNK: usize = SEGMENT_OTS;

/// Returns the length of the garbler's answer, in bytes per transfer of an extension. The answer is
/// one correction if labels are correlated, otherwise two masked labels.
pub(crate) fn reply_len(correlated: bool) -> usize {
    if correlated { 16 } else { 32 }
}

/// The kind of oblivious transfer for the evaluator's inputs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OtChoice {
    /// The kind with the shortest predicted time, if the path is known from
    /// [`Config::path`](crate::Config::path) or
    /// [`SessionConnection::set_path`](crate::SessionConnection::set_path). If it is unknown,
    /// direct OT for at most [`OtPlan::DIRECT_LIMIT`] bits, and an extension for more. A kind that
    /// the peer demands has priority. If neither side demands a kind, the evaluator's prediction
    /// decides.
    #[default]
    Auto,
    /// One public-key OT per input bit. This side refuses runs with another kind.
    Direct,
    /// 128 base OTs and this extension. This side refuses runs with another kind.
    Extension(Extension),
}

/// The kind of oblivious transfer of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OtPlan {
    /// No transfers, because the evaluator has no input bits.
    None,
    /// One public-key OT per input bit.
    Direct,
    /// 128 base OTs and an extension.
    Extension(Extension),
    /// Transfers from the connection's random-OT pool.
    Pool,
}

impl OtPlan {
    /// Maximum number of input bits of a whole batch for which [`OtChoice::Auto`] selects direct OT
    /// on an unknown path. Up to this number, direct OT takes about as much computing time as the
    /// 128 base OTs of an extension, and it saves a flight.
    pub const DIRECT_LIMIT: u64 = 256;

    /// Returns the maximum number of input bits of a whole batch for direct OT. Each of its
    /// messages must fit in one frame.
    #[must_use]
    pub const fn direct_maximum(base: BaseOt) -> u64 {
        match base {
            BaseOt::Ristretto255 => 8192,
            // The receiver's message is the longest, so it determines the maximum.
            _ => ((MAX_PAYLOAD - 64) / base.receiver_len(1)) as u64,
        }
    }

    /// Selects the plan for `count` oblivious transfers on an unknown path.
    ///
    /// # Errors
    /// Returns [`ConfigError::TooManyForDirect`].
    pub fn new(choice: OtChoice, base: BaseOt, count: u64) -> Result<Self, ConfigError> {
        let maximum = Self::direct_maximum(base);
        Ok(match choice {
            _ if count == 0 => Self::None,
            OtChoice::Auto if count <= Self::DIRECT_LIMIT.min(maximum) => Self::Direct,
            OtChoice::Auto => Self::Extension(Extension::for_count(count)),
            OtChoice::Direct if count > maximum => {
                return Err(ConfigError::TooManyForDirect { count, maximum });
            }
            OtChoice::Direct => Self::Direct,
            OtChoice::Extension(extension) => Self::Extension(extension),
        })
    }

    /// Decodes a plan.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Direct),
            0x40 => Some(Self::Pool),
            _ if code & 0xf0 == 0x10 => Extension::from_code(code & 0x0f).ok().map(Self::Extension),
            _ => None,
        }
    }

    /// Returns whether a party's first base-OT message is the same under both plans.
    pub(crate) fn begins_as(self, other: Self) -> bool {
        let is_extension = |plan| matches!(plan, Self::Extension(_));
        self == other || (is_extension(self) && is_extension(other))
    }

    /// Returns the number of one-way flights from both parties being connected to the evaluator's
    /// output. Two flights are one round trip.
    #[must_use]
    pub fn flights(self) -> u32 {
        match self {
            // Even without transfers, the garbler sends decoding information only after it has the
            // evaluator's hello.
            Self::None | Self::Direct | Self::Pool => 2,
            Self::Extension(_) => 3,
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Direct => 1,
            Self::Extension(extension) => 0x10 | extension.code(),
            Self::Pool => 0x40,
        }
    }
}

impl fmt::Display for OtPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Direct => f.pad("direct"),
            Self::Extension(extension) => extension.fmt(f),
            Self::Pool => f.pad("pool"),
        }
    }
}

impl FromStr for OtChoice {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "auto" => Ok(Self::Auto),
            "direct" => Ok(Self::Direct),
            _ => text.parse().map(Self::Extension).map_err(|_| UnknownName {
                found: text.to_owned(),
                expected: "auto, direct, iknp, softspoken-2, softspoken-4, softspoken-8",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_follows_the_number_of_inputs() {
        let plan = |choice, count| OtPlan::new(choice, BaseOt::Ristretto255, count);
        assert_eq!(plan(OtChoice::Auto, 0), Ok(OtPlan::None));
        assert_eq!(plan(OtChoice::Auto, 256), Ok(OtPlan::Direct));
        assert_eq!(
            plan(OtChoice::Auto, 257),
            Ok(OtPlan::Extension(Extension::Iknp))
        );
        assert_eq!(
            plan(OtChoice::Direct, 8193),
            Err(ConfigError::TooManyForDirect {
                count: 8193,
                maximum: 8192
            })
        );
    }

    #[test]
    fn names_of_choices_are_read_back() {
        assert_eq!("iknp".parse(), Ok(OtChoice::Extension(Extension::Iknp)));
        assert!("kos".parse::<OtChoice>().is_err());
    }

    #[test]
    fn codes_of_plans_are_read_back() {
        let extensions = Extension::ALL.map(OtPlan::Extension);
        let others = [OtPlan::None, OtPlan::Direct, OtPlan::Pool];
        for plan in extensions.into_iter().chain(others) {
            assert_eq!(OtPlan::from_code(plan.code()), Some(plan));
        }
        for code in [2, 0x10, 0x13, 0x20, 0x41, 0xff] {
            assert_eq!(OtPlan::from_code(code), None);
        }
    }
}
