//! Files that are replaced whole.

use std::{io::Write, path::Path};

use crate::SelectError;

/// Writes a file next to the old one and puts it in its place, so that nobody ever reads half of it.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), SelectError> {
    let cannot = |source| SelectError::File {
        path: path.to_owned(),
        source,
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    file.write_all(bytes).map_err(cannot)?;
    file.persist(path).map_err(|error| cannot(error.error))?;
    Ok(())
}
