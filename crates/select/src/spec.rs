//! Transports as the selector knows them: a name, settings, and which law they follow.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use transpute_transport::{QuicOptions, StripedOptions};

use crate::SelectError;

/// The longest name with settings.
const MAX_LEN: usize = 100;

/// Payload bytes of the first flight of a TCP connection: ten segments (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0 * 1448.0;

/// Bytes of the train that the set-up of `rudp` sends each way: 32 packets of 1,200 bytes (docs/rudp.md).
const TRAIN_BYTES: f64 = 32.0 * 1200.0;

/// A transport's name with its settings, such as `tcp:cc=bbr`. Settings are kept in their order as texts, so that equal
/// ones compare equal; `+` separates them as well as a comma.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec(String);

/// How a transport finds its rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Family {
    /// A congestion window that doubles each round trip, and shrinks at every loss: cubic, Reno.
    Window,
    /// An estimate of the bottleneck that doubles each round trip; losses hardly matter: BBR.
    Model,
    /// The rate that the set-up measured, from the first packet on; losses are corrected.
    Rate,
}

/// The properties of a transport that are not fitted: they follow from its design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    pub(crate) family: Family,
    /// Parallel connections.
    pub(crate) connections: f64,
    /// Whether its first flight grows with the round-trip time up to a quarter of a MiB, as that of `quic` does.
    pub(crate) has_large_first_flight: bool,
    /// Whether it runs over UDP: then its set-up takes one round trip, not two, and the kernel's buffers do not bound its window.
    pub needs_udp: bool,
    /// Whether nothing is known of it: then it is taken to be like TCP, with a wide uncertainty.
    pub is_generic: bool,
}

impl Law {
    /// Returns the round trips from the first packet to the connector's link.
    pub(crate) fn setup_round_trips(&self) -> f64 {
        if self.needs_udp { 1.0 } else { 2.0 }
    }

    /// Returns the bytes that the set-up sends ahead of the data to measure the path.
    pub(crate) fn train_bytes(&self) -> f64 {
        match self.family {
            Family::Rate => TRAIN_BYTES,
            Family::Window | Family::Model => 0.0,
        }
    }

    /// Returns the bytes that leave before the first acknowledgement, given the round-trip time in seconds.
    pub(crate) fn first_flight(&self, rtt: f64) -> f64 {
        match self.family {
            Family::Rate => f64::INFINITY,
            _ if self.has_large_first_flight => (QuicOptions::MODEST_RATE * rtt)
                .clamp(INITIAL_WINDOW, QuicOptions::FIRST_FLIGHT as f64),
            _ => INITIAL_WINDOW * self.connections,
        }
    }
}

impl Spec {
    /// Returns the name without the settings.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// Returns name and settings.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a setting.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&str> {
        let (_, settings) = self.0.split_once(':')?;
        let mut pairs = settings.split(',').filter_map(|item| item.split_once('='));
        pairs.find_map(|(known, value)| (known == key).then_some(value))
    }

    /// Returns the transport with the congestion control that it has: written out if it is another than cubic, and left out if it
    /// is. `tcp` over a kernel whose default is bbr does what `tcp:cc=bbr` does, and `tcp:cc=cubic` what `tcp` does elsewhere.
    pub(crate) fn in_effect(&self, default_control: Option<&str>) -> Self {
        if !matches!(self.name(), "tcp" | "tcp-striped") {
            return self.clone();
        }
        let control = self.setting("cc").or(default_control).unwrap_or("cubic");
        let (name, settings) = self.0.split_once(':').unwrap_or((&self.0, ""));
        let others = (settings.split(',')).filter(|it| !it.is_empty() && !it.starts_with("cc="));
        let control = (control != "cubic").then(|| format!("cc={control}"));
        let all: Vec<&str> = others.chain(control.as_deref()).collect();
        // What does not make a name leaves the transport as it is.
        joined(name, all).parse().unwrap_or_else(|_| self.clone())
    }

    /// Returns the law that the transport follows. `default_control` is the congestion control of TCP connections that
    /// are not told otherwise; cubic if it is not known.
    #[must_use]
    pub fn law(&self, default_control: Option<&str>) -> Law {
        let control = |default| self.setting("cc").unwrap_or(default);
        let tcp = Law {
            family: match control(default_control.unwrap_or("cubic")) {
                "bbr" | "bbr2" | "bbr3" => Family::Model,
                _ => Family::Window,
            },
            connections: 1.0,
            has_large_first_flight: false,
            needs_udp: false,
            is_generic: false,
        };
        match self.name() {
            "tcp" => tcp,
            "tcp-striped" => {
                let connections = self.setting("n").and_then(|n| n.parse::<u8>().ok());
                let connections = connections.unwrap_or(StripedOptions::CONNECTIONS);
                Law {
                    connections: connections.clamp(1, 32).into(),
                    ..tcp
                }
            }
            "quic" => Law {
                family: match control("bbr3") {
                    "cubic" | "reno" | "newreno" => Family::Window,
                    _ => Family::Model,
                },
                has_large_first_flight: true,
                needs_udp: true,
                ..tcp
            },
            "rudp" | "udp" => Law {
                family: Family::Rate,
                needs_udp: true,
                ..tcp
            },
            _ => Law {
                family: Family::Window,
                is_generic: true,
                ..tcp
            },
        }
    }
}

fn joined(name: &str, mut settings: Vec<&str>) -> String {
    settings.sort_unstable();
    let separator = if settings.is_empty() { "" } else { ":" };
    format!("{name}{separator}{}", settings.join(","))
}

impl FromStr for Spec {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, settings.split([',', '+']).collect()),
            None => (text, Vec::new()),
        };
        let is_word = |word: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !word.is_empty() && word.bytes().all(is_plain)
        };
        let is_pair = |item: &&str| {
            (item.split_once('=')).is_some_and(|(key, value)| is_word(key) && is_word(value))
        };
        match text.len() <= MAX_LEN && is_word(name) && settings.iter().all(is_pair) {
            true => Ok(Self(joined(name, settings))),
            false => Err(SelectError::Transport {
                text: text.chars().take(MAX_LEN).collect(),
            }),
        }
    }
}

impl TryFrom<String> for Spec {
    type Error = SelectError;

    fn try_from(text: String) -> Result<Self, SelectError> {
        text.parse()
    }
}

impl From<Spec> for String {
    fn from(spec: Spec) -> Self {
        spec.0
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(text: &str) -> Law {
        text.parse::<Spec>().unwrap().law(Some("cubic"))
    }

    #[test]
    fn settings_decide_the_law() {
        assert_eq!(law("tcp").family, Family::Window);
        assert_eq!(law("tcp:cc=bbr").family, Family::Model);
        let with_bbr = "tcp".parse::<Spec>().unwrap().law(Some("bbr"));
        assert_eq!(with_bbr.family, Family::Model);
        assert_eq!(law("tcp-striped").connections, 8.0);
        assert_eq!(law("tcp-striped:cc=bbr,n=4").connections, 4.0);
        assert_eq!(law("quic:cc=cubic").family, Family::Window);
        assert_eq!(law("rudp").family, Family::Rate);
        assert!(law("udp").needs_udp && law("smoke").is_generic);
    }

    #[test]
    fn set_ups_and_first_flights_are_those_of_the_transports() {
        let round_trips = |text| law(text).setup_round_trips();
        assert_eq!([round_trips("quic"), round_trips("rudp")], [1.0, 1.0]);
        assert_eq!([round_trips("tcp"), round_trips("tcp-striped")], [2.0, 2.0]);
        let first = |text, rtt| law(text).first_flight(rtt);
        assert_eq!((first("quic", 0.01), first("quic", 0.2)), (25e3, 262_144.0));
        assert_eq!(first("tcp", 0.2), 14_480.0);
        assert_eq!(first("tcp-striped:n=4", 0.2), 57_920.0);
        assert_eq!(
            (law("rudp").train_bytes(), law("quic").train_bytes()),
            (38_400.0, 0.0)
        );
    }

    #[test]
    fn the_kernels_default_is_written_out() {
        for (text, control, expected) in [
            ("tcp", "cubic", "tcp"),
            ("tcp", "bbr", "tcp:cc=bbr"),
            ("tcp-striped:n=4", "bbr", "tcp-striped:cc=bbr,n=4"),
            ("tcp:cc=reno", "bbr", "tcp:cc=reno"),
            ("tcp:cc=cubic", "bbr", "tcp"),
            ("tcp-striped:cc=cubic+n=4", "cubic", "tcp-striped:n=4"),
            ("quic", "bbr", "quic"),
            ("tcp", "a b", "tcp"),
        ] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(spec.in_effect(Some(control)).as_str(), expected);
        }
    }

    #[test]
    fn the_order_of_settings_does_not_matter() {
        let a: Spec = "tcp-striped:n=4+cc=bbr".parse().unwrap();
        let b: Spec = "tcp-striped:cc=bbr,n=4".parse().unwrap();
        assert_eq!(a, b);
        assert_eq!(
            (a.name(), a.setting("n"), a.setting("m")),
            ("tcp-striped", Some("4"), None)
        );
    }

    #[test]
    fn what_is_no_transport_is_refused() {
        let long = "x".repeat(101);
        let none = [
            "",
            ":n=1",
            "tcp:",
            "tcp:n",
            "tcp:=1",
            "tcp:n=1,,",
            "a b",
            "tcp\n",
            "é",
        ];
        for text in none.into_iter().chain([long.as_str()]) {
            assert!(text.parse::<Spec>().is_err(), "{text:?}");
        }
    }
}
