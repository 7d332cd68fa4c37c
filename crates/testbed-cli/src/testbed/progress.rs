//! The progress of a matrix, on standard error.

use std::{
    fmt::Display,
    io::{self, IsTerminal},
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use transpute_cli::output;
use transpute_testbed::runner::MatrixProgress;

/// Reports the progress of a matrix: as a bar on a terminal, otherwise as a line for each run.
pub(super) struct ProgressReporter {
    quiet: bool,
    bar: Option<ProgressBar>,
}

impl ProgressReporter {
    pub(super) fn new(quiet: bool) -> Self {
        let bar = (!quiet && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { quiet, bar }
    }

    /// Reports progress like [`report`](Self::report). Returns `Break` if `stop` is true, so that
    /// no more runs start.
    pub(super) fn report_until<C: Display, R>(
        &self,
        stop: &AtomicBool,
        progress: MatrixProgress<'_, C, R>,
    ) -> ControlFlow<()> {
        if stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        self.report(progress);
        ControlFlow::Continue(())
    }

    pub(super) fn report<C: Display, R>(&self, progress: MatrixProgress<'_, C, R>) {
        if self.quiet {
            return;
        }
        let mut line = match progress.next {
            Some(cell) => cell.to_string(),
            None => "done".to_owned(),
        };
        if let (Some(_), Some(remaining)) = (progress.next, progress.remaining) {
            line.push_str(&format!(", {} left", HumanDuration(remaining)));
        }
        if progress.failed > 0 {
            line.push_str(&format!(", {} failed", progress.failed));
        }
        match &self.bar {
            Some(bar) => {
                if let Some(error) = progress.error {
                    bar.println(format!("failed: {error}"));
                }
                bar.set_length(progress.total);
                bar.set_position(progress.done);
                bar.set_message(line);
                if progress.next.is_none() {
                    bar.finish_and_clear();
                }
            }
            None => {
                if let Some(error) = progress.error {
                    output::note(format!("failed: {error}"));
                }
                output::note(format!("{}/{} {line}", progress.done, progress.total));
            }
        }
    }
}
