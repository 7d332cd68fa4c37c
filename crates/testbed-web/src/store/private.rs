//! Creates files and folders that other users cannot read. They contain results, uploads and users'
//! commands.

use std::{
    fs::{DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use super::StoreError;

/// The permission bits of the group and of others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// The permission bits that let the group or others replace files in a folder.
const GROUP_AND_OTHERS_WRITE: u32 = 0o022;

/// Creates a folder with mode 0700, unless it exists. An existing folder may be readable by others,
/// since its files are private. It is rejected if others may write to it.
pub(super) fn create_folder(path: &Path) -> Result<(), StoreError> {
    let failed = |source| file_error(path, source);
    (DirBuilder::new().recursive(true).mode(0o700))
        .create(path)
        .map_err(failed)?;
    let mode = path.metadata().map_err(failed)?.mode() & 0o7777;
    if mode & GROUP_AND_OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(StoreError::Writable {
        path: path.to_owned(),
        mode,
    })
}

/// Opens a file for writing and sets its mode to 0600. SQLite gives its other files the mode of the
/// database.
pub(super) fn open_file(path: &Path) -> Result<File, StoreError> {
    let open = || -> io::Result<File> {
        let file = (File::options().create(true).truncate(false).write(true))
            .mode(0o600)
            .open(path)?;
        if file.metadata()?.mode() & GROUP_AND_OTHERS != 0 {
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
