//! How far a matrix is, for people.

use std::{
    fmt::Display,
    io::{self, IsTerminal},
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use transpute_cli::output;
use transpute_testbed::runner::Progress;

/// Shows how far the matrix is: a bar on a terminal, else a line a run.
pub(super) struct Teller {
    quiet: bool,
    bar: Option<ProgressBar>,
}

impl Teller {
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

    /// Does what [`tell`](Self::tell) does, unless nothing more is to run.
    pub(super) fn tell_until<C: Display, R>(
        &self,
        stop: &AtomicBool,
        progress: Progress<'_, C, R>,
    ) -> ControlFlow<()> {
        if stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        self.tell(progress);
        ControlFlow::Continue(())
    }

    pub(super) fn tell<C: Display, R>(&self, progress: Progress<'_, C, R>) {
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
