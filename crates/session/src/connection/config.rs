//! The settings of a connection.

use transpute_ot::{BaseOt, Extension};

/// The settings of a connection. Each side has its own. Of limits, the smaller one counts.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// Maximum number of active runs in each role, at least 32; further runs wait. Default 512. At
    /// 1 Gbit/s and a round-trip time of 300 ms, about 280 runs of AES-128 are active if nothing
    /// waits.
    pub max_runs: u32,
    /// Flow-control window of tables for all runs together, in bytes: the garbler may send as many
    /// before the evaluator has the labels for them. An evaluator holds at most this, plus prepared
    /// runs. Default 40 MiB, minimum 1 MiB.
    pub window: u64,
    /// Maximum number of bytes of tables of all prepared runs. Default 64 MiB.
    pub prepared: u64,
    /// The extension of oblivious transfers where this side evaluates. Default `SoftSpoken4`.
    pub extension: Extension,
    /// The public-key scheme of base oblivious transfer in all runs. Both sides must have the same.
    pub base_ot: BaseOt,
    /// Target size of the pool of random oblivious transfers where this side evaluates. The pool is
    /// filled when there is no other work. At most 65,536; with 0, transfers are extended for each
    /// run. Each takes 16 bytes. Default 4,096.
    pub pool: u32,
    /// Maximum number of bytes of answers that wait for the link. Above it, no more frames are
    /// read. With the default of 32 MiB, two honest sides never reach it, so they cannot wait for
    /// each other. If only one side sets a lower value, that side waits and the other reads.
    pub queue: u64,
    /// Maximum number of bytes, without tables, of runs that the peer has started and this side has
    /// not called for. More bytes end the connection. The default of 16 MiB is enough for all runs
    /// that a peer may start.
    pub held: u64,
    /// Maximum number of oblivious transfers in such runs, 16 bytes each. Maximum and default:
    /// 2^18.
    pub held_transfers: u64,
    /// Sets up the transfers of runs in which this side garbles at once: a message of 8 KiB (296
    /// KiB with ML-KEM) and some milliseconds. Otherwise the first such run sets them up. Default
    /// true.
    pub garbles: bool,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
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
