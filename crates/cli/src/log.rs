//! Log messages on standard error.

use std::{env, io};

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::failure::Failure;

pub(crate) const VARIABLE: &str = "TRANSPUTE_LOG";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts logging to standard error. The environment variable [`VARIABLE`] sets the levels. Without
/// it, the level is `warn` for verbosity 0, then `info`, `debug` and `trace`.
pub(crate) fn start(verbosity: u8) -> Result<(), Failure> {
    let variable = env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let is_wanted = verbosity > 0 || variable.is_some();
    let filter = match variable {
        Some(text) => filter(&text)?,
        None => Targets::new().with_default(match verbosity {
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            2 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        // Otherwise, the logger would report a failed write to standard error on standard error.
        .log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter);
    // `try_init` fails only if a subscriber was set before, and no other code sets one. Without
    // `-v` and without the variable, log lines have no time and no module.
    let _ = match is_wanted {
        true => registry.with(lines).try_init(),
        false => registry
            .with(lines.without_time().with_target(false))
            .try_init(),
    };
    Ok(())
}

/// Parses the value of [`VARIABLE`]: `LEVEL`, or `TARGET=LEVEL,...` with the names of modules.
fn filter(text: &str) -> Result<Targets, Failure> {
    for directive in text.split(',') {
        let level = directive
            .split_once('=')
            .map_or(directive, |(_, level)| level);
        // `Targets::from_str` accepts an unknown level as the name of a target, and digits as
        // levels. This check rejects both.
        if !LEVELS.contains(&level.trim().to_ascii_lowercase().as_str()) {
            return Err(Failure::usage(format!(
                "{VARIABLE}: expected LEVEL or TARGET=LEVEL,..., the levels being {}; found {directive:?}",
                LEVELS.join(", ")
            )));
        }
    }
    (text.parse()).map_err(|error| Failure::usage(VARIABLE).because(error))
}
