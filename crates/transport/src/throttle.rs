//! A limit on log messages that peers can cause.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::TransportError;

/// Admits 5 events per 10 s and counts the suppressed ones.
#[derive(Debug, Default)]
pub struct Throttle {
    period_start: Option<Instant>,
    passed: u32,
    held: u64,
}

/// Number of admitted events per period.
const BURST: u32 = 5;
const PERIOD: Duration = Duration::from_secs(10);

impl Throttle {
    /// Makes a throttle that has admitted no event yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides whether to log an event. Returns the number of events suppressed since the last
    /// admitted event, or `None` if this event is suppressed too.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        if self
            .period_start
            .is_none_or(|start| now.saturating_duration_since(start) >= PERIOD)
        {
            self.period_start = Some(now);
            self.passed = 0;
        }
        if self.passed < BURST {
            self.passed += 1;
            Some(std::mem::take(&mut self.held))
        } else {
            self.held += 1;
            None
        }
    }
}

/// Logs that a listener rejected a connection, unless the throttle suppresses the message.
pub(crate) fn warn_of_rejected(
    log: &mut Throttle,
    peer: impl fmt::Display,
    error: &TransportError,
) {
    match log.admit(Instant::now()) {
        Some(0) => tracing::warn!("rejected a connection from {peer}: {error}"),
        Some(more) => tracing::warn!(
            "rejected a connection from {peer}: {error} (and {more} more since the last such message)"
        ),
        None => {}
    }
}

/// Logs the result of a listener's handshake. Returns the result of the connection's handler, or
/// `None` if the handshake failed.
pub(crate) fn log_handshake<T>(
    log: &mut Throttle,
    peer: impl fmt::Display,
    result: Result<Option<T>, TransportError>,
) -> Option<Option<T>> {
    match &result {
        Ok(handled) => {
            tracing::debug!(%peer, is_handled = handled.is_some(), "accepted a connection");
        }
        Err(error) => warn_of_rejected(log, peer, error),
    }
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lets_a_few_through_and_reports_the_rest() {
        let start = Instant::now();
        let mut throttle = Throttle::new();
        let passed = (0..100).filter(|_| throttle.admit(start).is_some()).count();
        assert_eq!(passed, BURST as usize);
        assert_eq!(throttle.admit(start + PERIOD / 2), None);
        assert_eq!(throttle.admit(start + PERIOD), Some(96));
        assert_eq!(throttle.admit(start + PERIOD), Some(0));
    }
}
