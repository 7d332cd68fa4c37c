//! Settings of a connection.

use std::time::Duration;

use transpute_units::KnownDirection;

use crate::rate::ControllerKind;

/// Use of forward error correction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum FecPolicy {
    /// Sends parity for the measured loss, and a small amount before any loss was measured.
    #[default]
    Adaptive,
    /// No parity: each loss costs a round trip.
    Off,
}

/// Treatment of lost packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reliability {
    /// Lost data are recovered by parity or retransmitted.
    #[default]
    Repair,
    /// The connection ends with [`ClosedReason::Lost`](crate::ClosedReason::Lost) when a packet is
    /// lost or reordered. There is neither parity nor retransmission. This is for paths known not
    /// to lose packets; both ends should select it.
    Detect,
}

/// The minimum idle timeout: a blackout of 5 s plus the keep-alive interval of 2 s.
const MIN_IDLE_TIMEOUT: Duration = Duration::from_secs(7);

/// Settings of one end of a connection. The ends may differ in all of them.
///
/// The defaults suit paths of up to 1 Gbit/s with a round-trip time of 300 ms.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RudpConfig {
    /// The rate controller. Default: `bbr`.
    pub controller: ControllerKind,
    /// Rate and loss of the path from this end to the peer, if known. Too high a rate causes losses
    /// for one or two round trips. The rate that the probe train measures replaces this one.
    /// Default: none.
    pub prior: KnownDirection,
    /// Sends a probe train of 39 kB during the handshake, from which the peer measures the path.
    /// Default: yes.
    pub probe: bool,
    /// Use of forward error correction. Default: adaptive.
    pub fec: FecPolicy,
    /// Treatment of lost packets. Default: repair.
    pub reliability: Reliability,
    /// The connection ends when no authentic packet arrives for this time. It is at least 7 s, so
    /// that a blackout of 5 s does not end a transfer. Default: 7 s.
    pub idle_timeout: Duration,
    /// Time without sending after which a ping is sent. With `None`, a connection without traffic
    /// ends by the idle timeout. Default: 2 s.
    pub keep_alive: Option<Duration>,
    /// Time after which the handshake fails if it is not complete. Default: 5 s.
    pub setup_timeout: Duration,
    /// The maximum UDP payload for path MTU discovery, in bytes: 1,472 for Ethernet over IPv4 (the
    /// default), 1,452 over IPv6, more for jumbo frames. The minimum is 1,200, the initial size;
    /// the maximum is [`MAX_SEGMENT`](crate::fec::MAX_SEGMENT). Other values are changed to the
    /// limit. Sockets must forbid fragmentation.
    pub max_datagram: u16,
    /// The maximum number of unread bytes of the incoming stream, at least 1 MiB. Default: 64 MiB.
    pub max_receive_window: u64,
    /// The maximum number of unacknowledged bytes of the outgoing stream, at least 1 MiB. Default:
    /// 64 MiB.
    pub max_send_buffer: u64,
    /// The maximum size of a burst of packets, as the time that it takes at the pacing rate. With
    /// longer bursts, later timers do not reduce the rate, but the path needs deeper queues.
    /// Default: 1 ms.
    pub max_burst: Duration,
}

impl Default for RudpConfig {
    fn default() -> Self {
        Self {
            controller: ControllerKind::default(),
            prior: KnownDirection::default(),
            probe: true,
            fec: FecPolicy::default(),
            reliability: Reliability::default(),
            idle_timeout: MIN_IDLE_TIMEOUT,
            keep_alive: Some(Duration::from_secs(2)),
            setup_timeout: Duration::from_secs(5),
            max_datagram: 1472,
            max_receive_window: 64 << 20,
            max_send_buffer: 64 << 20,
            max_burst: Duration::from_millis(1),
        }
    }
}

impl RudpConfig {
    /// Returns the idle timeout, raised to the minimum if it is shorter.
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.idle_timeout.max(MIN_IDLE_TIMEOUT)
    }
}
