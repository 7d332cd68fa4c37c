//! The asynchronous runtimes of commands.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// Time for a computing thread to wipe its secrets after an interruption. It is less than a person notices.
const SHUTDOWN: Duration = Duration::from_millis(200);

/// Runs a future on a runtime of this thread, and leaves no work behind.
///
/// # Errors
/// The failure of the future, or that the runtime cannot be started.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    run_on(Builder::new_current_thread(), future)
}

/// Runs a future on as many threads as there are processors, and leaves no work behind.
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
    // The computing thread may be in the middle of a chunk. It is not waited for: its peer may be slow.
    runtime.shutdown_timeout(SHUTDOWN);
    result
}
