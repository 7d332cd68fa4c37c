//! `transpute id`: the keys with which parties authenticate each other.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use transpute::{Identity, IdentityError};

use crate::{
    failure::{Failure, FailureKind, set_ours},
    output,
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Generate an identity and print its fingerprint
    #[command(after_help = "Example:\n  transpute id new alice.key")]
    New {
        /// The key file to write, readable by its owner only
        #[arg(default_value = "transpute.key")]
        file: PathBuf,
        /// Replace the file if it exists. The old key is lost
        #[arg(long)]
        force: bool,
    },
    /// Print the fingerprint of an identity
    #[command(after_help = "Example:\n  transpute id show alice.key")]
    Show {
        /// The key file
        file: PathBuf,
    },
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::New { file, force } => {
            let identity = Identity::generate().map_err(failure)?;
            save(&identity, &file, force)?;
            output::print(|out| writeln!(out, "{}", identity.fingerprint()))?;
            output::note(format!(
                "{}: keep this file secret; give the fingerprint to the peer, for its --peer",
                file.display()
            ));
            Ok(())
        }
        Command::Show { file } => {
            let identity = load(&file)?;
            output::print(|out| writeln!(out, "{}", identity.fingerprint()))
        }
    }
}

/// Reads an identity from a key file, and notes its fingerprint for error messages.
pub(crate) fn load(path: &Path) -> Result<Identity, Failure> {
    let identity = read(path)?;
    set_ours(identity.fingerprint());
    Ok(identity)
}

fn read(path: &Path) -> Result<Identity, Failure> {
    Identity::load(path).map_err(|error| {
        let is_missing = matches!(
            &error,
            IdentityError::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound
        );
        if is_missing {
            return Failure::file(
                path,
                format!(
                    "there is no such key file: make one with `transpute id new {}`",
                    path.display()
                ),
            );
        }
        match error {
            // The texts of all other errors already contain the path.
            IdentityError::Key { .. } => Failure::file(path, error.to_string()),
            error => failure(error),
        }
    })
}

fn save(identity: &Identity, path: &Path, force: bool) -> Result<(), Failure> {
    match identity.save(path) {
        Err(IdentityError::Exists { .. }) if force => {}
        Err(error @ IdentityError::Exists { .. }) => {
            return Err(Failure::new(
                FailureKind::File,
                format!("{error} without --force"),
            ));
        }
        other => return other.map_err(failure),
    }
    // The new key is written to a temporary folder and then renamed. So a failure while writing
    // leaves the old key file unchanged.
    let cannot = |error| Failure::file(path, "cannot replace the key file").because(error);
    if !fs::symlink_metadata(path).map_err(cannot)?.is_file() {
        return Err(Failure::file(path, "not a regular file, not replaced"));
    }
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let staging = tempfile::Builder::new()
        .prefix(".transpute-")
        .tempdir_in(folder)
        .map_err(cannot)?;
    let fresh = staging.path().join("key");
    identity.save(&fresh).map_err(failure)?;
    fs::rename(&fresh, path).map_err(cannot)
}

fn failure(error: IdentityError) -> Failure {
    let kind = match error {
        IdentityError::Random { .. } | IdentityError::Certificate { .. } => FailureKind::Other,
        _ => FailureKind::File,
    };
    Failure::new(kind, error.to_string()).because(error)
}
