//! What a serving party gives its peers at most, and the memory that takes.

use std::time::Duration;

use transpute_driver::DriverOptions;
use transpute_ot::{BASE_COUNT, BaseOt};
use transpute_session::{ConnectionConfig, OtPlan, Role};

use super::Offered;

/// What a serving party gives its peers at most.
///
/// A peer over a limit of connections is told [`AbortReason::Busy`](transpute_session::AbortReason::Busy) and
/// disconnected; runs over a limit wait for their turn, first come, first served.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections in all. Default 512.
    pub max_connections: usize,
    /// Connections of one peer: of one pinned key or, without keys, one address. Default 8.
    pub max_per_peer: usize,
    /// Runs that are computed at the same time in all. A peer that stalls holds its places until
    /// [`stall`](Self::stall), and one that carries just enough until [`run_time`](Self::run_time): this should be
    /// several times what one peer may have. More than a few for each processor only make every one slower. Default 128.
    pub runs_at_once: usize,
    /// Runs that are computed at the same time on one connection. Default 4.
    pub runs_per_connection: usize,
    /// How long a connection may be without a run before it is closed. Default 60 s.
    pub idle: Duration,
    /// For how long runs may wait for the peer while the connection carries less than 1 KiB of oblivious transfers,
    /// labels, tables and outputs, before it is cut. Signs of life, and calls for runs that are declined, do not count.
    /// Default 30 s.
    pub stall: Duration,
    /// How long one run may take, the wait for inputs included, before it is given up. Default 5 min.
    pub run_time: Duration,
    /// How long a peer may take to say its first words, and to answer when the connection is to be closed. Default 10 s.
    pub first_words: Duration,
    /// When the party stops serving, how long runs under way may still take. Default 10 s.
    pub drain: Duration,
    /// Bytes of tables that a peer may send ahead on a connection, where this side evaluates; at least 1 MiB, the
    /// default. A garbling party holds none.
    pub window: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 512,
            max_per_peer: 8,
            runs_at_once: 128,
            runs_per_connection: 4,
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(30),
            run_time: Duration::from_secs(300),
            first_words: Duration::from_secs(10),
            drain: Duration::from_secs(10),
            window: 1 << 20,
        }
    }
}

/// Runs that a peer may begin on a connection: the fewest that the protocol knows. Those above
/// [`Limits::runs_per_connection`] wait here.
const MAX_RUNS: u32 = 32;

/// Answers that may wait on a connection whose peer does not read.
const QUEUE: u64 = 1 << 20;

/// The longest message that does not grow with the computation: a piece of outputs, with its number.
const PIECE: u64 = (64 << 10) + 64;

/// Transfers that one message is about at most.
const TRANSFERS: u64 = 8192;

/// A buffer of the driver: see `inbox` and `outbox` of the driver crate.
const BUFFER: u64 = (256 << 10) + 256;

/// What a run takes besides what grows with its circuit: cipher schedules, queues, its share of a send buffer.
const RUN: u64 = 64 << 10;

/// What a connection takes besides what is counted: the touched part of a thread's stack, TLS and the transport's state.
const CONNECTION: u64 = 512 << 10;

/// Transfers of a run that may be answered ahead of its tables.
const ADOPTED: u64 = 1 << 19;

/// Labels that stand side by side in a batch.
const LANES: u64 = 8;

/// The memory that serving takes at most, in bytes, whatever the peers do; see [`Limits::memory`].
///
/// What the operating system buffers for sockets is not in it, nor what a transport over UDP holds of a peer's data while
/// this side does not read, nor the programs and the application.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Memory {
    /// For each connection, without runs.
    pub per_connection: u64,
    /// For each run that is computed.
    pub per_run: u64,
    /// For all connections and runs that may be at the same time.
    pub total: u64,
}

impl Limits {
    /// Returns the memory that serving these computations takes at most, with this base OT. Peers that keep to the protocol
    /// make it take a small part of this.
    #[must_use]
    pub fn memory(&self, offered: &[Offered], base: BaseOt) -> Memory {
        let own = ConnectionConfig {
            base_ot: base,
            ..ConnectionConfig::default()
        };
        let config = self.connection(&own, offered);
        let evaluates = evaluates(offered);
        let frame = self.max_payload(offered, base);
        // Received: the buffer that is read into, four kept for later, and one for each frame that waits for the
        // computing thread, or is with it.
        let inbox = (1 + 4 + 9) * BUFFER.max(frame);
        // Sent: five buffers, each below 128 KiB before the last message went in. They grow by doubling.
        let answer = longest(offered, |one| answer(one, base));
        let outbox = 5 * 2 * ((128 << 10) + answer.max(chunk(offered)).max(PIECE));
        let held = 2 * (config.held + 16 * config.held_transfers);
        // Unused transfers, in a queue that grows by doubling, and one message more.
        let pool = 2 * 16 * (65_536 + TRANSFERS) + 2 * 64 * u64::from(config.pool);
        // Tables that were sent ahead, and those that could be evaluated. A frame keeps its buffer, which is at most eight
        // times as long.
        let tables = if evaluates {
            8 * (config.window + (4 << 20) + frame)
        } else {
            0
        };
        let per_connection = inbox + outbox + QUEUE + answer + held + pool + tables + CONNECTION;
        let per_run = longest(offered, |one| run(one, base));
        let runs = (self.runs_at_once as u64)
            .min((self.max_connections as u64).saturating_mul(self.runs_per_connection as u64));
        Memory {
            per_connection,
            per_run,
            total: (self.max_connections as u64)
                .saturating_mul(per_connection)
                .saturating_add(runs.saturating_mul(per_run)),
        }
    }

    /// Returns the settings of each connection.
    pub(super) fn connection(
        &self,
        own: &ConnectionConfig,
        offered: &[Offered],
    ) -> ConnectionConfig {
        // In each run that waits: hello, direct transfers or corrections, and 128 bytes more for each frame.
        let run = |offered: &Offered| {
            let transfers = transfers(offered);
            let tables = match offered.role {
                Role::Garbler => 0,
                // What comes with tables: their numbers, other labels, and decoding information.
                Role::Evaluator => self.window() + 256 * (self.window() / chunk_of(offered) + 1),
            };
            let frames = 4 + transfers.div_ceil(TRANSFERS);
            1024 + transfers / 8 + 256 * frames + tables
        };
        let run = longest(offered, run);
        let transfers = longest(offered, transfers);
        let runs = u64::from(self.max_runs());
        // The base-OT messages of the runs that are held: as many as peers begin before the pool is there, or two that peers demand.
        let most = longest(offered, direct(own.base_ot)).max(BASE_COUNT as u64);
        let direct = 2 * OtPlan::DIRECT_LIMIT.max(most) * own.base_ot.receiver_len(1) as u64;
        ConnectionConfig {
            max_runs: self.max_runs(),
            window: if evaluates(offered) {
                self.window()
            } else {
                own.window
            },
            prepared: 0,
            queue: QUEUE,
            // A party that only garbles needs none for its own inputs.
            pool: if evaluates(offered) { own.pool } else { 0 },
            held: (direct + runs.saturating_mul(run)).min(own.held),
            held_transfers: runs.saturating_mul(transfers).min(own.held_transfers),
            // The first run sets transfers up, on the thread that computes: the opening, and signs of life, leave before.
            garbles: false,
            ..own.clone()
        }
    }

    /// Returns how connections are driven.
    pub(super) fn driver(
        &self,
        own: &DriverOptions,
        offered: &[Offered],
        base: BaseOt,
    ) -> DriverOptions {
        DriverOptions {
            max_payload: own
                .max_payload
                .min(self.max_payload(offered, base) as usize),
            ..*own
        }
    }

    fn max_runs(&self) -> u32 {
        let runs = u32::try_from(self.runs_per_connection).unwrap_or(u32::MAX);
        MAX_RUNS.max(runs)
    }

    fn window(&self) -> u64 {
        self.window.max(1 << 20)
    }

    /// Returns the longest payload that a peer has reason to send.
    fn max_payload(&self, offered: &[Offered], base: BaseOt) -> u64 {
        let tables = if evaluates(offered) {
            chunk(offered).max(answer_of_peers(offered)) + 64
        } else {
            0
        };
        // The longest extension of the pool: 8,192 transfers by IKNP.
        let extension = TRANSFERS * 16 + 64;
        // Direct transfers of a run, or those that the pool begins with, and what answers them.
        let direct = longest(offered, direct(base)).max(BASE_COUNT as u64) as usize;
        let public_key = base.receiver_len(direct).max(base.sender_len(direct)) as u64;
        PIECE.max(tables).max(extension).max(public_key + 64)
    }
}

fn evaluates(offered: &[Offered]) -> bool {
    offered.iter().any(|one| one.role == Role::Evaluator)
}

fn chunk_of(offered: &Offered) -> u64 {
    u64::from(offered.config.chunk_len).max(64)
}

fn chunk(offered: &[Offered]) -> u64 {
    longest(offered, chunk_of)
}

/// Returns the most that any of these takes.
fn longest(offered: &[Offered], of: impl Fn(&Offered) -> u64) -> u64 {
    offered.iter().map(of).max().unwrap_or(0)
}

/// Returns how many oblivious transfers of a run may be direct.
fn direct(base: BaseOt) -> impl Fn(&Offered) -> u64 {
    move |offered| transfers(offered).min(OtPlan::direct_maximum(base))
}

/// Returns the oblivious transfers of a run.
fn transfers(offered: &Offered) -> u64 {
    (offered.split.evaluator_bits() as u64).saturating_mul(offered.max_batch)
}

/// Returns the longest answer to a message about transfers.
fn answer(offered: &Offered, base: BaseOt) -> u64 {
    match offered.role {
        Role::Garbler => {
            let public_key = base.sender_len(direct(base)(offered) as usize) as u64;
            32 * transfers(offered).min(TRANSFERS) + 64 + public_key
        }
        Role::Evaluator => 0,
    }
}

/// Returns the longest such answer that comes from a peer.
fn answer_of_peers(offered: &[Offered]) -> u64 {
    longest(offered, |one| 32 * transfers(one).min(TRANSFERS))
}

/// Returns what a run takes: labels of wires, inputs and outputs, with keys and hashes to each, of as many evaluations
/// as are garbled side by side.
fn run(offered: &Offered, base: BaseOt) -> u64 {
    let lanes = offered.max_batch.clamp(1, LANES);
    let program = &offered.program;
    let outputs: u64 = program.output_widths().iter().map(|&w| u64::from(w)).sum();
    let labels = 16 * program.slot_count() as u64 + 128 * (program.input_bits() as u64 + outputs);
    let answers = 2 * answer(offered, base);
    // With an extension of its own: labels that were answered and not garbled yet.
    let adopted = 16 * transfers(offered).min(ADOPTED);
    RUN + 2 * lanes * labels + 2 * chunk_of(offered) + answers + adopted
}

#[cfg(test)]
mod tests {
    use transpute_circuit::generators;

    use super::*;
    use crate::Party;

    #[test]
    fn a_connection_of_aes_stays_within_a_few_mebibytes() {
        let aes = Offered::new(&Party::garbler(&generators::aes128())).unwrap();
        let limits = Limits::default();
        let memory = limits.memory(std::slice::from_ref(&aes), BaseOt::Ristretto255);
        assert!(memory.per_connection < 12 << 20, "{memory:?}");
        assert!(memory.per_run < 1 << 20, "{memory:?}");
        let none = limits.memory(&[], BaseOt::Ristretto255);
        assert!(none.per_connection <= memory.per_connection);
        let kem = limits.memory(std::slice::from_ref(&aes), BaseOt::MlKem768);
        assert!(kem.per_connection > memory.per_connection, "{kem:?}");
        assert!(kem.per_connection < 24 << 20, "{kem:?}");
    }

    #[test]
    fn a_peer_within_the_protocol_is_within_the_limits() {
        let aes = Offered::new(&Party::garbler(&generators::aes128())).unwrap();
        let own = ConnectionConfig::default();
        let config = Limits::default().connection(&own, std::slice::from_ref(&aes));
        // 32 hellos with corrections, each frame with its tag and 128 bytes.
        assert!(config.held >= 32 * (206 + 128 + 12 + 16 + 128) + 256 * 64);
        assert!(config.held <= own.held);
        assert_eq!(config.held_transfers, 32 * 128);
        assert_eq!((config.max_runs, config.window), (32, own.window));
    }
}
