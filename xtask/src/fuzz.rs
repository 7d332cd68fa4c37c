//! Whether the fuzzer's targets compile. They are no part of the workspace, so nothing else would notice.

use std::{env, error::Error, path::Path, process::Command};

/// The manifests of the folders made for cargo-fuzz.
const MANIFESTS: [&str; 1] = ["crates/rudp/fuzz/Cargo.toml"];

/// Checks them with the compiler at hand: only running them needs a nightly one.
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
