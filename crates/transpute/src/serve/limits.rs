//! The limits of a server, and the memory that they allow.

use std::time::Duration;

use transpute_driver::DriverOptions;
use transpute_ot::{BASE_COUNT, BaseOt};
use transpute_session::{ConnectionConfig, OtPlan, Role};

use super::Offered;

/// The limits of a server.
///
/// A peer that exceeds a limit on connections receives
/// [`AbortReason::Busy`](transpute_session::AbortReason::Busy) and is disconnected. Runs that
/// exceed a limit on runs wait, in the order of their arrival.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of connections. Default 512.
    pub max_connections: usize,
    /// Maximum number of connections per peer: per pinned key or, in plaintext, per address.
    /// Default 8.
    pub max_per_peer: usize,
    /// Maximum number of concurrent runs of all peers. Set it to several times the number of runs
    /// that one peer may have, because a slow peer holds its runs until [`stall`](Self::stall) or
    /// [`run_time`](Self::run_time) ends them. More than a few runs per processor only slow each
    /// other down. Default 128.
    pub runs_at_once: usize,
    /// Maximum number of concurrent runs of one connection. Default 4.
    pub runs_per_connection: usize,
    /// Time without a run after which a connection is closed. Default 60 s.
    pub idle: Duration,
    /// Time after which the server cuts a connection whose runs wait for the peer, if the
    /// connection carried less than 1 KiB of oblivious transfers, labels, tables and outputs in
    /// this time. Keep-alives and declined proposals are not included. Default 30 s.
    pub stall: Duration,
    /// Maximum duration of a run, and of the application's wait for its inputs. Default 5 min.
    pub run_time: Duration,
    /// Time within which a peer must open the protocol, and within which it must answer when the
    /// server closes the connection. Default 10 s.
    pub opening: Duration,
    /// Time that active runs have to complete when the server stops. Default 10 s.
    pub drain: Duration,
    /// Flow-control window for tables, in bytes, of a connection on which the server evaluates.
    /// Default and minimum 1 MiB. A server that only garbles does not use it.
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
            opening: Duration::from_secs(10),
            drain: Duration::from_secs(10),
            window: 1 << 20,
        }
    }
}

/// Number of runs that a peer may propose at the same time on a connection: the smallest limit that
/// the protocol allows. Runs above [`Limits::runs_per_connection`] wait at the server.
const MAX_RUNS: u32 = 32;

/// Maximum number of bytes that wait to be sent on a connection whose peer does not read.
const QUEUE: u64 = 1 << 20;

/// Length of the longest message whose length does not depend on the circuit, in bytes: a piece of
/// the outputs, with its header.
const PIECE: u64 = (64 << 10) + 64;

/// Maximum number of oblivious transfers in one message.
const TRANSFERS: u64 = 8192;

/// Size of a receive buffer of the driver, in bytes: `CAPACITY` in its `receive_buffer.rs`.
const BUFFER: u64 = (256 << 10) + 256;

/// Memory of a run that does not grow with its circuit, in bytes: AES key schedules, queues, and a
/// share of a send buffer.
const RUN: u64 = 64 << 10;

/// Flat estimate, in bytes, of the other memory of a connection: the used part of a thread's stack,
/// TLS, and the state of the transport.
const CONNECTION: u64 = 512 << 10;

/// Maximum number of oblivious transfers of a run that are answered before its tables are garbled.
const ADOPTED: u64 = 1 << 19;

/// Number of evaluations of a batch that are garbled together.
const LANES: u64 = 8;

/// Upper bounds of a server's memory, in bytes, from [`Limits::memory`]. They hold whatever the
/// peers do.
///
/// The bounds exclude socket buffers of the operating system, data that a transport over UDP holds
/// while this side does not read, the compiled programs, and the application.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Memory {
    /// Memory of one connection, without its runs.
    pub per_connection: u64,
    /// Memory of one run.
    pub per_run: u64,
    /// Memory of the maximum number of connections and of concurrent runs.
    pub total: u64,
}

impl Limits {
    /// Returns an upper bound of the memory of a server that offers these computations with this
    /// base OT. Honest peers cause only a small part of this memory use.
    #[must_use]
    pub fn memory(&self, offered: &[Offered], base: BaseOt) -> Memory {
        let mut own = ConnectionConfig::default();
        own.base_ot = base;
        let config = self.connection(&own, offered);
        let evaluates = evaluates(offered);
        let frame = self.max_payload(offered, base);
        // Receiving takes one buffer to read into, four spare buffers, and one buffer for each of
        // the nine frames that wait for the computing thread or are processed there.
        let inbox = (1 + 4 + 9) * BUFFER.max(frame);
        // Sending takes five buffers. Each contains less than 128 KiB before its last message is
        // added. Their capacity grows by doubling, so it may be twice the length.
        let answer = longest(offered, |one| answer(one, base));
        let outbox = 5 * 2 * ((128 << 10) + answer.max(chunk(offered)).max(PIECE));
        let held = 2 * (config.held + 16 * config.held_transfers);
        // The pool of random OTs is a queue that grows by doubling. One further message is added.
        let pool = 2 * 16 * (65_536 + TRANSFERS) + 2 * 64 * u64::from(config.pool);
        // `tables` is the memory for tables that wait for labels, and for tables that are ready to
        // be evaluated. A frame keeps its receive buffer allocated, which is at most eight times as
        // long as the frame.
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
        // Returns the bytes held for a run that waits: the hello, corrections, tables, and the
        // overhead of each frame.
        let run = |offered: &Offered| {
            let transfers = transfers(offered);
            let tables = match offered.role {
                Role::Garbler => 0,
                // Each chunk of tables comes with headers, labels and decoding information.
                Role::Evaluator => self.window() + 256 * (self.window() / chunk_of(offered) + 1),
            };
            let frames = 4 + transfers.div_ceil(TRANSFERS);
            1024 + transfers / 8 + 256 * frames + tables
        };
        let run = longest(offered, run);
        let transfers = longest(offered, transfers);
        let runs = u64::from(self.max_runs());
        // A run that waits at the server may also hold base-OT messages. A peer may send them
        // before the pool exists, or for two runs that demand direct transfers.
        let most = longest(offered, direct(own.base_ot)).max(BASE_COUNT as u64);
        let direct = 2 * OtPlan::DIRECT_LIMIT.max(most) * own.base_ot.receiver_len(1) as u64;
        let mut config = own.clone();
        config.max_runs = self.max_runs();
        if evaluates(offered) {
            config.window = self.window();
        } else {
            // Only an evaluator needs random OTs for its own inputs.
            config.pool = 0;
        }
        config.prepared = 0;
        config.queue = QUEUE;
        config.held = (direct + runs.saturating_mul(run)).min(own.held);
        config.held_transfers = runs.saturating_mul(transfers).min(own.held_transfers);
        // The first run sets up the OT extension, on the computing thread. So the set-up does not
        // delay the opening and keep-alives.
        config.garbles = false;
        config
    }

    /// Returns the driver's options for each connection.
    pub(super) fn driver(
        &self,
        own: &DriverOptions,
        offered: &[Offered],
        base: BaseOt,
    ) -> DriverOptions {
        let mut options = *own;
        options.max_payload = own
            .max_payload
            .min(self.max_payload(offered, base) as usize);
        options
    }

    fn max_runs(&self) -> u32 {
        let runs = u32::try_from(self.runs_per_connection).unwrap_or(u32::MAX);
        MAX_RUNS.max(runs)
    }

    fn window(&self) -> u64 {
        self.window.max(1 << 20)
    }

    /// Returns the longest payload that an honest peer sends, in bytes.
    fn max_payload(&self, offered: &[Offered], base: BaseOt) -> u64 {
        let tables = if evaluates(offered) {
            chunk(offered).max(answer_of_peers(offered)) + 64
        } else {
            0
        };
        // The longest extension of the pool: 8,192 transfers with IKNP.
        let extension = TRANSFERS * 16 + 64;
        // The base-OT messages of a run or of the pool, and the answers to them.
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

/// Returns the maximum of `of` over the offered computations, or 0 if there are none.
fn longest(offered: &[Offered], of: impl Fn(&Offered) -> u64) -> u64 {
    offered.iter().map(of).max().unwrap_or(0)
}

/// Returns a function for the maximum number of direct oblivious transfers of a run.
fn direct(base: BaseOt) -> impl Fn(&Offered) -> u64 {
    move |offered| transfers(offered).min(OtPlan::direct_maximum(base))
}

/// Returns the number of oblivious transfers of a run.
fn transfers(offered: &Offered) -> u64 {
    (offered.split.evaluator_bits() as u64).saturating_mul(offered.max_batch)
}

/// Returns the length, in bytes, of this side's longest answer to a message of oblivious transfer.
fn answer(offered: &Offered, base: BaseOt) -> u64 {
    match offered.role {
        Role::Garbler => {
            let public_key = base.sender_len(direct(base)(offered) as usize) as u64;
            32 * transfers(offered).min(TRANSFERS) + 64 + public_key
        }
        Role::Evaluator => 0,
    }
}

/// Returns the length, in bytes, of a peer's longest answer to a message of oblivious transfer.
fn answer_of_peers(offered: &[Offered]) -> u64 {
    longest(offered, |one| 32 * transfers(one).min(TRANSFERS))
}

/// Returns the memory of a run, in bytes. Most of the memory contains the labels of wires, inputs
/// and outputs of the evaluations that are garbled together.
fn run(offered: &Offered, base: BaseOt) -> u64 {
    let lanes = offered.max_batch.clamp(1, LANES);
    let program = &offered.program;
    let outputs: u64 = program.output_widths().iter().map(|&w| u64::from(w)).sum();
    let labels = 16 * program.slot_count() as u64 + 128 * (program.input_bits() as u64 + outputs);
    let answers = 2 * answer(offered, base);
    // If the run has its own OT extension, labels may be transferred before they are garbled.
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
        // 32 hellos with corrections. Each frame has a tag and 128 bytes of overhead.
        assert!(config.held >= 32 * (206 + 128 + 12 + 16 + 128) + 256 * 64);
        assert!(config.held <= own.held);
        assert_eq!(config.held_transfers, 32 * 128);
        assert_eq!((config.max_runs, config.window), (32, own.window));
    }
}
