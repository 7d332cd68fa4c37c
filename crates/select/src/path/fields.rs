//! The JSON format of an estimate: times in seconds, rates in bits per second. Users and peers
//! write it, so all numbers must be checked.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transpute_units::{Bandwidth, KnownDirection, Loss};

use super::{
    DirectionEstimate, Kernel, MAX_RATE, MAX_RTT, MIN_RATE, PathEstimate, SelectError, Source,
    UdpStatus,
};
use crate::error::checked;

/// The fields of a [`PathEstimate`].
#[derive(Deserialize, Serialize)]
pub(super) struct Fields {
    rtt: Rtt,
    #[serde(default)]
    up: Direction,
    #[serde(default)]
    down: Direction,
    #[serde(default)]
    udp: UdpStatus,
    mtu: Option<u32>,
    #[serde(default)]
    kernel: Kernel,
    #[serde(default)]
    source: Source,
}

#[derive(Deserialize, Serialize)]
struct Rtt {
    min_s: f64,
    jitter_s: Option<f64>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Direction {
    rate: Option<Rate>,
    loss: Option<Packets>,
    queue_bytes: Option<f64>,
}

#[derive(Deserialize, Serialize)]
struct Rate {
    bits_per_second: f64,
    #[serde(default)]
    relative_error: f64,
    #[serde(default)]
    is_lower_bound: bool,
}

#[derive(Deserialize, Serialize)]
struct Packets {
    lost: u64,
    sent: u64,
}

impl Fields {
    pub(super) fn validate(&self) -> Result<(), SelectError> {
        check_times(self.rtt.min_s, self.rtt.jitter_s)?;
        for direction in [&self.up, &self.down] {
            let rate = direction.rate.as_ref();
            let rate = rate.map(|rate| (rate.bits_per_second, rate.relative_error));
            check_direction(rate, direction.queue_bytes)?;
            if let Some(Packets { lost, sent }) = direction.loss {
                let (lost, sent) = (lost as f64, sent as f64);
                checked("lost packets", lost, (0.0, sent), "no more than were sent")?;
            }
        }
        self.kernel.validate()
    }

    /// Converts fields that were checked to an estimate.
    pub(super) fn into_estimate(self) -> PathEstimate {
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(MAX_RTT);
        PathEstimate {
            rtt: time(self.rtt.min_s),
            jitter: self.rtt.jitter_s.map(time),
            up: self.up.into(),
            down: self.down.into(),
            udp: self.udp,
            mtu: self.mtu,
            kernel: self.kernel,
            source: self.source,
        }
    }
}

impl TryFrom<Fields> for PathEstimate {
    type Error = SelectError;

    fn try_from(fields: Fields) -> Result<Self, SelectError> {
        fields.validate()?;
        Ok(fields.into_estimate())
    }
}

impl From<PathEstimate> for Fields {
    fn from(path: PathEstimate) -> Self {
        Self {
            rtt: Rtt {
                min_s: path.rtt.as_secs_f64(),
                jitter_s: path.jitter.map(|jitter| jitter.as_secs_f64()),
            },
            up: path.up.into(),
            down: path.down.into(),
            udp: path.udp,
            mtu: path.mtu,
            kernel: path.kernel,
            source: path.source,
        }
    }
}

impl From<Direction> for DirectionEstimate {
    fn from(direction: Direction) -> Self {
        let rate = direction.rate.as_ref();
        Self {
            known: KnownDirection {
                rate: rate.map(|rate| Bandwidth::from_bits_per_second(rate.bits_per_second)),
                loss: direction.loss.and_then(|it| Loss::new(it.lost, it.sent)),
                // A fraction of a byte, which JSON allows, is truncated.
                queue_bytes: direction.queue_bytes.map(|bytes| bytes as u64),
            },
            rate_error: rate.map_or(0.0, |rate| rate.relative_error),
            is_lower_bound: rate.is_some_and(|rate| rate.is_lower_bound),
        }
    }
}

impl From<DirectionEstimate> for Direction {
    fn from(direction: DirectionEstimate) -> Self {
        let KnownDirection {
            rate,
            loss,
            queue_bytes,
        } = direction.known;
        Self {
            rate: rate.map(|rate| Rate {
                bits_per_second: rate.bits_per_second(),
                relative_error: direction.rate_error,
                is_lower_bound: direction.is_lower_bound,
            }),
            loss: loss.map(|loss| Packets {
                lost: loss.lost(),
                sent: loss.sent(),
            }),
            queue_bytes: queue_bytes.map(|bytes| bytes as f64),
        }
    }
}

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
