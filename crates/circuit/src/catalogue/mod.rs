//! Circuits that the command line and the documentation refer to by name.
//!
//! A *spec* identifies a circuit. It is a name, or a name, a colon and parameters, for example
//! `aes128`, `add:64` or `exact-min-cut:8x8,shared`.

use thiserror::Error;

use crate::{Circuit, generators::GeneratorError};

mod entries;

use entries::ENTRIES;

/// A named circuit, or a named family of circuits that has parameters.
#[derive(Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The part of a spec before the colon. An entry without parameters and one with parameters may
    /// have the same name.
    pub name: &'static str,
    /// The syntax of the part of a spec after the colon, for help texts. It is empty for an entry
    /// without parameters.
    pub parameters: &'static str,
    /// A description of the function that the circuit computes, in one line.
    pub summary: &'static str,
    /// A description of each input value. The first value is usually the garbler's.
    pub inputs: &'static [&'static str],
    /// A description of each output value.
    pub outputs: &'static [&'static str],
    /// An example: a spec with input values and the resulting output values.
    pub example: Example,
    make: fn(&str) -> Result<Circuit, Failure>,
}

/// A spec with input values and the resulting output values. Each value is a hexadecimal integer
/// for [`Bits::from_hex`](crate::Bits::from_hex).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Example {
    /// The spec of the circuit.
    pub spec: &'static str,
    /// The input values, or an empty slice if they are too long to print.
    pub inputs: &'static [&'static str],
    /// The output values that result from `inputs`, or an empty slice if `inputs` is empty.
    pub outputs: &'static [&'static str],
}

/// The reason why a spec does not identify a circuit.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CatalogueError {
    /// No circuit has this name.
    #[error("there is no circuit {name:?}; there are {}", names())]
    UnknownName {
        /// The name in the spec.
        name: String,
    },
    /// The parameters in the spec do not match the syntax of the named circuit.
    #[error("{name} is written {expected:?}, not {found:?}")]
    BadParameters {
        /// The name of the circuit.
        name: &'static str,
        /// The syntax of the circuit's spec.
        expected: String,
        /// The spec that the caller passed.
        found: String,
    },
    /// A parameter is outside its range.
    #[error("{name}: {reason}")]
    Generator {
        /// The name of the circuit.
        name: &'static str,
        /// The error that the generator of the circuit returned.
        reason: GeneratorError,
    },
}

/// Returns the circuit that `spec` identifies.
///
/// # Errors
/// Returns [`CatalogueError`] if no circuit has the name in `spec`, or if the parameters in `spec`
/// are invalid or out of range.
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
    // `sha256` has two entries: one without parameters and one with parameters.
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

/// Returns all entries of the catalogue.
#[must_use]
pub fn entries() -> &'static [Entry] {
    ENTRIES
}

impl Entry {
    /// Returns the syntax of a spec: the name, and the parameters if there are any.
    #[must_use]
    pub fn usage(&self) -> String {
        if self.parameters.is_empty() {
            self.name.into()
        } else {
            format!("{}:{}", self.name, self.parameters)
        }
    }
}

/// The reason why `make` of an entry returned no circuit.
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
