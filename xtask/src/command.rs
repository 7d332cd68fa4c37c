//! Commands that the tasks run.

use std::{
    env,
    error::Error,
    io,
    path::{Path, PathBuf, absolute},
    process::{Command, Stdio},
};

/// Returns a command that runs cargo in `folder`, with the cargo that runs this program.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}

/// Runs a command and waits for it.
///
/// # Errors
/// Returns an error if the command cannot be started or does not exit with status 0.
pub(crate) fn succeed(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{}: {status}", command.get_program().display()).into());
    }
    Ok(())
}

/// Returns whether a command can be started and exits with status 0. Discards its output.
pub(crate) fn runs(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Returns the directory in which cargo builds the workspace.
pub(crate) fn target_folder(root: &Path) -> io::Result<PathBuf> {
    let folder = env::var_os("CARGO_TARGET_DIR");
    absolute(folder.map_or_else(|| root.join("target"), PathBuf::from))
}
