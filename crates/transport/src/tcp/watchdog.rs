//! Distinguishes a peer that does not read from one that has vanished.
//!
//! With `TCP_USER_TIMEOUT`, Linux closes a connection whose data stays unacknowledged, which
//! detects a vanished peer. But Linux also closes the connection if a live peer does not read for
//! this time, so that its receive window is closed, even though the peer answers every window
//! probe. So while the window is closed, the watchdog increases `TCP_USER_TIMEOUT`. It ends the
//! connection itself if the peer does not answer the probes.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use super::{ceilings, info::TcpInfo, socket::Connection};

/// Number of times that the watchdog checks a connection per time-out. With the default time-out of
/// 8 s, it checks twice a second.
const INTERVALS: u32 = 16;

/// Returns the maximum interval between two window probes: 5 s with the default time-out of 8 s.
/// Linux doubles the interval after each probe, but sends a probe at the latest when
/// `TCP_USER_TIMEOUT` expires. After the first 3 s with a closed window, each check of the watchdog
/// moves this expiry to 5 s in the future. So the last answer of a live peer is always more recent
/// than the time-out.
fn probe_at_least_every(timeout: Duration) -> Duration {
    timeout * 5 / 8
}

/// Spawns a task that watches a connection until the connection is dropped. Does nothing except on
/// Linux, because other systems do not report the peer's receive window.
pub(super) fn watch(connection: &Arc<Connection>) {
    if cfg!(target_os = "linux") {
        tokio::spawn(run(Arc::downgrade(connection)));
    }
}

async fn run(connection: Weak<Connection>) {
    let Some(timeout) = connection.upgrade().map(|open| open.peer_timeout()) else {
        return;
    };
    let mut watchdog = Watchdog::new(timeout);
    let mut ceilings = ceilings::Check::new();
    loop {
        tokio::time::sleep(timeout / INTERVALS).await;
        let Some(connection) = connection.upgrade() else {
            return;
        };
        let (info, now) = (connection.info(), Instant::now());
        ceilings.look_at(&info.path, now);
        match watchdog.judge(&info, now) {
            Verdict::Fine => {}
            Verdict::Patience(patience) => connection.set_patience(patience),
            Verdict::Gone => {
                tracing::debug!("the peer answers no window probes; giving the connection up");
                connection.give_up();
                return;
            }
        }
    }
}

#[derive(Debug)]
struct Watchdog {
    timeout: Duration,
    closed_since: Option<Instant>,
}

#[derive(Debug, Eq, PartialEq)]
enum Verdict {
    /// Leave `TCP_USER_TIMEOUT` unchanged.
    Fine,
    /// Set `TCP_USER_TIMEOUT` to this time, which starts when the peer's window closes.
    Patience(Duration),
    /// End the connection, because the peer has acknowledged nothing during the time-out.
    Gone,
}

impl Watchdog {
    fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            closed_since: None,
        }
    }

    fn judge(&mut self, info: &TcpInfo, now: Instant) -> Verdict {
        if !window_is_closed(info) {
            return match self.closed_since.take() {
                Some(_) => Verdict::Patience(self.timeout),
                None => Verdict::Fine,
            };
        }
        if info
            .last_ack_received
            .is_some_and(|age| age >= self.timeout)
        {
            return Verdict::Gone;
        }
        let since = *self.closed_since.get_or_insert(now);
        let patience = now.saturating_duration_since(since) + probe_at_least_every(self.timeout);
        Verdict::Patience(patience.max(self.timeout))
    }
}

/// Returns whether data is waiting because the peer's receive window is closed.
fn window_is_closed(info: &TcpInfo) -> bool {
    let waiting = info.not_sent.unwrap_or(0) > 0;
    let in_flight = info.unacked.unwrap_or(0) > 0;
    match info.send_window {
        Some(0) => waiting || in_flight,
        // A window that is too small for the next segment is treated as closed too. In this case,
        // unsent data waits although no data is in flight.
        _ => waiting && !in_flight,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::socket::PEER_TIMEOUT, *};

    fn closed(last_ack: Duration) -> TcpInfo {
        TcpInfo {
            unacked: Some(0),
            not_sent: Some(100_000),
            send_window: Some(0),
            last_ack_received: Some(last_ack),
            ..TcpInfo::default()
        }
    }

    #[test]
    fn a_peer_that_answers_probes_is_waited_for() {
        let (mut watchdog, start) = (Watchdog::new(PEER_TIMEOUT), Instant::now());
        for seconds in 0..60 {
            let elapsed = Duration::from_secs(seconds);
            let verdict = watchdog.judge(&closed(Duration::from_secs(4)), start + elapsed);
            let Verdict::Patience(patience) = verdict else {
                panic!("{verdict:?} after {elapsed:?}");
            };
            assert!(patience >= elapsed + probe_at_least_every(PEER_TIMEOUT));
        }
        let open = TcpInfo {
            unacked: Some(3),
            not_sent: Some(1),
            send_window: Some(65_536),
            ..TcpInfo::default()
        };
        assert_eq!(
            watchdog.judge(&open, start),
            Verdict::Patience(PEER_TIMEOUT),
            "the usual deadline is restored"
        );
        assert_eq!(watchdog.judge(&open, start), Verdict::Fine);
    }

    #[test]
    fn a_peer_that_answers_nothing_is_given_up() {
        let (mut watchdog, now) = (Watchdog::new(PEER_TIMEOUT), Instant::now());
        assert_eq!(watchdog.judge(&closed(PEER_TIMEOUT), now), Verdict::Gone);
    }

    #[test]
    fn an_idle_connection_is_left_to_the_keepalive() {
        let idle = TcpInfo {
            unacked: Some(0),
            not_sent: Some(0),
            send_window: Some(0),
            last_ack_received: Some(Duration::from_secs(3600)),
            ..TcpInfo::default()
        };
        assert_eq!(
            Watchdog::new(PEER_TIMEOUT).judge(&idle, Instant::now()),
            Verdict::Fine
        );
        assert_eq!(
            Watchdog::new(PEER_TIMEOUT).judge(&TcpInfo::default(), Instant::now()),
            Verdict::Fine,
            "a system without figures is left alone"
        );
    }
}
