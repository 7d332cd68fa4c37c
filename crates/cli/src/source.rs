//! Where a circuit comes from: a file, or the catalogue of built-in ones.

use std::{fs::File, path::Path};

use transpute::{
    Circuit, Program,
    circuit::{
        BristolError, ProgramCache, SourceKey,
        bristol::{self, Format, Limits},
        catalogue::{self, CatalogueError},
    },
};

use transpute_language::Options;

use crate::{
    failure::{Failure, Kind},
    language::{self, Bounds},
};

/// How many names a message suggests at most.
const SUGGESTIONS: usize = 3;

/// Characters of a name that are compared with others; no name is longer.
const MAX_NAME: usize = 64;

/// A circuit and where it comes from.
pub(crate) struct Loaded {
    pub(crate) circuit: Circuit,
    /// The name or path it was asked for by.
    pub(crate) name: String,
    pub(crate) format: Origin,
}

/// What a circuit was read from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// The catalogue.
    BuiltIn,
    /// A file in one of the formats.
    File(Format),
    /// A source in the language.
    Source,
}

/// Finds a circuit. What looks like a path is one: with a separator in it, or ending in `.txt`,
/// `.bristol` or `.garble.rs`, which is a source in the language.
///
/// `flag` is what the user gave `text` to, for messages.
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

/// Finds a circuit and compiles it, or takes what a folder has kept of the last time.
pub(crate) fn program(flag: &str, text: &str, cache: Option<&Path>) -> Result<Program, Failure> {
    let Some(folder) = cache else {
        // The circuit is not needed beside its compiled form, which is as large.
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

/// Makes a built-in circuit.
pub(crate) fn named(flag: &str, name: &str) -> Result<Circuit, Failure> {
    catalogue::named(name).map_err(|error| {
        let close = match error {
            CatalogueError::UnknownName { .. } => close_names(name),
            _ => Vec::new(),
        };
        let mut message = if close.is_empty() {
            format!("{flag}: {error}")
        } else {
            let close = close.join(" or ");
            format!("{flag}: there is no circuit {name:?}; did you mean {close}?")
        };
        if Path::new(name).is_file() {
            message.push_str(&format!("; for the file of that name write ./{name}"));
        }
        Failure::usage(message)
    })
}

fn open(path: &Path) -> Result<bristol::Parsed, Failure> {
    bristol::open(path, &Limits::default()).map_err(|error| no_circuit(path, error))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Circuit, Failure> {
    bristol::read(bytes, bytes.len() as u64, &Limits::default())
        .map(|parsed| parsed.circuit)
        .map_err(|error| no_circuit(path, error))
}

fn no_circuit(path: &Path, error: BristolError) -> Failure {
    match error {
        BristolError::Invalid { position, problem } => Failure::new(
            Kind::File,
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

/// Compiles the function `main` of a source.
fn compiled(path: &Path) -> Result<Circuit, Failure> {
    language::read(path, &Options::default(), Bounds::default()).map(|read| read.circuit)
}

fn is_source(text: &str) -> bool {
    text.ends_with(language::EXTENSION)
}

fn is_path(text: &str) -> bool {
    let ends = [".txt", ".bristol", language::EXTENSION];
    text.contains(std::path::is_separator) || ends.iter().any(|end| text.ends_with(end))
}

/// Returns the usage of built-in names that differ little from that of `text`.
fn close_names(text: &str) -> Vec<String> {
    // Long texts are no names, and comparing takes quadratic time.
    let name = text.split(':').next().unwrap_or(text);
    let name: String = name.chars().take(MAX_NAME).collect();
    let mut close: Vec<_> = (catalogue::entries().iter())
        .map(|entry| (distance(&name, entry.name), entry))
        .filter(|&(distance, entry)| distance <= 1 + entry.name.len().min(name.len()) / 4)
        .collect();
    // Stable: of equally close names the catalogue's first.
    close.sort_by_key(|&(distance, _)| distance);
    close.truncate(SUGGESTIONS);
    close.iter().map(|(_, entry)| entry.usage()).collect()
}

/// Returns the Levenshtein distance: insertions, deletions and replacements of a character.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (a, b, expected) in [
            ("kitten", "sitting", 3),
            ("aes128", "aes128", 0),
            ("aes-128", "aes128", 1),
            ("", "abc", 3),
        ] {
            assert_eq!(distance(a, b), expected);
            assert_eq!(distance(b, a), expected);
        }
    }

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
