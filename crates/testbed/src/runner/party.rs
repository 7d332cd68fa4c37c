//! One party of a run as a process: its command line, and what it tells.

use std::{path::Path, process::Command, time::Duration};

use serde::Deserialize;

use super::{Cell, inputs::OutputValue};
use crate::{measure::Usage, row::PartyRow};

/// How a party knows itself and the other.
#[derive(Clone, Debug)]
pub(super) struct Keys<'a> {
    /// Its key file.
    pub(super) identity: &'a Path,
    /// The fingerprint of the peer.
    pub(super) peer: &'a str,
}

/// Adds to `transpute` the arguments of a party.
pub(super) fn arguments(
    command: &mut Command,
    cell: &Cell,
    role: &str,
    address: (&str, &str),
    inputs: &[String],
    keys: Option<Keys<'_>>,
    patience: Duration,
) {
    command
        .args(["run", "--json", "--role", role, address.0, address.1])
        .args(["--circuit", &cell.circuit, "--scheme", &cell.scheme])
        .args(["--transport", &cell.transport])
        .args(["--batch", &cell.batch.to_string()])
        .args(["--patience", &patience.as_secs().to_string()]);
    for input in inputs {
        command.args(["--input", input]);
    }
    match keys {
        Some(keys) => {
            command.arg("--identity").arg(keys.identity);
            command.args(["--peer", keys.peer]);
        }
        None => {
            command.arg("--plaintext");
        }
    }
}

/// What of the JSON of `transpute run` is recorded.
#[derive(Deserialize)]
pub(super) struct Report {
    transport: String,
    cipher: Option<String>,
    ot: String,
    pub(super) round_trips: f64,
    pub(super) evaluations: Vec<Vec<OutputValue>>,
    bytes: Bytes,
    times_ms: Times,
    rtt_ms: Option<f64>,
    peak_heap_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Bytes {
    sent: u64,
    received: u64,
    tables: u64,
    ot: u64,
}

#[derive(Deserialize)]
struct Times {
    connect: f64,
    handshake: f64,
    agreed: Option<f64>,
    first_labels: Option<f64>,
    first_table: Option<f64>,
    last_table: Option<f64>,
    output: Option<f64>,
    session: f64,
}

impl Report {
    /// Returns the record, with what the process took.
    pub(super) fn row(&self, process: Duration, usage: Usage) -> PartyRow {
        let times = &self.times_ms;
        PartyRow {
            transport: self.transport.clone(),
            cipher: self.cipher.clone(),
            ot: self.ot.clone(),
            connect_ms: times.connect,
            handshake_ms: times.handshake,
            agreed_ms: times.agreed,
            first_labels_ms: times.first_labels,
            first_table_ms: times.first_table,
            last_table_ms: times.last_table,
            output_ms: times.output,
            session_ms: times.session,
            sent_bytes: self.bytes.sent,
            received_bytes: self.bytes.received,
            table_bytes: self.bytes.tables,
            ot_bytes: self.bytes.ot,
            rtt_ms: self.rtt_ms,
            process_ms: process.as_secs_f64() * 1e3,
            user_s: usage.user.as_secs_f64(),
            system_s: usage.system.as_secs_f64(),
            peak_rss_bytes: usage.peak_rss_bytes,
            peak_heap_bytes: self.peak_heap_bytes,
            cycles: usage.cycles,
            instructions: usage.instructions,
        }
    }
}
