//! What two parties have to agree on, and what each decides for itself.

use std::{fmt, num::NonZeroUsize, str::FromStr};

use transpute_garble::{Backend, GarbleError, Scheme};
use transpute_ot::BaseOt;

use crate::{
    KnownPath, OtChoice, OtPlan,
    config_error::{ConfigError, UnknownName},
    plan::{Costs, Planned, Question, plan},
    schemes::SchemeSet,
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
    /// them, in a connection for one run: what the evaluator buffers at most, if that is 1 MiB or more. The smaller of both sides
    /// counts. Default 40 MiB; to hide a round trip completely it must reach rate times RTT, 36 MiB at 1 Gbit/s and 300 ms.
    /// In other connections [`ConnectionConfig::window`](crate::ConnectionConfig::window) counts.
    pub table_lead: u64,
    /// The AES implementation of this side; `None` is [`Backend::best`]: the one that the environment variable `TRANSPUTE_AES`
    /// names, else the fastest. A name that this CPU cannot use ends the run with an error.
    pub backend: Option<Backend>,
    /// On how many threads this side garbles or evaluates a batch, in a connection for one run. With 1, the default, the connection
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

    /// Prefers `scheme`, if it is allowed; whatever was allowed before still is.
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
