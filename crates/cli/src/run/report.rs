//! The report of `transpute run`: as JSON, and as a summary.

use std::{fmt::Write, time::SystemTime};

use serde::{Deserialize, Serialize};
use transpute::{Milestone, Program, Results, Scheme, session::Planned};

use super::Args;
use crate::{
    output::{OutputValue, grouped, milliseconds},
    scheme::SchemeReport,
    selection::SelectionReport,
};

/// The JSON output of `transpute run`.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RunReport {
    pub(crate) role: String,
    /// The scheme on which both parties agreed.
    pub(crate) scheme: String,
    /// The reason why this party preferred a scheme. None unless it chose among several.
    pub(crate) scheme_choice: Option<SchemeReport>,
    pub(crate) transport: String,
    pub(crate) transport_reason: String,
    /// The choice of the transport. None unless this party made it.
    pub(crate) selection: Option<SelectionReport>,
    pub(crate) circuit: CircuitReport,
    /// Number of evaluations.
    pub(crate) batch: u64,
    pub(crate) peer: PeerReport,
    pub(crate) encrypted: bool,
    pub(crate) cipher: Option<String>,
    /// Outputs of the first evaluation. Empty for a party that learns none.
    pub(crate) outputs: Vec<OutputValue>,
    /// Outputs of all evaluations. Empty for a party that learns none.
    pub(crate) evaluations: Vec<Vec<OutputValue>>,
    pub(crate) bytes: BytesReport,
    /// Bytes of tables per AND gate. None for a circuit without AND gates.
    pub(crate) bytes_per_and: Option<f64>,
    /// Millions of AND gates of the whole batch per second, from the connection of both parties to
    /// the last output. None for a circuit without AND gates.
    pub(crate) mega_and_per_second: Option<f64>,
    /// Round trips from the connection of both parties to the evaluator's output.
    pub(crate) round_trips: f64,
    pub(crate) ot: String,
    /// The public-key scheme of base oblivious transfer.
    pub(crate) base_ot: String,
    /// This party's plan of oblivious transfers. None unless it was made by prediction. The
    /// evaluator's plan is in use.
    pub(crate) ot_plan: Option<PlanReport>,
    pub(crate) times_ms: TimesReport,
    /// Time at which both parties were connected, in nanoseconds since 1970 by the system's clock.
    /// The times in `times_ms` count from this moment. It is late by the time that a thread
    /// takes to start.
    pub(crate) connected_unix_ns: Option<u64>,
    /// Smoothed round-trip time of the path, if the transport measures it.
    pub(crate) rtt_ms: Option<f64>,
    /// Largest number of allocated bytes of the process up to this report. It excludes allocations
    /// of C libraries (here: cryptography of the TLS handshake), stacks, code, and the allocator's
    /// reserve.
    pub(crate) peak_heap_bytes: u64,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct CircuitReport {
    pub(crate) name: String,
    pub(crate) digest: String,
    /// Widths of the input values, in bits.
    pub(crate) inputs: Vec<u32>,
    pub(crate) outputs: Vec<u32>,
    /// AND gates per evaluation.
    pub(crate) and: u64,
    pub(crate) xor: u64,
}

/// A plan of oblivious transfers: the chosen kind and the second-best kind, each with the predicted
/// time until the evaluator has the labels of its inputs.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PlanReport {
    pub(crate) chosen: String,
    pub(crate) predicted_ms: f64,
    pub(crate) runner_up: Option<String>,
    pub(crate) runner_up_ms: Option<f64>,
    /// Round-trip time of the path for which the plan was made.
    pub(crate) rtt_ms: f64,
}

impl PlanReport {
    fn new(planned: &Planned) -> Self {
        let second = planned.runner_up.as_ref();
        Self {
            chosen: planned.chosen.plan.to_string(),
            predicted_ms: milliseconds(planned.chosen.time),
            runner_up: second.map(|second| second.plan.to_string()),
            runner_up_ms: second.map(|second| milliseconds(second.time)),
            rtt_ms: milliseconds(planned.path.rtt.unwrap_or_default()),
        }
    }
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PeerReport {
    pub(crate) address: String,
    /// Fingerprint of the peer's key. `None` if the connection is not encrypted.
    pub(crate) fingerprint: Option<String>,
}

/// Numbers of bytes: of messages with their headers in each direction, of payload by purpose in
/// both directions together, and of the transport if it counts them.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct BytesReport {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) tables: u64,
    pub(crate) ot: u64,
    /// Bytes of base OTs, which are part of `ot`.
    pub(crate) base_ot: u64,
    pub(crate) labels: u64,
    pub(crate) outputs: u64,
    pub(crate) framing: u64,
    pub(crate) wire_sent: Option<u64>,
    pub(crate) wire_received: Option<u64>,
}

/// Times of a run, in milliseconds. `connect` and `handshake` are durations. All others are times
/// since both parties were connected.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct TimesReport {
    pub(crate) connect: f64,
    pub(crate) handshake: f64,
    pub(crate) agreed: Option<f64>,
    pub(crate) first_labels: Option<f64>,
    pub(crate) first_table: Option<f64>,
    pub(crate) last_table: Option<f64>,
    pub(crate) output: Option<f64>,
    pub(crate) session: f64,
}

impl RunReport {
    pub(super) fn new(
        args: &Args,
        program: &Program,
        results: &Results,
        connected: Option<SystemTime>,
    ) -> Self {
        let report = &results.report;
        let (session, traffic) = (&report.session, &report.session.traffic);
        let evaluations: Vec<_> = (results.evaluations.iter())
            .map(|evaluation| OutputValue::list(&evaluation.outputs))
            .collect();
        let at = |milestone| session.at(milestone).map(milliseconds);
        let ands = program.and_count() * report.batch;
        Self {
            role: report.role.to_string(),
            scheme: session.scheme.to_string(),
            scheme_choice: report.scheme.as_ref().map(SchemeReport::new),
            transport: report.link.transport.to_owned(),
            transport_reason: report.reason.clone(),
            selection: report.selection.as_deref().map(SelectionReport::new),
            circuit: CircuitReport {
                name: args.terms.circuit.clone(),
                digest: transpute::circuit::hex(program.digest()),
                inputs: program.input_widths().to_vec(),
                outputs: program.output_widths().to_vec(),
                and: program.and_count(),
                xor: program.xor_count(),
            },
            batch: report.batch,
            peer: PeerReport {
                address: report.link.peer_address.clone(),
                fingerprint: report.link.peer_fingerprint.map(|print| print.to_string()),
            },
            encrypted: report.link.encrypted,
            cipher: report.link.cipher.clone(),
            outputs: (results.evaluations.first())
                .map(|first| OutputValue::list(&first.outputs))
                .unwrap_or_default(),
            evaluations,
            bytes: BytesReport {
                sent: session.bytes_sent,
                received: session.bytes_received,
                tables: traffic.tables,
                ot: traffic.ot,
                base_ot: traffic.base_ot,
                labels: traffic.garbler_labels,
                outputs: traffic.outputs,
                framing: traffic.framing,
                wire_sent: report.path.path.wire_bytes_sent,
                wire_received: report.path.path.wire_bytes_received,
            },
            bytes_per_and: (ands > 0).then(|| traffic.tables as f64 / ands as f64),
            mega_and_per_second: (ands > 0)
                .then(|| (ands as f64 / report.until_output().as_secs_f64()).round() / 1e6),
            round_trips: f64::from(session.flights) / 2.0,
            ot: session.ot.to_string(),
            base_ot: session.base_ot.to_string(),
            ot_plan: session.planned.as_ref().map(PlanReport::new),
            times_ms: TimesReport {
                connect: milliseconds(report.link.timings.connect),
                handshake: milliseconds(report.link.timings.handshake),
                agreed: at(Milestone::Agreed),
                first_labels: at(Milestone::FirstLabels),
                first_table: at(Milestone::FirstTable),
                last_table: at(Milestone::LastTable),
                output: at(Milestone::LastOutput),
                session: milliseconds(session.elapsed),
            },
            connected_unix_ns: connected.and_then(|time| {
                let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
                u64::try_from(since.as_nanos()).ok()
            }),
            rtt_ms: report.path.path.rtt.map(milliseconds),
            peak_heap_bytes: crate::HEAP.max_allocated() as u64,
        }
    }

    /// Returns a summary of a few lines.
    pub(crate) fn summary(&self) -> String {
        let mut text = format!("{} of {}", self.role, self.circuit.name);
        if self.batch > 1 {
            let _ = write!(text, ", {} evaluations", grouped(self.batch));
        }
        let _ = write!(
            text,
            ": {} AND and {} XOR gates, {}",
            grouped(self.circuit.and),
            grouped(self.circuit.xor),
            self.scheme,
        );
        let peer = match (&self.peer.fingerprint, &self.cipher) {
            (Some(fingerprint), Some(cipher)) => format!("{fingerprint} ({cipher})"),
            (Some(fingerprint), None) => fingerprint.clone(),
            (None, _) => "not authenticated, not encrypted".to_owned(),
        };
        let _ = write!(text, "\npeer:  {}, {peer}", self.peer.address);
        let _ = write!(
            text,
            "\nvia:   {}{}",
            self.via(),
            (self.rtt_ms).map_or(String::new(), |rtt| format!("; round trip {rtt:.2} ms")),
        );
        let bytes = &self.bytes;
        let _ = write!(
            text,
            "\nbytes: {} sent, {} received; tables {}, transfer of inputs {} ({} on {}), \
             other labels {}, outputs {}, framing {}",
            grouped(bytes.sent),
            grouped(bytes.received),
            self.tables(),
            grouped(bytes.ot),
            self.ot,
            self.base_ot,
            grouped(bytes.labels),
            grouped(bytes.outputs),
            grouped(bytes.framing),
        );
        if let Some(choice) = &self.scheme_choice {
            let _ = write!(text, "\nscheme: {}", choice.line(&self.scheme));
        }
        if let Some(plan) = &self.ot_plan {
            let _ = write!(
                text,
                "\nplan:  inputs by {}, predicted to be there after {:.1} ms",
                plan.chosen, plan.predicted_ms,
            );
            if let (Some(second), Some(time)) = (&plan.runner_up, plan.runner_up_ms) {
                let _ = write!(text, "; by {second}, after {time:.1} ms");
            }
        }
        let times = &self.times_ms;
        let _ = write!(
            text,
            "\ntimes: connect {:.1} ms, handshake {:.1} ms, output after {:.1} ms \
             ({} at least)",
            times.connect,
            times.handshake,
            times.output.unwrap_or(times.session),
            self.round_trips(),
        );
        if let Some(rate) = self.mega_and_per_second {
            let _ = write!(text, "; {rate:.1} M AND gates/s");
        }
        text
    }

    /// Returns the name of the transport, and the reason why it was chosen, as text.
    pub(crate) fn via(&self) -> String {
        match &self.selection {
            Some(selection) => selection.line(),
            None => format!("{}: {}", self.transport, self.transport_reason),
        }
    }

    /// Returns the round trips as text.
    pub(crate) fn round_trips(&self) -> String {
        let plural = if self.round_trips == 1.0 { "" } else { "s" };
        format!("{} round trip{plural}", self.round_trips)
    }

    /// Returns the bytes of tables as text, in total and per AND gate.
    pub(crate) fn tables(&self) -> String {
        let mut text = grouped(self.bytes.tables);
        if let Some(each) = self.bytes_per_and {
            let _ = write!(text, " ({each:.3} per AND");
            if self.scheme == Scheme::Prf.to_string() {
                text.push_str(" and its share of the XOR gates");
            }
            text.push(')');
        }
        text
    }
}
