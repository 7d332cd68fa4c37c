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

/// A transport's name with its settings, such as `tcp:cc=bbr`. Settings are kept in order of their names, so that equal
/// ones compare equal; `+` separates them as well as a comma.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    text: String,
    name_len: usize,
}

/// How a transport finds its rate.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
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
    /// How it finds its rate.
    pub family: Family,
    /// Round trips from the first packet to the connector's link.
    pub setup_round_trips: f64,
    /// Bytes that the set-up sends ahead of the data to measure the path.
    pub train_bytes: f64,
    /// Parallel connections.
    pub connections: f64,
    /// Whether its first flight grows with the round-trip time up to a quarter of a MiB, as that of `quic` does.
    pub has_large_first_flight: bool,
    /// Whether the kernel's buffers bound its window.
    pub has_kernel_window: bool,
    /// Whether it needs UDP to pass.
    pub needs_udp: bool,
    /// Whether it ends with the first packet lost.
    pub dies_of_loss: bool,
    /// Whether nothing is known of it: then it is taken to be like TCP, with a wide uncertainty.
    pub is_generic: bool,
}

impl Law {
    /// Returns the bytes that leave before the first acknowledgement, given the round-trip time in seconds.
    pub(crate) fn first_flight(&self, rtt: f64) -> f64 {
        let large = match self.has_large_first_flight {
            true => (QuicOptions::MODEST_RATE * rtt).min(QuicOptions::FIRST_FLIGHT as f64),
            false => 0.0,
        };
        large.max(INITIAL_WINDOW * self.connections)
    }
}

impl Spec {
    /// Returns the name without the settings.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text[..self.name_len]
    }

    /// Returns name and settings.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns a setting.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings()
            .find_map(|(known, value)| (known == key).then_some(value))
    }

    /// Returns the transport with the congestion control that it has: written out if it is another than cubic, and left out if it
    /// is. `tcp` over a kernel whose default is bbr does what `tcp:cc=bbr` does, and `tcp:cc=cubic` what `tcp` does elsewhere.
    #[must_use]
    pub fn in_effect(&self, default_control: Option<&str>) -> Self {
        let told = self.setting("cc");
        let control = told.or(default_control).unwrap_or("cubic");
        if !matches!(self.name(), "tcp" | "tcp-striped") {
            return self.clone();
        }
        let mut settings: Vec<String> = (self.settings())
            .filter(|&(key, _)| key != "cc")
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if control != "cubic" {
            settings.push(format!("cc={control}"));
        }
        let separator = if settings.is_empty() { "" } else { ":" };
        // What does not make a name leaves the transport as it is.
        format!("{}{separator}{}", self.name(), settings.join(","))
            .parse()
            .unwrap_or_else(|_| self.clone())
    }

    fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text[self.name_len..]
            .trim_start_matches(':')
            .split(',')
            .filter_map(|item| item.split_once('='))
    }

    /// Returns the law that the transport follows. `default_control` is the congestion control of TCP connections that
    /// are not told otherwise; cubic if it is not known.
    #[must_use]
    pub fn law(&self, default_control: Option<&str>) -> Law {
        let control = |default| self.setting("cc").unwrap_or(default);
        let kernel = || match control(default_control.unwrap_or("cubic")) {
            "bbr" | "bbr2" | "bbr3" => Family::Model,
            _ => Family::Window,
        };
        let tcp = Law {
            family: kernel(),
            setup_round_trips: 2.0,
            train_bytes: 0.0,
            connections: 1.0,
            has_large_first_flight: false,
            has_kernel_window: true,
            needs_udp: false,
            dies_of_loss: false,
            is_generic: false,
        };
        let over_udp = Law {
            setup_round_trips: 1.0,
            has_kernel_window: false,
            needs_udp: true,
            ..tcp
        };
        match self.name() {
            "tcp" => tcp,
            "tcp-striped" => Law {
                connections: self
                    .setting("n")
                    .and_then(|n| n.parse::<u8>().ok())
                    .unwrap_or(StripedOptions::CONNECTIONS)
                    .clamp(1, 32)
                    .into(),
                ..tcp
            },
            "quic" => Law {
                family: match control("bbr3") {
                    "cubic" | "reno" | "newreno" => Family::Window,
                    _ => Family::Model,
                },
                has_large_first_flight: true,
                ..over_udp
            },
            "rudp" | "udp" => Law {
                family: Family::Rate,
                train_bytes: TRAIN_BYTES,
                dies_of_loss: self.name() == "udp",
                ..over_udp
            },
            _ => Law {
                family: Family::Window,
                is_generic: true,
                ..tcp
            },
        }
    }
}

impl FromStr for Spec {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let wrong = || SelectError::Transport {
            text: text.chars().take(MAX_LEN).collect(),
        };
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, Some(settings)),
            None => (text, None),
        };
        let is_word = |word: &str| {
            !word.is_empty()
                && (word.bytes()).all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if text.len() > MAX_LEN || !is_word(name) {
            return Err(wrong());
        }
        let mut pairs = Vec::new();
        for item in settings.into_iter().flat_map(|all| all.split([',', '+'])) {
            let (key, value) = item.split_once('=').ok_or_else(wrong)?;
            if !is_word(key) || !is_word(value) {
                return Err(wrong());
            }
            pairs.push((key, value));
        }
        pairs.sort_unstable();
        let mut text = name.to_owned();
        for (index, (key, value)) in pairs.iter().enumerate() {
            text.push(if index == 0 { ':' } else { ',' });
            text.push_str(key);
            text.push('=');
            text.push_str(value);
        }
        Ok(Self {
            text,
            name_len: name.len(),
        })
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
        spec.text
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
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
        assert_eq!(law("tcp-striped").connections, 18.0);
        assert_eq!(law("tcp-striped:cc=bbr,n=4").connections, 4.0);
        assert_eq!(law("quic:cc=cubic").family, Family::Window);
        assert_eq!(law("rudp").family, Family::Rate);
        assert!(law("udp").dies_of_loss && law("smoke").is_generic);
    }

    #[test]
    fn set_ups_and_first_flights_are_those_of_the_transports() {
        let round_trips = |text| law(text).setup_round_trips;
        assert_eq!([round_trips("quic"), round_trips("rudp")], [1.0, 1.0]);
        assert_eq!([round_trips("tcp"), round_trips("tcp-striped")], [2.0, 2.0]);
        let first = |text, rtt| law(text).first_flight(rtt);
        assert_eq!((first("quic", 0.01), first("quic", 0.2)), (25e3, 262_144.0));
        assert_eq!(first("tcp", 0.2), 14_480.0);
        assert_eq!(first("tcp-striped:n=4", 0.2), 57_920.0);
        assert_eq!(
            (law("rudp").train_bytes, law("quic").train_bytes),
            (38_400.0, 0.0)
        );
    }

    #[test]
    fn the_kernels_default_is_written_out() {
        let effect = |text: &str, control| {
            text.parse::<Spec>()
                .unwrap()
                .in_effect(Some(control))
                .to_string()
        };
        assert_eq!(effect("tcp", "cubic"), "tcp");
        assert_eq!(effect("tcp", "bbr"), "tcp:cc=bbr");
        assert_eq!(effect("tcp-striped:n=4", "bbr"), "tcp-striped:cc=bbr,n=4");
        assert_eq!(effect("tcp:cc=reno", "bbr"), "tcp:cc=reno");
        assert_eq!(effect("tcp:cc=cubic", "bbr"), "tcp");
        assert_eq!(
            effect("tcp-striped:cc=cubic+n=4", "cubic"),
            "tcp-striped:n=4"
        );
        assert_eq!(effect("quic", "bbr"), "quic");
        assert_eq!(effect("tcp", "a b"), "tcp");
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
        for text in [
            "",
            ":n=1",
            "tcp:",
            "tcp:n",
            "tcp:=1",
            "tcp:n=1,,",
            "a b",
            "tcp\n",
            "é",
            &long,
        ] {
            assert!(text.parse::<Spec>().is_err(), "{text:?}");
        }
    }
}
