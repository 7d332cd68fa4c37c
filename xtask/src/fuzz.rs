//! A check that the fuzz targets compile. They are not part of the workspace, so no other check
//! covers them.

use std::{env, error::Error, path::Path, process::Command};

/// The manifests of the directories for cargo-fuzz.
const MANIFESTS: [&str; 1] = ["crates/rudp/fuzz/Cargo.toml"];

/// Checks that the fuzz targets compile with the current compiler. Running them needs a nightly
/// compiler.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for manifest in MANIFESTS {
        let status = Command::new(&cargo)
            .args(["check", "--locked", "--all-targets", "--manifest-path"])
            .arg(root.join(manifest))
            .status()?;
        if !status.success() {
            return Err(format!("{manifest} does not compile").into());
        }
    }
    Ok(())
}
