//! The offset between the clocks of a host and of this machine.

use std::time::{Duration, SystemTime};

/// The difference between the clock of a host and the clock of the controlling machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClockOffset {
    /// Time of the host minus time of the controlling machine.
    pub(super) offset_ms: f64,
    /// Maximum error of the offset: half of the round-trip time of the exchange.
    pub(super) uncertainty_ms: f64,
}

/// One exchange: a question at a known time, the answer with the time of the host, and the time
/// between both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Time of the question by the clock of this machine, in nanoseconds since 1970.
    pub(super) asked_ns: i128,
    /// Time from the question to the answer.
    pub(super) round_trip: Duration,
    /// Time of the answer by the clock of the host, in nanoseconds since 1970.
    pub(super) host_ns: i128,
}

/// Computes the offset from the exchange with the smallest round-trip time. None without exchanges.
///
/// The host read its clock at some time between question and answer. So the offset from the middle
/// is wrong by at most half of the round-trip time (RFC 5905, section 8).
pub(super) fn offset(exchanges: &[Exchange]) -> Option<ClockOffset> {
    let best = exchanges
        .iter()
        .min_by_key(|exchange| exchange.round_trip)?;
    let half = best.round_trip / 2;
    let middle_ns = best.asked_ns + half.as_nanos() as i128;
    Some(ClockOffset {
        offset_ms: (best.host_ns - middle_ns) as f64 / 1e6,
        uncertainty_ms: half.as_secs_f64() * 1e3,
    })
}

/// Returns the time of this machine in nanoseconds since 1970.
pub(super) fn now_ns() -> i128 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

/// Parses the output of `date +%s.%N`, in nanoseconds since 1970. None if it has another form, for
/// example because this `date` does not know `%N`.
pub(super) fn parse(text: &str) -> Option<i128> {
    let (seconds, nanoseconds) = text.trim().split_once('.')?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if nanoseconds.len() != 9 || !is_digits(seconds) || !is_digits(nanoseconds) {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    Some(i128::from(seconds) * 1_000_000_000 + nanoseconds.parse::<i128>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_exchange_decides() {
        let exchange = |asked_ms: i128, round_trip_ms, host_ms: i128| Exchange {
            asked_ns: asked_ms * 1_000_000,
            round_trip: Duration::from_millis(round_trip_ms),
            host_ns: host_ms * 1_000_000,
        };
        let exchanges = [
            exchange(1000, 90, 5090),
            exchange(2000, 20, 6015),
            exchange(3000, 50, 7001),
        ];
        let expected = ClockOffset {
            offset_ms: 4005.0,
            uncertainty_ms: 10.0,
        };
        assert_eq!(offset(&exchanges), Some(expected));
        let behind = offset(&[exchange(5000, 10, 4000)]).unwrap();
        assert_eq!(behind.offset_ms, -1005.0);
        assert_eq!(offset(&[]), None);
    }

    #[test]
    fn times_have_seconds_and_nanoseconds() {
        assert_eq!(
            parse("1795684076.012345678\n"),
            Some(1_795_684_076_012_345_678)
        );
        for text in [
            "1795684076.%N",
            "1795684076",
            "1.5",
            "",
            "-1.000000000",
            "1.+00000000",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
