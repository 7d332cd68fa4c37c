//! Selection of an AES back end at run time.
#![cfg_attr(
    any(target_arch = "aarch64", target_arch = "x86_64"),
    expect(
        unsafe_code,
        reason = "calls of functions with target features, behind a proof that the CPU has them"
    )
)]

// Jobs for different instruction sets are compiled in different modules, so that the compiler can
// generate their code at the same time. They are most of the code of this crate.
//
// Each back end processes groups of eight and of four gates. These are enough gates to hide the
// latency of the key schedule, and to share its work among the keys in four registers.
#[cfg(target_arch = "x86_64")]
mod aes_ni;
#[cfg(target_arch = "aarch64")]
mod arm_aes;
#[cfg(target_arch = "x86_64")]
mod vaes256;
#[cfg(target_arch = "x86_64")]
mod vaes512;

#[cfg(target_arch = "aarch64")]
use crate::engine::ArmAes;
#[cfg(target_arch = "x86_64")]
use crate::engine::{AesNi, Vaes256, Vaes512};
use crate::{
    Backend, GarbleError,
    engine::{Isa, Portable, Wide},
};

impl Backend {
    /// Returns the back ends that this CPU supports, slowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        (Self::ALL.into_iter())
            .filter(|&backend| Dispatch::new(backend).is_ok())
            .collect()
    }

    /// Returns the back end that the environment variable `TRANSPUTE_AES` names (`portable`,
    /// `arm-aes`, `aes-ni`, `vaes256`, `vaes512`), or the fastest available one if the variable is
    /// not set or is empty.
    ///
    /// # Errors
    /// Returns [`GarbleError::UnknownBackend`] if the variable contains another name. Returns
    /// [`GarbleError::BackendUnavailable`] if this CPU does not have the instructions.
    pub fn best() -> Result<Self, GarbleError> {
        match std::env::var_os(Self::VARIABLE) {
            Some(name) if !name.is_empty() => named(&name.to_string_lossy()),
            _ => Ok(Self::available().pop().unwrap_or(Self::Portable)),
        }
    }
}

/// Returns the back end of this name, if this CPU supports it.
fn named(name: &str) -> Result<Backend, GarbleError> {
    let wanted = (Backend::ALL.into_iter())
        .find(|backend| backend.name() == name)
        .ok_or_else(|| GarbleError::UnknownBackend {
            found: name.to_owned(),
        })?;
    Dispatch::new(wanted).map(|_| wanted)
}

/// A computation that is generic over the instruction set.
///
/// `run` and all vector functions that it calls must be `#[inline(always)]`, so that they are
/// compiled with the target features of the back end.
pub(crate) trait Job {
    /// Runs the computation with vectors of four widths. `wide` and `half`, half as wide, are for
    /// groups of gates. `pair`, with two labels per vector, and `narrow`, with one label, are for
    /// single gates.
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

/// A back end, with the proof that this CPU supports it.
#[derive(Clone, Copy)]
pub(crate) enum Dispatch {
    Portable,
    #[cfg(target_arch = "aarch64")]
    ArmAes(ArmAes),
    #[cfg(target_arch = "x86_64")]
    AesNi(AesNi),
    #[cfg(target_arch = "x86_64")]
    Vaes256(Vaes256),
    #[cfg(target_arch = "x86_64")]
    Vaes512(Vaes512),
}

impl Dispatch {
    /// Checks that the CPU supports a back end.
    pub(crate) fn new(backend: Backend) -> Result<Self, GarbleError> {
        let dispatch = match backend {
            Backend::Portable => Some(Self::Portable),
            #[cfg(target_arch = "aarch64")]
            Backend::ArmAes => ArmAes::detect().map(Self::ArmAes),
            #[cfg(target_arch = "x86_64")]
            Backend::AesNi => AesNi::detect().map(Self::AesNi),
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes256 => Vaes256::detect().map(Self::Vaes256),
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes512 => Vaes512::detect().map(Self::Vaes512),
            #[cfg(not(target_arch = "aarch64"))]
            Backend::ArmAes => None,
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
            #[cfg(target_arch = "aarch64")]
            // SAFETY: an `ArmAes` value exists only if the CPU has these target features.
            Self::ArmAes(isa) => unsafe { arm_aes::run(isa, job) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `AesNi` value exists only if the CPU has these target features.
            Self::AesNi(isa) => unsafe { aes_ni::run(isa, job) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Vaes256` value exists only if the CPU has these target features.
            Self::Vaes256(isa) => unsafe { vaes256::run(isa, job) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Vaes512` value exists only if the CPU has these target features.
            Self::Vaes512(isa) => unsafe { vaes512::run(isa, job) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_portable_back_end_is_everywhere() {
        let available = Backend::available();
        assert_eq!(available[0], Backend::Portable);
        assert!(available.contains(&Backend::best().unwrap()));
    }

    #[test]
    fn named_back_ends_must_be_supported_by_the_cpu() {
        for backend in Backend::ALL {
            let expected = if Backend::available().contains(&backend) {
                Ok(backend)
            } else {
                Err(GarbleError::BackendUnavailable { wanted: backend })
            };
            assert_eq!(named(backend.name()), expected);
        }
        let error = named("fastest").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown AES back end \"fastest\" in TRANSPUTE_AES, expected one of portable, \
             arm-aes, aes-ni, vaes256, vaes512"
        );
    }

    /// If `TRANSPUTE_AES` names a back end, [`Backend::best`] must return it, so that the tests use
    /// it.
    #[test]
    fn the_forced_back_end_is_the_one_under_test() {
        let wanted = std::env::var(Backend::VARIABLE).unwrap_or_default();
        let best = Backend::best().expect("TRANSPUTE_AES names a back end of this CPU");
        assert!(wanted.is_empty() || best.to_string() == wanted);
    }

    #[test]
    fn unsupported_back_ends_are_rejected() {
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
