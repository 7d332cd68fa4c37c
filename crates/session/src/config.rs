//! The settings of a run: some that both parties must share, and some of each side.

use std::{fmt, num::NonZeroUsize, str::FromStr};

use transpute_garble::{Backend, GarbleError, Scheme};
use transpute_ot::BaseOt;

use crate::{
    KnownPath, OtChoice, OtPlan,
    config_error::{ConfigError, UnknownName},
    plan::{Costs, Planned, Question, plan},
    schemes::SchemeSet,
};

/// The role of a party.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// Garbles the circuit.
    Garbler,
    /// Evaluates the garbled circuit.
    Evaluator,
}

/// The parties that learn the outputs.
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
    /// Returns whether `role` learns the outputs.
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

/// The settings of a run. Both sides must have the same, except for `backend`, `threads`, `path`,
/// the schemes, and [`OtChoice::Auto`]. Both sides must allow a common scheme.
#[derive(Clone, Debug)]
pub struct Config {
    /// The garbling scheme. If [`other_schemes`](Self::other_schemes) contains more, the preferred
    /// one.
    pub scheme: Scheme,
    /// Other schemes that this side allows. Default: none. With others, all schemes must have free
    /// XOR, and [`rekey_period`](Self::rekey_period) must be 1.
    pub other_schemes: SchemeSet,
    /// This side's preference among schemes decides, because it connected and knows the path. If
    /// both sides or neither set this, the garbler's preference decides.
    pub decides_scheme: bool,
    /// Number of consecutive tweaks that share one AES key in `half-gates`: a power of two up to
    /// 2^20. Every doubling costs one bit of security and saves key schedules. Default 1.
    pub rekey_period: u32,
    /// The kind of oblivious transfer.
    pub ot: OtChoice,
    /// The public-key scheme of base oblivious transfer.
    pub base_ot: BaseOt,
    /// The path as the evaluator sees it, for [`OtChoice::Auto`]: `to_peer` is the direction to the
    /// garbler. Usually `None` before this side is connected. A path without a round-trip time
    /// counts as unknown.
    pub path: Option<KnownPath>,
    /// The parties that learn the outputs.
    pub output: OutputPolicy,
    /// Number of evaluations of the circuit, at least 1.
    pub batch: u64,
    /// Maximum length of a chunk of garbled tables, in bytes: 64 to 1 MiB. The default of 64 KiB
    /// makes frame headers negligible, and evaluation can start early.
    pub chunk_len: u32,
    /// The evaluator checks its output labels against hashes from the garbler (16 bytes per output
    /// bit), which detects a corrupted table. Default true.
    pub output_check: bool,
    /// Flow-control window of tables in a connection for one run, in bytes. The garbler may send as
    /// many bytes before the evaluator has the labels for them, and the evaluator buffers at most
    /// this or 1 MiB. The smaller of both sides counts. Default 40 MiB. To hide a round trip
    /// completely, it must reach rate times round-trip time: 36 MiB at 1 Gbit/s and 300 ms.
    /// Connections for many runs use [`ConnectionConfig::window`](crate::ConnectionConfig::window).
    pub table_lead: u64,
    /// The AES implementation of this side; `None` is [`Backend::best`]: the one that the
    /// environment variable `TRANSPUTE_AES` names, else the fastest. A name that this CPU cannot
    /// use ends the run with an error.
    pub backend: Option<Backend>,
    /// Number of threads that garble or evaluate a batch, in a connection for one run. With 1, the
    /// default, the calling thread computes. With more, the connection starts as many threads. They
    /// help if there are as many idle cores and groups of evaluations. Each may hold 32 MiB of
    /// tables.
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
            backend: None,
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

    /// Prefers `scheme` if it is allowed. The set of allowed schemes does not change.
    pub fn prefer_scheme(&mut self, scheme: Scheme) {
        let allowed = self.allowed_schemes();
        if allowed.contains(scheme) {
            self.other_schemes = allowed;
            self.scheme = scheme;
        }
    }

    /// Returns the AES implementation to compute with.
    pub(crate) fn backend(&self) -> Result<Backend, GarbleError> {
        self.backend.map_or_else(Backend::best, Ok)
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

    /// Chooses the kind of transfer for `count` oblivious transfers. Also returns the reason, if it
    /// predicted times.
    ///
    /// # Errors
    /// [`ConfigError::TooManyForDirect`].
    pub(crate) fn plan(&self, count: u64) -> Result<(OtPlan, Option<Planned>), ConfigError> {
        match self.path {
            Some(path) if path.rtt.is_some() && self.ot == OtChoice::Auto && count > 0 => {
                let choice = plan(&Question {
                    transfers: count,
                    is_correlated: self.scheme.is_free_xor(),
                    base: self.base_ot,
                    path,
                    costs: Costs::measured(self.base_ot),
                    pool: None,
                });
                Ok((choice.chosen.plan, Some(choice)))
            }
            _ => Ok((OtPlan::new(self.ot, self.base_ot, count)?, None)),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for policy in [
            OutputPolicy::Evaluator,
            OutputPolicy::Garbler,
            OutputPolicy::Both,
        ] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }
}
