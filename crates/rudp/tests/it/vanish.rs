//! A peer that disappears without a close is reported after the idle timeout.

use std::time::Duration;

use transpute_rudp::{ClosedReason, RudpConfig, RudpConnection, RudpEvent, Time};

use crate::adversary::Pair;

/// The maximum delay of packets in [`Pair::exchange`].
const TICK: Duration = Duration::from_micros(250);

/// The traffic at the time when the peer disappears.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    /// Only keep-alive packets.
    Idle,
    /// This end has data in flight.
    Sending,
    /// The peer was sending data.
    Receiving,
}

/// Runs an end whose packets are all lost until its connection has ended. Returns the time of the
/// end.
fn run_alone(end: &mut RudpConnection, now: Time) -> Time {
    let mut now = now;
    let mut out = Vec::new();
    while !end.is_closed() {
        while end.poll_transmit(now, &mut out, 8).is_some() {
            out.clear();
        }
        now = end
            .next_timeout()
            .expect("an open connection must have a timer")
            .max(now);
        end.handle_timeout(now);
    }
    now
}

fn vanish(config: &RudpConfig, idle_timeout: Duration, traffic: Traffic) {
    let mut pair = Pair::new(config.clone());
    pair.exchange();
    assert!(pair.connector.is_established() && pair.listener.is_established());
    match traffic {
        Traffic::Idle => {
            let until = pair.now + 2 * idle_timeout;
            while pair.now < until {
                pair.exchange();
            }
        }
        Traffic::Sending => {
            pair.connector.write(&[1; 5_000_000]);
            pair.exchange();
        }
        Traffic::Receiving => {
            pair.listener.write(&[1; 5_000_000]);
            pair.exchange();
        }
    }
    let context = format!("{traffic:?}, {idle_timeout:?}");
    let mut end = pair.connector;
    assert!(
        !end.is_closed(),
        "{context}: keep-alive packets must keep it open"
    );
    while end.poll_event().is_some() {}
    let vanished = pair.now;
    let noticed = run_alone(&mut end, vanished);
    let after = noticed.since(vanished);
    // The last packet arrived at most a keep-alive interval before.
    let silence = config.keep_alive.unwrap() + 4 * TICK;
    assert!(after <= idle_timeout, "{context}: noticed after {after:?}");
    assert!(
        after + silence >= idle_timeout,
        "{context}: after {after:?}"
    );
    let reason = ClosedReason::TimedOut(idle_timeout);
    assert_eq!(end.closed_reason(), Some(reason), "{context}");
    let events: Vec<_> = std::iter::from_fn(|| end.poll_event()).collect();
    assert!(
        events.contains(&RudpEvent::Closed(Some(reason))),
        "{context}: {events:?}"
    );
    assert!(
        end.is_drained(),
        "{context}: expected no close notices to a missing peer"
    );
}

#[test]
fn a_vanished_peer_is_reported_within_the_idle_timeout() {
    for traffic in [Traffic::Idle, Traffic::Sending, Traffic::Receiving] {
        for (asked, holds) in [(30, 30), (12, 12), (7, 7), (1, 7)] {
            let mut config = RudpConfig::default();
            config.idle_timeout = Duration::from_secs(asked);
            vanish(&config, Duration::from_secs(holds), traffic);
        }
    }
}
