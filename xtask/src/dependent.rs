//! A check that a package outside the repository can use the library, and that the first TLS
//! handshake of its process is not delayed.

use std::{error::Error, path::Path, time::Instant};

use crate::{
    command::succeed,
    outside::{cargo_in, write},
};

const PROGRAM: &str = include_str!("../dependent/main.rs");

/// Builds the program in the release profile in a temporary directory, and runs it. Prints the
/// number of crates in its build and the time of the build.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let library = root.join("crates/transpute").canonicalize()?;
    let dependencies = format!(
        "tokio = {{ version = \"1\", features = [\"macros\", \"rt\"] }}\n\
         transpute = {{ path = {library:?} }}\n"
    );
    write(root, folder, PROGRAM, &dependencies)?;

    let tree = cargo_in(folder)
        .args(["tree", "--edges", "normal,build", "--prefix", "none"])
        .arg("--no-dedupe")
        .output()?;
    if !tree.status.success() {
        return Err(String::from_utf8_lossy(&tree.stderr).into());
    }
    let tree = String::from_utf8(tree.stdout)?;
    let mut crates: Vec<&str> = tree.lines().collect();
    crates.sort_unstable();
    crates.dedup();
    let start = Instant::now();
    succeed(cargo_in(folder).args(["build", "--release"])).map_err(|error| {
        format!("a package outside the repository cannot use the library: {error}")
    })?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} crates, compiled in {seconds:.0} s", crates.len());
    succeed(cargo_in(folder).args(["run", "--release", "--quiet"]))
        .map_err(|error| format!("the program outside the repository failed: {error}").into())
}
