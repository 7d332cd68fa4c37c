//! `transpute run --repeat`: many runs on one connection.

use std::{
    collections::VecDeque,
    fmt::Write,
    num::NonZeroU64,
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::time::timeout;
use transpute::{
    Bits, Connection, Party, Role, Scheme, SessionError,
    driver::{RunOutcome, Running},
    session::{ConnectionConfig, Repeat},
};

use super::{Args, path::Path};
use crate::{
    failure::{Failure, FailureKind},
    interrupt::unless_interrupted,
    output::{self, OutputValue, grouped, milliseconds},
    scheme::SchemeReport,
};

/// Time that a failed connection has to send the reason to the peer. A peer that still runs answers
/// after one round trip.
const LINGER: Duration = Duration::from_secs(2);

/// Connects, runs and prints the report.
pub(super) fn run(
    args: &Args,
    party: Party,
    bits: &Bits,
    count: NonZeroU64,
) -> Result<(), Failure> {
    let program = party.program().clone();
    let party = party.expect_runs(count.get(), args.pipeline() as u64);
    let mut config = ConnectionConfig::default();
    config.runs = Some(count);
    config.garbles = args.terms.role == Role::Garbler;
    config.base_ot = args.terms.base_ot;
    let party = party.connection_config(config);
    let repeating = async {
        let connection = match (&args.listen, &args.connect) {
            (Some(address), _) => {
                let listening = party.listen(address).await?;
                if !args.quiet {
                    output::note(format!("listening on {}", listening.local_address()));
                }
                listening.open().await?
            }
            (None, Some(address)) => party.connect(address).open().await?,
            (None, None) => return Err(Failure::usage("--listen or --connect is needed")),
        };
        let call = || connection.start(Box::new(Repeat(bits.clone())));
        let wait = |running| connection.wait(running);
        let mut runs = Runs::new(args, &program);
        if let Err(failure) = runs.all(count.get(), args.pipeline(), call, wait).await {
            // Closing sends the reason to the peer.
            let _ = timeout(LINGER, connection.close()).await;
            return Err(failure);
        }
        let report = Report::new(args, &runs, &connection);
        connection.close().await?;
        if args.json {
            return output::print_json(&report);
        }
        if !args.quiet {
            output::note(report.text());
        }
        Ok(())
    };
    crate::block_on(unless_interrupted(repeating))
}

/// The runs of a connection so far.
struct Runs<'a> {
    args: &'a Args,
    program: &'a transpute::Program,
    /// Outputs of the first run.
    outputs: Vec<Vec<OutputValue>>,
    /// Number of runs whose outputs differ from those of the first run.
    others: u64,
    first: Duration,
    /// Durations of all runs but the first.
    warm: Vec<Duration>,
    /// Time from the start of the second run to the end of the last.
    warm_total: Duration,
    bytes_sent: u64,
    bytes_received: u64,
    ot: String,
    /// Scheme of the last run.
    scheme: Option<Scheme>,
}

impl<'a> Runs<'a> {
    fn new(args: &'a Args, program: &'a transpute::Program) -> Self {
        Self {
            args,
            program,
            outputs: Vec::new(),
            others: 0,
            first: Duration::ZERO,
            warm: Vec::new(),
            warm_total: Duration::ZERO,
            bytes_sent: 0,
            bytes_received: 0,
            ot: String::new(),
            scheme: None,
        }
    }

    /// Executes the first run alone, then the remaining runs, at most `most` at a time.
    async fn all(
        &mut self,
        count: u64,
        max_at_once: usize,
        call: impl Fn() -> Running,
        wait: impl AsyncFn(Running) -> Result<RunOutcome, SessionError>,
    ) -> Result<(), Failure> {
        self.note(0, wait(call()).await.map_err(|error| self.failure(error))?)?;
        let started = Instant::now();
        let mut under_way = VecDeque::new();
        let mut called = 1;
        for number in 1..count {
            while called < count && under_way.len() < max_at_once {
                under_way.push_back(call());
                called += 1;
            }
            // The queue is not empty, because a result is taken only after a run was started.
            if let Some(running) = under_way.pop_front() {
                let outcome = wait(running).await;
                self.note(
                    number,
                    outcome.map_err(|error| self.failure_of(error, number, count))?,
                )?;
            }
        }
        self.warm_total = started.elapsed();
        Ok(())
    }

    fn failure(&self, error: SessionError) -> Failure {
        Failure::of_run(error.into(), &self.args.terms.circuit)
    }

    /// Converts the error of a run. `number` is the index of the run, from 0, and `count` is the
    /// value of `--repeat`.
    ///
    /// A run fails with a bare [`SessionError::Closed`] if the peer announced that it starts no
    /// further runs. A peer that fixes the number of runs has fixed the same one, so the peer is a
    /// server that was stopped. If the connection was lost, the error is
    /// [`SessionError::Connection`].
    fn failure_of(&self, error: SessionError, number: u64, count: u64) -> Failure {
        if !matches!(error, SessionError::Closed) {
            return self.failure(error);
        }
        Failure::new(
            FailureKind::Disagreement,
            format!("the peer takes no more runs after {number} of {count}: it was stopped"),
        )
    }

    fn note(&mut self, number: u64, outcome: RunOutcome) -> Result<(), Failure> {
        self.bytes_sent += outcome.report.bytes_sent;
        self.bytes_received += outcome.report.bytes_received;
        self.scheme = Some(outcome.report.scheme);
        let outputs: Vec<_> = (outcome.outputs.iter())
            .map(|bits| self.program.split_outputs(bits))
            .collect();
        let told: Vec<_> = outputs.iter().map(|all| OutputValue::list(all)).collect();
        if number == 0 {
            self.first = outcome.elapsed;
            self.ot = outcome.report.ot.to_string();
            self.outputs = told;
        } else {
            self.warm.push(outcome.elapsed);
            if self.outputs == told {
                return Ok(());
            }
            self.others += 1;
        }
        if self.args.json {
            return Ok(());
        }
        // This side's inputs are the same each time. The peer's may differ.
        output::print(|out| {
            for (evaluation, values) in outputs.iter().enumerate() {
                let mut prefix = String::new();
                if number > 0 {
                    let _ = write!(prefix, "run {number} ");
                }
                if outputs.len() > 1 {
                    let _ = write!(prefix, "evaluation {evaluation} ");
                }
                output::write_values(out, &prefix, values)?;
            }
            Ok(())
        })
    }
}

/// The JSON output of `transpute run --repeat`.
#[derive(Serialize)]
struct Report {
    role: String,
    /// Scheme of the last run.
    scheme: String,
    /// The reason for the scheme that this party prefers now. None unless it chooses among several.
    scheme_choice: Option<SchemeReport>,
    transport: &'static str,
    circuit: String,
    peer: String,
    /// Fingerprint of the peer's key. None in plaintext.
    fingerprint: Option<String>,
    encrypted: bool,
    repeat: u64,
    pipeline: usize,
    batch: u64,
    /// Outputs of each evaluation of the first run. Empty for a party that learns none.
    evaluations: Vec<Vec<OutputValue>>,
    /// Number of runs whose outputs differ from those of the first run.
    other_outputs: u64,
    /// Kind of oblivious transfer in the first run.
    ot: String,
    bytes_sent: u64,
    bytes_received: u64,
    times_ms: Times,
    path: Path,
    /// Number of runs per second after the first run, measured from the start of the second run to
    /// the end of the last.
    warm_runs_per_second: Option<f64>,
    peak_heap_bytes: u64,
}

/// Durations of runs in milliseconds, from the call that starts a run to its last output. If this
/// party learns no output, a duration lasts until the end of the run.
#[derive(Serialize)]
struct Times {
    connect: f64,
    handshake: f64,
    first: f64,
    /// Statistics of the runs after the first. None if there was only one run.
    warm: Option<Warm>,
}

#[derive(Serialize)]
struct Warm {
    runs: usize,
    least: f64,
    median: f64,
    /// 95th percentile.
    p95: f64,
    most: f64,
}

impl Warm {
    fn of(times: &[Duration]) -> Option<Self> {
        let mut times = times.to_vec();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        // The percentile by the nearest-rank method.
        let at = |percent: usize| milliseconds(times[(times.len() * percent).div_ceil(100) - 1]);
        Some(Self {
            runs: times.len(),
            least: milliseconds(times[0]),
            median: at(50),
            p95: at(95),
            most: milliseconds(times[last]),
        })
    }
}

impl Report {
    fn new(args: &Args, runs: &Runs<'_>, connection: &Connection) -> Self {
        let link = connection.link();
        let seconds = runs.warm_total.as_secs_f64();
        Self {
            role: args.terms.role.to_string(),
            scheme: (runs.scheme).map_or_else(String::new, |scheme| scheme.to_string()),
            scheme_choice: connection.next_config().1.as_ref().map(SchemeReport::new),
            transport: link.transport,
            circuit: args.terms.circuit.clone(),
            peer: link.peer_address.clone(),
            fingerprint: link.peer_fingerprint.map(|print| print.to_string()),
            encrypted: link.encrypted,
            repeat: runs.warm.len() as u64 + 1,
            pipeline: args.pipeline(),
            batch: args.batch.map_or(1, NonZeroU64::get),
            evaluations: runs.outputs.clone(),
            other_outputs: runs.others,
            ot: runs.ot.clone(),
            bytes_sent: runs.bytes_sent,
            bytes_received: runs.bytes_received,
            times_ms: Times {
                connect: milliseconds(link.timings.connect),
                handshake: milliseconds(link.timings.handshake),
                first: milliseconds(runs.first),
                warm: Warm::of(&runs.warm),
            },
            path: Path::new(&connection.path_report()),
            warm_runs_per_second: (!runs.warm.is_empty())
                .then(|| (runs.warm.len() as f64 / seconds * 10.0).round() / 10.0),
            peak_heap_bytes: crate::HEAP.max_allocated() as u64,
        }
    }

    fn text(&self) -> String {
        let times = &self.times_ms;
        let mut text = format!(
            "{} of {}, {} runs of {} evaluations, {}, with {} over {}\nbytes: {} sent, {} received\n\
             times: connect {:.1} ms, handshake {:.1} ms, first run {:.1} ms",
            self.role,
            self.circuit,
            grouped(self.repeat),
            grouped(self.batch),
            self.scheme,
            self.peer,
            self.transport,
            grouped(self.bytes_sent),
            grouped(self.bytes_received),
            times.connect,
            times.handshake,
            times.first,
        );
        if let (Some(warm), Some(rate)) = (&times.warm, self.warm_runs_per_second) {
            let _ = write!(
                text,
                "\nwarm:  median {:.2} ms, 95 % within {:.2} ms, {:.2} to {:.2} ms, at most {} at a time: \
                 {rate} runs/s",
                warm.median, warm.p95, warm.least, warm.most, self.pipeline,
            );
        }
        if let Some(choice) = &self.scheme_choice {
            let _ = write!(text, "\nscheme: {}", choice.line(&self.scheme));
        }
        if let Some(predicted) = self.path.predicted_run_ms {
            let _ = write!(
                text,
                "\npath:  another run is predicted to take {predicted:.1} ms"
            );
        }
        if let Some(warning) = &self.path.warning {
            let _ = write!(text, "\npath:  {warning}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sorted_times() {
        let times: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        let warm = Warm::of(&times).unwrap();
        assert_eq!((warm.median, warm.p95), (50.0, 95.0));
        assert_eq!((warm.least, warm.most, warm.runs), (1.0, 100.0, 100));
        let one = Warm::of(&times[..1]).unwrap();
        assert_eq!((one.median, one.p95), (100.0, 100.0));
        assert!(Warm::of(&[]).is_none());
    }
}
