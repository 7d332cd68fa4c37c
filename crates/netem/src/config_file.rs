//! Hand-written configuration files in TOML: reading with a size limit, and errors that name the
//! place.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use thiserror::Error;

/// The maximum size of a hand-written configuration file, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Error: a configuration file cannot be read, or its contents are invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("{}: cannot read the {kind}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kind of file, such as "scenario".
        kind: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The text is not TOML, has an unknown field, or is too long.
    #[error("{origin}:{line}: {problem}")]
    Syntax {
        /// The path of the file or the name of the preset.
        origin: String,
        /// Line number, from 1.
        line: usize,
        /// The problem in that line.
        problem: String,
    },
    /// A field has an invalid value.
    #[error("{origin}: {field}: {problem}")]
    Field {
        /// The path of the file or the name of the preset.
        origin: String,
        /// The field with the table it is in, such as `up.loss`.
        field: String,
        /// The problem of the value.
        problem: String,
    },
}

/// Reads a configuration file. Errors contain `kind`, the kind of file.
///
/// # Errors
/// Returns [`ConfigFileError::Read`] if it cannot be read or is not UTF-8. Returns
/// [`ConfigFileError::Syntax`] if it is larger than 1 MiB.
pub fn read_config_file(path: &Path, kind: &'static str) -> Result<String, ConfigFileError> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text))
        .map_err(|source| ConfigFileError::Read {
            path: path.to_owned(),
            kind,
            source,
        })?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(ConfigFileError::Syntax {
            origin: path.display().to_string(),
            line: 1,
            problem: format!("expected at most {MAX_CONFIG_BYTES} bytes"),
        });
    }
    Ok(text)
}

/// Parses the text of a configuration file, which errors call `origin`.
///
/// # Errors
/// Returns [`ConfigFileError::Syntax`] if the text is not TOML or does not match `T`.
pub fn parse_config<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, ConfigFileError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.bytes().take(start);
        ConfigFileError::Syntax {
            origin: origin.to_owned(),
            line: 1 + before.filter(|&byte| byte == b'\n').count(),
            problem: plain_message(error.message()),
        }
    })
}

/// Returns the message of a TOML error as one line, with plain words instead of Rust types.
fn plain_message(message: &str) -> String {
    [
        ("expected f64", "expected a number"),
        ("expected u64", "expected a whole number from 0"),
        ("expected u32", "expected a whole number from 0"),
        ("expected a boolean", "expected true or false"),
        ("invalid type: string", "wrong type: found the text"),
        ("invalid type: integer", "wrong type: found the number"),
        (
            "invalid type: floating point",
            "wrong type: found the number",
        ),
        ("invalid type: boolean", "wrong type: found"),
        ("invalid type: sequence", "wrong type: found a list"),
        ("invalid type: map", "wrong type: found a table"),
    ]
    .iter()
    .fold(message.replace('\n', " "), |message, (rust, words)| {
        message.replace(rust, words)
    })
}
