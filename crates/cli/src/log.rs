//! Log messages on standard error.

use std::{env, io};

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::failure::Failure;

const VARIABLE: &str = "TRANSPUTE_LOG";

/// Starts logging: warnings, or more if asked for.
pub(crate) fn start(verbosity: u8) -> Result<(), Failure> {
    let filter = match env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => text.parse().map_err(|error| {
            Failure::usage(format!("{VARIABLE} is not a log filter")).because(error)
        })?,
        _ => Targets::new().with_default(match verbosity {
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            2 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        // Otherwise a closed standard error is an error to be printed on standard error.
        .log_internal_errors(false);
    // Nobody else in this process sets a subscriber.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init();
    Ok(())
}
