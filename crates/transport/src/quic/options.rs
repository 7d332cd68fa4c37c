//! The options of the transport, and the values derived from them.

use std::{fmt, str::FromStr, time::Duration};

use transpute_units::{Bandwidth, KnownPath};

/// Limits and tuning of the QUIC transport.
///
/// The defaults need no knowledge of the path. Known properties go into [`path`](Self::path), on
/// both sides, because each side's receive window limits what the other may send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct QuicOptions {
    /// Time limit for resolving the host name and completing the handshake. It covers the attempts
    /// to all addresses of the host together. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time limit of a handshake on the listening side. Default: 5 s.
    pub handshake_timeout: Duration,
    /// Maximum number of concurrent handshakes of a listener. At this number, a new connection
    /// aborts the oldest handshake from the network with the most handshakes. Default: 64.
    pub max_handshakes: usize,
    /// The congestion control. Default: [`QuicCongestion::Bbr`].
    pub congestion: QuicCongestion,
    /// Known properties of the path, for example from a probe: the round-trip time, and the rate to
    /// the peer. A link starts at this rate instead of increasing its rate from a low value. If the
    /// rate is too high, the link lowers it within the first round trips. Default: none.
    pub path: KnownPath,
    /// Maximum size in bytes of the first flight on a path without a known rate, from 12,000 to 4
    /// MiB. The first flight has the bytes that 20 Mbit/s carry in a round trip, but at least
    /// 38,400 (as in browsers) and at most this number. A larger first flight saves round trips for
    /// small computations, and causes losses on slower paths. Default: 256 KiB.
    pub first_flight: u64,
    /// Requested size of the UDP socket's send and receive buffers, in bytes each. If the system
    /// grants less, a logged warning names the system setting to raise. Default: 4 MiB.
    pub socket_buffer: usize,
    /// The thread that runs the QUIC protocol. Default: [`QuicDriver::OwnThread`].
    pub driver: QuicDriver,
}

/// The congestion control of a QUIC connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum QuicCongestion {
    /// The model-based controller of reliable UDP ([`transpute_rudp::rate::Bbr`]). It models the
    /// path's rate, delay and random loss, and does not treat random loss as congestion.
    #[default]
    Bbr,
    /// CUBIC (RFC 9438) of the QUIC library, for comparison. It treats every loss as congestion.
    Cubic,
}

/// The thread that runs the protocol: acknowledgements, pacing, retransmission.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum QuicDriver {
    /// One thread of this process, shared by all QUIC links. Packets are acknowledged while the
    /// caller computes, and the peer learns of the end of a link even if the program exits.
    #[default]
    OwnThread,
    /// The Tokio runtime of the caller. Its tasks must not compute for long without yielding. If
    /// the runtime is blocked for the idle timeout, the peer treats the link as lost.
    Caller,
}

impl Default for QuicOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 64,
            congestion: QuicCongestion::default(),
            path: KnownPath::default(),
            first_flight: Self::FIRST_FLIGHT,
            socket_buffer: 4 << 20,
            driver: QuicDriver::default(),
        }
    }
}

/// Receive window of one stream, in bytes. With packets of at least 1,200 bytes, a stream never has
/// the 1,024 gaps at which the QUIC library closes a connection.
pub(super) const STREAM_WINDOW: u64 = 512 << 10;

/// Stripe length: number of consecutive bytes of a link on one stream. A stripe is only a few
/// packets long, because the streams are served in turn and a reader may have to wait until all
/// others were served.
pub(super) const STRIPE: u64 = 4 << 10;

/// Minimum number of streams in each direction of a link.
pub(super) const STREAMS: u16 = 64;
pub(super) const MAX_STREAMS: u16 = 256;

/// Size of the receive window in bandwidth-delay products. With this size, the sender can continue
/// while it retransmits lost data. The number of streams is derived from it too.
const WINDOW_BDPS: f64 = 2.5;

impl QuicOptions {
    /// Assumed rate of a path without a known rate. The [first flight](Self::first_flight) has the
    /// bytes that this rate carries in a round trip.
    pub const MODEST_RATE: Bandwidth = Bandwidth::from_megabits_per_second(20.0);

    /// Default of [`first_flight`](Self::first_flight), in bytes.
    pub const FIRST_FLIGHT: u64 = 256 << 10;

    /// Valid values of [`first_flight`](Self::first_flight), in bytes.
    pub(super) const FIRST_FLIGHTS: std::ops::RangeInclusive<u64> = 12_000..=4 << 20;

    /// Returns the bandwidth-delay product of the path in bytes, if it is known.
    pub(super) fn bdp(&self) -> Option<u64> {
        let (rtt, rate) = self.path.rtt.zip(self.path.to_peer.rate)?;
        // The cast saturates, and the callers clamp the result.
        Some(rate.bytes_in(rtt) as u64)
    }

    /// Returns the number of streams that this side opens.
    pub(super) fn streams(&self) -> u16 {
        let wanted = self.window_for_bdp() / STREAM_WINDOW;
        u16::try_from(wanted)
            .unwrap_or(MAX_STREAMS)
            .clamp(STREAMS, MAX_STREAMS)
    }

    /// Returns the maximum number of unread bytes that this side buffers.
    pub(super) fn receive_window(&self) -> u64 {
        let (least, most) = (
            u64::from(STREAMS) * STREAM_WINDOW,
            u64::from(MAX_STREAMS) * STREAM_WINDOW,
        );
        self.window_for_bdp().clamp(least, most)
    }

    fn window_for_bdp(&self) -> u64 {
        (self.bdp().unwrap_or(0) as f64 * WINDOW_BDPS) as u64
    }
}

impl fmt::Display for QuicCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
        })
    }
}

/// The error of a text that is not the name of a congestion control of QUIC.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("QUIC has no congestion control named {0:?}; it has bbr and cubic")]
pub struct UnknownCongestion(String);

impl FromStr for QuicCongestion {
    type Err = UnknownCongestion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "bbr" => Ok(Self::Bbr),
            "cubic" => Ok(Self::Cubic),
            _ => Err(UnknownCongestion(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_the_path_and_stay_bounded() {
        let mut options = QuicOptions::default();
        assert_eq!(
            (options.streams(), options.receive_window()),
            (64, 32 << 20)
        );
        // 1 Gbit/s at 300 ms: 37.5 MB in flight.
        options.path.rtt = Some(Duration::from_millis(300));
        options.path.to_peer.rate = Some(Bandwidth::from_megabits_per_second(1000.0));
        assert_eq!(options.bdp(), Some(37_500_000));
        assert_eq!(
            (options.streams(), options.receive_window()),
            (178, 93_750_000)
        );
        options.path.to_peer.rate = Some(Bandwidth::from_bits_per_second(f64::MAX));
        assert_eq!(
            (options.streams(), options.receive_window()),
            (256, 128 << 20)
        );
    }

    #[test]
    fn congestion_controls_go_by_name() {
        for control in [QuicCongestion::Bbr, QuicCongestion::Cubic] {
            assert_eq!(control.to_string().parse(), Ok(control));
        }
        let error = "vegas".parse::<QuicCongestion>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "QUIC has no congestion control named \"vegas\"; it has bbr and cubic"
        );
    }
}
