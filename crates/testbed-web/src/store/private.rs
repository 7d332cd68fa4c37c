//! Files and folders that other users cannot read: results, uploads and the commands of own programs are in them.

use std::{
    fs::{DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use super::StoreError;

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Those of them that allow to replace the files of a folder.
const OTHERS_WRITE: u32 = 0o022;

/// Creates a folder with mode 0700, unless it exists. One that exists may be read by others, since its files are private, but is
/// refused if they may write to it.
pub(super) fn create_folder(path: &Path) -> Result<(), StoreError> {
    let failed = |source| file_error(path, source);
    (DirBuilder::new().recursive(true).mode(0o700))
        .create(path)
        .map_err(failed)?;
    let mode = path.metadata().map_err(failed)?.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(StoreError::Wide {
        path: path.to_owned(),
        mode,
    })
}

/// Opens a file for writing, with mode 0600 whether it existed or not. SQLite gives its other files the mode of the database.
pub(super) fn open_file(path: &Path) -> Result<File, StoreError> {
    let open = || -> io::Result<File> {
        let file = (File::options().create(true).truncate(false).write(true))
            .mode(0o600)
            .open(path)?;
        if file.metadata()?.mode() & OTHERS != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(file)
    };
    open().map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: io::Error) -> StoreError {
    let path = path.to_owned();
    StoreError::File { path, source }
}
