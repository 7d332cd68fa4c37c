//! A check that the crates can be published: each package is complete, and a program outside the
//! repository can use them.

use std::{
    env,
    error::Error,
    fs,
    path::Path,
    process::{self, Command},
};

/// The members of the workspace that are not published.
const UNPUBLISHED: [&str; 3] = ["transpute-benches", "transpute-examples", "xtask"];

/// The crates that the program outside the repository depends on. Together they depend on all
/// other published crates, except `transpute-testbed-cli`, which has no library.
const USED: [&str; 3] = ["transpute", "transpute-cli", "transpute-testbed-web"];

const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Packages all published crates, checks their files, and checks a program that depends on the
/// unpacked packages.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("transpute-package-{}", process::id()));
    let outcome = run(root, &folder);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    outcome
}

fn run(root: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    // The program below compiles the packages, so cargo need not compile each of them.
    let mut package = cargo();
    package
        .current_dir(root)
        .args(["package", "--workspace", "--no-verify", "--allow-dirty"])
        .arg("--target-dir")
        .arg(folder)
        .args(UNPUBLISHED.iter().flat_map(|name| ["--exclude", name]));
    succeed(&mut package, "the crates cannot be packaged")?;

    let mut patches = String::new();
    for entry in fs::read_dir(folder.join("package"))? {
        let archive = entry?.path();
        if archive
            .extension()
            .is_none_or(|extension| extension != "crate")
        {
            continue;
        }
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(&archive).arg("-C").arg(folder);
        succeed(&mut unpack, "a package cannot be unpacked")?;
        let source = folder.join(archive.file_stem().unwrap_or_default());
        let missing = FILES.iter().find(|file| !source.join(file).is_file());
        if let Some(missing) = missing {
            return Err(format!("{} has no {missing}", archive.display()).into());
        }
        patches += &format!("{} = {{ path = {source:?} }}\n", name_of(&source)?);
    }
    let user = folder.join("user");
    fs::create_dir_all(user.join("src"))?;
    fs::write(user.join("src/main.rs"), "fn main() {}\n")?;
    fs::copy(root.join("Cargo.lock"), user.join("Cargo.lock"))?;
    let used: String = USED
        .iter()
        .map(|name| format!("{name} = \"*\"\n"))
        .collect();
    let manifest = format!(
        "[package]\nname = \"user\"\nedition = \"2024\"\n\n\
         [dependencies]\n{used}\n[patch.crates-io]\n{patches}"
    );
    fs::write(user.join("Cargo.toml"), manifest)?;
    let mut compile = cargo();
    compile
        .current_dir(&user)
        .env("CARGO_TARGET_DIR", user.join("target"))
        .arg("check");
    succeed(
        &mut compile,
        "the packages do not compile outside the repository",
    )
}

/// Returns the name of an unpacked package, whose folder has the name and the version.
fn name_of(source: &Path) -> Result<String, Box<dyn Error>> {
    let folder = source.file_name().unwrap_or_default().to_string_lossy();
    let (name, _) = folder.rsplit_once('-').ok_or("a package has no version")?;
    Ok(name.to_owned())
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn succeed(command: &mut Command, problem: &str) -> Result<(), Box<dyn Error>> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(problem.into()),
    }
}
