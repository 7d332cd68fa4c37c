//! The progress bar of a long run.

use std::{
    convert::Infallible,
    future::pending,
    io::{self, IsTerminal},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::{
    sync::oneshot,
    time::{interval, sleep},
};
use transpute::Progress;

/// Time from the start of a run until the bar appears. Shorter runs show no bar.
const MIN_RUN_TIME: Duration = Duration::from_secs(1);

const INTERVAL: Duration = Duration::from_millis(100);

/// Shows a progress bar on standard error if that is a terminal. Never returns, so the caller drops
/// it. `started` receives the counters of the session. `batch` is the number of evaluations.
pub(crate) async fn show(started: oneshot::Receiver<Progress>, batch: u64) -> Infallible {
    let Ok(progress) = started.await else {
        return pending().await;
    };
    if !io::stderr().is_terminal() {
        return pending().await;
    }
    sleep(MIN_RUN_TIME).await;
    let (done, total) = progress.tables();
    let bar = Bar::new(done, total, batch);
    let mut ticks = interval(INTERVAL);
    loop {
        ticks.tick().await;
        let (done, total) = progress.tables();
        bar.0.set_length(total);
        bar.0.set_position(done);
        if batch > 1 {
            (bar.0).set_message(format!("evaluation {} of {batch}", progress.evaluations()));
        }
    }
}

/// A bar that is removed from the terminal on drop.
struct Bar(ProgressBar);

impl Bar {
    fn new(done: u64, total: u64, batch: u64) -> Self {
        let template = if batch > 1 {
            "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}"
        } else {
            "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}"
        };
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_position(done);
        // Without this, the bar would count `done` as transferred since its creation, and so
        // overestimate the rate.
        bar.reset_eta();
        Self(bar)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
