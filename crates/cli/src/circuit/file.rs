//! Writes circuit files. A file is replaced only by a complete new one.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use transpute::{
    Circuit,
    circuit::bristol::{Format, WriteError, WriteOptions},
};

use crate::{failure::Failure, output};

/// A format to write.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum FileFormat {
    /// Bristol Fashion, one gate per line
    #[default]
    Fashion,
    /// Bristol Fashion with MAND: independent AND gates share a line
    FashionExtended,
    /// The old Bristol format: two inputs and one output
    Old,
}

impl FileFormat {
    fn options(self) -> (Format, WriteOptions) {
        let (format, group_ands) = match self {
            Self::Fashion => (Format::Fashion, false),
            Self::FashionExtended => (Format::Fashion, true),
            Self::Old => (Format::Old, false),
        };
        let mut options = WriteOptions::default();
        options.group_ands = group_ands;
        (format, options)
    }
}

/// Writes a circuit to the file `to`, or to standard output if `to` is `-`.
///
/// An existing file is replaced only after the new content is complete. After a failure, the old
/// file is unchanged.
pub(crate) fn write(circuit: &Circuit, to: &str, format: FileFormat) -> Result<(), Failure> {
    let (format, options) = format.options();
    if to == "-" {
        let mut unsayable = None;
        return output::print(|out| match circuit.write(out, format, &options) {
            Err(WriteError::Io(error)) => Err(error),
            Err(error) => {
                unsayable = Some(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        })
        .and_then(|()| match unsayable {
            Some(error) => Err(cannot_say(error)),
            None => Ok(()),
        });
    }
    let path = Path::new(to);
    replace(path, |out| circuit.write(out, format, &options)).map_err(|error| match error {
        WriteError::Io(error) => Failure::file(path, "cannot write the circuit").because(error),
        error => cannot_say(error),
    })
}

fn cannot_say(error: WriteError) -> Failure {
    Failure::usage("--to: the format cannot say what the circuit is").because(error)
}

/// Calls `write` with a temporary file, which replaces the file at `path` after `write` succeeds.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        // `write` writes directly to a device or a pipe. For a directory, `open` fails.
        let mut file = OpenOptions::new().write(true).open(path)?;
        return write(&mut file);
    }
    let path = resolved(path);
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut file = temporary(folder)?;
    write(file.as_file_mut())?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// Resolves symbolic links, so that the file that a link points to is replaced, not the link.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".transpute-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // By default, only the owner can read a temporary file. With mode 0666, the file gets the
        // permissions of an ordinary new file, because the system applies the umask.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("circuit.txt");
        fs::write(&path, "before").unwrap();
        let failed = replace(&path, |out| {
            out.write_all(b"half of")?;
            Err(io::Error::other("full").into())
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        replace(&path, |out| Ok(out.write_all(b"after")?)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_modes_are_those_of_new_files() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "").unwrap();
        symlink(&target, &link).unwrap();
        replace(&link, |out| Ok(out.write_all(b"new")?)).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        let plain = folder.path().join("plain");
        fs::File::create(&plain).unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&target), mode(&plain));
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        replace(Path::new("/dev/null"), |out| Ok(out.write_all(b"x")?)).unwrap();
        let kind = fs::metadata("/dev/null").unwrap().file_type();
        assert!(kind.is_char_device());
    }
}
