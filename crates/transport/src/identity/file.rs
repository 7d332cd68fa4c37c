//! Reads and writes key files. Only the owner may read a key file. After a crash, a new key file is
//! either complete or absent.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

use super::IdentityError;

/// Maximum size of a key file in bytes, far above the size of any Ed25519 key file. It limits the
/// number of bytes that are read from a wrong file.
const MAX_FILE: u64 = 16 * 1024;

/// Reads a key file.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, IdentityError> {
    let read_error = |source| IdentityError::Read {
        path: path.to_owned(),
        source,
    };
    // Check before opening, because opening a FIFO would wait for a writer.
    if !fs::metadata(path).map_err(read_error)?.is_file() {
        return Err(IdentityError::NotAFile {
            path: path.to_owned(),
        });
    }
    let mut file = File::open(path).map_err(read_error)?;
    let metadata = file.metadata().map_err(read_error)?;
    check_private(path, &metadata)?;
    if metadata.len() > MAX_FILE {
        return Err(IdentityError::TooLarge {
            path: path.to_owned(),
            got: metadata.len(),
            limit: MAX_FILE,
        });
    }
    // A fixed buffer is never reallocated, so no copy stays unwiped. If the file grows meanwhile,
    // only its beginning is read.
    let mut bytes = Zeroizing::new(vec![0; MAX_FILE as usize]);
    let mut length = 0;
    while length < bytes.len() {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(error)),
        }
    }
    let text = std::str::from_utf8(&bytes[..length]).map_err(|_| IdentityError::Format {
        path: path.to_owned(),
        reason: "is not text",
    })?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Creates a key file. Fails if a file of this name exists. After a crash, the file is either
/// absent or complete.
pub(super) fn create(path: &Path, text: &str) -> Result<(), IdentityError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => IdentityError::Exists {
            path: path.to_owned(),
        },
        _ => IdentityError::Write {
            path: path.to_owned(),
            source,
        },
    };
    let draft = Draft::write(path, text).map_err(failed)?;
    match fs::hard_link(&draft.path, path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(failed(error)),
        // The file system has no hard links, so create the file in place, without replacing an
        // existing one.
        Err(_) => write_new(path, text).map_err(failed)?,
    }
    drop(draft);
    sync_directory(path);
    Ok(())
}

/// A temporary file next to the final one, removed on drop.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn write(target: &Path, text: &str) -> io::Result<Self> {
        let mut name = target
            .file_name()
            .ok_or_else(|| io::Error::other("the path names no file"))?
            .to_owned();
        name.push(format!(".{:016x}.tmp", rand::random::<u64>()));
        let path = target.with_file_name(name);
        write_new(&path, text)?;
        Ok(Self { path })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

/// Syncs the directory, so that the new file name survives a crash. Errors are ignored, because the
/// file is usable anyway.
fn sync_directory(path: &Path) {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
}

#[cfg(unix)]
fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), IdentityError> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777;
    if mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(IdentityError::Permissions {
            path: path.to_owned(),
            mode,
        })
    }
}

#[cfg(not(unix))]
fn check_private(_: &Path, _: &fs::Metadata) -> Result<(), IdentityError> {
    Ok(())
}
