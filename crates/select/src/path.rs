//! Estimates of the path between two parties.

mod checks;
#[cfg(feature = "serde")]
mod fields;

use std::{fmt, time::Duration};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use transpute_units::{Bandwidth, KnownDirection, KnownPath};

#[cfg(feature = "serde")]
use self::fields::Fields;
use crate::SelectError;

/// Maximum accepted round-trip time.
pub const MAX_RTT: Duration = Duration::from_secs(120);

/// Maximum accepted rate.
pub const MAX_RATE: Bandwidth = Bandwidth::from_bits_per_second(1e13);

/// Minimum accepted rate.
pub const MIN_RATE: Bandwidth = Bandwidth::from_bits_per_second(1e2);

/// The properties of a path with their uncertainty. For an unknown property, the model assumes a
/// typical value with a wide uncertainty.
///
/// *Up* is the direction from the connector to the listener.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Fields", into = "Fields"))]
pub struct PathEstimate {
    /// The minimum round-trip time.
    pub rtt: Duration,
    /// The mean deviation of round-trip times.
    pub jitter: Option<Duration>,
    /// The direction from connector to listener.
    pub up: DirectionEstimate,
    /// The direction from listener to connector.
    pub down: DirectionEstimate,
    /// Whether UDP packets pass between the parties.
    pub udp: UdpStatus,
    /// The largest IP packet that passes, in bytes.
    pub mtu: Option<u32>,
    /// Whether the peer's IP address belongs to this host. The peer itself may run on another host,
    /// for example behind a local port forward of ssh.
    pub is_one_host: bool,
    /// Limits and settings of the kernel's TCP.
    pub kernel: Kernel,
    /// The origin of the estimate.
    pub source: Source,
}

/// The properties of one direction of a path, with the uncertainty of its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionEstimate {
    /// Rate, loss and queue.
    pub known: KnownDirection,
    /// Standard error of the rate, as a fraction of the rate.
    pub rate_error: f64,
    /// The rate is a lower bound, because the probe did not use the whole capacity of the path.
    pub is_lower_bound: bool,
}

/// Whether UDP packets pass between the two parties.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum UdpStatus {
    /// Packets arrived in both directions.
    Passes,
    /// No packet arrived before the timeout.
    Blocked,
    /// UDP was not tried, or an answer can still arrive.
    #[default]
    Unknown,
}

/// The limits and settings of the kernel's TCP.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Kernel {
    /// Maximum send buffer in bytes: the third value of `net.ipv4.tcp_wmem`.
    pub send_ceiling: Option<f64>,
    /// Maximum receive buffer of the peer in bytes: the third value of its `net.ipv4.tcp_rmem`.
    pub receive_ceiling: Option<f64>,
    /// The default congestion control of TCP connections.
    pub congestion_control: Option<String>,
    /// Congestion controls that a connection may set.
    pub available: Vec<String>,
}

/// The origin of an estimate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(Deserialize, Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Source {
    /// A probe measured the path.
    Measured,
    /// The path is emulated, and its settings are known.
    Emulated,
    /// The user gave the properties.
    #[default]
    Given,
}

impl PathEstimate {
    /// Returns an estimate that has only the minimum round-trip time. `seconds` is this time.
    ///
    /// # Errors
    /// Returns [`SelectError::Number`] unless it is between 0 and 120 seconds.
    pub fn of_rtt(seconds: f64) -> Result<Self, SelectError> {
        checks::check_times(seconds, None)?;
        Ok(Self {
            // `from_secs_f64` does not panic, because the range was checked.
            rtt: Duration::from_secs_f64(seconds),
            ..Self::default()
        })
    }

    /// Checks that every number is in its range. The fields are public, so they may come from a
    /// peer or a user without a check. The choosers and the model call this before they use an
    /// estimate.
    ///
    /// # Errors
    /// Returns [`SelectError::Number`], which names the field.
    pub fn validate(&self) -> Result<(), SelectError> {
        let jitter = self.jitter.map(|jitter| jitter.as_secs_f64());
        checks::check_times(self.rtt.as_secs_f64(), jitter)?;
        for direction in [&self.up, &self.down] {
            let KnownDirection {
                rate, queue_bytes, ..
            } = direction.known;
            let rate = rate.map(|rate| (rate.bits_per_second(), direction.rate_error));
            checks::check_direction(rate, queue_bytes.map(|bytes| bytes as f64))?;
        }
        self.kernel.validate()
    }

    /// Returns the path from the view of the connector, without uncertainties.
    #[must_use]
    pub fn known(&self) -> KnownPath {
        KnownPath {
            rtt: Some(self.rtt),
            to_peer: self.up.known,
            from_peer: self.down.known,
        }
    }

    /// Returns the same as [`known`](Self::known), without rates that are only lower bounds.
    #[must_use]
    pub fn known_exactly(&self) -> KnownPath {
        KnownPath {
            rtt: Some(self.rtt),
            to_peer: self.up.known_exactly(),
            from_peer: self.down.known_exactly(),
        }
    }
}

impl DirectionEstimate {
    fn known_exactly(&self) -> KnownDirection {
        KnownDirection {
            rate: self.known.rate.filter(|_| !self.is_lower_bound),
            ..self.known
        }
    }
}

/// Returns an estimate whose rate has no error.
impl From<KnownDirection> for DirectionEstimate {
    fn from(known: KnownDirection) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }
}

impl Kernel {
    fn validate(&self) -> Result<(), SelectError> {
        for (field, value) in [
            ("kernel.send_ceiling", self.send_ceiling),
            ("kernel.receive_ceiling", self.receive_ceiling),
        ] {
            checks::check(field, value, (1.0, 1e15), "1 to 1e15 bytes")?;
        }
        Ok(())
    }
}

/// Formats the path on one line.
impl fmt::Display for PathEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rtt {}", Seconds(self.rtt.as_secs_f64()))?;
        if let Some(jitter) = self.jitter {
            write!(f, " (jitter {})", Seconds(jitter.as_secs_f64()))?;
        }
        write!(f, ", up {}, down {}", self.up, self.down)?;
        f.write_str(match self.udp {
            UdpStatus::Passes => ", UDP passes",
            UdpStatus::Blocked => ", UDP does not pass",
            UdpStatus::Unknown => ", UDP not tried",
        })?;
        if let Some(mtu) = self.mtu {
            write!(f, ", packets of {mtu} B")?;
        }
        Ok(())
    }
}

impl fmt::Display for DirectionEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known.rate {
            Some(rate) => {
                if self.is_lower_bound {
                    f.write_str("at least ")?;
                }
                write!(f, "{:.3} Mbit/s", Short(rate.megabits_per_second()))?;
                if self.rate_error > 0.0 {
                    write!(f, " ± {:.0} %", self.rate_error * 100.0)?;
                }
            }
            None => f.write_str("unknown rate")?,
        }
        let Some(loss) = self.known.loss else {
            return f.write_str(" and loss");
        };
        let (low, high) = loss.interval();
        let [loss, low, high] = [loss.fraction(), low, high].map(|it| Short(it * 100.0));
        match loss.0 > 0.0 {
            true => write!(f, ", loss {loss:.2} % ({low:.2} to {high:.2} %)"),
            // The loss of an emulated path is known exactly, not counted.
            false if high.0 < 1e-4 => f.write_str(", no loss"),
            false => write!(f, ", loss below {high:.2} %"),
        }
    }
}

/// Displays seconds with a suitable unit.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            s if s < 1e-3 => format!("{:.3} µs", Short(s * 1e6)),
            s if s < 1.0 => format!("{:.3} ms", Short(s * 1e3)),
            s if s < 600.0 => format!("{:.3} s", Short(s)),
            s if s < 36_000.0 => format!("{:.3} min", Short(s / 60.0)),
            s => format!("{:.3} h", Short(s / 3600.0)),
        };
        f.pad(&text)
    }
}

/// A number with a limited number of significant digits.
pub(crate) struct Short(pub(crate) f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3) as i32;
        let magnitude = match self.0 {
            0.0 => 0,
            value => value.abs().log10().floor().clamp(-12.0, 15.0) as i32,
        };
        let decimals = (digits - 1 - magnitude).max(0) as usize;
        let text = format!("{:.*}", decimals, self.0);
        // Trailing zeros after the decimal point are removed: 2.00 becomes 2, but 200 stays 200.
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use transpute_units::Loss;

    use super::*;

    fn lossy() -> PathEstimate {
        let mut path = PathEstimate::of_rtt(0.11).unwrap();
        path.up = DirectionEstimate {
            known: KnownDirection {
                rate: Some(Bandwidth::from_megabits_per_second(95.0)),
                loss: Loss::new(2, 128),
                queue_bytes: None,
            },
            rate_error: 0.05,
            is_lower_bound: true,
        };
        path.down.known.loss = Loss::new(0, 128);
        path.udp = UdpStatus::Passes;
        path
    }

    #[test]
    fn people_read_what_is_known_and_what_a_train_cannot_see() {
        assert_eq!(
            lossy().to_string(),
            "rtt 110 ms, up at least 95 Mbit/s ± 5 %, loss 1.6 % (0.43 to 5.5 %), \
             down unknown rate, loss below 2.9 %, UDP passes"
        );
        let bare = PathEstimate::of_rtt(0.0004).unwrap().to_string();
        assert!(
            bare.starts_with("rtt 400 µs, up unknown rate and loss"),
            "{bare}"
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_comes_back_and_little_is_enough() {
        let path = lossy();
        let text = serde_json::to_string(&path).unwrap();
        assert_eq!(PathEstimate::from_json(&text, "x").unwrap(), path);
        assert_eq!(
            text,
            "{\"rtt\":{\"min_s\":0.11,\"jitter_s\":null},\
             \"up\":{\"rate\":{\"bits_per_second\":95000000.0,\"relative_error\":0.05,\"is_lower_bound\":true},\
             \"loss\":{\"lost\":2,\"sent\":128},\"queue_bytes\":null},\
             \"down\":{\"rate\":null,\"loss\":{\"lost\":0,\"sent\":128},\"queue_bytes\":null},\
             \"udp\":\"passes\",\"mtu\":null,\"is_one_host\":false,\
             \"kernel\":{\"send_ceiling\":null,\"receive_ceiling\":null,\"congestion_control\":null,\"available\":[]},\
             \"source\":\"given\"}"
        );
        let least = PathEstimate::from_json("{\"rtt\":{\"min_s\":0.1}}", "x").unwrap();
        assert_eq!(least, PathEstimate::of_rtt(0.1).unwrap());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn what_is_no_path_is_refused_and_named() {
        for (text, part) in [
            ("{\"rtt\":{\"min_s\":-1}}", "rtt.min_s"),
            ("{\"rtt\":{\"min_s\":1e9}}", "rtt.min_s"),
            (
                "{\"rtt\":{\"min_s\":0},\"up\":{\"rate\":{\"bits_per_second\":0}}}",
                "rate.bits_per_second",
            ),
            (
                "{\"rtt\":{\"min_s\":0},\"up\":{\"loss\":{\"lost\":3,\"sent\":2}}}",
                "lost packets",
            ),
            ("{\"rtt\":", "EOF"),
        ] {
            let error = PathEstimate::from_json(text, "peer")
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("peer: ") && error.contains(part),
                "{error}"
            );
        }
        assert!(PathEstimate::of_rtt(f64::NAN).is_err());
    }
}
