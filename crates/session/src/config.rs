//! What two parties have to agree on, and what each decides for itself.

use std::{fmt, num::NonZeroUsize, str::FromStr};

use thiserror::Error;
use transpute_garble::{Backend, Scheme};
use transpute_ot::{BaseOt, Extension};

use crate::{
    KnownPath,
    plan::{Costs, Planned, Question, plan},
    schemes::SchemeSet,
    wire::MAX_PAYLOAD,
};

/// Which side of the garbled circuit a party is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// Makes the garbled circuit.
    Garbler,
    /// Evaluates it.
    Evaluator,
}

/// Who learns the outputs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OutputPolicy {
    /// The evaluator only.
    #[default]
    Evaluator,
    /// The garbler only.
    Garbler,
    /// Both parties.
    Both,
}

impl OutputPolicy {
    /// Says whether `role` learns the outputs.
    #[must_use]
    pub fn reaches(self, role: Role) -> bool {
        match self {
            Self::Evaluator => role == Role::Evaluator,
            Self::Garbler => role == Role::Garbler,
            Self::Both => true,
        }
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// How the oblivious transfers of the evaluator's inputs are done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OtChoice {
    /// What is predicted to be the fastest on the path, if [`Config::path`] or
    /// [`Session::set_path`](crate::Session::set_path) says something about it; otherwise
    /// public-key OT for at most [`OtPlan::DIRECT_LIMIT`] bits, the recommended extension above.
    /// If the peer demands one of the other choices, that one; if it does not either, the
    /// evaluator's prediction counts.
    #[default]
    Auto,
    /// One public-key OT per input bit, or no session.
    Direct,
    /// 128 base OTs and this extension, or no session.
    Extension(Extension),
}

/// What an [`OtChoice`] comes to for a number of oblivious transfers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OtPlan {
    /// The evaluator has no input bits.
    None,
    /// Public-key OT on the inputs.
    Direct,
    /// Base OTs and an extension.
    Extension(Extension),
    /// From the transfers in stock of a standing connection, or public-key OT before there are any.
    Stock,
}

impl OtPlan {
    /// The most input bits (of a whole batch) for which public-key OT is done directly: up to here
    /// the work is comparable to the 128 base OTs of an extension, and it saves a flight.
    pub const DIRECT_LIMIT: u64 = 256;

    /// Returns the most input bits (of a whole batch) for which OT may be direct: its messages must
    /// fit in one frame.
    #[must_use]
    pub const fn direct_maximum(base: BaseOt) -> u64 {
        match base {
            BaseOt::Ristretto255 => 8192,
            // The receiver's is the longest.
            _ => ((MAX_PAYLOAD - 64) / base.receiver_len(1)) as u64,
        }
    }

    /// Decides for `count` oblivious transfers with nothing known about the path.
    ///
    /// # Errors
    /// [`ConfigError::TooManyForDirect`].
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

    /// Returns what a code on the wire stands for.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Direct),
            0x40 => Some(Self::Stock),
            _ if code & 0xf0 == 0x10 => Extension::from_code(code & 0x0f).ok().map(Self::Extension),
            _ => None,
        }
    }

    /// Says whether the garbler's first base-OT message is the same for both plans.
    pub(crate) fn begins_as(self, other: Self) -> bool {
        let is_extension = |plan| matches!(plan, Self::Extension(_));
        self == other || (is_extension(self) && is_extension(other))
    }

    /// Returns how many one-way flights pass from both parties being connected until the evaluator
    /// can have its output: two make a round trip.
    #[must_use]
    pub fn flights(self) -> u32 {
        match self {
            // The garbler's decoding information waits for the evaluator's hello.
            Self::None | Self::Direct | Self::Stock => 2,
            Self::Extension(_) => 3,
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Direct => 1,
            Self::Extension(extension) => 0x10 | extension.code(),
            Self::Stock => 0x40,
        }
    }
}

/// The settings of a session. All but `backend`, `threads`, `path` and the schemes
/// must be the same on both sides, with the exception that [`OtChoice::Auto`] gives. Of schemes both sides must allow one in common.
#[derive(Clone, Debug)]
pub struct Config {
    /// The garbling scheme; if [`other_schemes`](Self::other_schemes) has more, the one that this side prefers.
    pub scheme: Scheme,
    /// Schemes that this side allows as well. Default: none. With some of them, all must be with free XOR, and
    /// [`rekey_period`](Self::rekey_period) must be 1.
    pub other_schemes: SchemeSet,
    /// Whether this side's preference among schemes decides, because it knows the path: that of the side that connected. If both
    /// sides say so, or neither, the garbler's counts.
    pub decides_scheme: bool,
    /// How many consecutive tweaks share one AES key in `half-gates`: a power of two up to 2^20.
    /// Every doubling costs one bit of security and saves key schedules. Default 1.
    pub rekey_period: u32,
    /// How the oblivious transfers are done.
    pub ot: OtChoice,
    /// What public-key oblivious transfer rests on.
    pub base_ot: BaseOt,
    /// What this side knows about the path before it is connected, for [`OtChoice::Auto`].
    pub path: Option<KnownPath>,
    /// Who learns the outputs.
    pub output: OutputPolicy,
    /// Evaluations of the circuit in this session; at least 1.
    pub batch: u64,
    /// Largest chunk of garbled tables, in bytes: 64 to 1 MiB. Default 64 KiB: large enough that
    /// frame headers vanish, small enough that evaluation starts early.
    pub chunk_len: u32,
    /// Whether the evaluator checks its output labels against hashes from the garbler (16 bytes per
    /// output bit), which catches a corrupted table. Default true.
    pub output_check: bool,
    /// How many bytes of tables the garbler may send before the evaluator has the labels to use
    /// them: what the evaluator buffers at most. Default 40 MiB; to hide a round trip completely it
    /// must reach rate times RTT, 36 MiB at 1 Gbit/s and 300 ms.
    pub table_lead: u64,
    /// The AES implementation of this side.
    pub backend: Backend,
    /// On how many threads this side garbles or evaluates a batch. With 1, the default, the session
    /// computes where it is called; with more, it starts as many threads of its own, of use if there
    /// are as many idle cores and groups of evaluations. Each may hold 32 MiB of tables.
    pub threads: NonZeroUsize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scheme: Scheme::HalfGates,
            other_schemes: SchemeSet::EMPTY,
            decides_scheme: false,
            rekey_period: 1,
            ot: OtChoice::Auto,
            base_ot: BaseOt::default(),
            path: None,
            output: OutputPolicy::Evaluator,
            batch: 1,
            chunk_len: 64 << 10,
            output_check: true,
            table_lead: 40 << 20,
            backend: Backend::best(),
            threads: NonZeroUsize::MIN,
        }
    }
}

impl Config {
    /// Returns all schemes that this side allows.
    #[must_use]
    pub fn allowed_schemes(&self) -> SchemeSet {
        self.other_schemes.with(self.scheme)
    }

    /// Prefers `scheme`, if it is allowed; whatever was allowed before still is.
    pub fn prefer_scheme(&mut self, scheme: Scheme) {
        let allowed = self.allowed_schemes();
        if allowed.contains(scheme) {
            self.other_schemes = allowed;
            self.scheme = scheme;
        }
    }

    /// Checks the settings that do not depend on a circuit.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.batch == 0 {
            return Err(ConfigError::EmptyBatch);
        }
        if !(64..=1 << 20).contains(&self.chunk_len) {
            return Err(ConfigError::ChunkLen {
                found: self.chunk_len,
            });
        }
        let allowed = self.allowed_schemes();
        let is_uniform = self.rekey_period == 1 && allowed.iter().all(Scheme::is_free_xor);
        if allowed.len() > 1 && !is_uniform {
            return Err(ConfigError::Schemes { allowed });
        }
        Ok(())
    }

    /// Decides for `count` oblivious transfers; returns why too, if that is by prediction.
    ///
    /// # Errors
    /// [`ConfigError::TooManyForDirect`].
    pub(crate) fn plan(&self, count: u64) -> Result<(OtPlan, Option<Planned>), ConfigError> {
        match self.path {
            Some(path) if self.ot == OtChoice::Auto && count > 0 => {
                let choice = plan(&Question {
                    transfers: count,
                    is_correlated: self.scheme.is_free_xor(),
                    base: self.base_ot,
                    path,
                    costs: Costs::measured(self.base_ot),
                    stock: None,
                });
                Ok((choice.chosen.plan, Some(choice)))
            }
            _ => Ok((OtPlan::new(self.ot, self.base_ot, count)?, None)),
        }
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// No evaluations.
    #[error("a batch has at least one evaluation")]
    EmptyBatch,
    /// A chunk length out of range.
    #[error("the chunk length is {found} bytes; it must be 64 to 1048576")]
    ChunkLen {
        /// The length given.
        found: u32,
    },
    /// Several garbling schemes that a session cannot change between.
    #[error(
        "{allowed} cannot be left to choose from: all must be with free XOR and a re-key period of 1"
    )]
    Schemes {
        /// The schemes given.
        allowed: SchemeSet,
    },
    /// Direct OT for more bits than fit in one message.
    #[error("direct oblivious transfer takes at most {maximum} input bits, not {count}")]
    TooManyForDirect {
        /// How many there may be.
        maximum: u64,
        /// Evaluator input bits of the batch.
        count: u64,
    },
    /// Another oblivious transfer than a standing connection has.
    #[error(
        "a run of a standing connection takes its oblivious transfers from the connection, or \
         directly for at most {} input bits if it is not prepared",
        OtPlan::DIRECT_LIMIT
    )]
    OtOfConnection,
    /// More input bits in the whole batch than can be counted.
    #[error("a batch of {batch} evaluations has too many input bits")]
    TooLarge {
        /// The batch size given.
        batch: u64,
    },
}

/// A word that is none of the names of a setting.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{found:?} is none of {expected}")]
pub struct UnknownName {
    /// The word given.
    found: String,
    /// The names there are.
    expected: &'static str,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Garbler => "garbler",
            Self::Evaluator => "evaluator",
        })
    }
}

impl fmt::Display for OutputPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Evaluator => "evaluator",
            Self::Garbler => "garbler",
            Self::Both => "both",
        })
    }
}

impl fmt::Display for OtPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Direct => f.pad("direct"),
            Self::Extension(extension) => extension.fmt(f),
            Self::Stock => f.pad("stock"),
        }
    }
}

impl FromStr for Role {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "garbler" => Ok(Self::Garbler),
            "evaluator" => Ok(Self::Evaluator),
            _ => Err(UnknownName {
                found: text.to_owned(),
                expected: "garbler, evaluator",
            }),
        }
    }
}

impl FromStr for OutputPolicy {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "evaluator" => Ok(Self::Evaluator),
            "garbler" => Ok(Self::Garbler),
            "both" => Ok(Self::Both),
            _ => Err(UnknownName {
                found: text.to_owned(),
                expected: "evaluator, garbler, both",
            }),
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
    fn codes_of_plans_are_read_back() {
        let extensions = Extension::ALL.map(OtPlan::Extension);
        let others = [OtPlan::None, OtPlan::Direct, OtPlan::Stock];
        for plan in extensions.into_iter().chain(others) {
            assert_eq!(OtPlan::from_code(plan.code()), Some(plan));
        }
        for code in [2, 0x10, 0x13, 0x20, 0x41, 0xff] {
            assert_eq!(OtPlan::from_code(code), None);
        }
    }

    #[test]
    fn names_are_read_back() {
        for policy in [
            OutputPolicy::Evaluator,
            OutputPolicy::Garbler,
            OutputPolicy::Both,
        ] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("iknp".parse(), Ok(OtChoice::Extension(Extension::Iknp)));
        assert!("kos".parse::<OtChoice>().is_err());
    }
}
