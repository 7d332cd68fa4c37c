//! The options of the transport, and the values derived from them.

use std::{net::IpAddr, time::Duration};

use transpute_rudp::{FecPolicy, Reliability, RudpConfig};
use transpute_units::Bandwidth;

use crate::{Settings, TransportError, settings};

pub use transpute_rudp::rate::ControllerKind as RudpControl;

/// Limits and tuning of the reliable-UDP transport. The defaults need no knowledge of the path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RudpOptions {
    /// The rate controller. Default: [`RudpControl::Bbr`].
    pub control: RudpControl,
    /// Known rate of the path to the peer, including IP and UDP headers. The rate that the set-up
    /// measures replaces it, except with [`RudpControl::Fixed`]. Default: unknown.
    pub rate: Option<Bandwidth>,
    /// True to send forward error correction. Default: true.
    pub correction: bool,
    /// True to measure the path during the set-up, with a probe train of 39 kB in each direction.
    /// Default: true.
    pub probe: bool,
    /// Maximum number of concurrent handshakes of a listener. Default: 128.
    pub max_handshakes: usize,
    /// On the connecting side, the time limit for the first answer over UDP. On the listening side,
    /// the time limit of a handshake. Default: 3 s.
    pub setup_timeout: Duration,
    /// Time without a packet from the peer after which the link fails, at least 7 s. A silent peer
    /// gets a keep-alive request every 2 s. Default: 7 s.
    pub idle_timeout: Duration,
    /// Requested size of the UDP socket's send and receive buffers, in bytes each. If the system
    /// grants less than half of it, a logged warning names the system setting to raise. Default: 8
    /// MiB.
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

/// The lowest rate that the setting `rate` accepts.
const MIN_RATE: Bandwidth = Bandwidth::from_bits_per_second(8e3);

/// Maximum UDP payload in bytes of an Ethernet frame with an MTU of 1500 bytes, over IPv4 and over
/// IPv6.
const DATAGRAM_V4: u16 = 1472;
const DATAGRAM_V6: u16 = 1452;

impl RudpOptions {
    /// Applies the settings after the transport's name.
    pub(super) fn configured(self, settings: &mut Settings) -> Result<Self, TransportError> {
        let control = settings.take("cc", |name| {
            name.parse().map_err(|error| format!("{error}"))
        })?;
        let rate = settings.take("rate", rate)?;
        let correction = settings.take("fec", on_or_off)?;
        let probe = settings.take("probe", on_or_off)?;
        Ok(Self {
            control: control.unwrap_or(self.control),
            rate: rate.or(self.rate),
            correction: correction.unwrap_or(self.correction),
            probe: probe.unwrap_or(self.probe),
            ..self
        })
    }

    /// Returns whether to measure the path in the set-up. It is not measured with a given fixed
    /// rate, which the measurement would replace.
    pub(super) fn probes(&self) -> bool {
        self.probe && !(self.control == RudpControl::Fixed && self.rate.is_some())
    }

    /// Returns the settings of a connection to this peer. `is_repaired` is true if lost data is
    /// retransmitted.
    pub(super) fn config(&self, is_repaired: bool, peer: IpAddr) -> RudpConfig {
        let mut config = RudpConfig::default();
        config.controller = self.control;
        config.prior.rate = self.rate;
        config.probe = self.probes();
        config.fec = if self.correction {
            FecPolicy::Adaptive
        } else {
            FecPolicy::Off
        };
        config.reliability = match is_repaired {
            true => Reliability::Repair,
            false => Reliability::Detect,
        };
        config.idle_timeout = self.idle_timeout;
        config.setup_timeout = self.setup_timeout;
        config.max_datagram = match peer.to_canonical() {
            IpAddr::V4(_) => DATAGRAM_V4,
            IpAddr::V6(_) => DATAGRAM_V6,
        };
        config
    }
}

/// Parses a rate in bits per second: a number with an optional suffix `k`, `m` or `g`.
pub(crate) fn rate(text: &str) -> Result<Bandwidth, String> {
    settings::rate(text, MIN_RATE)
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
    fn settings_reach_the_connection() {
        let mut settings = Settings::parse("rudp", "cc=fixed,rate=1g,fec=off,probe=off").unwrap();
        let options = RudpOptions::default().configured(&mut settings).unwrap();
        settings.finish().unwrap();
        let config = options.config(true, "::1".parse().unwrap());
        assert_eq!(config.controller, RudpControl::Fixed);
        assert_eq!(
            config.prior.rate,
            Some(Bandwidth::from_megabits_per_second(1000.0))
        );
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
