//! A check that a program in another repository can use the library, and that its first handshake
//! is not delayed. It gets no settings from this repository.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{self, Command},
    time::Instant,
};

const PROGRAM: &str = include_str!("../dependent/main.rs");

/// Builds the program in a new directory outside the repository in the release profile, and runs
/// it. Prints the time of the build and the number of compiled crates.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("transpute-dependent-{}", process::id()));
    let outcome = run(root, &folder);
    fs::remove_dir_all(&folder)?;
    outcome
}

fn run(root: &Path, folder: &PathBuf) -> Result<(), Box<dyn Error>> {
    let library = root.join("crates/transpute").canonicalize()?;
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/main.rs"), PROGRAM)?;
    // The same versions as in this repository, which are downloaded already.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let manifest = format!(
        "[package]\n\
         name = \"dependent\"\n\
         edition = \"2024\"\n\
         \n\
         [dependencies]\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt\"] }}\n\
         transpute = {{ path = {library:?} }}\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;

    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let cargo_in_folder = || {
        let mut command = Command::new(&cargo);
        command
            .current_dir(folder)
            .env("CARGO_TARGET_DIR", folder.join("target"));
        command
    };
    let tree = cargo_in_folder()
        .args(["tree", "--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}", "--no-dedupe"])
        .output()?;
    let names = String::from_utf8(tree.stdout)?;
    let mut crates: Vec<&str> = names.lines().collect();
    crates.sort_unstable();
    crates.dedup();
    let start = Instant::now();
    let built = cargo_in_folder().args(["build", "--release"]).status()?;
    if !built.success() {
        return Err("a program outside the repository cannot use the library".into());
    }
    println!(
        "{} crates, compiled in {:.0} s",
        crates.len(),
        start.elapsed().as_secs_f64()
    );
    let ran = cargo_in_folder()
        .args(["run", "--release", "--quiet"])
        .status()?;
    if !ran.success() {
        return Err("the program outside the repository failed".into());
    }
    Ok(())
}
