//! What the caller decides about a connection.

use std::time::Duration;

use transpute_units::KnownDirection;

use crate::rate::Kind;

/// Whether losses are corrected by redundancy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum FecPolicy {
    /// As much as the measured loss asks for, a little where none was seen.
    #[default]
    Adaptive,
    /// Never: losses cost a round trip each.
    Off,
}

/// What happens when packets are lost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reliability {
    /// Their data are corrected or sent again.
    #[default]
    Repair,
    /// The connection ends with [`ClosedReason::Lost`](crate::ClosedReason::Lost), and likewise when packets overtake each
    /// other. Nothing is corrected, nothing sent again. For paths known to lose nothing; both ends should ask for it.
    Detect,
}

/// The shortest idle timeout: a blackout of 5 s and a keep-alive interval.
const MIN_IDLE_TIMEOUT: Duration = Duration::from_secs(7);

/// Settings of one end of a connection. The ends may differ in all of them.
///
/// The default suits paths up to 1 Gbit/s at 300 ms.
#[derive(Clone, Debug)]
pub struct Config {
    /// What decides how fast to send. Default: `bbr`.
    pub controller: Kind,
    /// The rate and the loss of this end's direction, as far as they are known. Too high a rate costs loss for a round trip or two.
    /// The probe train replaces the rate. Default: nothing.
    pub prior: KnownDirection,
    /// Whether to send a train of packets during the set-up, by which the other end measures the path. Costs 39 kB. Default: yes.
    pub probe: bool,
    /// Whether losses are corrected by redundancy. Default: yes.
    pub fec: FecPolicy,
    /// What happens when packets are lost. Default: repair.
    pub reliability: Reliability,
    /// Time without any authentic packet after which the connection is given up; 7 s at least, so that a blackout of 5 s
    /// cannot end a transfer. Default: 7 s.
    pub idle_timeout: Duration,
    /// After how long without sending to ask for a sign of life. `None`: never; then a connection without traffic ends
    /// by the idle timeout. Default: 2 s.
    pub keep_alive: Option<Duration>,
    /// How long to try to reach the other end by UDP. Default: 5 s.
    pub setup_timeout: Duration,
    /// The largest UDP payload to try, in bytes: 1,472 for Ethernet over IPv4 (the default), 1,452 over IPv6; more for
    /// jumbo frames. At least 1,200, which is always used to begin with. Sockets must forbid fragmentation.
    pub max_datagram: u16,
    /// How many bytes the incoming stream may hold unread, at most; 1 MiB at least. Default: 64 MiB.
    pub max_receive_window: u64,
    /// How many bytes the outgoing stream may hold unacknowledged, at most; 1 MiB at least. Default: 64 MiB.
    pub max_send_buffer: u64,
    /// How long a burst may take at the pacing rate. Longer bursts forgive later timers and need deeper queues on the
    /// path. Default: 1 ms.
    pub max_burst: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controller: Kind::default(),
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

impl Config {
    /// Returns the idle timeout that holds.
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.idle_timeout.max(MIN_IDLE_TIMEOUT)
    }
}
