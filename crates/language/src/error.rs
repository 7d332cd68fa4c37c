//! Why there is no circuit, with the place in the source.

use std::io;

use garble_lang::{
    CompileTimeError, Error, TypedProgram, check::TypeError, compile::CompilerError,
    parse::ParseError, scan::ScanError, token::MetaInfo,
};
use thiserror::Error;
use transpute_circuit::CircuitError;

use crate::MAX_SOURCE_BYTES;

/// The most characters of a message that are shown: some hold whole types.
const MAX_MESSAGE: usize = 300;

/// Why a source cannot be compiled.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LanguageError {
    /// The source is not what the language wants.
    #[error("{line}:{column}: {problem}{}", more(*others))]
    Source {
        /// Line number, from 1.
        line: usize,
        /// Column, in characters from 1.
        column: usize,
        /// What is wrong there, in one line.
        problem: String,
        /// How many mistakes there are besides.
        others: usize,
    },
    /// The source is too long.
    #[error("a source has at most {MAX_SOURCE_BYTES} bytes, not {found}")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// A type holds itself.
    #[error("type {name} holds itself")]
    Recursive {
        /// The type.
        name: String,
    },
    /// A parameter or result is too wide.
    #[error("a value of type {ty} has more than {most} bits")]
    TooWide {
        /// The type.
        ty: String,
        /// The most bits of a value.
        most: usize,
    },
    /// There is no function of that name.
    #[error("there is no function {name:?}; there are {}", known.join(", "))]
    Function {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A constant is wrong.
    #[error("constant {constant}: {problem}")]
    Constant {
        /// The constant, as `PARTY::NAME`.
        constant: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The compiler of the language has panicked. That is a fault of it, whatever the source.
    #[error("the compiler of the language fails: {0}")]
    Fault(String),
    /// The circuit that came of it is none of ours.
    #[error("the compiler of the language made no circuit")]
    Circuit(#[from] CircuitError),
    /// There is no thread for the compiler.
    #[error("cannot start the compiler")]
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
    /// Tells the first mistake.
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
        // Those without a place last. Stable, so that of the same place the first one is told.
        mistakes.sort_by_key(|(place, _)| place.map_or((usize::MAX, 0), |place| place.start));
        let others = mistakes.len().saturating_sub(1);
        let Some((place, problem)) = mistakes.into_iter().next() else {
            return Self::Fault("it does not say what is wrong".to_owned());
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

/// Puts a message on one line of limited length.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= MAX_MESSAGE {
        return line;
    }
    line.chars()
        .take(MAX_MESSAGE)
        .chain("...".chars())
        .collect()
}
