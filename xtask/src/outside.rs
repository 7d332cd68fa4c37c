//! A cargo package outside the repository. No setting of the repository applies to it.

use std::{fs, io, path::Path, process::Command};

use crate::command::cargo;

/// Writes the package into `folder`. `dependencies` is the part of its manifest from the
/// dependencies on.
///
/// The package gets the lock file of the repository, so cargo uses the same versions and downloads
/// nothing new.
pub(crate) fn write(root: &Path, folder: &Path, main: &str, dependencies: &str) -> io::Result<()> {
    let manifest = format!(
        "[package]\nname = \"outside\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}"
    );
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/main.rs"), main)?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}

/// Returns a command that runs cargo in the package. Its build output stays in `folder`.
pub(crate) fn cargo_in(folder: &Path) -> Command {
    let mut cargo = cargo(folder);
    cargo.env("CARGO_TARGET_DIR", folder.join("target"));
    cargo
}
