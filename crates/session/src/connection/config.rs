//! The settings of a connection.

use transpute_ot::{BaseOt, Extension};

/// The settings of a connection. Each side has its own; of limits the smaller counts.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// Runs that may be under way in each role, at least 32; further calls wait. Default 512: at
    /// 1 Gbit/s and a round trip of 300 ms about 280 runs of AES-128 are under way if nothing waits.
    pub max_runs: u32,
    /// Bytes of tables, of all runs together, that may be sent before the evaluator has the labels to
    /// use them; what an evaluator holds at most besides prepared runs. Default 40 MiB. Less than 1 MiB counts as 1 MiB.
    pub window: u64,
    /// Bytes of tables of prepared runs together. Default 64 MiB.
    pub prepared: u64,
    /// How oblivious transfers are extended where this side evaluates. Default `SoftSpoken4`.
    pub extension: Extension,
    /// What public-key oblivious transfer rests on, in all runs; both sides must have the same.
    pub base_ot: BaseOt,
    /// Unused transfers to have in the pool where this side evaluates; topped up when there is nothing
    /// else to do. At most 65,536; 0 extends for each run as it needs. 16 bytes each. Default 4,096.
    pub pool: u32,
    /// Bytes of answers that wait for the link above which nothing more is taken from it. Default
    /// 32 MiB: two sides that keep to the limits never come near, so neither ever waits for the other to
    /// read. Where only one side has less, it waits and the other reads.
    pub queue: u64,
    /// Bytes of runs that the peer has begun and this side has not called for, besides tables; more
    /// ends the connection. Default 16 MiB, enough for whatever a peer may begin; with less, the peer
    /// must be known not to.
    pub held: u64,
    /// Transfers that may be asked for in such runs, 16 bytes each; at most, and by default, 2^18.
    pub held_transfers: u64,
    /// Whether transfers for runs in which this side garbles are set up at once: a message of 8 KiB
    /// (296 KiB with ML-KEM) and some milliseconds. Otherwise the first such run sets them up. Default true.
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
