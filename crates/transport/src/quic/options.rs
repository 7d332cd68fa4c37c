//! What a user may set, and what follows from it.

use std::{fmt, str::FromStr, time::Duration};

use transpute_units::{Bandwidth, KnownPath};

/// Limits and tuning of the QUIC transport.
///
/// The defaults need no knowledge of the path. What is known of it goes into [`path`](Self::path), on both sides: each
/// side's receive window bounds what the other may send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct QuicOptions {
    /// Time to resolve the name and to reach an authenticated connection, over all addresses of the host together.
    /// Default: 10 s.
    pub connect_timeout: Duration,
    /// Time for a listener to authenticate a connector. Default: 5 s.
    pub handshake_timeout: Duration,
    /// Handshakes a listener runs at once; one more drops the oldest of the address that has most of them. Default: 64.
    pub max_handshakes: usize,
    /// How the sending rate is found. Default: [`QuicCongestion::Bbr3`].
    pub congestion: QuicCongestion,
    /// The path, as far as it is known before the first packet, for example from a probe: its round-trip time, and the rate to the peer.
    /// With the rate, a link starts at it; a rate that proves too high is corrected after the first round trip. Default: not known.
    pub path: KnownPath,
    /// Bytes that may be sent before anything is acknowledged where nothing is known of the path but its round-trip time: as much
    /// as 20 Mbit/s carry in it, at most this, at least the 38,400 of browsers. From 12,000 to 4 MiB. Each doubling of the window
    /// that a small computation is spared is a round trip; paths slower than that lose packets by it. Default: 256 KiB.
    pub first_flight: u64,
    /// Bytes of buffer to ask of the system for the UDP socket, each way. What it grants is read back, and a warning
    /// names the setting to raise if it is less. Default: 4 MiB.
    pub socket_buffer: usize,
    /// Who runs the protocol. Default: [`QuicDriver::OwnThread`].
    pub driver: QuicDriver,
}

/// How the sending rate is found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum QuicCongestion {
    /// BBR version 3 (draft-ietf-ccwg-bbr): models the path's rate and delay, paces, and does not take single losses
    /// for congestion.
    #[default]
    Bbr3,
    /// CUBIC (RFC 9438): any loss is congestion. For comparisons.
    Cubic,
}

/// Who runs the protocol: acknowledges, paces, sends again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum QuicDriver {
    /// One thread of this process, shared by all QUIC links. Packets are answered while the caller computes, and what
    /// the last instruction of a program closed is still told to the peer.
    #[default]
    OwnThread,
    /// The runtime that the caller is on. It must not compute for long without yielding: a link whose runtime does not
    /// turn for the idle timeout is taken for gone.
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

/// What a peer may have sent to one stream without its being read. Together with packets of at least 1,200 bytes this
/// keeps every stream below the 1,024 pieces at which the QUIC library gives a connection up.
pub(super) const STREAM_WINDOW: u64 = 512 << 10;

/// Consecutive bytes of a link on one stream before the next stream's turn. A few packets: the streams of a link are
/// served in turn, so one round of them is what a reader may have to wait for.
pub(super) const STRIPE: u64 = 4 << 10;

/// Streams per direction, at least and at most.
pub(super) const STREAMS: u16 = 64;
pub(super) const MAX_STREAMS: u16 = 256;

/// Windows are this many bandwidth-delay products, so that a loss and its repair do not stall the flow.
const WINDOW_BDPS: f64 = 2.5;

impl QuicOptions {
    /// The rate that any path is assumed to have: the [first flight](Self::first_flight) is what it carries in a round trip.
    pub const MODEST_RATE: Bandwidth = Bandwidth::from_megabits_per_second(20.0);

    /// The first flight takes this part of a round trip to leave.
    pub const FIRST_PART: f64 = 0.1;

    /// The longest first flight by default, in bytes.
    pub const FIRST_FLIGHT: u64 = 256 << 10;

    /// What [`first_flight`](Self::first_flight) may be.
    pub(super) const FIRST_FLIGHTS: std::ops::RangeInclusive<u64> = 12_000..=4 << 20;

    /// Bytes in flight that fill the path, if it is known.
    pub(super) fn bdp(&self) -> Option<u64> {
        let (rtt, rate) = self.path.rtt.zip(self.path.to_peer.rate)?;
        // Saturates; callers clamp.
        Some(rate.bytes_in(rtt) as u64)
    }

    /// Streams that this side opens.
    pub(super) fn streams(&self) -> u16 {
        let wanted = self.window_for_bdp() / STREAM_WINDOW;
        u16::try_from(wanted)
            .unwrap_or(MAX_STREAMS)
            .clamp(STREAMS, MAX_STREAMS)
    }

    /// Unread bytes that this side holds for a peer.
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

/// The text names no congestion control that QUIC has.
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
