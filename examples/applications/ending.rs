//! The end of a program or a connection after an error.

use std::{error::Error, process::ExitCode};

use transpute::Connection;

/// Prints the error, if there is one, and returns the exit code of the process.
#[must_use]
pub fn end(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", causes(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Closes a connection after an error, so that the peer is informed. Returns the error.
pub async fn part(connection: Connection, error: Box<dyn Error>) -> Box<dyn Error> {
    // A failure to close is ignored: it is a consequence of `error`.
    let _ = connection.close().await;
    error
}

/// Formats an error with all its sources in one line.
#[must_use]
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some errors already end with the text of their source. It is not repeated.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
