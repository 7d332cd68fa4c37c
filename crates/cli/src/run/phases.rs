//! `transpute run --tell-phases`: prints the time at which the session reaches each milestone.

use std::{
    convert::Infallible,
    future::pending,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::oneshot,
    time::{MissedTickBehavior, interval},
};
use transpute::{Milestone, Progress};

use crate::output;

/// The interval between checks whether the session has reached further milestones.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Writes a line to standard error for the start of the session and for each milestone: `phase`,
/// the name, and the time in nanoseconds since 1970. Never returns, so the caller drops it.
///
/// `started` receives the counters of the session. The sender sets `connected` to the start time of
/// the session before it sends them.
pub(super) async fn tell(
    started: oneshot::Receiver<Progress>,
    connected: Arc<OnceLock<SystemTime>>,
) -> Infallible {
    let Ok(progress) = started.await else {
        return pending().await;
    };
    let Some(&start) = connected.get() else {
        return pending().await;
    };
    line("connected", start);
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut left = Milestone::ALL.to_vec();
    while !left.is_empty() {
        ticks.tick().await;
        left.retain(|&milestone| match progress.at(milestone) {
            Some(after) => {
                line(name(milestone), start + after);
                false
            }
            None => true,
        });
    }
    pending().await
}

fn name(milestone: Milestone) -> &'static str {
    match milestone {
        Milestone::Agreed => "agreed",
        Milestone::FirstLabels => "first-labels",
        Milestone::FirstTable => "first-table",
        Milestone::LastTable => "last-table",
        Milestone::LastOutput => "output",
    }
}

fn line(name: &str, when: SystemTime) {
    let since = (when.duration_since(SystemTime::UNIX_EPOCH)).unwrap_or_default();
    output::note(format!("phase {name} {}", since.as_nanos()));
}
