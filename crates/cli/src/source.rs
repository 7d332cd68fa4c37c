//! Loads circuits from files and from the catalogue of built-in circuits.

use std::{fs::File, path::Path};

use transpute::{
    Circuit, Program,
    circuit::{
        BristolError, ProgramCache, SourceKey,
        bristol::{self, Format, ParseLimits},
        catalogue::{self, CatalogueError},
    },
};

use transpute_language::CompileOptions;

use crate::{
    failure::{Failure, FailureKind},
    language::{self, Bounds},
    suggest,
};

/// A circuit and its origin.
pub(crate) struct Loaded {
    pub(crate) circuit: Circuit,
    /// The name or path in the command line.
    pub(crate) name: String,
    pub(crate) format: Origin,
}

/// The origin of a circuit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// The catalogue of built-in circuits.
    BuiltIn,
    /// A circuit file in the given format.
    File(Format),
    /// A source file of the Garble language.
    Source,
}

/// Loads a circuit. Texts with a path separator or the ending `.txt`, `.bristol` or `.garble.rs`
/// are paths; `.garble.rs` is a source file of the language. Other texts are names of built-in
/// circuits. `flag` is the option that `text` belongs to, for error messages.
pub(crate) fn load(flag: &str, text: &str) -> Result<Loaded, Failure> {
    let (circuit, format) = if is_source(text) {
        (compiled(Path::new(text))?, Origin::Source)
    } else if is_path(text) {
        let parsed = open(Path::new(text))?;
        (parsed.circuit, Origin::File(parsed.format))
    } else {
        (named(flag, text)?, Origin::BuiltIn)
    };
    tracing::info!(circuit = text, gates = circuit.gate_count(), "loaded");
    Ok(Loaded {
        circuit,
        name: text.to_owned(),
        format,
    })
}

/// Loads a circuit and compiles it, or takes the compiled program from the cache.
pub(crate) fn program(flag: &str, text: &str, cache: Option<&Path>) -> Result<Program, Failure> {
    let Some(folder) = cache else {
        // The circuit is dropped here to save memory, because it is as large as its program.
        return Ok(Program::compile(&load(flag, text)?.circuit));
    };
    let cache = ProgramCache::new(folder);
    let (program, problem) = if is_source(text) {
        let path = Path::new(text);
        let name = concat!("compiled by ", env!("CARGO_PKG_VERSION"), ": ");
        let source = language::text(path)?;
        let key = SourceKey::of(&[name.as_bytes(), source.as_bytes()].concat());
        cache.program(&key, || compiled(path))?
    } else if is_path(text) {
        let path = Path::new(text);
        let bytes = (File::open(path).and_then(bristol::contents))
            .map_err(|error| no_circuit(path, error.into()))?;
        cache.program(&SourceKey::of(&bytes), || parse(path, &bytes))?
    } else {
        let name = concat!("built into ", env!("CARGO_PKG_VERSION"), ": ");
        let key = SourceKey::of(&[name.as_bytes(), text.as_bytes()].concat());
        cache.program(&key, || named(flag, text))?
    };
    if let Some(error) = problem {
        let why = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(why, "{error}");
    }
    tracing::info!(circuit = text, gates = program.gates().len(), "loaded");
    Ok(program)
}

/// Generates a built-in circuit.
pub(crate) fn named(flag: &str, name: &str) -> Result<Circuit, Failure> {
    catalogue::named(name).map_err(|error| match error {
        CatalogueError::UnknownName { .. } => Failure::usage(format!("{flag}: {}", unknown(name))),
        error => Failure::usage(format!("{flag}: {error}")),
    })
}

/// Returns the error message for an unknown name, with suggestions.
fn unknown(name: &str) -> String {
    let is_file = Path::new(name).is_file();
    if is_file && name.ends_with(".rs") {
        return format!(
            "{name:?} is no built-in circuit; to compile the file of that name, rename it to end in {}",
            language::EXTENSION
        );
    }
    if is_file {
        return format!(
            "{name:?} is no built-in circuit; to read the file of that name, write ./{name}"
        );
    }
    let close = close_names(name);
    if !close.is_empty() {
        let close = close.join(" or ");
        return format!("there is no circuit {name:?}; did you mean {close}?");
    }
    format!(
        "there is neither a built-in circuit nor a file {name:?}; \
         `transpute circuit generate --list` lists the built-in circuits"
    )
}

fn open(path: &Path) -> Result<bristol::Parsed, Failure> {
    bristol::open(path, &ParseLimits::default()).map_err(|error| no_circuit(path, error))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Circuit, Failure> {
    bristol::read(bytes, bytes.len() as u64, &ParseLimits::default())
        .map(|parsed| parsed.circuit)
        .map_err(|error| no_circuit(path, error))
}

fn no_circuit(path: &Path, error: BristolError) -> Failure {
    match error {
        BristolError::Invalid { position, problem } => Failure::new(
            FailureKind::File,
            format!(
                "{}:{}:{}: {problem}",
                path.display(),
                position.line,
                position.column
            ),
        ),
        error => Failure::file(path, error.to_string()).because(error),
    }
}

/// Compiles the function `main` of a source file.
fn compiled(path: &Path) -> Result<Circuit, Failure> {
    language::read(path, &CompileOptions::default(), Bounds::default()).map(|read| read.circuit)
}

fn is_source(text: &str) -> bool {
    text.ends_with(language::EXTENSION)
}

fn is_path(text: &str) -> bool {
    let ends = [".txt", ".bristol", language::EXTENSION];
    text.contains(std::path::is_separator) || ends.iter().any(|end| text.ends_with(end))
}

/// Returns the built-in circuits with names similar to `text`, as name and parameters.
fn close_names(text: &str) -> Vec<String> {
    let name = text.split(':').next().unwrap_or(text);
    let entries = catalogue::entries();
    (suggest::close(name, entries.iter().map(|entry| entry.name)).iter())
        .filter_map(|close| entries.iter().find(|entry| entry.name == *close))
        .map(|entry| entry.usage())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names_are_suggested() {
        assert_eq!(close_names("aes-128")[0], "aes128");
        assert_eq!(close_names("sha265:3")[0], "sha256");
        assert_eq!(close_names("AES128").len(), 0);
        assert!(close_names("quicksort").is_empty());
    }

    #[test]
    fn paths_look_like_paths() {
        for path in [
            "./aes128",
            "circuits/aes",
            "aes.txt",
            "a.bristol",
            "a.garble.rs",
        ] {
            assert!(is_path(path), "{path}");
        }
        for name in ["aes128", "min-of-candidates:10x20", "sha256:3"] {
            assert!(!is_path(name), "{name}");
        }
    }
}
