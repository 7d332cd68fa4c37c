//! Timeouts of a peer: until it opens the protocol, between runs, and within them.

use std::time::Duration;

use tokio::time::Instant;
use transpute_session::{OPEN_FRAME_LEN, SessionError};

use super::{Disconnection, Limits};

/// Bytes of transfers, labels, tables and outputs that a connection with active runs must carry in
/// each [`Limits::stall`]: 34 B/s by default, less than any useful link.
const MIN_PROGRESS: u64 = 1 << 10;

/// Detects peers that make no progress.
pub(super) struct Watchdog {
    idle: Duration,
    stall: Duration,
    opening: Duration,
    begun: Instant,
    /// Time of the last [`check`](Self::check).
    checked: Instant,
    /// Value of [`Activity::carried`] at the last progress: when it had grown by [`MIN_PROGRESS`],
    /// or when no run was active.
    carried: u64,
    /// Time for which runs have waited for the peer since the last progress.
    waited: Duration,
    /// Last time at which a run was active or waited to start.
    busy: Instant,
    /// If the connection is closing, its deadline, and the reason for which it closes.
    closing: Option<(Instant, Disconnection)>,
}

/// The activity of a connection, as a check of the watchdog needs it.
pub(super) struct Activity {
    /// Bytes received since the start of the connection.
    pub(super) received: u64,
    /// Bytes of transfers, labels, tables and outputs, sent and received since the start.
    pub(super) carried: u64,
    /// This side has waited for the peer at some time since the last check.
    pub(super) has_waited: bool,
    /// Runs are active.
    pub(super) has_runs: bool,
    /// No run is active or waits to start.
    pub(super) is_idle: bool,
}

/// The result of a check.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    Ok,
    Idle,
    Stalled,
}

impl Watchdog {
    pub(super) fn new(limits: &Limits) -> Self {
        let now = Instant::now();
        Self {
            idle: limits.idle,
            stall: limits.stall,
            opening: limits.opening,
            begun: now,
            checked: now,
            carried: 0,
            waited: Duration::ZERO,
            busy: now,
            closing: None,
        }
    }

    /// Returns the interval between checks.
    pub(super) fn step(&self) -> Duration {
        let shortest = self.idle.min(self.stall).min(self.opening);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Records that the connection is closing, and must end within `patience`.
    pub(super) fn close(&mut self, patience: Duration, why: Disconnection) {
        self.closing = Some((Instant::now() + patience, why));
    }

    pub(super) fn check(&mut self, activity: Activity) -> Verdict {
        let now = Instant::now();
        let passed = now - std::mem::replace(&mut self.checked, now);
        if !activity.has_runs || activity.carried.saturating_sub(self.carried) >= MIN_PROGRESS {
            (self.carried, self.waited) = (activity.carried, Duration::ZERO);
        } else if activity.has_waited {
            self.waited += passed;
        }
        if !activity.is_idle {
            self.busy = now;
        }
        let is_late = |(until, _): &(Instant, Disconnection)| now >= *until;
        // Only the number of bytes is checked here, because the computing thread, which validates
        // the content, may be busy.
        let is_open = activity.received >= OPEN_FRAME_LEN as u64;
        let is_silent = !is_open && now - self.begun >= self.opening;
        if self.waited >= self.stall || is_silent || self.closing.as_ref().is_some_and(is_late) {
            Verdict::Stalled
        } else if activity.is_idle && !self.is_closing() && now - self.busy >= self.idle {
            Verdict::Idle
        } else {
            Verdict::Ok
        }
    }

    pub(super) fn departure(&mut self, ended: Result<(), SessionError>) -> Disconnection {
        match (ended, self.closing.take()) {
            (Ok(()), Some((_, why))) => why,
            (Ok(()), None) => Disconnection::Closed,
            (Err(error), _) => Disconnection::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// Returns the number of seconds after which the watchdog cuts a peer of this rate. `None` if
    /// the watchdog does not cut it within ten minutes.
    async fn cut_after(bytes_per_second: u64, has_waited: impl Fn(u64) -> bool) -> Option<u64> {
        let mut watchdog = Watchdog::new(&Limits::default());
        assert_eq!(watchdog.step(), Duration::from_secs(1));
        for second in 1..=600 {
            advance(watchdog.step()).await;
            let verdict = watchdog.check(Activity {
                received: 1000,
                carried: second * bytes_per_second,
                has_waited: has_waited(second),
                has_runs: true,
                is_idle: false,
            });
            match verdict {
                Verdict::Ok => {}
                Verdict::Stalled => return Some(second),
                Verdict::Idle => panic!("a run is under way"),
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_below_a_kibibyte_per_stall_limit_is_cut() {
        assert_eq!(cut_after(0, |_| true).await, Some(30));
        // A few bytes per second do not prevent the cut.
        assert_eq!(cut_after(1, |_| true).await, Some(30));
        assert_eq!(cut_after(30, |_| true).await, Some(30));
        assert_eq!(cut_after(40, |_| true).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_time_spent_waiting_counts() {
        // This side computes for a minute, then it waits for a silent peer.
        assert_eq!(cut_after(0, |second| second > 60).await, Some(90));
        // Work between two waits does not reset the timer.
        assert_eq!(cut_after(0, |second| second % 2 == 0).await, Some(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_runs_becomes_idle() {
        let mut watchdog = Watchdog::new(&Limits::default());
        let activity = |received| Activity {
            received,
            carried: 0,
            has_waited: true,
            has_runs: false,
            is_idle: true,
        };
        advance(Duration::from_secs(9)).await;
        assert_eq!(watchdog.check(activity(0)), Verdict::Ok);
        advance(Duration::from_secs(1)).await;
        assert_eq!(watchdog.check(activity(0)), Verdict::Stalled);
        assert_eq!(watchdog.check(activity(OPEN_FRAME_LEN as u64)), Verdict::Ok);
        advance(Duration::from_secs(50)).await;
        assert_eq!(
            watchdog.check(activity(OPEN_FRAME_LEN as u64)),
            Verdict::Idle
        );
    }
}
