//! Helpers for tests that need privileges or programs that a machine may lack.

use std::{fmt::Display, io::Write as _};

use crate::lab::LabError;

/// Reports on standard error that a test was skipped.
///
/// # Panics
/// Panics if the environment variable `CI` is set and the process runs as root, where every test
/// can run.
#[track_caller]
pub fn skip(reason: impl Display) {
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    let must_run = is_ci && rustix::process::geteuid().is_root();
    assert!(!must_run, "the test cannot be skipped in CI: {reason}");
    // `writeln` instead of `eprintln`, because the test harness captures the latter.
    let _ = writeln!(std::io::stderr(), "SKIPPED, nothing was tested: {reason}");
}

/// Returns the value of a lab operation. Calls [`skip`] and returns `None` if this process lacks
/// the privileges for a lab, or the machine lacks `/dev/net/tun`.
///
/// # Panics
/// Panics on any other error, and where [`skip`] does.
#[must_use]
#[track_caller]
pub fn unless_skipped<T>(result: Result<T, LabError>) -> Option<T> {
    match result {
        Ok(started) => Some(started),
        Err(error @ (LabError::Privileges { .. } | LabError::NoTun { .. })) => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}
