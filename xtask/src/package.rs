//! A check that the crates can be published: each package is complete, and a package outside the
//! repository can depend on them.

use std::{error::Error, fs, path::Path, process::Command};

use crate::{
    command::{cargo, succeed},
    outside::{cargo_in, write},
};

/// The members of the workspace that are not published.
const UNPUBLISHED: [&str; 3] = ["transpute-benches", "transpute-examples", "xtask"];

/// The direct dependencies of the package outside the repository. Every other published crate is a
/// dependency of one of these, except `transpute-testbed-cli`, which has no library to depend on.
const USED: [&str; 3] = ["transpute", "transpute-cli", "transpute-testbed-web"];

/// The files that every published package must contain.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Packages all published crates, checks that each package contains [`FILES`], and runs `cargo
/// check` on a package outside the repository that depends on the unpacked packages.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    // cargo would verify each package by compiling it. The check below compiles all of them once.
    let mut package = cargo(root);
    package
        .args(["package", "--workspace", "--no-verify", "--allow-dirty"])
        .arg("--target-dir")
        .arg(folder)
        .args(UNPUBLISHED.iter().flat_map(|name| ["--exclude", name]));
    succeed(&mut package).map_err(|error| format!("the crates cannot be packaged: {error}"))?;

    let mut patches = String::new();
    for entry in fs::read_dir(folder.join("package"))? {
        let archive = entry?.path();
        let is_package = archive.extension().is_some_and(|it| it == "crate");
        // The file is named after the crate and its version.
        let Some(stem) = archive.file_stem().filter(|_| is_package) else {
            continue;
        };
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(&archive).arg("-C").arg(folder);
        succeed(&mut unpack).map_err(|error| format!("{}: {error}", archive.display()))?;
        let source = folder.join(stem);
        if let Some(missing) = FILES.iter().find(|file| !source.join(file).is_file()) {
            return Err(format!("{} has no {missing}", archive.display()).into());
        }
        let stem = stem.to_string_lossy();
        let (name, _) = stem.rsplit_once('-').ok_or("a package has no version")?;
        patches += &format!("{name} = {{ path = {source:?} }}\n");
    }
    let used = USED.map(|name| format!("{name} = \"*\"\n")).concat();
    let dependencies = format!("{used}\n[patch.crates-io]\n{patches}");
    let user = folder.join("outside");
    write(root, &user, "fn main() {}\n", &dependencies)?;
    succeed(cargo_in(&user).arg("check")).map_err(|error| {
        format!("the packages do not compile outside the repository: {error}").into()
    })
}
