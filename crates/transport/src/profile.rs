//! Profiles of transports. A profile contains the properties from which `auto` predicts run times
//! and chooses a transport. This module uses no sockets and no clocks.

use transpute_units::Bandwidth;

use crate::CongestionControl;

/// Initial congestion window of a TCP connection in bytes: ten segments (RFC 6928).
const INITIAL_WINDOW: u32 = 10 * 1448;

/// The properties of a transport from which its run time is predicted.
///
/// The default describes a single connection with a set-up of two round trips and a loss-based
/// congestion window. A transport changes the fields in which it differs:
///
/// ```
/// use transpute_transport::{FirstFlight, Profile, Throughput};
///
/// let mut satellite = Profile::default();
/// satellite.setup_round_trips = 1;
/// satellite.needs_udp = true;
/// satellite.throughput = Throughput::MeasuredRate;
/// satellite.first_flight = FirstFlight::Unlimited;
/// satellite.probe_bytes = 10_000;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Number of round trips from the connector's first packet until its link exists. Default: 2.
    pub setup_round_trips: u8,
    /// True if the transport uses UDP, which firewalls may block. The kernel's TCP buffers do not
    /// limit the window of such a transport. Default: false.
    pub needs_udp: bool,
    /// The method by which the transport determines its sending rate. Default:
    /// [`Throughput::Window`].
    pub throughput: Throughput,
    /// Number of parallel connections that carry one link. Default: 1.
    pub connections: u8,
    /// Number of bytes that the transport sends before the first acknowledgement. Default: ten
    /// segments on each connection (RFC 6928).
    pub first_flight: FirstFlight,
    /// Number of bytes that each side sends during the set-up to measure the path. Default: 0.
    pub probe_bytes: u32,
    /// True if the transport recovers or retransmits lost packets. Otherwise its links fail at the
    /// first loss, and `auto` does not use it. Default: true.
    pub repairs_losses: bool,
    /// True if the transport supports [`Security::Plaintext`](crate::Security::Plaintext). Default:
    /// true.
    pub has_plaintext: bool,
}

/// The method by which a transport determines its rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Throughput {
    /// Loss-based congestion control such as CUBIC or Reno. The window doubles each round trip in
    /// slow start, and shrinks at every loss.
    Window,
    /// Model-based congestion control such as BBR. The rate doubles each round trip at the start,
    /// and losses have little effect.
    Model,
    /// The set-up measures the path's rate. The transport sends at this rate from the first packet
    /// on, and repairs losses.
    MeasuredRate,
    /// The kernel's TCP with this congestion control, or with the system's default for `None`.
    Kernel(Option<CongestionControl>),
}

/// The bytes that a transport sends before the first acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FirstFlight {
    /// A fixed number of bytes on each connection.
    Bytes(u32),
    /// The number of bytes that `rate` carries in one round trip, at least ten segments and at most
    /// `max`.
    AtRate {
        /// The rate that the transport assumes before it has measured the path.
        rate: Bandwidth,
        /// Maximum number of bytes before the first acknowledgement.
        max: u64,
    },
    /// No limit, because the transport knows the path's rate before its first data packet.
    Unlimited,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            setup_round_trips: 2,
            needs_udp: false,
            throughput: Throughput::Window,
            connections: 1,
            first_flight: FirstFlight::Bytes(INITIAL_WINDOW),
            probe_bytes: 0,
            repairs_losses: true,
            has_plaintext: true,
        }
    }
}

impl Profile {
    /// Returns the number of bytes that are sent before the first acknowledgement, for a round-trip
    /// time of `rtt_s` seconds.
    #[must_use]
    pub fn first_flight_bytes(&self, rtt_s: f64) -> f64 {
        match self.first_flight {
            FirstFlight::Bytes(bytes) => f64::from(bytes) * f64::from(self.connections),
            FirstFlight::AtRate { rate, max } => {
                let least = f64::from(INITIAL_WINDOW);
                (rate.bytes_per_second() * rtt_s).clamp(least, (max as f64).max(least))
            }
            FirstFlight::Unlimited => f64::INFINITY,
        }
    }
}

impl Throughput {
    /// Replaces [`Kernel`](Self::Kernel) by the method of its congestion control. `default_control`
    /// is the name of the system's default congestion control. If it is unknown (`None`), `cubic`
    /// is assumed. Returns other values unchanged.
    #[must_use]
    pub fn resolve(self, default_control: Option<&str>) -> Self {
        let Self::Kernel(control) = self else {
            return self;
        };
        let control = (control.as_ref()).map_or(default_control, |it| Some(it.name()));
        match control {
            Some("bbr" | "bbr2" | "bbr3") => Self::Model,
            _ => Self::Window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_control_decides_where_none_is_set() {
        let kernel = Throughput::Kernel;
        let bbr = Some("bbr".parse().unwrap());
        assert_eq!(kernel(None).resolve(None), Throughput::Window);
        assert_eq!(kernel(None).resolve(Some("bbr")), Throughput::Model);
        assert_eq!(kernel(bbr).resolve(Some("cubic")), Throughput::Model);
        let rate = Throughput::MeasuredRate;
        assert_eq!(rate.resolve(Some("bbr")), rate);
    }

    #[test]
    fn first_flights_grow_with_connections_and_round_trips() {
        let mut profile = Profile::default();
        assert_eq!(profile.first_flight_bytes(0.1), 14_480.0);
        profile.connections = 4;
        assert_eq!(profile.first_flight_bytes(0.1), 57_920.0);
        profile.first_flight = FirstFlight::AtRate {
            rate: Bandwidth::from_bytes_per_second(1e6),
            max: 100_000,
        };
        let flights = [0.0, 0.05, 1.0].map(|rtt| profile.first_flight_bytes(rtt));
        assert_eq!(flights, [14_480.0, 50_000.0, 100_000.0]);
    }
}
