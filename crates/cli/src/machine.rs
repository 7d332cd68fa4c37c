//! Where it is kept how fast this machine computes.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use transpute::{Computation, Machine, Speed};

use crate::{failure::Failure, flags::TRANSPORT, workload};

/// What is given instead of a file by those who want nothing measured.
const NONE: &str = "none";

#[derive(clap::Args)]
pub(crate) struct MachineCache {
    /// The file that keeps how fast this machine computes; none: assume a typical machine [default: transpute/machine.json
    /// in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "FILE|none", help_heading = TRANSPORT)]
    machine_cache: Option<PathBuf>,
}

impl MachineCache {
    /// Says whether the flag was given.
    pub(crate) fn is_given(&self) -> bool {
        self.machine_cache.is_some()
    }

    /// Returns from where it is known how fast this machine computes.
    pub(crate) fn speed(&self) -> Speed {
        let variable = |name| std::env::var_os(name);
        match &self.machine_cache {
            Some(file) if file == Path::new(NONE) => Speed::Typical,
            Some(file) => Speed::Kept(file.clone()),
            None => usual_file(variable("XDG_CACHE_HOME"), variable("HOME"))
                .map_or(Speed::Measured, Speed::Kept),
        }
    }
}

/// Returns the file of this user (XDG Base Directory Specification: a relative path counts as none).
fn usual_file(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute =
        |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute(cache).or_else(|| Some(absolute(home)?.join(".cache")));
    Some(cache?.join("transpute").join("machine.json"))
}

/// Finds out how fast this machine is, if that matters for one of the runs, which `text` and `flag` name.
pub(crate) fn learn<'a>(
    speed: &Speed,
    flag: &str,
    runs: impl IntoIterator<Item = (&'a str, &'a Computation)>,
) -> Result<Option<Machine>, Failure> {
    for (text, run) in runs {
        let typical = workload::between(flag, text, run, None, None)?;
        let learnt = speed.learn(run.scheme(), &typical);
        if learnt.is_some() {
            return Ok(learnt);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_one_file() {
        let file = |cache: Option<&str>, home: Option<&str>| {
            usual_file(cache.map(Into::into), home.map(Into::into))
        };
        let home = Some(PathBuf::from("/home/a/.cache/transpute/machine.json"));
        assert_eq!(file(None, Some("/home/a")), home);
        assert_eq!(file(Some(""), Some("/home/a")), home);
        assert_eq!(file(Some("here"), Some("/home/a")), home);
        let cache = Some(PathBuf::from("/c/transpute/machine.json"));
        assert_eq!(file(Some("/c"), Some("/home/a")), cache);
        assert_eq!(file(None, Some("")), None);
        assert_eq!(file(None, None), None);
    }

    #[test]
    fn who_wants_nothing_measured_says_none() {
        let speed = |file: &str| {
            let flag = MachineCache {
                machine_cache: Some(file.into()),
            };
            flag.speed()
        };
        assert_eq!(speed("none"), Speed::Typical);
        assert_eq!(speed("./none"), Speed::Kept("./none".into()));
    }
}
