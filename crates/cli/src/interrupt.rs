//! Signals that end a command.

use crate::failure::Failure;

/// Exit code after SIGINT: 128 plus the number of the signal.
const INTERRUPTED: u8 = 130;

/// Exit code after SIGTERM.
#[cfg(unix)]
const TERMINATED: u8 = 143;

/// Runs `work` until it completes or a signal arrives.
///
/// # Errors
/// Returns the failure of `work`, or a silent failure with the exit code of the signal.
pub async fn unless_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        // `interrupted` is polled first, so that the signal handlers exist before the work reports
        // that it has started.
        biased;
        code = interrupted() => Err(Failure::Silent(code)),
        result = work => result,
    }
}

/// Waits for SIGINT or SIGTERM. Returns the exit code for the signal.
#[cfg(unix)]
pub async fn interrupted() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        // Without handlers, the signals end the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => INTERRUPTED,
        _ = terminate.recv() => TERMINATED,
    }
}

/// Waits for Ctrl-C. Returns the exit code for it.
#[cfg(not(unix))]
pub async fn interrupted() -> u8 {
    match tokio::signal::ctrl_c().await {
        Ok(()) => INTERRUPTED,
        Err(_) => std::future::pending().await,
    }
}
