//! Checks of the numbers of an estimate. Users and peers give them.

use super::{MAX_RATE, MAX_RTT, MIN_RATE, SelectError};
use crate::error::checked;

/// Checks round-trip time and jitter, in seconds.
pub(super) fn check_times(rtt_s: f64, jitter_s: Option<f64>) -> Result<(), SelectError> {
    let (range, expected) = ((0.0, MAX_RTT.as_secs_f64()), "0 to 120 seconds");
    check("rtt.min_s", Some(rtt_s), range, expected)?;
    check("rtt.jitter_s", jitter_s, range, expected)
}

/// Checks rate, in bits per second, with its relative error, and queue.
pub(super) fn check_direction(
    rate: Option<(f64, f64)>,
    queue_bytes: Option<f64>,
) -> Result<(), SelectError> {
    let (rate, error) = rate.unzip();
    let range = (MIN_RATE.bits_per_second(), MAX_RATE.bits_per_second());
    check("rate.bits_per_second", rate, range, "100 to 1e13 bit/s")?;
    check("rate.relative_error", error, (0.0, 10.0), "0 to 10")?;
    check("queue_bytes", queue_bytes, (0.0, 1e15), "0 to 1e15 bytes")
}

/// Checks a number if it is present.
pub(super) fn check(
    field: &'static str,
    value: Option<f64>,
    range: (f64, f64),
    expected: &'static str,
) -> Result<(), SelectError> {
    match value {
        Some(value) => checked(field, value, range, expected),
        None => Ok(()),
    }
}
