//! How fast to send: rate controllers, which see numbers and return numbers.
//!
//! | module | idea |
//! | --- | --- |
//! | `delivery` | what each acknowledgement says about the rate at which the path delivers |
//! | `bbr` | a model of the path: its rate, its round-trip time, the loss that is just there |
//! | `sabul` | UDT's increase and decrease, the protocol of the paper (feature `sabul`) |
//! | `fixed` | a rate that somebody knows |
//!
//! All bytes are bytes on the wire: UDP payload and 28 bytes of IP and UDP headers. All rates are
//! bytes per second.

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

/// Bytes of IPv4 and UDP headers before each UDP payload.
pub const HEADER_BYTES: u64 = 28;

/// Decides how fast to send and how much may be under way.
///
/// A controller has no clock and no randomness of its own: the same calls give the same answers.
pub trait RateController: Send + fmt::Debug {
    /// Returns the name under which [`Kind`] knows it.
    fn name(&self) -> &'static str;

    /// A packet that counts as in flight leaves; `in_flight` includes it.
    ///
    /// `app_limited` says that there was nothing more to send, so that the path could carry more
    /// than it is given.
    fn on_sent(&mut self, now: Time, bytes: u64, in_flight: u64, app_limited: bool);

    /// An acknowledgement came, or packets were found lost without one.
    fn on_feedback(&mut self, feedback: &Feedback);

    /// Nothing was heard for so long that the path seems dead.
    fn on_timeout(&mut self, now: Time);

    /// Tells what a probe, or a cache, knows about the path. May be called again at any time.
    fn seed(&mut self, rate: u64, rtt: Duration);

    /// Returns the rate at which to space packets, in bytes per second.
    fn pacing_rate(&self) -> u64;

    /// Returns how many bytes may be in flight at most.
    fn window(&self) -> u64;

    /// Returns what the controller believes.
    fn snapshot(&self) -> Snapshot;
}

/// What one acknowledgement taught the sender.
///
/// [`DeliverySampler::take_feedback`] puts it together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Feedback {
    /// When it is.
    pub now: Time,
    /// Bytes acknowledged for the first time.
    pub newly_acked_bytes: u64,
    /// Packets acknowledged for the first time.
    pub newly_acked_packets: u64,
    /// Bytes of packets now found lost.
    pub newly_lost_bytes: u64,
    /// Packets now found lost.
    pub newly_lost_packets: u64,
    /// The latest sample of the round-trip time, acknowledgement delay taken off, if there is one.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time (RFC 9002, section 5.3). Zero: not known.
    pub smoothed_rtt: Duration,
    /// The least round-trip time seen. Zero: not known.
    pub min_rtt: Duration,
    /// The rate at which the path delivered, where the acknowledgement tells.
    pub delivery: Option<DeliverySample>,
    /// The rate at which the receiver saw packets arrive, as it says.
    pub arrival_rate: Option<u64>,
    /// The capacity of the bottleneck that the receiver derives from packet pairs, as it says.
    pub link_capacity: Option<u64>,
    /// Bytes that remain in flight.
    pub in_flight: u64,
    /// The first acknowledgement of a packet that was sent after the last round began.
    pub round_start: bool,
}

/// What a controller believes, for statistics and curves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// The name of its state.
    pub state: &'static str,
    /// The rate it takes the bottleneck to have, in bytes per second.
    pub bandwidth: u64,
    /// The round-trip time it takes the path to have without queues.
    pub min_rtt: Duration,
    /// The rate at which it sends, in bytes per second.
    pub pacing_rate: u64,
    /// How many bytes it allows in flight.
    pub window: u64,
    /// The share of packets it takes the path to lose whatever the rate is.
    pub loss_floor: f64,
    /// How often it took loss, or a queue, for congestion.
    pub congestion_events: u64,
}

/// What a controller must know to begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Bytes of a full packet on the wire.
    pub packet_bytes: u64,
    /// How many packets may leave before the first acknowledgement, where nothing is known about
    /// the path.
    pub initial_packets: u64,
    /// The rate of [`Kind::Fixed`] until it is seeded, in bytes per second.
    pub fixed_rate: u64,
}

impl Default for Settings {
    /// 1,500-byte packets, 64 of them at once, 100 Mbit/s.
    fn default() -> Self {
        Self {
            packet_bytes: 1500,
            initial_packets: 64,
            fixed_rate: 12_500_000,
        }
    }
}

/// The controllers, by name.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// [`Bbr`].
    #[default]
    Bbr,
    /// [`Sabul`], with the feature `sabul`.
    #[cfg(feature = "sabul")]
    Sabul,
    /// [`Fixed`].
    Fixed,
}

impl Kind {
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

    /// Makes a controller of this kind.
    #[must_use]
    pub fn controller(self, settings: &Settings) -> Box<dyn RateController> {
        match self {
            Self::Bbr => Box::new(Bbr::new(settings)),
            #[cfg(feature = "sabul")]
            Self::Sabul => Box::new(Sabul::new(settings)),
            Self::Fixed => Box::new(Fixed::new(settings)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        (Self::ALL.iter().copied())
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind(name.chars().take(32).collect()))
    }
}

/// A name that no rate controller has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no rate controller is called {0:?}: expected one of {names}", names = names())]
pub struct UnknownKind(String);

/// Lists the names of the controllers of this build.
fn names() -> String {
    Kind::ALL
        .iter()
        .copied()
        .map(Kind::name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns how many bytes a rate moves in this time, saturating.
pub(crate) fn bytes_in(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate).saturating_mul(time.as_nanos()) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Returns the rate that moves these bytes in this time, saturating; a zero time counts as a
/// nanosecond.
pub(crate) fn rate_of(bytes: u64, time: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Scales an amount. Casts saturate, and take no number for zero.
pub(crate) fn scale(amount: u64, factor: f64) -> u64 {
    (amount as f64 * factor) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for &kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(kind.controller(&Settings::default()).name(), kind.name());
        }
        assert!("BBR".parse::<Kind>().is_err());
        let expected = match cfg!(feature = "sabul") {
            true => "bbr, sabul, fixed",
            false => "bbr, fixed",
        };
        assert_eq!(
            "reno".parse::<Kind>().unwrap_err().to_string(),
            format!("no rate controller is called \"reno\": expected one of {expected}")
        );
        assert_eq!("sabul".parse::<Kind>().is_ok(), cfg!(feature = "sabul"));
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
