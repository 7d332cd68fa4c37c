//! The result of a party, as text or as JSON.

use std::error::Error;

use serde::Serialize;

/// The result of a party.
pub trait Answer: Serialize {
    /// The error message if the result is not correct.
    const WRONG: &'static str;

    /// Formats the result as lines of text.
    fn text(&self) -> String;

    /// Returns whether the result equals the expected one. `None` if no expected one is known.
    fn correct(&self) -> Option<bool>;
}

/// Prints a result, as one line of JSON if `json` is set, otherwise as text.
///
/// # Errors
/// Returns [`Answer::WRONG`] if the result is not correct.
pub fn tell<A: Answer>(answer: &A, json: bool) -> Result<(), Box<dyn Error>> {
    match json {
        true => println!("{}", serde_json::to_string(answer)?),
        false => print!("{}", answer.text()),
    }
    match answer.correct() {
        Some(false) => Err(A::WRONG.into()),
        _ => Ok(()),
    }
}
