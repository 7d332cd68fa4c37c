//! How fast this machine computes: measured once, kept, and said to the peer.
//!
//! | module | idea |
//! | --- | --- |
//! | `measure` | garbling, evaluating and transferring a little, and timing it |
//! | `words` | what a party that listens says of its machine |

mod measure;
pub mod words;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, PoisonError},
};

use transpute_garble::Scheme;
use transpute_select::{Machine, MachineCache, MachineKey, Workload};

pub use measure::{MeasureError, measure};

/// From how much computing on, in seconds, it is worth to know the machine: measuring takes about a tenth of that.
const WORTH_MEASURING_S: f64 = 0.1;

/// From where it is known how fast this machine computes.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Speed {
    /// Nothing is measured, and the machine is taken for a [typical one](Machine::TYPICAL).
    Typical,
    /// These figures, in seconds, for the scheme at hand.
    Known(Machine),
    /// It is measured when there is so much to compute that a few milliseconds do not count, at most once in this process.
    #[default]
    Measured,
    /// The same, but what was measured is kept in this file, and what it has is used. A file that cannot be used is passed over with a
    /// warning.
    Kept(PathBuf),
}

impl Speed {
    /// Returns what is known already; `None` stands for a machine that is taken for a typical one.
    #[must_use]
    pub fn recall(&self, scheme: Scheme) -> Option<Machine> {
        match self {
            Self::Typical => None,
            Self::Known(machine) => Some(*machine),
            Self::Measured => remembered(scheme),
            Self::Kept(file) => {
                let kept = MachineCache::load(file).get(&key(scheme));
                kept.or_else(|| remembered(scheme))
            }
        }
    }

    /// Returns what is known already, and measures if nothing is and `workload` is worth it: if either party computes for more than
    /// 100 ms by it. That takes about ten milliseconds of this thread.
    #[must_use]
    pub fn learn(&self, scheme: Scheme, workload: &Workload) -> Option<Machine> {
        match self.recall(scheme) {
            Some(machine) => Some(machine),
            None if self.would_measure(workload) => self.measure(scheme),
            None => None,
        }
    }

    /// Returns what is known already, and measures if nothing is, whatever it is for.
    #[must_use]
    pub fn learn_at_once(&self, scheme: Scheme) -> Option<Machine> {
        self.recall(scheme).or_else(|| self.measure(scheme))
    }

    /// Says whether to measure for this workload if nothing is known.
    pub(crate) fn would_measure(&self, workload: &Workload) -> bool {
        let parts = workload.parts();
        self.measures() && parts.garble_s.max(parts.evaluate_s) > WORTH_MEASURING_S
    }

    fn measures(&self) -> bool {
        matches!(self, Self::Measured | Self::Kept(_))
    }

    /// Measures, and keeps it; `None` if nothing is to be measured, or it failed.
    fn measure(&self, scheme: Scheme) -> Option<Machine> {
        if !self.measures() {
            return None;
        }
        let machine = match measure(scheme) {
            Ok(machine) => machine,
            Err(error) => {
                tracing::warn!(%error, "cannot measure how fast this machine computes");
                return None;
            }
        };
        tracing::info!(%scheme, ?machine, "measured how fast this machine computes");
        MEASURED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(scheme, machine);
        if let Self::Kept(file) = self {
            keep(file, scheme, machine);
        }
        Some(machine)
    }
}

impl From<Machine> for Speed {
    fn from(machine: Machine) -> Self {
        Self::Known(machine)
    }
}

/// Returns what is reckoned with until something was measured.
#[must_use]
pub(crate) fn typical(scheme: Scheme) -> Machine {
    match scheme.is_free_xor() {
        true => Machine::TYPICAL,
        false => Machine::TYPICAL_WITHOUT_FREE_XOR,
    }
}

/// What this process has measured.
static MEASURED: LazyLock<Mutex<HashMap<Scheme, Machine>>> = LazyLock::new(Mutex::default);

fn remembered(scheme: Scheme) -> Option<Machine> {
    let measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    measured.get(&scheme).copied()
}

/// Adds to the file.
fn keep(file: &Path, scheme: Scheme, machine: Machine) {
    let mut cache = MachineCache::load(file);
    cache.put(key(scheme), machine);
    if let Err(error) = cache.save(file) {
        tracing::warn!(%error, "cannot keep how fast this machine computes");
    }
}

/// Returns what figures measured here hold for.
fn key(scheme: Scheme) -> MachineKey {
    // What a compiler has not optimised says nothing about what it has.
    let build = if cfg!(debug_assertions) { " debug" } else { "" };
    MachineKey {
        processor: processor(),
        version: format!("{}{build}", env!("CARGO_PKG_VERSION")),
        scheme: scheme.to_string(),
    }
}

/// Returns the model of the processor as far as the system tells, without what a file should not have.
fn processor() -> String {
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            let (_, name) = line.split_once(':')?;
            let name: String = name
                .trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(60)
                .collect();
            (!name.is_empty()).then_some(name)
        });
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use transpute_select::End;

    use super::*;

    fn work(computing_s: f64) -> Workload {
        let mut parts = *Workload::transfer(End::Listener, 1000).unwrap().parts();
        parts.evaluate_s = computing_s;
        Workload::new(parts).unwrap()
    }

    #[test]
    fn only_work_that_is_worth_it_is_measured_for_and_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machine.json");
        let kept = Speed::Kept(file.clone());
        let scheme = Scheme::ThreeHalves;
        // No other test of this process measures this scheme.
        assert_eq!(kept.learn(scheme, &work(0.09)), None);
        assert!(!file.exists());
        let measured = kept.learn(scheme, &work(0.11)).unwrap();
        assert_eq!(kept.learn(scheme, &work(9.0)), Some(measured));
        assert_eq!(kept.recall(scheme), Some(measured));
        assert_eq!(Speed::Measured.recall(scheme), Some(measured));
        assert_eq!(MachineCache::load(&file).get(&key(scheme)), Some(measured));
        // What the file says counts, and what it does not say is measured.
        let mut cache = MachineCache::load(&file);
        cache.put(key(scheme), Machine::TYPICAL);
        cache.save(&file).unwrap();
        assert_eq!(kept.recall(scheme), Some(Machine::TYPICAL));
        std::fs::write(&file, "{").unwrap();
        assert_eq!(kept.recall(scheme), Some(measured));
    }

    #[test]
    fn who_does_not_want_measuring_gets_none() {
        let work = work(1e6);
        assert_eq!(Speed::Typical.learn(Scheme::FixedKey, &work), None);
        let known = Speed::from(Machine::TYPICAL);
        assert_eq!(known.learn(Scheme::FixedKey, &work), Some(Machine::TYPICAL));
        assert_eq!(Speed::Measured.recall(Scheme::FixedKey), None);
        // A file that cannot be written costs a warning.
        let folder = tempfile::tempdir().unwrap();
        let no_file = Speed::Kept(folder.path().to_owned());
        assert!(no_file.learn(Scheme::HalfGates, &work).is_some());
    }

    #[test]
    fn a_processor_has_a_name_that_can_be_kept() {
        let mut cache = MachineCache::default();
        cache.put(key(Scheme::Prf), Machine::TYPICAL);
        assert_eq!(cache.len(), 1);
        assert!(!processor().is_empty());
    }
}
