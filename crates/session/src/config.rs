//! The settings of a run: settings that both parties must share, and settings of each side.

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

/// The settings of a run. Both sides must set the same values, with these exceptions: `backend`,
/// `threads`, `path`, `table_lead`, `decides_scheme`, and `ot` if one side has [`OtChoice::Auto`].
/// The schemes may differ too, but both sides must allow a common one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The garbling scheme. If [`other_schemes`](Self::other_schemes) contains further schemes,
    /// this one is preferred.
    pub scheme: Scheme,
    /// Other schemes that this side allows. Default: none. If there are any, all allowed schemes
    /// must have free XOR, and [`rekey_period`](Self::rekey_period) must be 1.
    pub other_schemes: SchemeSet,
    /// Whether this side's preference among schemes decides. The connector sets it, because it has
    /// measured the path. If both sides or neither set it, the garbler's preference decides.
    pub decides_scheme: bool,
    /// Number of consecutive tweaks that share one AES key in `half-gates`: a power of two up to
    /// 2^20. Every doubling costs one bit of security and halves the number of AES key schedules.
    /// Default 1.
    pub rekey_period: u32,
    /// The kind of oblivious transfer.
    pub ot: OtChoice,
    /// The public-key scheme of base oblivious transfer.
    pub base_ot: BaseOt,
    /// The path as the evaluator sees it, for [`OtChoice::Auto`]: `to_peer` is the direction to the
    /// garbler. Usually `None` before this side is connected. A path without a round-trip time is
    /// ignored.
    pub path: Option<KnownPath>,
    /// The parties that learn the outputs.
    pub output: OutputPolicy,
    /// Number of evaluations of the circuit, at least 1.
    pub batch: u64,
    /// Maximum length of a chunk of garbled tables: 64 bytes to 1 MiB. With the default of 64 KiB,
    /// the overhead of frame headers is negligible, and evaluation still starts early.
    pub chunk_len: u32,
    /// Whether the evaluator checks its output labels against hashes from the garbler (16 bytes per
    /// output bit). The check detects a corrupted table. Default true.
    pub output_check: bool,
    /// Flow-control window for tables in a connection for one run, in bytes. The garbler may send
    /// this many bytes of tables before the evaluator has the input labels for them. The evaluator
    /// buffers at most this many bytes, or 1 MiB if that is more. The smaller value of both sides
    /// applies. Default 40 MiB. To hide a round trip completely, the window must reach the
    /// bandwidth-delay product: 36 MiB at 1 Gbit/s and 300 ms. A connection for many runs uses
    /// [`ConnectionConfig::window`](crate::ConnectionConfig::window) instead.
    pub table_lead: u64,
    /// The AES implementation of this side. With `None`, [`Backend::best`] selects the one that the
    /// environment variable `TRANSPUTE_AES` names, or the fastest if the variable is not set. If
    /// this CPU does not support the named one, the run ends with an error.
    pub backend: Option<Backend>,
    /// Number of threads that garble or evaluate a batch, in a connection for one run. With 1, the
    /// default, the calling thread computes. With more, the connection starts this many threads.
    /// More threads than idle cores, or than groups of up to eight evaluations in the batch, do not
    /// help. Each thread may hold 32 MiB of tables.
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

    /// Makes `scheme` the preferred one, if this side allows it. The set of allowed schemes does
    /// not change.
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

    /// Chooses the plan for `count` oblivious transfers. If the path is known, the choice is by
    /// predicted times, which are returned too.
    ///
    /// # Errors
    /// Returns [`ConfigError::TooManyForDirect`].
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
