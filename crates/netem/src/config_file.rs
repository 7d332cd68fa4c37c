//! Reading hand-written configuration files, with a size limit.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// The maximum size of a hand-written configuration file, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// # Errors
/// Returns an error if the file cannot be read or is not UTF-8.
pub fn read_config_file(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    Ok((text.len() as u64 <= MAX_CONFIG_BYTES).then_some(text))
}
