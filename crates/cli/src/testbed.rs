//! The commands `testbed` and `model fit`, which are implemented by another crate or program.

use std::{
    convert::Infallible,
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use transpute_select::PathEstimate;

use crate::failure::{Failure, FailureKind};

/// The name of the program that implements all commands, including those of the testbed.
const PROGRAM: &str = "transpute-testbed";

/// The commands that a program with the testbed implements.
pub trait Testbed {
    /// The arguments of `transpute testbed`.
    type Args: clap::Args;

    /// The arguments of `transpute model fit`.
    type FitArgs: clap::Args;

    /// Runs `transpute testbed`.
    ///
    /// # Errors
    /// Returns the failure of the command.
    fn run(args: Self::Args) -> Result<(), Failure>;

    /// Runs `transpute model fit`.
    ///
    /// # Errors
    /// Returns the failure of the command.
    fn fit(args: Self::FitArgs) -> Result<(), Failure>;

    /// Returns the properties of the network path that a scenario describes. `scenario` is the name
    /// of a preset or a scenario file.
    ///
    /// # Errors
    /// Returns an error if there is no such preset, or the file is not valid.
    fn path(scenario: &str) -> Result<PathEstimate, Failure>;

    /// Checks that this program knows the options of a command, before a manual page or a
    /// completion script is printed. `command` has the names of the subcommands, or is empty for
    /// the whole program.
    ///
    /// # Errors
    /// Returns an error if this program does not know the options.
    fn describe(command: &[String]) -> Result<(), Failure>;
}

/// The testbed of the separate program `transpute-testbed`. Commands that need the testbed replace
/// this process by that program.
#[derive(Clone, Copy, Debug)]
pub enum Separate {}

/// Arguments for the other program.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Unread {
    /// Arguments for transpute-testbed; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Testbed for Separate {
    type Args = Unread;
    type FitArgs = Unread;

    fn run(_: Unread) -> Result<(), Failure> {
        Err(hand_over("transpute testbed"))
    }

    fn fit(_: Unread) -> Result<(), Failure> {
        Err(hand_over("transpute model fit"))
    }

    fn path(scenario: &str) -> Result<PathEstimate, Failure> {
        Err(hand_over(&format!("--path {scenario}")))
    }

    fn describe(command: &[String]) -> Result<(), Failure> {
        let names: Vec<_> = command.iter().map(String::as_str).collect();
        match names[..] {
            // If the program is missing, the completion script is printed without the options of
            // the testbed.
            [] => find().map_or(Ok(()), |program| Err(replace(&program))),
            ["testbed", ..] | ["model", "fit", ..] => Err(hand_over("its manual page")),
            _ => Ok(()),
        }
    }
}

/// Replaces this process by the program with the testbed. Returns only if this fails. `needs` is
/// the command or option that requires the program.
fn hand_over(needs: &str) -> Failure {
    match find() {
        Some(program) => replace(&program),
        None => Failure::new(
            FailureKind::Other,
            format!(
                "{needs} needs the program {PROGRAM}, which is neither beside this program nor on PATH: \
                 build it on Linux with `cargo build --release -p transpute-testbed-cli`, or install it with \
                 `cargo install --path crates/testbed-cli`"
            ),
        ),
    }
}

/// Returns the path of `transpute-testbed` in the folder of this program, or else the first one on
/// PATH.
fn find() -> Option<PathBuf> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = env::var_os("PATH").unwrap_or_default();
    let name = format!("{PROGRAM}{}", env::consts::EXE_SUFFIX);
    (beside.into_iter())
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(&name))
        .find(|file| file.is_file())
}

/// Replaces this process by `program`, with the same arguments. Returns only if this fails.
fn replace(program: &Path) -> Failure {
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1));
    let Err(error) = exec(&mut command);
    Failure::file(program, "cannot be run").because(error)
}

/// Replaces this process by the command. So the command gets the standard streams and the signals
/// of this process, and its exit code is that of this process.
#[cfg(unix)]
fn exec(command: &mut Command) -> Result<Infallible, io::Error> {
    use std::os::unix::process::CommandExt;

    Err(command.exec())
}

/// Runs the command as a child process, and exits with its exit code.
#[cfg(not(unix))]
fn exec(command: &mut Command) -> Result<Infallible, io::Error> {
    let status = command.status()?;
    std::process::exit(status.code().unwrap_or(FailureKind::Other as i32))
}
