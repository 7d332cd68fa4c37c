//! The asynchronous runtimes of commands.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// Time for a computing thread to wipe its secrets after an interruption. It is too short to be
/// noticed.
const SHUTDOWN: Duration = Duration::from_millis(200);

/// Runs a future on a runtime of this thread, and stops all its tasks at the end.
///
/// # Errors
/// The failure of the future, or of starting the runtime.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    run_on(Builder::new_current_thread(), future)
}

/// Runs a future on one thread per processor, and stops all its tasks at the end.
pub(crate) fn block_on_threads<T>(
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    run_on(Builder::new_multi_thread(), future)
}

fn run_on<T>(
    mut builder: Builder,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime: Runtime = (builder.enable_all().build())
        .map_err(|error| Failure::other("cannot start the runtime").because(error))?;
    let result = runtime.block_on(future);
    // The computing thread may be in the middle of a chunk. It is not awaited, because its peer may
    // be slow.
    runtime.shutdown_timeout(SHUTDOWN);
    result
}
