//! A check that the fuzz targets compile. They are not part of the workspace, so no other check
//! covers them.

use std::{error::Error, path::Path};

use crate::command::{cargo, succeed};

/// The manifests of the directories for cargo-fuzz.
const MANIFESTS: [&str; 1] = ["crates/rudp/fuzz/Cargo.toml"];

/// Checks that the fuzz targets compile with the current compiler. Running them needs a nightly
/// compiler.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    for manifest in MANIFESTS {
        let mut check = cargo(root);
        check.args([
            "check",
            "--locked",
            "--all-targets",
            "--manifest-path",
            manifest,
        ]);
        succeed(&mut check).map_err(|error| format!("{manifest} does not compile: {error}"))?;
    }
    Ok(())
}
