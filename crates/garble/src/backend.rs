//! The AES back ends and the choice among them at run time.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "calls of functions with target features, behind a proof that the CPU has them"
    )
)]

use std::{fmt, str::FromStr};

#[cfg(target_arch = "x86_64")]
use crate::engine::{AesNi, Vaes256, Vaes512};
use crate::{
    GarbleError,
    engine::{Isa, Portable, Wide},
};

/// An implementation of the AES-based gate kernels. All give the same bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Backend {
    /// Any CPU, through the `aes` crate.
    Portable,
    /// x86-64 with AES-NI and SSSE3: one block per instruction.
    AesNi,
    /// x86-64 with vector AES and AVX2: two blocks per instruction.
    Vaes256,
    /// x86-64 with vector AES and AVX-512: four blocks per instruction.
    Vaes512,
}

impl Backend {
    /// All back ends, slowest first.
    pub const ALL: [Self; 4] = [Self::Portable, Self::AesNi, Self::Vaes256, Self::Vaes512];

    /// Name of the environment variable that [`Backend::best`] obeys.
    pub const VARIABLE: &'static str = "TRANSPUTE_AES";

    /// Returns the back ends this CPU has the instructions for, slowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        (Self::ALL.into_iter())
            .filter(|&backend| Dispatch::new(backend).is_ok())
            .collect()
    }

    /// Returns the fastest available back end, or the one that the environment variable
    /// `TRANSPUTE_AES` names (`portable`, `aes-ni`, `vaes256`, `vaes512`) if that is available.
    #[must_use]
    pub fn best() -> Self {
        choose(
            std::env::var(Self::VARIABLE).ok().as_deref(),
            &Self::available(),
        )
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::AesNi => "aes-ni",
            Self::Vaes256 => "vaes256",
            Self::Vaes512 => "vaes512",
        }
    }
}

/// Returns the wanted back end if it is available, else the last of those that are.
fn choose(wanted: Option<&str>, available: &[Backend]) -> Backend {
    wanted
        .and_then(|name| name.parse().ok())
        .filter(|wanted| available.contains(wanted))
        .or(available.last().copied())
        .unwrap_or(Backend::Portable)
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = GarbleError;

    fn from_str(text: &str) -> Result<Self, GarbleError> {
        Self::ALL
            .into_iter()
            .find(|backend| backend.name() == text)
            .ok_or_else(|| GarbleError::UnknownBackend {
                found: text.to_owned(),
            })
    }
}

/// Work that is written once for all instruction sets.
///
/// `run` and all it calls on vectors must be `#[inline(always)]`.
pub(crate) trait Job {
    /// Does the work: groups of gates on `wide` and `half`, half as wide, single ones on `pair`, two
    /// labels wide, or `narrow`, one label wide.
    fn run<I: Isa, const N: usize, const M: usize, J, const P: usize, L>(
        self,
        wide: Wide<I, N>,
        half: Wide<I, M>,
        pair: Wide<J, P>,
        narrow: Wide<L, 1>,
    ) where
        J: Isa<Keys = I::Keys>,
        L: Isa<Keys = I::Keys>;
}

/// A back end with the proof that this CPU can run it.
#[derive(Clone, Copy)]
pub(crate) enum Dispatch {
    Portable,
    #[cfg(target_arch = "x86_64")]
    AesNi(AesNi),
    #[cfg(target_arch = "x86_64")]
    Vaes256(Vaes256),
    #[cfg(target_arch = "x86_64")]
    Vaes512(Vaes512),
}

impl Dispatch {
    /// Asks the CPU.
    pub(crate) fn new(backend: Backend) -> Result<Self, GarbleError> {
        let dispatch = match backend {
            Backend::Portable => Some(Self::Portable),
            #[cfg(target_arch = "x86_64")]
            Backend::AesNi => AesNi::detect().map(Self::AesNi),
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes256 => Vaes256::detect().map(Self::Vaes256),
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes512 => Vaes512::detect().map(Self::Vaes512),
            #[cfg(not(target_arch = "x86_64"))]
            Backend::AesNi | Backend::Vaes256 | Backend::Vaes512 => None,
        };
        dispatch.ok_or(GarbleError::BackendUnavailable { wanted: backend })
    }

    /// Runs a job with the instructions of this back end.
    pub(crate) fn run(self, job: impl Job) {
        match self {
            Self::Portable => job.run(
                Wide::<_, 8>(Portable),
                Wide::<_, 4>(Portable),
                Wide::<_, 2>(Portable),
                Wide(Portable),
            ),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value proves the CPU features.
            Self::AesNi(isa) => unsafe { run_aes_ni(isa, job) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value proves the CPU features.
            Self::Vaes256(isa) => unsafe { run_vaes256(isa, job) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value proves the CPU features.
            Self::Vaes512(isa) => unsafe { run_vaes512(isa, job) },
        }
    }
}

// Eight gates and four: as many as it takes to hide the latency of the key schedule, and to share its
// work among the keys of four registers.

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "aes,ssse3")]
fn run_aes_ni(isa: AesNi, job: impl Job) {
    job.run(
        Wide::<_, 8>(isa),
        Wide::<_, 4>(isa),
        Wide::<_, 2>(isa),
        Wide(isa),
    );
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "aes,vaes,avx2")]
fn run_vaes256(isa: Vaes256, job: impl Job) {
    job.run(
        Wide::<_, 4>(isa),
        Wide::<_, 2>(isa),
        Wide::<_, 1>(isa),
        Wide(isa.narrow()),
    );
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl,bmi2")]
fn run_vaes512(isa: Vaes512, job: impl Job) {
    job.run(
        Wide::<_, 2>(isa),
        Wide::<_, 1>(isa),
        Wide::<_, 1>(isa.pair()),
        Wide(isa.narrow()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_the_portable_back_end_is_everywhere() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        assert!("avx".parse::<Backend>().is_err());
        let available = Backend::available();
        assert_eq!(available[0], Backend::Portable);
        assert!(available.contains(&Backend::best()));
    }

    #[test]
    fn the_variable_chooses_among_the_available() {
        let available = [Backend::Portable, Backend::AesNi];
        let choice = |wanted| choose(wanted, &available);
        assert_eq!(choice(None), Backend::AesNi);
        assert_eq!(choice(Some("portable")), Backend::Portable);
        assert_eq!(choice(Some("vaes512")), Backend::AesNi);
        assert_eq!(choice(Some("fastest")), Backend::AesNi);
        assert_eq!(choose(None, &[]), Backend::Portable);
    }

    #[test]
    fn back_ends_the_cpu_lacks_are_refused() {
        for backend in Backend::ALL {
            match Dispatch::new(backend) {
                Ok(_) => assert!(Backend::available().contains(&backend)),
                Err(error) => {
                    assert_eq!(error, GarbleError::BackendUnavailable { wanted: backend });
                }
            }
        }
    }
}
