//! Models as JSON: the format of model files.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use super::{Estimate, FORMAT, Model};
use crate::{
    SelectError,
    error::{checked, parsed},
};

/// Maximum length of a model file, in bytes. The built-in one has 5 kB.
const MAX_FILE_BYTES: u64 = 1 << 20;

impl Model {
    /// Parses and checks the JSON that [`to_json`](Self::to_json) returns.
    ///
    /// # Errors
    /// Returns [`SelectError::Content`] if the model is not valid. The error contains `origin`.
    pub fn from_json(text: &str, origin: &str) -> Result<Self, SelectError> {
        parsed(text, origin, Self::validate)
    }

    fn validate(&self) -> Result<(), SelectError> {
        let [format, expected] = [self.format, FORMAT].map(f64::from);
        checked(
            "format",
            format,
            (expected, expected),
            "a model of format 2",
        )?;
        for fitted in self.transports.values() {
            checked("sigma", fitted.sigma, (0.0, 10.0), "0 to 10")?;
            for (field, Estimate { value, low, high }) in fitted.parameters.named() {
                let expected = "a value from 1e-12 to 1e3 within its interval";
                checked(field, value, (1e-12, 1e3), expected)?;
                checked(field, value, (low, high), expected)?;
            }
        }
        Ok(())
    }

    /// Returns the model as JSON, with its format and the runs it was fitted to.
    #[must_use]
    pub fn to_json(&self) -> String {
        // The model has strings, finite numbers, and maps with string keys, which JSON can
        // represent.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// Returns [`SelectError::File`] if the file cannot be read. Returns [`SelectError::Content`]
    /// if it is not valid.
    pub fn load(path: &Path) -> Result<Self, SelectError> {
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text))
            .map_err(|source| file_error(path, source))?;
        Self::from_json(&text, &path.display().to_string())
    }

    /// Writes the model to a file.
    ///
    /// # Errors
    /// Returns [`SelectError::File`] if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), SelectError> {
        fs::write(path, self.to_json()).map_err(|source| file_error(path, source))
    }
}

fn file_error(path: &Path, source: io::Error) -> SelectError {
    let path = path.to_owned();
    SelectError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_of_the_shipped_model_are_those_of_its_file() {
        let text = include_str!("../../model/default.json");
        assert_eq!(&Model::from_json(text, "").unwrap(), Model::shipped());
    }
}
