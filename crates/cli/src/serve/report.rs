//! The output of `transpute serve`: a line for each run, and a summary at the end.

use std::time::Duration;

use serde::Serialize;
use transpute::{
    Error, Outcome,
    serve::{Memory, Request, ServeSummary},
};

use crate::output::{OutputValue, grouped, milliseconds};

/// The JSON object that `transpute serve --json` prints at the end of each run.
#[derive(Serialize)]
pub(super) struct RunLine {
    event: &'static str,
    /// The fingerprint of the peer's key or, in plaintext, its address.
    peer: String,
    address: String,
    transport: &'static str,
    /// The number of the connection on this server.
    connection: u64,
    /// The number of the run on its connection.
    run: u32,
    batch: u64,
    /// The error message if the run failed.
    error: Option<String>,
    /// Time from the start of the run to the last output, in milliseconds. If the server learns no
    /// output, the time ends with the run.
    elapsed_ms: Option<f64>,
    bytes_sent: Option<u64>,
    bytes_received: Option<u64>,
    ot: Option<String>,
    scheme: Option<String>,
    /// The output values of each evaluation. Empty if the server learns no output.
    evaluations: Vec<Vec<OutputValue>>,
}

impl RunLine {
    pub(super) fn new(request: &Request, outcome: &Result<Outcome, Error>) -> Self {
        let done = outcome.as_ref().ok();
        Self {
            event: "run",
            peer: request.peer.id().to_string(),
            address: request.peer.link.peer_address.clone(),
            transport: request.peer.link.transport,
            connection: request.peer.connection,
            run: request.number,
            batch: request.batch,
            error: outcome.as_ref().err().map(ToString::to_string),
            elapsed_ms: done.map(|outcome| milliseconds(outcome.elapsed)),
            bytes_sent: done.map(|outcome| outcome.report.bytes_sent),
            bytes_received: done.map(|outcome| outcome.report.bytes_received),
            ot: done.map(|outcome| outcome.report.ot.to_string()),
            scheme: done.map(|outcome| outcome.report.scheme.to_string()),
            evaluations: done.map_or_else(Vec::new, |outcome| {
                (outcome.evaluations.iter())
                    .map(|evaluation| OutputValue::list(&evaluation.outputs))
                    .collect()
            }),
        }
    }

    pub(super) fn text(&self) -> String {
        let Self {
            connection,
            run,
            peer,
            ..
        } = self;
        let end = match (&self.error, self.elapsed_ms) {
            (Some(error), _) => format!("failed: {error}"),
            (None, Some(elapsed)) => format!("done in {elapsed:.1} ms"),
            (None, None) => "done".to_owned(),
        };
        format!("connection {connection} ({peer}): run {run} {end}")
    }
}

/// The JSON object that `transpute serve --json` prints before it exits.
#[derive(Serialize)]
pub(super) struct End {
    event: &'static str,
    seconds: f64,
    connections: u64,
    max_at_once: u64,
    rejected: u64,
    broken: u64,
    runs: u64,
    evaluations: u64,
    failed: u64,
    declined: u64,
    /// Upper bound of the memory for as many connections and runs as the limits allow.
    memory_limit_bytes: u64,
    /// Upper bound of the memory for one connection, without its runs.
    memory_per_connection_bytes: u64,
    /// Upper bound of the memory for one run.
    memory_per_run_bytes: u64,
    /// Largest number of heap bytes allocated at the same time, without allocations of C libraries.
    peak_heap_bytes: u64,
    /// Peak of the resident memory of the process. `None` on systems other than Linux.
    peak_resident_bytes: Option<u64>,
}

impl End {
    pub(super) fn new(summary: &ServeSummary, memory: Memory, time: Duration) -> Self {
        Self {
            event: "summary",
            seconds: time.as_millis() as f64 / 1e3,
            connections: summary.connections,
            max_at_once: summary.max_at_once,
            rejected: summary.rejected,
            broken: summary.broken,
            runs: summary.runs,
            evaluations: summary.evaluations,
            failed: summary.failed,
            declined: summary.declined,
            memory_limit_bytes: memory.total,
            memory_per_connection_bytes: memory.per_connection,
            memory_per_run_bytes: memory.per_run,
            peak_heap_bytes: crate::HEAP.max_allocated() as u64,
            peak_resident_bytes: peak_resident(),
        }
    }

    pub(super) fn text(&self) -> String {
        let peak = match self.peak_resident_bytes {
            Some(bytes) => format!("{} MiB resident", bytes >> 20),
            None => format!("{} MiB allocated", self.peak_heap_bytes >> 20),
        };
        format!(
            "served {} runs on {} connections ({} at once) in {:.1} s; {} runs failed, {} declined; \
             {} peers rejected, {} connections broken; at most {peak}, limit {} MiB",
            grouped(self.runs),
            grouped(self.connections),
            grouped(self.max_at_once),
            self.seconds,
            grouped(self.failed),
            grouped(self.declined),
            grouped(self.rejected),
            grouped(self.broken),
            grouped(self.memory_limit_bytes >> 20),
        )
    }
}

/// Returns the peak of this process's resident memory in bytes. `None` on systems other than Linux.
fn peak_resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = (status.lines()).find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
