//! Commands that the tasks run.

use std::{env, error::Error, path::Path, process::Command};

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
