//! The JSON format of an estimate: times in seconds, rates in bits per second. Users and peers
//! write it, so all numbers must be checked.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transpute_units::{Bandwidth, KnownDirection, Loss};

use super::{
    DirectionEstimate, Kernel, MAX_RTT, PathEstimate, SelectError, Source, UdpStatus,
    checks::{check_direction, check_times},
};
use crate::error::{checked, parsed};

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
    is_one_host: bool,
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
    fn validate(&self) -> Result<(), SelectError> {
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
    fn into_estimate(self) -> PathEstimate {
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(MAX_RTT);
        PathEstimate {
            rtt: time(self.rtt.min_s),
            jitter: self.rtt.jitter_s.map(time),
            up: self.up.into(),
            down: self.down.into(),
            udp: self.udp,
            mtu: self.mtu,
            is_one_host: self.is_one_host,
            kernel: self.kernel,
            source: self.source,
        }
    }
}

impl PathEstimate {
    /// Parses and checks the JSON that this type serializes to.
    ///
    /// # Errors
    /// Returns [`SelectError::Content`] if the estimate is not valid. The error contains `origin`.
    pub fn from_json(text: &str, origin: &str) -> Result<Self, SelectError> {
        let fields = parsed(text, origin, Fields::validate)?;
        Ok(fields.into_estimate())
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
            is_one_host: path.is_one_host,
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
