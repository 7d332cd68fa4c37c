//! Compilation errors, with their place in the source.

use std::io;

use garble_lang::{
    CompileTimeError, Error, TypedProgram, check::TypeError, compile::CompilerError,
    parse::ParseError, scan::ScanError, token::MetaInfo,
};
use thiserror::Error;
use transpute_circuit::CircuitError;

use crate::MAX_SOURCE_BYTES;

/// Maximum number of characters shown of a compiler message. Some messages contain whole types.
const MAX_MESSAGE_CHARS: usize = 300;

/// The reason why a source cannot be compiled.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LanguageError {
    /// The source has an error.
    #[error("{line}:{column}: {problem}{}", more(*others))]
    Source {
        /// Line number, from 1.
        line: usize,
        /// Column, in characters from 1.
        column: usize,
        /// The error at that place, in one line.
        problem: String,
        /// The number of further errors.
        others: usize,
    },
    /// The source is too long.
    #[error("a source has at most {MAX_SOURCE_BYTES} bytes, not {found}")]
    TooLong {
        /// The length of the source in bytes.
        found: usize,
    },
    /// A type contains itself.
    #[error("type {name} contains itself")]
    Recursive {
        /// The type.
        name: String,
    },
    /// A parameter or the result is too wide.
    #[error("a value of type {ty} has more than {limit} bits")]
    TooWide {
        /// The type.
        ty: String,
        /// The maximum number of bits of a value.
        limit: usize,
    },
    /// No function has the given name.
    #[error("there is no function {name:?}; there are {}", known.join(", "))]
    Function {
        /// The name given.
        name: String,
        /// The names of all functions.
        known: Vec<String>,
    },
    /// A constant cannot be set.
    #[error("constant {constant}: {problem}")]
    Constant {
        /// The constant, as `PARTY::NAME`.
        constant: String,
        /// The reason why it cannot be set.
        problem: String,
    },
    /// The compiler panicked or returned an invalid result. This is a bug of the compiler, whatever
    /// the source is.
    #[error("the compiler of the language failed: {0}")]
    Fault(String),
    /// The converted circuit is invalid.
    #[error("the compiler of the language returned an invalid circuit")]
    Circuit(#[from] CircuitError),
    /// The compiler's thread cannot be started.
    #[error("cannot start the thread of the compiler")]
    Thread(#[from] io::Error),
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " (and one more mistake)".to_owned(),
        others => format!(" (and {others} more mistakes)"),
    }
}

impl LanguageError {
    /// Converts the errors of the compiler, and keeps the message of the first one.
    pub(crate) fn of(error: impl Into<Error>) -> Self {
        match error.into() {
            Error::CompileTimeError(error) => Self::first_of(places(error)),
            other => Self::Fault(one_line(&other.prettify(""))),
        }
    }

    pub(crate) fn unknown_function(name: &str, program: &TypedProgram) -> Self {
        let mut known: Vec<_> = program.fn_defs.keys().cloned().collect();
        known.sort();
        Self::Function {
            name: name.to_owned(),
            known,
        }
    }

    fn first_of(mut mistakes: Vec<(Option<MetaInfo>, String)>) -> Self {
        // Errors without a place come last. The sort is stable, so the first error at a place stays
        // first.
        mistakes.sort_by_key(|(place, _)| place.map_or((usize::MAX, 0), |place| place.start));
        let others = mistakes.len().saturating_sub(1);
        let Some((place, problem)) = mistakes.into_iter().next() else {
            return Self::Fault("it reported no error".to_owned());
        };
        match place {
            Some(place) => Self::Source {
                line: place.start.0.saturating_add(1),
                column: place.start.1.saturating_add(1),
                problem: one_line(&problem),
                others,
            },
            None => Self::Fault(one_line(&problem)),
        }
    }
}

fn places(error: CompileTimeError) -> Vec<(Option<MetaInfo>, String)> {
    match error {
        CompileTimeError::ScanErrors(errors) => (errors.into_iter())
            .map(|ScanError(error, place)| (Some(place), error.to_string()))
            .collect(),
        CompileTimeError::ParseError(errors) => (errors.into_iter())
            .map(|ParseError(error, place)| (Some(place), error.to_string()))
            .collect(),
        CompileTimeError::TypeError(errors) => (errors.into_iter())
            .map(|TypeError(error, place)| (Some(place), error.to_string()))
            .collect(),
        CompileTimeError::CompilerError(errors) => (errors.into_iter())
            .map(|error| match &error {
                CompilerError::MissingConstant(party, name, place) => (
                    Some(*place),
                    format!("no value is given for {party}::{name}"),
                ),
                _ => (None, error.to_string()),
            })
            .collect(),
    }
}

/// Joins a message to one line of limited length.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= MAX_MESSAGE_CHARS {
        return line;
    }
    line.chars()
        .take(MAX_MESSAGE_CHARS)
        .chain("...".chars())
        .collect()
}
