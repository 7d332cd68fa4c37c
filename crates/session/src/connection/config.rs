//! The settings of a connection.

use std::num::NonZeroU64;

use transpute_ot::{BaseOt, Extension};

/// The settings of a connection for many runs. Both sides may have different settings, except for
/// `base_ot` and `runs`. For `max_runs`, `window` and `prepared`, the smaller value of both sides
/// applies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionConfig {
    /// Number of runs of the connection, if it is fixed. If it is fixed on both sides, both must
    /// have the same number; otherwise the connection fails before the first run. It is 1 for a
    /// connection for a single run. Default `None`.
    pub runs: Option<NonZeroU64>,
    /// Maximum number of active runs in each role. Further runs wait. Minimum 32, default 512. To
    /// fill a path with 1 Gbit/s and a round-trip time of 300 ms, about 280 active runs of AES-128
    /// are needed.
    pub max_runs: u32,
    /// Flow-control window for tables of all runs together, in bytes. The garbler may send this
    /// many bytes of tables before the evaluator has the input labels for them. The evaluator
    /// buffers at most this many, in addition to prepared runs. Default 40 MiB, minimum 1 MiB.
    pub window: u64,
    /// Maximum total number of bytes of tables of prepared runs. Default 64 MiB.
    pub prepared: u64,
    /// The OT extension of the pool for runs in which this side evaluates. Default `SoftSpoken4`.
    pub extension: Extension,
    /// The public-key scheme of base oblivious transfer in all runs. Both sides must have the same.
    pub base_ot: BaseOt,
    /// Target number of transfers in the random-OT pool for runs in which this side evaluates. The
    /// connection fills the pool when it has no other work. With 0, transfers are computed when a
    /// run needs them. Each transfer takes 16 bytes of memory. Default 4,096, maximum 65,536.
    pub pool: u32,
    /// Maximum number of bytes of queued frames, such as answers to transfers, that wait to be
    /// sent. At this limit, this side stops reading frames. Two honest sides with the default of 32
    /// MiB never reach it, so no deadlock is possible. Set a lower value on one side only: that
    /// side then waits while the other reads.
    pub queue: u64,
    /// Maximum number of bytes, without tables, that this side stores for runs that the peer has
    /// started and this side has not called for. More bytes end the connection. The default of
    /// 16 MiB is enough for all runs that a peer may start.
    pub held: u64,
    /// Maximum number of pooled transfers, of 16 bytes each, in runs that the peer has started and
    /// this side has not called for. Default and maximum 2^18.
    pub held_transfers: u64,
    /// Whether this side, when the connection opens, sets up the random-OT pool for runs in which
    /// it garbles. The set-up takes a message of 8 KiB (296 KiB with ML-KEM) and some milliseconds
    /// of computing. If false, the first run that can use the pool sets it up. Default true.
    pub garbles: bool,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            runs: None,
            max_runs: 512,
            window: 40 << 20,
            prepared: 64 << 20,
            extension: Extension::SoftSpoken4,
            base_ot: BaseOt::default(),
            pool: 4096,
            queue: 32 << 20,
            held: 16 << 20,
            held_transfers: 1 << 18,
            garbles: true,
        }
    }
}
