//! Helpers of several commands: cancellation by an interrupt, summaries, scenarios and exit codes.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use transpute_cli::{Failure, FailureKind, block_on, output, unless_interrupted};
use transpute_netem::scenario::{Scenario, ScenarioError};
use transpute_testbed::runner::{MatrixSummary, RunError};

/// Returns the path of this program, which also runs the parties.
pub(super) fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::other("cannot find this program").because(error))
}

/// Runs blocking work on a thread. If the user interrupts it (Ctrl-C), the flag that `work`
/// receives becomes true.
pub(super) fn cancellable<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, RunError> + Send + 'static,
) -> Result<T, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let seen = cancel.clone();
    block_on(async {
        let mut working = tokio::task::spawn_blocking(move || work(&seen));
        let waiting = async {
            (&mut working)
                .await
                .map_err(|error| Failure::other("the testbed panicked").because(error))
        };
        match unless_interrupted(waiting).await {
            Ok(result) => result.map_err(run_failure),
            Err(interrupted) => {
                // The processes and the emulated path are removed before this process ends.
                cancel.store(true, Ordering::Relaxed);
                if !working.is_finished() {
                    let _ = working.await;
                }
                Err(interrupted)
            }
        }
    })
}

/// Prints the summary of the runs of a command to standard error.
pub(super) fn note(summary: &MatrixSummary, results: &Path) {
    let MatrixSummary {
        measured,
        failed,
        cut_off,
        skipped,
    } = summary;
    output::note(format!(
        "{measured} measured, {cut_off} cut off, {failed} failed, {skipped} already in the results: {}",
        results.display()
    ));
}

/// Returns an error if runs failed.
pub(super) fn check_failed(failed: u64, results: &Path) -> Result<(), Failure> {
    match failed {
        0 => Ok(()),
        _ => Err(Failure::new(
            FailureKind::Protocol,
            format!(
                "{failed} runs failed; see the errors of their records in {}",
                results.display()
            ),
        )),
    }
}

/// Runs blocking work like [`cancellable`]. The first interrupt sets the first flag, so that the
/// work stops after the current run. The second interrupt sets the second flag, so that the current
/// run is aborted.
pub(super) fn stoppable<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool, &AtomicBool) -> Result<T, RunError> + Send + 'static,
) -> Result<T, Failure> {
    let flags = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let seen = flags.clone();
    let [stop, cancel] = &*flags;
    block_on(async {
        let mut working = tokio::task::spawn_blocking(move || work(&seen[0], &seen[1]));
        let mut wait = async || {
            let ended = (&mut working).await;
            let ended =
                ended.map_err(|error| Failure::other("the testbed panicked").because(error))?;
            Ok(ended.map_err(run_failure))
        };
        let interrupted = match unless_interrupted(wait()).await {
            Ok(result) => return result,
            Err(interrupted) => interrupted,
        };
        stop.store(true, Ordering::Relaxed);
        output::note("stopping after this run; interrupt again to abort it");
        match unless_interrupted(wait()).await {
            Ok(Ok(_)) => Err(interrupted),
            Ok(Err(failure)) => Err(failure),
            Err(again) => {
                cancel.store(true, Ordering::Relaxed);
                // The processes and the emulated path are removed before this process ends.
                let _ = wait().await;
                Err(again)
            }
        }
    })
}

/// Loads a preset by name, or a scenario file.
pub(super) fn load(name_or_path: &str) -> Result<Scenario, Failure> {
    Scenario::load(name_or_path).map_err(|error| match error {
        ScenarioError::Unknown { .. } => scenario_failure(error),
        error => Failure::new(FailureKind::File, error.to_string()).because(error),
    })
}

/// Converts an error of a scenario that concerns no file to a usage error.
pub(super) fn scenario_failure(error: ScenarioError) -> Failure {
    Failure::new(FailureKind::Usage, error.to_string()).because(error)
}

pub(super) fn run_failure(error: RunError) -> Failure {
    let kind = match &error {
        RunError::Empty(_) | RunError::Circuit { .. } => FailureKind::Usage,
        RunError::Results { .. } | RunError::Locked { .. } | RunError::Records(_) => {
            FailureKind::File
        }
        _ => FailureKind::Other,
    };
    Failure::new(kind, error.to_string()).because(error)
}
