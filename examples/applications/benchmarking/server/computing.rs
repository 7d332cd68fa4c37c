//! The garbled computation of the two servers, most of which is done before the figures are there.

use std::{sync::Arc, time::Duration};

use transpute::{
    Bits, Choice, Config, Connecting, Connection, Fingerprint, Identity, InputSplit, Listening,
    Party, Prepared, Program, Role, session::ConnectionConfig,
};

use crate::{circuit::circuit, failure::Failure, statistics::FIGURE_BITS};

/// Transfers of the evaluator's bits that may be in the pool.
const MAX_POOL: usize = 1 << 16;

/// This server's end of the connection, before there is one.
pub(super) struct End {
    way: Way,
    role: Role,
    companies: usize,
    and_gates: u64,
}

enum Way {
    Listening(Box<Listening>),
    Connecting(Box<Connecting>),
}

/// Who computes with whom, for how many.
pub(super) struct Terms {
    pub(super) role: Role,
    pub(super) identity: Arc<Identity>,
    pub(super) other: Fingerprint,
    pub(super) address: String,
    pub(super) transport: Choice,
    pub(super) companies: usize,
    /// How long the garbler's server may still be on its way up.
    pub(super) patience: Duration,
}

/// A connection on which tables for all companies are there.
pub(super) struct Computing {
    connection: Connection,
    prepared: Prepared,
    role: Role,
    companies: usize,
    and_gates: u64,
}

/// What a computation gave.
pub(super) struct Computed {
    /// The masked results; none at the garbler's server.
    pub(super) bits: Bits,
    /// AND gates.
    pub(super) and_gates: u64,
    /// Whether the tables were there before the figures.
    pub(super) was_prepared: bool,
    /// From the inputs to the output.
    pub(super) elapsed: Duration,
    /// Bytes that went over the connection for it, both ways.
    pub(super) bytes: u64,
    /// To be closed, when there is nothing more urgent.
    pub(super) connection: Connection,
}

impl End {
    /// Compiles the circuit, and listens if this server garbles.
    pub(super) async fn new(terms: Terms) -> Result<Self, Failure> {
        let (role, companies) = (terms.role, terms.companies);
        let program = compile(companies).await?;
        let and_gates = program.and_count();
        let transfers = (companies * FIGURE_BITS).min(MAX_POOL) as u32;
        let garbles = role == Role::Garbler;
        let party = Party::new(role, program)
            .identity(terms.identity)
            .peer(terms.other)
            .transport(terms.transport)
            .patience(terms.patience)
            .connection_config(ConnectionConfig {
                garbles,
                pool: if garbles { 0 } else { transfers },
                ..ConnectionConfig::default()
            });
        let way = if garbles {
            Way::Listening(Box::new(party.listen(&terms.address).await?))
        } else {
            Way::Connecting(Box::new(party.connect(terms.address)))
        };
        Ok(Self {
            way,
            role,
            companies,
            and_gates,
        })
    }

    /// Returns the address listened on, if this server listens.
    pub(super) fn address(&self) -> Option<String> {
        match &self.way {
            Way::Listening(party) => Some(party.local_address()),
            Way::Connecting(_) => None,
        }
    }

    /// Connects, and has the tables made and sent for the case that all companies take part.
    pub(super) async fn prepare(self) -> Result<Computing, Failure> {
        let connection = match self.way {
            Way::Listening(party) => party.open().await?,
            Way::Connecting(party) => party.open().await?,
        };
        let prepared = connection.prepare().await?;
        Ok(Computing {
            connection,
            prepared,
            role: self.role,
            companies: self.companies,
            and_gates: self.and_gates,
        })
    }
}

impl Computing {
    /// Computes the results of so many companies with this server's input bits.
    pub(super) async fn compute(self, companies: usize, input: Bits) -> Result<Computed, Failure> {
        let Self {
            connection,
            prepared,
            role,
            ..
        } = self;
        let was_prepared = companies == self.companies;
        let inputs = Box::new(vec![input]);
        let (bits, and_gates, report, elapsed) = if was_prepared {
            let outcome = prepared.run_batch(inputs).await?;
            (
                outcome.bits(),
                self.and_gates,
                outcome.report,
                outcome.elapsed,
            )
        } else {
            // Both sides drop it, so that the next calls are each other's.
            drop(prepared);
            let program = compile(companies).await?;
            let split = InputSplit::first_to_garbler(program.input_widths());
            let handle = connection.handle();
            let running = handle.run(role, program.clone(), split, Config::default(), inputs);
            let outcome = running.await?;
            let bits = outcome.outputs.into_iter().next().unwrap_or_default();
            (bits, program.and_count(), outcome.report, outcome.elapsed)
        };
        Ok(Computed {
            bits,
            and_gates,
            was_prepared,
            elapsed,
            bytes: report.bytes_sent + report.bytes_received,
            connection,
        })
    }
}

/// Makes and compiles the circuit on a thread of its own: for a thousand companies that takes a second.
async fn compile(companies: usize) -> Result<Arc<Program>, Failure> {
    let compiling = tokio::task::spawn_blocking(move || {
        circuit(companies).map(|circuit| Arc::new(Program::compile(&circuit)))
    });
    Ok(compiling.await.map_err(|_| Failure::Broken)??)
}
