//! Limits on the time of a peer: to begin, between runs, and within them.

use std::time::Duration;

use tokio::time::Instant;
use transpute_session::SessionError;

use super::{Departure, Limits};

/// Bytes of the first message of a peer.
const OPENING: u64 = 97;

/// Bytes of transfers, labels, tables and outputs that a connection with runs under way must carry in
/// each [`Limits::stall`]: 34 B/s by default, less than any link that is of use.
const MIN_CARRIED: u64 = 1 << 10;

/// Ends connections whose peer does not go on.
pub(super) struct Watchdog {
    idle: Duration,
    stall: Duration,
    first_words: Duration,
    begun: Instant,
    /// When [`look`](Self::look) was last called.
    looked: Instant,
    /// [`Seen::carried`] when that had last grown by [`MIN_CARRIED`], or when there were no runs.
    carried: u64,
    /// For how long runs have waited for the peer since then.
    waited: Duration,
    /// When there was last a run.
    busy: Instant,
    /// When the connection must be over, and why it was closed.
    closing: Option<(Instant, Departure)>,
}

/// The state of a connection.
pub(super) struct Seen {
    /// Bytes received.
    pub(super) received: u64,
    /// Bytes sent and received of transfers, labels, tables and outputs.
    pub(super) carried: u64,
    /// Whether this side has had nothing to compute at any time since the last look.
    pub(super) has_waited: bool,
    /// Whether runs are under way.
    pub(super) has_runs: bool,
    /// Whether no run is under way or waits to begin.
    pub(super) is_idle: bool,
}

/// What is to be done.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Sight {
    Fine,
    Idle,
    Stalled,
}

impl Watchdog {
    pub(super) fn new(limits: &Limits) -> Self {
        let now = Instant::now();
        Self {
            idle: limits.idle,
            stall: limits.stall,
            first_words: limits.first_words,
            begun: now,
            looked: now,
            carried: 0,
            waited: Duration::ZERO,
            busy: now,
            closing: None,
        }
    }

    /// Returns how often to look.
    pub(super) fn step(&self) -> Duration {
        let shortest = self.idle.min(self.stall).min(self.first_words);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Notes that the connection was closed and must be over soon.
    pub(super) fn close(&mut self, patience: Duration, why: Departure) {
        self.closing = Some((Instant::now() + patience, why));
    }

    pub(super) fn look(&mut self, seen: Seen) -> Sight {
        let now = Instant::now();
        let passed = now - std::mem::replace(&mut self.looked, now);
        if !seen.has_runs || seen.carried.saturating_sub(self.carried) >= MIN_CARRIED {
            (self.carried, self.waited) = (seen.carried, Duration::ZERO);
        } else if seen.has_waited {
            self.waited += passed;
        }
        if !seen.is_idle {
            self.busy = now;
        }
        let is_late = |(until, _): &(Instant, Departure)| now >= *until;
        // The content is for the computing thread to judge, which may have much to do.
        let is_open = seen.received >= OPENING;
        let is_silent = !is_open && now - self.begun >= self.first_words;
        if self.waited >= self.stall || is_silent || self.closing.as_ref().is_some_and(is_late) {
            Sight::Stalled
        } else if seen.is_idle && !self.is_closing() && now - self.busy >= self.idle {
            Sight::Idle
        } else {
            Sight::Fine
        }
    }

    pub(super) fn departure(&mut self, ended: Result<(), SessionError>) -> Departure {
        match (ended, self.closing.take()) {
            (Ok(()), Some((_, why))) => why,
            (Ok(()), None) => Departure::Closed,
            (Err(error), _) => Departure::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// Returns after how many seconds a peer is cut that carries so many bytes of runs in each, within
    /// ten minutes.
    async fn cut_after(bytes_per_second: u64, has_waited: impl Fn(u64) -> bool) -> Option<u64> {
        let mut watchdog = Watchdog::new(&Limits::default());
        assert_eq!(watchdog.step(), Duration::from_secs(1));
        for second in 1..=600 {
            advance(watchdog.step()).await;
            let sight = watchdog.look(Seen {
                received: 1000,
                carried: second * bytes_per_second,
                has_waited: has_waited(second),
                has_runs: true,
                is_idle: false,
            });
            match sight {
                Sight::Fine => {}
                Sight::Stalled => return Some(second),
                Sight::Idle => panic!("a run is under way"),
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_cut_that_carries_less_than_a_kibibyte_in_each_stall_limit() {
        assert_eq!(cut_after(0, |_| true).await, Some(30));
        // A few bytes now and then do not help.
        assert_eq!(cut_after(1, |_| true).await, Some(30));
        assert_eq!(cut_after(30, |_| true).await, Some(30));
        assert_eq!(cut_after(40, |_| true).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_counts_in_which_this_side_waits() {
        // A minute of work, then nothing from the peer.
        assert_eq!(cut_after(0, |second| second > 60).await, Some(90));
        // Being kept busy now and then resets nothing.
        assert_eq!(cut_after(0, |second| second % 2 == 0).await, Some(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_runs_becomes_idle() {
        let mut watchdog = Watchdog::new(&Limits::default());
        let seen = |received| Seen {
            received,
            carried: 0,
            has_waited: true,
            has_runs: false,
            is_idle: true,
        };
        advance(Duration::from_secs(9)).await;
        assert_eq!(watchdog.look(seen(0)), Sight::Fine);
        advance(Duration::from_secs(1)).await;
        assert_eq!(watchdog.look(seen(0)), Sight::Stalled);
        assert_eq!(watchdog.look(seen(OPENING)), Sight::Fine);
        advance(Duration::from_secs(50)).await;
        assert_eq!(watchdog.look(seen(OPENING)), Sight::Idle);
    }
}
