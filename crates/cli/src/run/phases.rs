//! Prints the phases that a party reaches while it computes.

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

/// The interval between checks whether a phase was reached.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Writes a line to standard error for each milestone of a session until dropped: `phase`, its
/// name, and its time in nanoseconds since 1970. `started` receives the counters of the session,
/// after `connected` has its start.
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
