//! The properties of a transport that a choice among several depends on. Pure data, without sockets
//! and clocks.

use crate::CongestionControl;

/// Payload bytes of the first flight of a TCP connection: ten segments (RFC 6928).
const INITIAL_WINDOW: u32 = 10 * 1448;

/// The properties of a transport that predictions and choices depend on.
///
/// The default describes one connection that takes two round trips to set up and controls its own
/// window. A transport states its differences:
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
    /// Round trips from the first packet to the connector's link. Default: 2.
    pub setup_round_trips: u8,
    /// The transport uses UDP. Firewalls may block UDP, and the kernel's TCP buffers do not limit
    /// its window. Default: no.
    pub needs_udp: bool,
    /// The method by which it determines its rate. Default: [`Throughput::Window`].
    pub throughput: Throughput,
    /// Number of parallel connections. Default: 1.
    pub connections: u8,
    /// Number of bytes that are sent before the first acknowledgement. Default: ten segments on
    /// each connection (RFC 6928).
    pub first_flight: FirstFlight,
    /// Bytes that the set-up sends in each direction to measure the path. Default: 0.
    pub probe_bytes: u32,
    /// It repairs losses. A transport that does not fails at the first loss, and `auto` does not
    /// use it. Default: yes.
    pub repairs_losses: bool,
    /// It supports [`Security::Plaintext`](crate::Security::Plaintext). Default: yes.
    pub has_plaintext: bool,
}

/// The method by which a transport determines its rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Throughput {
    /// A congestion window that doubles each round trip, and shrinks at every loss: CUBIC, Reno.
    Window,
    /// A model of the bottleneck. Its rate doubles each round trip at the start, and losses have
    /// little effect: BBR.
    Model,
    /// The rate that the set-up measured, from the first packet on. Losses are repaired.
    MeasuredRate,
    /// The kernel's TCP with this congestion control; `None` is the default of the system.
    Kernel(Option<CongestionControl>),
}

/// The bytes that a transport sends before the first acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FirstFlight {
    /// This number of bytes on each connection.
    Bytes(u32),
    /// Bytes that this rate carries in a round trip, at least ten segments and at most `max`.
    AtRate {
        /// Bytes per second.
        rate: f64,
        /// Upper bound in bytes.
        max: u64,
    },
    /// No limit, because the rate is known from the first packet on.
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
    /// time in seconds.
    #[must_use]
    pub fn first_flight_bytes(&self, rtt_s: f64) -> f64 {
        match self.first_flight {
            FirstFlight::Bytes(bytes) => f64::from(bytes) * f64::from(self.connections),
            FirstFlight::AtRate { rate, max } => {
                let least = f64::from(INITIAL_WINDOW);
                (rate * rtt_s).clamp(least, (max as f64).max(least))
            }
            FirstFlight::Unlimited => f64::INFINITY,
        }
    }
}

impl Throughput {
    /// Returns the method on a system whose default congestion control is `default_control`, or
    /// cubic if that is unknown. The result is never [`Kernel`](Self::Kernel).
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
            rate: 1e6,
            max: 100_000,
        };
        let flights = [0.0, 0.05, 1.0].map(|rtt| profile.first_flight_bytes(rtt));
        assert_eq!(flights, [14_480.0, 50_000.0, 100_000.0]);
    }
}
