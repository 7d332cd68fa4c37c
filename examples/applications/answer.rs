//! The result of a party, as text or as JSON.

use std::error::Error;

use serde::Serialize;

/// What a party has in the end.
pub trait Answer: Serialize {
    /// What is said of an answer that is not what it should be.
    const WRONG: &'static str;

    /// Returns it as lines for people.
    fn text(&self) -> String;

    /// Returns whether it is what it should be, if that is known.
    fn correct(&self) -> Option<bool>;
}

/// Prints an answer, as text or as a line of JSON.
///
/// # Errors
/// [`Answer::WRONG`] for one that is not correct.
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
