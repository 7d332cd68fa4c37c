//! What is known of the path between two parties.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Loss, SelectError,
    error::{checked, parsed},
};

/// The longest round-trip time that is believed, in seconds.
pub const MAX_RTT_S: f64 = 120.0;

/// Less than this is no time, in seconds.
const NO_TIME_S: f64 = 1e-9;

/// The highest rate that is believed, in bits per second.
pub const MAX_RATE: f64 = 1e13;

/// The lowest rate that is believed, in bits per second.
pub const MIN_RATE: f64 = 1e2;

/// What is known of a path. Whatever is not known is `None`, and whoever needs it takes a prior with a wide uncertainty.
///
/// *Up* is from the connecting party to the listening one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PathEstimate {
    /// Round-trip times.
    pub rtt: Rtt,
    /// The direction from connector to listener.
    #[serde(default)]
    pub up: Direction,
    /// The direction from listener to connector.
    #[serde(default)]
    pub down: Direction,
    /// Whether UDP passes.
    #[serde(default)]
    pub udp: Udp,
    /// The largest IP packet that passes, in bytes.
    pub mtu: Option<u32>,
    /// Limits of the kernel's TCP.
    #[serde(default)]
    pub kernel: Kernel,
    /// The origin of the estimate.
    #[serde(default)]
    pub source: Source,
}

/// Round-trip times, in seconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Rtt {
    /// The shortest.
    pub min_s: f64,
    /// The mean deviation.
    pub jitter_s: Option<f64>,
}

/// One direction of a path.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Direction {
    /// How fast the bottleneck is.
    pub rate: Option<Rate>,
    /// How many packets were lost.
    pub loss: Option<Loss>,
    /// How many bytes wait for the bottleneck at most.
    pub queue_bytes: Option<f64>,
}

/// The rate of a bottleneck, of IP packets.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Rate {
    /// In bits per second.
    pub bits_per_second: f64,
    /// Standard error, as a fraction of it.
    #[serde(default)]
    pub relative_error: f64,
    /// The path may be faster: the probe did not fill it.
    #[serde(default)]
    pub is_lower_bound: bool,
}

/// Whether UDP passes between the two parties.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Udp {
    /// Packets came both ways.
    Passes,
    /// None came within the time that they should have taken.
    Blocked,
    /// Nobody tried, or an answer is still due.
    #[default]
    Unknown,
}

/// What the kernel's TCP knows of a path and lets a connection do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Kernel {
    /// The greatest send buffer: the third figure of `net.ipv4.tcp_wmem`, in bytes.
    pub send_ceiling: Option<f64>,
    /// The greatest receive buffer of the peer: the third figure of its `net.ipv4.tcp_rmem`, in bytes.
    pub receive_ceiling: Option<f64>,
    /// The congestion control that a connection has unless told otherwise.
    pub congestion_control: Option<String>,
    /// Those that a connection may be told to have.
    pub available: Vec<String>,
}

/// Where an estimate came from.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A probe of this connection.
    Measured,
    /// The settings of an emulated path.
    Emulated,
    /// A user's word.
    #[default]
    Given,
}

impl PathEstimate {
    /// Starts from the shortest round-trip time alone, in seconds.
    ///
    /// # Errors
    /// [`SelectError::Number`] unless it is between 0 and 120 seconds.
    pub fn of_rtt(seconds: f64) -> Result<Self, SelectError> {
        let estimate = Self {
            rtt: Rtt {
                min_s: seconds,
                jitter_s: None,
            },
            ..Self::default()
        };
        estimate.validate()?;
        Ok(estimate)
    }

    /// Reads and checks the JSON that this serializes to.
    ///
    /// # Errors
    /// [`SelectError::Content`], which names `origin`.
    pub fn from_json(text: &str, origin: &str) -> Result<Self, SelectError> {
        parsed(text, origin, Self::validate)
    }

    /// Checks every number. The fields are public, so whoever uses an estimate that may be a peer's or a user's checks
    /// it first; the choosers and the model do.
    ///
    /// # Errors
    /// [`SelectError::Number`], which names the field.
    pub fn validate(&self) -> Result<(), SelectError> {
        let check = |field, value: Option<f64>, range, expected| match value {
            Some(value) => checked(field, value, range, expected),
            None => Ok(()),
        };
        let (time, seconds) = ((0.0, MAX_RTT_S), "0 to 120 seconds");
        check("rtt.min_s", Some(self.rtt.min_s), time, seconds)?;
        check("rtt.jitter_s", self.rtt.jitter_s, time, seconds)?;
        for direction in [&self.up, &self.down] {
            let rate = direction.rate.map(|rate| rate.bits_per_second);
            let rates = (MIN_RATE, MAX_RATE);
            check("rate.bits_per_second", rate, rates, "100 to 1e13 bit/s")?;
            let error = direction.rate.map(|rate| rate.relative_error);
            check("rate.relative_error", error, (0.0, 10.0), "0 to 10")?;
            let queue = direction.queue_bytes;
            check("queue_bytes", queue, (0.0, 1e15), "0 to 1e15 bytes")?;
            direction.loss.map_or(Ok(()), Loss::validate)?;
        }
        let (window, bytes) = ((1.0, 1e15), "1 to 1e15 bytes");
        let (send, receive) = (self.kernel.send_ceiling, self.kernel.receive_ceiling);
        check("kernel.send_ceiling", send, window, bytes)?;
        check("kernel.receive_ceiling", receive, window, bytes)
    }

    /// Returns the round-trip time to reckon with, in seconds: what an idle path has.
    #[must_use]
    pub fn rtt_s(&self) -> f64 {
        // No signal comes back sooner; and of what is far less, windows in flight would be divided by.
        match self.rtt.min_s < NO_TIME_S {
            true => 0.0,
            false => self.rtt.min_s,
        }
    }
}

impl Rate {
    /// A rate that is known exactly, in bits per second.
    #[must_use]
    pub fn known(bits_per_second: f64) -> Self {
        Self {
            bits_per_second,
            relative_error: 0.0,
            is_lower_bound: false,
        }
    }
}

/// For people, on one line.
impl fmt::Display for PathEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rtt {}", Seconds(self.rtt.min_s))?;
        if let Some(jitter) = self.rtt.jitter_s {
            write!(f, " (jitter {})", Seconds(jitter))?;
        }
        write!(f, ", up {}, down {}", self.up, self.down)?;
        f.write_str(match self.udp {
            Udp::Passes => ", UDP passes",
            Udp::Blocked => ", UDP does not pass",
            Udp::Unknown => ", UDP not tried",
        })?;
        if let Some(mtu) = self.mtu {
            write!(f, ", packets of {mtu} B")?;
        }
        Ok(())
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Some(rate) => {
                if rate.is_lower_bound {
                    f.write_str("at least ")?;
                }
                write!(f, "{:.3} Mbit/s", Short(rate.bits_per_second / 1e6))?;
                if rate.relative_error > 0.0 {
                    write!(f, " ± {:.0} %", rate.relative_error * 100.0)?;
                }
            }
            None => f.write_str("unknown rate")?,
        }
        let Some(loss) = self.loss else {
            return f.write_str(" and loss");
        };
        let (low, high) = loss.interval();
        let [loss, low, high] = [loss.fraction(), low, high].map(|it| Short(it * 100.0));
        match loss.0 > 0.0 {
            true => write!(f, ", loss {loss:.2} % ({low:.2} to {high:.2} %)"),
            // Known rather than counted: an emulated path.
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

/// A number with as many digits that matter as the precision says.
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
        // 2.00 is 2, but 200 is 200.
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lossy() -> PathEstimate {
        let mut path = PathEstimate::of_rtt(0.11).unwrap();
        path.up = Direction {
            rate: Some(Rate {
                bits_per_second: 9.5e7,
                relative_error: 0.05,
                is_lower_bound: true,
            }),
            loss: Some(Loss::new(2, 128).unwrap()),
            queue_bytes: None,
        };
        path.down.loss = Some(Loss::new(0, 128).unwrap());
        path.udp = Udp::Passes;
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

    #[test]
    fn json_comes_back_and_little_is_enough() {
        let path = lossy();
        let text = serde_json::to_string(&path).unwrap();
        assert_eq!(PathEstimate::from_json(&text, "x").unwrap(), path);
        let least = PathEstimate::from_json("{\"rtt\":{\"min_s\":0.1}}", "x").unwrap();
        assert_eq!(least, PathEstimate::of_rtt(0.1).unwrap());
    }

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
