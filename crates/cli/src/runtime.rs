//! The asynchronous runtimes of commands.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// Time that a computing thread has to wipe its secrets after an interruption. Users do not notice
/// such a short delay.
const SHUTDOWN: Duration = Duration::from_millis(200);

/// Runs a future on a runtime that uses this thread only. Stops all tasks of the runtime at the
/// end.
///
/// # Errors
/// Returns the failure of the future, or a failure if the runtime cannot start.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    run_on(Builder::new_current_thread(), future)
}

/// Runs a future on a runtime with one thread per processor. Stops all tasks of the runtime at the
/// end.
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
    // The computing thread may be busy with a chunk. It is not awaited for longer, because it may
    // wait for a slow peer.
    runtime.shutdown_timeout(SHUTDOWN);
    result
}
