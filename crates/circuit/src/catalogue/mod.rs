//! Circuits by name, for the command line and for documents.
//!
//! A *spec* is a name, or a name, a colon and parameters: `aes128`, `add:64`,
//! `exact-min-cut:8x8,shared`.

use thiserror::Error;

use crate::{Circuit, generators::GeneratorError};

mod entries;

use entries::ENTRIES;

/// A circuit, or a family of circuits, that has a name.
#[derive(Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name. An entry without and one with parameters may share it.
    pub name: &'static str,
    /// What follows the name and a colon, for people; empty where there are no parameters.
    pub parameters: &'static str,
    /// What it computes, in one line.
    pub summary: &'static str,
    /// What each input value is, and its bit order; the first is the garbler's as a rule.
    pub inputs: &'static [&'static str],
    /// What each output value is.
    pub outputs: &'static [&'static str],
    /// A spec with values.
    pub example: Example,
    make: fn(&str) -> Result<Circuit, Failure>,
}

/// A spec with values, each a hexadecimal integer for [`Bits::from_hex`](crate::Bits::from_hex).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Example {
    /// The spec.
    pub spec: &'static str,
    /// One value per input value; none where they are too long to print.
    pub inputs: &'static [&'static str],
    /// What the output values are for these inputs.
    pub outputs: &'static [&'static str],
}

/// Why a spec names no circuit.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CatalogueError {
    /// No circuit has this name.
    #[error("there is no circuit {name:?}; there are {}", names())]
    UnknownName {
        /// The name given.
        name: String,
    },
    /// The parameters are not what the circuit takes.
    #[error("{name} is written {expected:?}, not {found:?}")]
    BadParameters {
        /// The name of the circuit.
        name: &'static str,
        /// How a spec is written.
        expected: String,
        /// The spec given.
        found: String,
    },
    /// A parameter is outside its range.
    #[error("{name}: {reason}")]
    Generator {
        /// The name of the circuit.
        name: &'static str,
        /// What the generator says.
        reason: GeneratorError,
    },
}

/// Makes the circuit that `spec` names.
///
/// # Errors
/// [`CatalogueError`] where there is no such circuit or its parameters are out of range.
///
/// # Examples
/// ```
/// use transpute_circuit::{Bits, catalogue};
/// let adder = catalogue::named("add:8")?;
/// let mut numbers = Bits::from_decimal("40", 8)?;
/// numbers.extend([Bits::from_decimal("2", 8)?]);
/// assert_eq!(adder.evaluate(&numbers)?.to_u128(), Some(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn named(spec: &str) -> Result<Circuit, CatalogueError> {
    let (name, parameters) = spec.split_once(':').unwrap_or((spec, ""));
    // `sha256` is two entries: without parameters and with them.
    let has_parameters = spec.contains(':');
    let of_name = || ENTRIES.iter().filter(|entry| entry.name == name);
    let fitting = of_name().find(|entry| entry.parameters.is_empty() != has_parameters);
    let Some(entry) = fitting.or_else(|| of_name().next()) else {
        return Err(CatalogueError::UnknownName { name: name.into() });
    };
    let made = if fitting.is_some() {
        (entry.make)(parameters)
    } else {
        Err(Failure::Syntax)
    };
    made.map_err(|failure| match failure {
        Failure::Syntax => CatalogueError::BadParameters {
            name: entry.name,
            expected: entry.usage(),
            found: spec.into(),
        },
        Failure::Generator(reason) => CatalogueError::Generator {
            name: entry.name,
            reason,
        },
    })
}

/// Returns all circuits that have names.
#[must_use]
pub fn entries() -> &'static [Entry] {
    ENTRIES
}

impl Entry {
    /// Returns how a spec is written: the name, and the parameters if there are any.
    #[must_use]
    pub fn usage(&self) -> String {
        if self.parameters.is_empty() {
            self.name.into()
        } else {
            format!("{}:{}", self.name, self.parameters)
        }
    }
}

/// Why an entry made no circuit.
enum Failure {
    Syntax,
    Generator(GeneratorError),
}

impl From<GeneratorError> for Failure {
    fn from(source: GeneratorError) -> Self {
        Self::Generator(source)
    }
}

fn names() -> String {
    let names: Vec<String> = ENTRIES.iter().map(Entry::usage).collect();
    names.join(", ")
}
