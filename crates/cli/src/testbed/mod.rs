//! `transpute testbed`: two parties on this machine, joined by an emulated internet path.

mod exec;
mod link;
mod programs;
mod report;
mod run;
mod scenarios;
mod selection;
mod serve;
mod teller;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::Subcommand;
use transpute_netem::scenario::{Scenario, ScenarioError};
use transpute_testbed::runner::{RunError, Summary};

use crate::{
    failure::{Failure, Kind},
    interrupt::unless_interrupted,
    output,
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run circuits under network conditions and record what it takes
    Run(Box<run::Args>),
    /// Make tables and charts of what was recorded
    Report(report::Args),
    /// Show the network conditions there are, or check a file with one's own
    Scenarios(scenarios::Args),
    /// Run any two commands on an emulated path
    Exec(exec::Args),
    /// Run any two commands in a matrix of conditions and settings, as a file says
    Programs(programs::Args),
    /// Run every transport in many drawn cells, and tell what choosing costs
    Selection(selection::Args),
    /// Choose conditions, run, watch and compare in a browser
    Serve(serve::Args),
    /// Measure what an emulated path is really like on this machine
    Link(link::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(*args),
        Command::Report(args) => report::report(&args),
        Command::Scenarios(args) => scenarios::scenarios(&args),
        Command::Exec(args) => exec::exec(args),
        Command::Programs(args) => programs::programs(args),
        Command::Selection(args) => selection::selection(args),
        Command::Serve(args) => serve::serve(args),
        Command::Link(args) => link::link(args),
    }
}

/// Does what takes long on a thread of its own, and tells it to end when the user interrupts.
fn cancellable<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, RunError> + Send + 'static,
) -> Result<T, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let seen = cancel.clone();
    crate::block_on(async {
        let mut working = tokio::task::spawn_blocking(move || work(&seen));
        let waiting = async {
            (&mut working)
                .await
                .map_err(|error| Failure::other("the testbed has stopped").because(error))
        };
        match unless_interrupted(waiting).await {
            Ok(result) => result.map_err(run_failure),
            Err(interrupted) => {
                // The parties are ended and the path is taken down before this process ends.
                cancel.store(true, Ordering::Relaxed);
                if !working.is_finished() {
                    let _ = working.await;
                }
                Err(interrupted)
            }
        }
    })
}

/// Says what became of runs.
fn note(summary: &Summary, results: &Path) {
    let Summary {
        measured,
        failed,
        cut_off,
        skipped,
    } = summary;
    output::note(format!(
        "{measured} measured, {cut_off} cut off, {failed} failed, {skipped} known before: {}",
        results.display()
    ));
}

/// Fails if runs did.
fn all_went_well(failed: u64, results: &Path) -> Result<(), Failure> {
    match failed {
        0 => Ok(()),
        _ => Err(Failure::new(
            Kind::Protocol,
            format!(
                "{failed} runs failed; their rows in {} say why",
                results.display()
            ),
        )),
    }
}

/// Like [`cancellable`], but the first interruption only asks the work to stop where that is clean; the
/// second one ends it.
fn stoppable<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool, &AtomicBool) -> Result<T, RunError> + Send + 'static,
) -> Result<T, Failure> {
    let flags = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let seen = flags.clone();
    let [stop, cancel] = &*flags;
    crate::block_on(async {
        let mut working = tokio::task::spawn_blocking(move || work(&seen[0], &seen[1]));
        let mut wait = async || {
            let ended = (&mut working).await;
            let ended =
                ended.map_err(|error| Failure::other("the testbed has stopped").because(error))?;
            Ok(ended.map_err(run_failure))
        };
        let interrupted = match unless_interrupted(wait()).await {
            Ok(result) => return result,
            Err(interrupted) => interrupted,
        };
        stop.store(true, Ordering::Relaxed);
        output::note("stopping after this run; interrupt again to give it up");
        match unless_interrupted(wait()).await {
            Ok(Ok(_)) => Err(interrupted),
            Ok(Err(failure)) => Err(failure),
            Err(again) => {
                cancel.store(true, Ordering::Relaxed);
                // The parties are ended and the path is taken down before this process ends.
                let _ = wait().await;
                Err(again)
            }
        }
    })
}

/// Finds a scenario by name or reads its file.
fn load(name_or_path: &str) -> Result<Scenario, Failure> {
    Scenario::load(name_or_path).map_err(|error| match error {
        ScenarioError::Unknown { .. } => scenario_failure(error),
        error => Failure::new(Kind::File, error.to_string()).because(error),
    })
}

/// Without a file the flags are to blame.
fn scenario_failure(error: ScenarioError) -> Failure {
    Failure::new(Kind::Usage, error.to_string()).because(error)
}

fn run_failure(error: RunError) -> Failure {
    let kind = match &error {
        RunError::Empty(_) | RunError::Circuit { .. } => Kind::Usage,
        RunError::Results { .. } | RunError::Locked { .. } | RunError::Rows(_) => Kind::File,
        _ => Kind::Other,
    };
    Failure::new(kind, error.to_string()).because(error)
}
