//! A check with the oldest Rust and the oldest direct dependencies that the manifests allow.

use std::{env, error::Error, fs, io, path::Path, process::Command};

use crate::command::{cargo, runs, succeed, target_folder};

/// The arguments of each `cargo check`. All published crates are dependencies of the first two
/// packages.
const CHECKS: [&[&str]; 3] = [
    &["-p", "transpute-cli", "-p", "transpute-testbed-cli"],
    &["-p", "transpute", "--all-features"],
    &["-p", "transpute", "--no-default-features"],
];

/// Runs `cargo check` on the published crates with the Rust version of the manifest, and with the
/// minimal versions of all direct dependencies. This happens in a copy of the repository in the
/// target directory, so that the lock file of the repository does not change.
///
/// Without rustup, the check is impossible. This is an error only in CI.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let version = rust_version(&manifest).ok_or("Cargo.toml has no rust-version")?;
    if !install(version)? {
        let problem = "rustup is not installed: minimal versions are NOT checked";
        if env::var_os("CI").is_some() {
            return Err(problem.into());
        }
        eprintln!("WARNING: {problem}");
        return Ok(());
    }

    // An own target directory, because artifacts of another compiler cannot be reused.
    let folder = target_folder(root)?.join("minimal");
    let copy = folder.join("source");
    copy_sources(root, &copy)?;
    // Only the option is unstable. The lock file that it writes is an ordinary one.
    let mut update = cargo(&copy);
    update
        .args(["update", "--quiet", "-Z", "direct-minimal-versions"])
        .env("RUSTC_BOOTSTRAP", "1");
    succeed(&mut update).map_err(|error| {
        format!("Cargo.toml allows a version that another dependency does not allow: {error}")
    })?;
    for arguments in CHECKS {
        let mut check = Command::new("rustup");
        check
            .args(["run", version, "cargo", "check", "--locked"])
            .args(arguments)
            .current_dir(&copy)
            .env("CARGO_TARGET_DIR", folder.join("target"));
        succeed(&mut check).map_err(|error| {
            let arguments = arguments.join(" ");
            format!("cargo check {arguments}, Rust {version} and minimal versions: {error}")
        })?;
    }
    Ok(())
}

/// Returns the minimal Rust version that the manifest of the workspace declares.
fn rust_version(manifest: &str) -> Option<&str> {
    (manifest.lines()).find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
}

/// Installs this version of Rust if it is missing. Returns `false` if there is no rustup.
fn install(version: &str) -> Result<bool, Box<dyn Error>> {
    if !runs(Command::new("rustup").arg("--version")) {
        return Ok(false);
    }
    if runs(Command::new("rustup").args(["run", version, "cargo", "--version"])) {
        return Ok(true);
    }
    let mut install = Command::new("rustup");
    install
        .args(["toolchain", "install", "--profile", "minimal"])
        .args(["--no-self-update", version]);
    succeed(&mut install).map_err(|error| format!("Rust {version} is not installed: {error}"))?;
    Ok(true)
}

/// Copies the files of the repository that git does not ignore into `copy`, which then has no other
/// files.
fn copy_sources(root: &Path, copy: &Path) -> Result<(), Box<dyn Error>> {
    match fs::remove_dir_all(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others"])
        .args(["--exclude-standard", "--deduplicate"])
        .current_dir(root)
        .output()?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).into());
    }
    let listed = String::from_utf8(listed.stdout)?;
    for file in listed.split_terminator('\0') {
        let (from, to) = (root.join(file), copy.join(file));
        // The list also has files that are deleted but not yet committed as deleted.
        if from.is_file() {
            fs::create_dir_all(to.parent().ok_or("a file has no folder")?)?;
            fs::copy(from, to)?;
        }
    }
    Ok(())
}
