//! Small files that are read with a bound and replaced whole.

use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    path::Path,
};

use serde::Serialize;

use crate::SelectError;

/// Reads a text of at most so many bytes; nothing if there is no such file.
///
/// # Errors
/// What is wrong with it, for people to read.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<Option<String>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = String::new();
    (file.take(max_bytes + 1).read_to_string(&mut text)).map_err(|error| error.to_string())?;
    match text.len() as u64 > max_bytes {
        true => Err(format!("it has more than {max_bytes} bytes")),
        false => Ok(Some(text)),
    }
}

/// Writes a value as JSON, as [`replace`] does.
pub(crate) fn replace_json(path: &Path, value: &impl Serialize) -> Result<(), SelectError> {
    let text = serde_json::to_vec(value).map_err(|error| SelectError::Content {
        origin: path.display().to_string(),
        problem: error.to_string(),
    })?;
    replace(path, &text)
}

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
