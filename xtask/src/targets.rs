//! Checks of the targets on which the tests of the workspace do not run.

use std::{env, error::Error, fmt, path::Path, process::Command};

use crate::command::{cargo, runs, succeed, target_folder};

/// A target, and the check of its code.
struct Target {
    triple: &'static str,
    /// Names of the programs that the check starts, such as a C compiler. `.ci/run` installs the
    /// Debian packages that contain them.
    programs: &'static [&'static str],
    check: fn(&Path) -> Result<(), Box<dyn Error>>,
}

const TARGETS: [Target; 4] = [
    Target {
        triple: "aarch64-unknown-linux-gnu",
        programs: &["aarch64-linux-gnu-gcc", "qemu-aarch64"],
        check: arm_linux,
    },
    Target {
        triple: "x86_64-pc-windows-gnu",
        programs: &["x86_64-w64-mingw32-gcc"],
        check: windows,
    },
    Target {
        triple: "aarch64-apple-darwin",
        programs: &[],
        check: mac,
    },
    Target {
        triple: "wasm32-unknown-unknown",
        programs: &["node"],
        check: wasm,
    },
];

/// The reason that a target cannot be checked on this machine.
enum Gap {
    /// A program that `.ci/run` installs is missing.
    Program(&'static str),
    /// rustup cannot add the standard library for the target.
    Library,
    /// The standard library for the target is missing, and there is no rustup to add it.
    Rustup,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(name) => write!(f, "the program {name} is not installed"),
            Self::Library => f.write_str("rustup cannot add the target"),
            Self::Rustup => f.write_str("the target is not installed, and there is no rustup"),
        }
    }
}

/// Checks all targets. Reports a target that this machine cannot check, and continues.
///
/// # Errors
/// Returns an error if a check fails. With the environment variable `CI`, also returns an error if
/// a program is missing that `.ci/run` installs.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let is_ci = env::var_os("CI").is_some();
    let mut missing = Vec::new();
    for target in &TARGETS {
        let triple = target.triple;
        match target.gap() {
            None => (target.check)(root).map_err(|error| format!("{triple}: {error}"))?,
            Some(gap) => {
                eprintln!("NOT CHECKED: {triple}: {gap}");
                if is_ci && matches!(gap, Gap::Program(_)) {
                    missing.push(triple);
                }
            }
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("not checked: {}", missing.join(", ")).into()),
    }
}

impl Target {
    /// Returns the reason that the target cannot be checked. Adds its standard library if it is
    /// missing.
    fn gap(&self) -> Option<Gap> {
        let is_missing = |name: &&&str| !runs(Command::new(name).arg("--version"));
        if let Some(name) = self.programs.iter().find(is_missing) {
            return Some(Gap::Program(name));
        }
        if self.has_library() {
            return None;
        }
        if !runs(Command::new("rustup").arg("--version")) {
            return Some(Gap::Rustup);
        }
        let is_added = runs(Command::new("rustup").args(["target", "add", self.triple]));
        (!is_added || !self.has_library()).then_some(Gap::Library)
    }

    fn has_library(&self) -> bool {
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", self.triple]);
        (rustc.output().ok())
            .and_then(|output| String::from_utf8(output.stdout).ok())
            .is_some_and(|folder| Path::new(folder.trim()).is_dir())
    }
}

/// Returns a command that checks the library, the command and the other packages `more`.
fn clippy(root: &Path, triple: &str, more: &[&str]) -> Command {
    let mut clippy = cargo(root);
    clippy.args(["clippy", "--quiet", "--target", triple]);
    for package in ["transpute", "transpute-cli"].iter().chain(more) {
        clippy.args(["--package", package]);
    }
    clippy.args(["--", "-D", "warnings"]);
    clippy
}

/// Checks Linux on ARM64 with the testbed, and runs the tests of the cores' kernels in an emulator.
fn arm_linux(root: &Path) -> Result<(), Box<dyn Error>> {
    const TRIPLE: &str = "aarch64-unknown-linux-gnu";
    const COMPILER: &str = "aarch64-linux-gnu-gcc";
    succeed(&mut clippy(root, TRIPLE, &["transpute-testbed-cli"]))?;
    let mut test = cargo(root);
    test.args(["test", "--quiet", "--lib", "--target", TRIPLE])
        .args(["--package", "transpute-garble"])
        .args(["--package", "transpute-ot"])
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER)
        .env("CC_aarch64_unknown_linux_gnu", COMPILER)
        // Debian installs the libraries for ARM64 there.
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        );
    succeed(&mut test)
}

fn windows(root: &Path) -> Result<(), Box<dyn Error>> {
    succeed(&mut clippy(root, "x86_64-pc-windows-gnu", &[]))
}

/// Checks the Rust code for macOS. The C code of dependencies needs Apple's SDK. A check does not
/// link, so the C compiler and the archiver are replaced by a program that does nothing.
fn mac(root: &Path) -> Result<(), Box<dyn Error>> {
    const TRIPLE: &str = "aarch64-apple-darwin";
    eprintln!("NOT CHECKED: {TRIPLE}: the C code of dependencies, which needs Apple's SDK");
    let mut clippy = clippy(root, TRIPLE, &[]);
    clippy
        .env("CC_aarch64_apple_darwin", "true")
        .env("AR_aarch64_apple_darwin", "true");
    succeed(&mut clippy)
}

/// Builds the cores for WebAssembly, and runs both parties in Node.
fn wasm(root: &Path) -> Result<(), Box<dyn Error>> {
    let folder = root.join("examples/wasm");
    let output = target_folder(root)?;
    let mut build = cargo(&folder);
    build
        .args(["build", "--quiet", "--locked", "--target-dir"])
        .arg(&output)
        // It would replace the flags in the package's `.cargo/config.toml`.
        .env_remove("RUSTFLAGS");
    succeed(&mut build)?;
    let module = output.join("wasm32-unknown-unknown/debug/transpute_wasm_example.wasm");
    let mut node = Command::new("node");
    succeed(node.arg(folder.join("run.mjs")).arg(module))
}
