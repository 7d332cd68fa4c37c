//! The options of a user, and the values derived from them.

use std::{net::IpAddr, time::Duration};

use transpute_rudp::{Config, FecPolicy, Reliability, estimate::PathPrior};

use crate::{Settings, TransportError};

pub use transpute_rudp::rate::Kind as RudpControl;

/// Limits and tuning of the reliable-UDP transport. The defaults need no knowledge of the path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RudpOptions {
    /// The rate controller. Default: [`RudpControl::Bbr`].
    pub control: RudpControl,
    /// Known rate of the path to the peer, in bytes on the wire per second. The measurement of the
    /// set-up replaces it, except with [`RudpControl::Fixed`]. Default: unknown.
    pub rate: Option<u64>,
    /// Uses forward error correction. Default: yes.
    pub correction: bool,
    /// The set-up measures the path with probe trains, 39 kB in each direction. Default: yes.
    pub probe: bool,
    /// Maximum number of concurrent handshakes of a listener. Default: 128.
    pub max_handshakes: usize,
    /// Time to wait for the first answer over UDP, and at the listener for the end of a handshake.
    /// Default: 3 s.
    pub setup_timeout: Duration,
    /// Time without packets after which a peer counts as vanished, at least 7 s. It is sent a
    /// keep-alive request every 2 s. Default: 7 s.
    pub idle_timeout: Duration,
    /// Requested buffer of the UDP socket in each direction, in bytes. If the system grants less
    /// than half of it, a warning names the setting to raise. Default: 8 MiB.
    pub socket_buffer: usize,
}

impl Default for RudpOptions {
    fn default() -> Self {
        Self {
            max_handshakes: 128,
            control: RudpControl::default(),
            rate: None,
            correction: true,
            probe: true,
            setup_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(7),
            socket_buffer: 8 << 20,
        }
    }
}

/// UDP payload of a full Ethernet frame, over IPv4.
const DATAGRAM_V4: u16 = 1472;
const DATAGRAM_V6: u16 = 1452;

impl RudpOptions {
    /// Applies the settings after the transport's name.
    pub(super) fn configured(self, settings: &mut Settings) -> Result<Self, TransportError> {
        let control = settings.take("cc", |name| {
            name.parse().map_err(|error| format!("{error}"))
        })?;
        let rate = settings.take("rate", bits_per_second)?;
        let correction = settings.take("fec", on_or_off)?;
        let probe = settings.take("probe", on_or_off)?;
        Ok(Self {
            control: control.unwrap_or(self.control),
            rate: rate.map(|bits| bits / 8).or(self.rate),
            correction: correction.unwrap_or(self.correction),
            probe: probe.unwrap_or(self.probe),
            ..self
        })
    }

    /// Returns whether to measure the path. A measurement must not replace a given fixed rate.
    pub(super) fn probes(&self) -> bool {
        self.probe && !(self.control == RudpControl::Fixed && self.rate.is_some())
    }

    /// Returns the settings of a connection to this peer. `is_repaired`: lost data is
    /// retransmitted.
    pub(super) fn config(&self, is_repaired: bool, peer: IpAddr) -> Config {
        let prior = PathPrior {
            rate: self.rate,
            ..PathPrior::default()
        };
        Config {
            controller: self.control,
            prior,
            probe: self.probes(),
            fec: if self.correction {
                FecPolicy::Adaptive
            } else {
                FecPolicy::Off
            },
            reliability: match is_repaired {
                true => Reliability::Repair,
                false => Reliability::Detect,
            },
            idle_timeout: self.idle_timeout,
            setup_timeout: self.setup_timeout,
            max_datagram: match peer.to_canonical() {
                IpAddr::V4(_) => DATAGRAM_V4,
                IpAddr::V6(_) => DATAGRAM_V6,
            },
            ..Config::default()
        }
    }
}

/// Parses a rate in bits per second: a number with an optional suffix `k`, `m` or `g`.
pub(crate) fn bits_per_second(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    digits
        .parse::<f64>()
        .ok()
        .map(|number| number * unit)
        .filter(|rate| (8e3..=1e12).contains(rate))
        // The range was checked.
        .map(|rate| rate as u64)
        .ok_or_else(|| "expected bits per second from 8k to 1000g, such as 100m or 1g".into())
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units() {
        for (text, rate) in [
            ("100m", 100_000_000),
            ("1g", 1_000_000_000),
            ("2.5G", 2_500_000_000),
            ("64k", 64_000),
            ("1000000", 1_000_000),
        ] {
            assert_eq!(bits_per_second(text), Ok(rate), "{text}");
        }
        for text in ["", "g", "1t", "-1g", "nan", "inf", "1", "1e99"] {
            assert!(bits_per_second(text).is_err(), "{text}");
        }
    }

    #[test]
    fn settings_reach_the_connection() {
        let mut settings = Settings::parse("rudp", "cc=fixed,rate=1g,fec=off,probe=off").unwrap();
        let options = RudpOptions::default().configured(&mut settings).unwrap();
        settings.finish().unwrap();
        let config = options.config(true, "::1".parse().unwrap());
        assert_eq!(config.controller, RudpControl::Fixed);
        assert_eq!(config.prior.rate, Some(125_000_000));
        assert_eq!((config.fec, config.probe), (FecPolicy::Off, false));
        assert_eq!(config.max_datagram, DATAGRAM_V6);
    }

    #[test]
    fn sabul_needs_its_feature() {
        let mut settings = Settings::parse("rudp", "cc=sabul").unwrap();
        let configured = RudpOptions::default().configured(&mut settings);
        if cfg!(feature = "sabul") {
            assert_eq!(configured.unwrap().control.name(), "sabul");
        } else {
            let error = configured.unwrap_err().to_string();
            assert!(error.ends_with("expected one of bbr, fixed"), "{error}");
        }
    }
}
