//! Ctrl-C, and being told to end.

use crate::failure::Failure;

/// Exit code after SIGINT: 128 and the number of the signal.
const INTERRUPTED: u8 = 130;

/// Exit code after SIGTERM.
#[cfg(unix)]
const TERMINATED: u8 = 143;

/// Waits for `work` unless the user or the system wants it to end.
///
/// # Errors
/// The failure of the work, or the interruption.
pub async fn unless_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        // First, so that the handlers are there before the work says that it has begun.
        biased;
        code = interrupted() => Err(Failure::Silent(code)),
        result = work => result,
    }
}

/// Waits until the user or the system wants this to end; returns the exit code for it.
#[cfg(unix)]
pub async fn interrupted() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        // Without handlers the signals end the process on their own.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => INTERRUPTED,
        _ = terminate.recv() => TERMINATED,
    }
}

/// Waits until the user wants this to end; returns the exit code for it.
#[cfg(not(unix))]
pub async fn interrupted() -> u8 {
    match tokio::signal::ctrl_c().await {
        Ok(()) => INTERRUPTED,
        Err(_) => std::future::pending().await,
    }
}
