//! The options of a user, and the values derived from them.

use std::{fmt, str::FromStr, time::Duration};

/// Limits and tuning of the QUIC transport.
///
/// The defaults need no knowledge of the path. Known properties go into [`path`](Self::path), on
/// both sides, because each side's receive window limits what the other may send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct QuicOptions {
    /// Time to resolve the name and to establish an authenticated connection, over all addresses of
    /// the host together. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time for a listener to authenticate a connector. Default: 5 s.
    pub handshake_timeout: Duration,
    /// Maximum number of concurrent handshakes of a listener. One more drops the oldest of the
    /// address that has most of them. Default: 64.
    pub max_handshakes: usize,
    /// The congestion control. Default: [`QuicCongestion::Bbr3`].
    pub congestion: QuicCongestion,
    /// Known properties of the path. Default: none.
    pub path: PathHint,
    /// Maximum number of bytes that are sent before the first acknowledgement on a path of which
    /// only the round-trip time is known: as many as 20 Mbit/s carry in it, at most this number,
    /// and at least the 38,400 of browsers. From 12,000 to 4 MiB. Each avoided doubling of the
    /// window saves a small computation a round trip. Slower paths lose packets by it. Default: 256
    /// KiB.
    pub first_flight: u64,
    /// Requested buffer of the UDP socket in each direction, in bytes. If the system grants less, a
    /// warning names the setting to raise. Default: 4 MiB.
    pub socket_buffer: usize,
    /// The thread that runs the protocol. Default: [`QuicDriver::OwnThread`].
    pub driver: QuicDriver,
}

/// Properties of a path that are known before it is used, for example from a probe.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct PathHint {
    /// Round-trip time.
    pub rtt: Option<Duration>,
    /// Rate of the path to the peer, in bytes per second. A link starts at this rate instead of
    /// probing for it. A rate that is too high is corrected after the first round trip.
    pub rate: Option<u64>,
}

/// The congestion control of a QUIC connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum QuicCongestion {
    /// BBR version 3 (draft-ietf-ccwg-bbr): models the path's rate and delay, paces, and does not
    /// treat single losses as congestion.
    #[default]
    Bbr3,
    /// CUBIC (RFC 9438): any loss is congestion. For comparison.
    Cubic,
}

/// The thread that runs the protocol: acknowledgements, pacing, retransmission.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum QuicDriver {
    /// One thread of this process, shared by all QUIC links. Packets are answered while the caller
    /// computes, and the end of a link is sent to the peer although the program exits.
    #[default]
    OwnThread,
    /// The runtime of the caller. It must not compute for long without yielding. If it does not run
    /// for the idle timeout, the peer takes the link for lost.
    Caller,
}

impl Default for QuicOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 64,
            congestion: QuicCongestion::default(),
            path: PathHint::default(),
            first_flight: Self::FIRST_FLIGHT,
            socket_buffer: 4 << 20,
            driver: QuicDriver::default(),
        }
    }
}

/// Maximum number of unread bytes of one stream. With packets of at least 1,200 bytes, every stream
/// stays below the 1,024 pieces at which the QUIC library closes a connection.
pub(super) const STREAM_WINDOW: u64 = 512 << 10;

/// Consecutive bytes of a link on one stream before the next stream's turn. A few packets, because
/// the streams are served in turn and a reader may have to wait for one round of them.
pub(super) const STRIPE: u64 = 4 << 10;

/// Minimum number of streams per direction.
pub(super) const STREAMS: u16 = 64;
pub(super) const MAX_STREAMS: u16 = 256;

/// Windows in bandwidth-delay products. With this factor, a loss and its repair do not stall the
/// flow.
const WINDOW_BDPS: f64 = 2.5;

impl QuicOptions {
    /// Assumed rate of an unknown path, in bytes per second. The [first flight](Self::first_flight)
    /// is what it carries in a round trip.
    pub const MODEST_RATE: f64 = 2.5e6;

    /// Share of a round trip in which the first flight is sent.
    pub const FIRST_PART: f64 = 0.1;

    /// Default maximum of the first flight, in bytes.
    pub const FIRST_FLIGHT: u64 = 256 << 10;

    /// Valid values of [`first_flight`](Self::first_flight).
    pub(super) const FIRST_FLIGHTS: std::ops::RangeInclusive<u64> = 12_000..=4 << 20;

    /// Returns the bandwidth-delay product of the path in bytes, if it is known.
    pub(super) fn bdp(&self) -> Option<u64> {
        let PathHint { rtt, rate } = self.path;
        let (rtt, rate) = rtt.zip(rate)?;
        // Saturates; callers clamp.
        Some((rate as f64 * rtt.as_secs_f64()) as u64)
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
            Self::Bbr3 => "bbr3",
            Self::Cubic => "cubic",
        })
    }
}

/// The text is not the name of a congestion control of QUIC.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("QUIC has no congestion control named {0:?}; it has bbr3 and cubic")]
pub struct UnknownCongestion(String);

impl FromStr for QuicCongestion {
    type Err = UnknownCongestion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "bbr3" => Ok(Self::Bbr3),
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
        options.path.rate = Some(125_000_000);
        assert_eq!(options.bdp(), Some(37_500_000));
        assert_eq!(
            (options.streams(), options.receive_window()),
            (178, 93_750_000)
        );
        options.path.rate = Some(u64::MAX);
        assert_eq!(
            (options.streams(), options.receive_window()),
            (256, 128 << 20)
        );
    }

    #[test]
    fn congestion_controls_go_by_name() {
        for control in [QuicCongestion::Bbr3, QuicCongestion::Cubic] {
            assert_eq!(control.to_string().parse(), Ok(control));
        }
        let error = "vegas".parse::<QuicCongestion>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "QUIC has no congestion control named \"vegas\"; it has bbr3 and cubic"
        );
    }
}
