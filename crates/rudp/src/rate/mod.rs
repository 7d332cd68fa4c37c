//! Rate controllers.
//!
//! | module | contents |
//! | --- | --- |
//! | `delivery` | estimation of the delivery rate from acknowledgements |
//! | `bbr` | a model-based controller |
//! | `sabul` | the controller of UDT, the protocol of the paper (feature `sabul`) |
//! | `fixed` | a fixed rate |
//!
//! All bytes are bytes on the wire: UDP payload and 28 bytes of IP and UDP headers. All rates are
//! in bytes per second.

use std::{fmt, str::FromStr, time::Duration};

use crate::Time;

mod bbr;
mod delivery;
mod fixed;
mod loss;
#[cfg(feature = "sabul")]
mod sabul;

pub use bbr::Bbr;
pub use delivery::{DeliverySample, DeliverySampler, RttView, SentState};
pub use fixed::Fixed;
#[cfg(feature = "sabul")]
pub use sabul::Sabul;

/// The size of the IPv4 and UDP headers before each UDP payload, in bytes.
pub const HEADER_BYTES: u64 = 28;

/// Determines the sending rate and the maximum of the bytes in flight.
///
/// A controller has no clock and no randomness of its own: the same calls give the same results.
pub trait RateController: Send + fmt::Debug {
    /// Returns the name of its [`ControllerKind`].
    fn name(&self) -> &'static str;

    /// Records that a packet which counts as in flight is sent. `in_flight` includes it.
    ///
    /// `app_limited` is true if the application has nothing more to send, so that the path could
    /// carry more.
    fn on_sent(&mut self, now: Time, bytes: u64, in_flight: u64, app_limited: bool);

    /// Processes an acknowledgement, or losses that were detected without one.
    fn on_feedback(&mut self, feedback: &Feedback);

    /// Records that the peer has been silent for so long that the path seems dead.
    fn on_timeout(&mut self, now: Time);

    /// Sets the rate and round-trip time of the path, as measured by a probe or cached. May be
    /// called at any time.
    fn seed(&mut self, rate: u64, rtt: Duration);

    /// Returns the pacing rate, in bytes per second.
    fn pacing_rate(&self) -> u64;

    /// Returns the maximum number of bytes in flight.
    fn window(&self) -> u64;

    /// Returns the state of the controller, for statistics.
    fn snapshot(&self) -> Snapshot;
}

/// The feedback of one acknowledgement.
///
/// [`DeliverySampler::take_feedback`] creates it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Feedback {
    /// The current time.
    pub now: Time,
    /// Bytes acknowledged for the first time.
    pub newly_acked_bytes: u64,
    /// Packets acknowledged for the first time.
    pub newly_acked_packets: u64,
    /// Bytes of packets newly declared lost.
    pub newly_lost_bytes: u64,
    /// Packets newly declared lost.
    pub newly_lost_packets: u64,
    /// The latest sample of the round-trip time without the acknowledgement delay, if there is one.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time (RFC 9002, section 5.3). Zero if it is not known.
    pub smoothed_rtt: Duration,
    /// The minimum round-trip time. Zero if it is not known.
    pub min_rtt: Duration,
    /// The delivery rate of the path, if the acknowledgement shows it.
    pub delivery: Option<DeliverySample>,
    /// The rate at which packets arrive at the receiver, as it reports.
    pub arrival_rate: Option<u64>,
    /// The capacity of the bottleneck that the receiver derives from packet pairs, as it reports.
    pub link_capacity: Option<u64>,
    /// Bytes that remain in flight.
    pub in_flight: u64,
    /// `true` if a new round begins: this is the first acknowledgement of a packet that was sent
    /// after the last round began.
    pub round_start: bool,
}

/// The state of a controller, for statistics and plots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// The name of the state that the controller is in.
    pub state: &'static str,
    /// The estimated rate of the bottleneck, in bytes per second.
    pub bandwidth: u64,
    /// The estimated round-trip time of the path without queues.
    pub min_rtt: Duration,
    /// The pacing rate, in bytes per second.
    pub pacing_rate: u64,
    /// The maximum number of bytes in flight.
    pub window: u64,
    /// The estimated random loss of the path, as a share of packets.
    pub loss_floor: f64,
    /// The number of reactions to congestion.
    pub congestion_events: u64,
}

/// The initial settings of a controller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ControllerSettings {
    /// The size of a full packet on the wire, in bytes.
    pub packet_bytes: u64,
    /// The number of packets that may be sent before the first acknowledgement, if nothing is known
    /// about the path.
    pub initial_packets: u64,
    /// The rate of [`ControllerKind::Fixed`] until it is seeded, in bytes per second.
    pub fixed_rate: u64,
}

impl Default for ControllerSettings {
    /// Returns 1,500-byte packets, 64 of them initially, and 100 Mbit/s.
    fn default() -> Self {
        Self {
            packet_bytes: 1500,
            initial_packets: 64,
            fixed_rate: 12_500_000,
        }
    }
}

/// The kinds of rate controllers.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ControllerKind {
    /// [`Bbr`].
    #[default]
    Bbr,
    /// [`Sabul`], with the feature `sabul`.
    #[cfg(feature = "sabul")]
    Sabul,
    /// [`Fixed`].
    Fixed,
}

impl ControllerKind {
    /// The controllers of this build.
    pub const ALL: &[Self] = &[
        Self::Bbr,
        #[cfg(feature = "sabul")]
        Self::Sabul,
        Self::Fixed,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            #[cfg(feature = "sabul")]
            Self::Sabul => "sabul",
            Self::Fixed => "fixed",
        }
    }

    /// Creates a controller of this kind.
    #[must_use]
    pub fn controller(self, settings: &ControllerSettings) -> Box<dyn RateController> {
        match self {
            Self::Bbr => Box::new(Bbr::new(settings)),
            #[cfg(feature = "sabul")]
            Self::Sabul => Box::new(Sabul::new(settings)),
            Self::Fixed => Box::new(Fixed::new(settings)),
        }
    }
}

impl fmt::Display for ControllerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ControllerKind {
    type Err = UnknownController;

    fn from_str(name: &str) -> Result<Self, UnknownController> {
        (Self::ALL.iter().copied())
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownController(name.chars().take(32).collect()))
    }
}

/// Error: no rate controller has this name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown rate controller {0:?}: expected one of {names}", names = names())]
pub struct UnknownController(String);

/// Lists the names of the controllers of this build.
fn names() -> String {
    ControllerKind::ALL
        .iter()
        .copied()
        .map(ControllerKind::name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the number of bytes that are sent in `time` at `rate` bytes per second. Saturates.
pub(crate) fn bytes_in(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate).saturating_mul(time.as_nanos()) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Returns the rate in bytes per second at which `bytes` are sent in `time`. Saturates; a zero time
/// is taken as one nanosecond.
pub(crate) fn rate_of(bytes: u64, time: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Multiplies an amount by a factor. The cast saturates, and turns NaN into zero.
pub(crate) fn scale(amount: u64, factor: f64) -> u64 {
    (amount as f64 * factor) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &kind in ControllerKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(
                kind.controller(&ControllerSettings::default()).name(),
                kind.name()
            );
        }
        assert!("BBR".parse::<ControllerKind>().is_err());
        let expected = match cfg!(feature = "sabul") {
            true => "bbr, sabul, fixed",
            false => "bbr, fixed",
        };
        assert_eq!(
            "reno".parse::<ControllerKind>().unwrap_err().to_string(),
            format!("unknown rate controller \"reno\": expected one of {expected}")
        );
        assert_eq!(
            "sabul".parse::<ControllerKind>().is_ok(),
            cfg!(feature = "sabul")
        );
    }

    #[test]
    fn rates_and_bytes_saturate() {
        assert_eq!(bytes_in(1000, Duration::from_millis(1500)), 1500);
        assert_eq!(rate_of(1500, Duration::from_millis(1500)), 1000);
        assert_eq!(bytes_in(u64::MAX, Duration::MAX), u64::MAX);
        assert_eq!(rate_of(u64::MAX, Duration::ZERO), u64::MAX);
        assert_eq!(scale(10, f64::NAN), 0);
    }
}
