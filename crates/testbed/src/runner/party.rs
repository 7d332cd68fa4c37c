//! One party of a run as a process: its command line and its report.

use std::{
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use serde::Deserialize;

use super::inputs::OutputValue;
use crate::{
    measure::Usage,
    record::{PartyRecord, SelectionRecord},
};

/// The key of a party and the fingerprint of its peer.
#[derive(Clone, Debug)]
pub(super) struct Keys<'a> {
    /// The key file of the party.
    pub(super) identity: &'a Path,
    /// The fingerprint of the peer.
    pub(super) peer: &'a str,
}

/// The computation of a run and its transport, as arguments of `transpute run`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Computation<'a> {
    pub(super) circuit: &'a str,
    pub(super) scheme: &'a str,
    pub(super) transport: &'a str,
    pub(super) batch: u64,
}

/// Adds the arguments of a party to a `transpute` command.
pub(super) fn arguments(
    command: &mut Command,
    computation: Computation<'_>,
    role: &str,
    address: (&str, &str),
    inputs: &[String],
    keys: Option<Keys<'_>>,
    patience: Duration,
) {
    command
        .args(["run", "--json", "--role", role, address.0, address.1])
        .args(["--circuit", computation.circuit])
        .args(["--scheme", computation.scheme])
        .args(["--transport", computation.transport])
        .args(["--batch", &computation.batch.to_string()])
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

/// The fields of the JSON output of `transpute run` from which records are made.
#[derive(Deserialize)]
pub(super) struct Report {
    transport: String,
    cipher: Option<String>,
    ot: String,
    pub(super) circuit: Circuit,
    pub(super) round_trips: f64,
    pub(super) evaluations: Vec<Vec<OutputValue>>,
    bytes: Bytes,
    times_ms: Times,
    rtt_ms: Option<f64>,
    peak_heap_bytes: Option<u64>,
    /// Time at which both parties were connected, in nanoseconds since 1970 by the system's clock.
    connected_unix_ns: Option<u64>,
    /// The choice of the transport. None if this party did not choose it.
    selection: Option<Selection>,
}

#[derive(Deserialize)]
struct Selection {
    transport: String,
    chooser: String,
    reason: String,
    confidence: f64,
    decided_after_ms: f64,
    predictions: Vec<Prediction>,
    failed: Vec<Obstacle>,
}

#[derive(Deserialize)]
struct Prediction {
    transport: String,
    seconds: f64,
}

#[derive(Deserialize)]
struct Obstacle {
    transport: String,
}

#[derive(Deserialize)]
pub(super) struct Circuit {
    /// AND gates of one evaluation.
    pub(super) and: u64,
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
    /// Converts the report to its record. Adds the resources of the process. `first` is the time of
    /// the parties' first packet.
    pub(super) fn record(
        &self,
        process: Duration,
        usage: Usage,
        first_packet: Option<SystemTime>,
    ) -> PartyRecord {
        let times = &self.times_ms;
        PartyRecord {
            transport: self.transport.clone(),
            cipher: self.cipher.clone(),
            ot: self.ot.clone(),
            connect_ms: times.connect,
            handshake_ms: times.handshake,
            connected_at_ms: self.connected_at_ms(first_packet),
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

    /// Returns the chosen transport. None if the command line named a transport.
    pub(super) fn chosen(&self) -> Option<String> {
        Some(self.selection.as_ref()?.transport.clone())
    }

    /// Returns the record of the choice of the transport. None if this party did not choose it.
    pub(super) fn selection(&self) -> Option<SelectionRecord> {
        let selection = self.selection.as_ref()?;
        let mut predictions = selection.predictions.iter();
        let of_chosen = predictions.find(|other| other.transport == selection.transport)?;
        Some(SelectionRecord {
            chooser: selection.chooser.clone(),
            reason: selection.reason.clone(),
            confidence: selection.confidence,
            predicted_s: of_chosen.seconds,
            decided_after_ms: selection.decided_after_ms,
            failed: (selection.failed.iter())
                .map(|failed| failed.transport.clone())
                .collect(),
        })
    }

    fn connected_at_ms(&self, first_packet: Option<SystemTime>) -> Option<f64> {
        let first = first_packet?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        // Nanoseconds since 1970 fit into an `i128`. The difference is exact until it is rounded.
        let since = i128::from(self.connected_unix_ns?) - i128::try_from(first.as_nanos()).ok()?;
        Some(since as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_recorded_and_a_wish_is_none() {
        assert_eq!(
            report("")
                .chosen()
                .or(report("").selection().map(|s| s.reason)),
            None
        );
        let chosen = report(
            r#", "selection": {
                "transport": "tcp:cc=bbr", "chooser": "model", "reason": "because",
                "confidence": 0.9, "decided_after_ms": 12.5,
                "predictions": [
                    { "transport": "tcp", "seconds": 2.0 },
                    { "transport": "tcp:cc=bbr", "seconds": 1.0 }
                ],
                "failed": [ { "transport": "rudp", "why": "no" } ]
            }"#,
        );
        assert_eq!(chosen.chosen().unwrap(), "tcp:cc=bbr");
        let selection = chosen.selection().unwrap();
        assert_eq!(
            (selection.predicted_s, &selection.failed[..]),
            (1.0, &["rudp".to_owned()][..])
        );
    }

    fn report(connected: &str) -> Report {
        serde_json::from_str(&format!(
            r#"{{
                "transport": "tcp", "cipher": null, "ot": "direct", "round_trips": 1.0,
                "circuit": {{ "and": 5 }}, "evaluations": [],
                "bytes": {{ "sent": 1, "received": 2, "tables": 3, "ot": 4 }},
                "times_ms": {{
                    "connect": 10.0, "handshake": 20.0, "agreed": null, "first_labels": null,
                    "first_table": null, "last_table": null, "output": 50.0, "session": 51.0
                }},
                "rtt_ms": null{connected}
            }}"#
        ))
        .unwrap()
    }

    #[test]
    fn moments_are_put_on_the_clock_of_the_path() {
        let first = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_795_226_782_000_000_001);
        let record = |connected: &str, first| {
            report(connected)
                .record(Duration::ZERO, Usage::default(), first)
                .connected_at_ms
        };
        let after = r#", "connected_unix_ns": 1795226782030250001"#;
        assert_eq!(record(after, Some(first)), Some(30.25));
        let before = r#", "connected_unix_ns": 1795226781999000001"#;
        assert_eq!(record(before, Some(first)), Some(-1.0));
        assert_eq!(record(after, None), None);
        assert_eq!(record("", Some(first)), None);
    }
}
