//! What a test does where it cannot run.

use std::{fmt::Display, io::Write as _};

/// Reports that a test has tested nothing. In continuous integration as root, where every test can run, this is a failure.
#[track_caller]
pub(crate) fn skip(reason: impl Display) {
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    let must_run = is_ci && rustix::process::geteuid().is_root();
    assert!(!must_run, "the test cannot be skipped in CI: {reason}");
    // Not `eprintln`, whose output the test harness hides.
    let _ = writeln!(std::io::stderr(), "SKIPPED, nothing was tested: {reason}");
}
