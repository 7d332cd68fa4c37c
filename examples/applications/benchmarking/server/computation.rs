//! The garbled computation of the two servers. Most of the work, and the transfer of the tables, is
//! done before the figures arrive.

use std::{sync::Arc, time::Duration};

use transpute::{
    Bits, Config, Connecting, Connection, Fingerprint, Identity, InputSplit, Listening, Party,
    Prepared, Program, Role, TransportChoice, session::ConnectionConfig,
};

use crate::{circuit::circuit, failure::Failure, statistics::FIGURE_BITS};

/// Maximum number of random oblivious transfers that the servers compute ahead, one for each input
/// bit of the evaluator.
const MAX_RANDOM_OTS: usize = 1 << 16;

/// The state of the computation before the servers are connected.
pub(super) struct Unconnected {
    endpoint: Endpoint,
    role: Role,
    companies: usize,
    and_gates: u64,
}

enum Endpoint {
    Listening(Box<Listening>),
    Connecting(Box<Connecting>),
}

/// The parameters of the computation.
pub(super) struct ComputationConfig {
    pub(super) role: Role,
    pub(super) identity: Arc<Identity>,
    pub(super) other: Fingerprint,
    pub(super) address: String,
    pub(super) transport: TransportChoice,
    pub(super) companies: usize,
    /// Maximum time until the garbler's server listens. The evaluator's server retries until then.
    pub(super) patience: Duration,
}

/// The state of the computation after the tables were sent. These tables are for the case that all
/// companies take part.
pub(super) struct PreparedComputation {
    connection: Connection,
    prepared: Prepared,
    role: Role,
    companies: usize,
    and_gates: u64,
}

/// The result of a computation.
pub(super) struct ComputationResult {
    /// The results XORed with the garbler's mask. Empty at the garbler's server.
    pub(super) bits: Bits,
    /// Number of AND gates.
    pub(super) and_gates: u64,
    /// Whether the tables were sent before the figures arrived.
    pub(super) was_prepared: bool,
    /// Time from the call with the inputs until the output is known.
    pub(super) elapsed: Duration,
    /// Number of bytes sent and received over the connection for the computation.
    pub(super) bytes: u64,
    /// The connection. The caller closes it after it has sent the results to the companies.
    pub(super) connection: Connection,
}

impl Unconnected {
    /// Compiles the circuit, and listens if this server garbles.
    pub(super) async fn new(config: ComputationConfig) -> Result<Self, Failure> {
        let (role, companies) = (config.role, config.companies);
        let program = compile(companies).await?;
        let and_gates = program.and_count();
        let transfers = (companies * FIGURE_BITS).min(MAX_RANDOM_OTS) as u32;
        let garbles = role == Role::Garbler;
        let mut connection = ConnectionConfig::default();
        connection.garbles = garbles;
        connection.pool = if garbles { 0 } else { transfers };
        let party = Party::new(role, program)
            .identity(config.identity)
            .peer(config.other)
            .transport(config.transport)
            .patience(config.patience)
            .connection_config(connection);
        let endpoint = if garbles {
            Endpoint::Listening(Box::new(party.listen(&config.address).await?))
        } else {
            Endpoint::Connecting(Box::new(party.connect(config.address)))
        };
        Ok(Self {
            endpoint,
            role,
            companies,
            and_gates,
        })
    }

    /// Returns the address of the listener, if this server listens.
    pub(super) fn address(&self) -> Option<String> {
        match &self.endpoint {
            Endpoint::Listening(party) => Some(party.local_address()),
            Endpoint::Connecting(_) => None,
        }
    }

    /// Connects the servers. Then garbles the circuit for all companies and sends its tables in
    /// advance.
    pub(super) async fn prepare(self) -> Result<PreparedComputation, Failure> {
        let connection = match self.endpoint {
            Endpoint::Listening(party) => party.open().await?,
            Endpoint::Connecting(party) => party.open().await?,
        };
        let prepared = connection.prepare().await?;
        Ok(PreparedComputation {
            connection,
            prepared,
            role: self.role,
            companies: self.companies,
            and_gates: self.and_gates,
        })
    }
}

impl PreparedComputation {
    /// Computes the results of this number of companies with this server's input bits.
    pub(super) async fn compute(
        self,
        companies: usize,
        input: Bits,
    ) -> Result<ComputationResult, Failure> {
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
            // Both servers drop the prepared run, so that their next runs match.
            drop(prepared);
            let program = compile(companies).await?;
            let split = InputSplit::first_to_garbler(program.input_widths());
            let handle = connection.handle();
            let running = handle.run(role, program.clone(), split, Config::default(), inputs);
            let outcome = running.await?;
            let bits = outcome.outputs.into_iter().next().unwrap_or_default();
            (bits, program.and_count(), outcome.report, outcome.elapsed)
        };
        Ok(ComputationResult {
            bits,
            and_gates,
            was_prepared,
            elapsed,
            bytes: report.bytes_sent + report.bytes_received,
            connection,
        })
    }
}

/// Builds and compiles the circuit on a thread that may block, because this takes about a second
/// for a thousand companies.
async fn compile(companies: usize) -> Result<Arc<Program>, Failure> {
    let compiling = tokio::task::spawn_blocking(move || {
        circuit(companies).map(|circuit| Arc::new(Program::compile(&circuit)))
    });
    Ok(compiling.await.map_err(|_| Failure::Broken)??)
}
