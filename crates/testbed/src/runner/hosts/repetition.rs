//! Executes one run between two hosts, and returns the record.

use std::{
    collections::HashMap, ffi::OsString, path::Path, process::Command, sync::atomic::AtomicBool,
    time::SystemTime,
};

use serde::Deserialize;

use super::{
    super::{
        error::RunError,
        inputs::{CircuitInputs, InputMaker},
        options::MatrixOptions,
        party::{self, Computation, Keys},
        repetition::{
            Identities, Stop, achieved_mbit, check_outputs, failed, garbler_deadline, report_of,
        },
    },
    error::HostError,
    matrix::HostsCell,
    record::{HostRecord, HostsMeasured, HostsPath, HostsRecord},
    ssh::{Host, PROGRAM, RemoteParty},
};
use crate::{
    measure::{Deadline, MeasureError},
    record::{Environment, RECORD_FORMAT},
};

/// A host with the copied files, and with its description.
pub(super) struct Prepared {
    pub(super) host: Host,
    pub(super) environment: Environment,
}

/// A circuit and its inputs on both hosts.
struct CopiedCircuit {
    /// The `--circuit` arguments of the garbler and the evaluator.
    names: [String; 2],
    /// The `--input` arguments of the garbler and the evaluator.
    inputs: [Vec<String>; 2],
    /// The expected output values in hexadecimal digits.
    outputs: Vec<String>,
}

/// The state that all runs of a matrix share.
pub(super) struct HostsRunner<'a> {
    pub(super) options: &'a MatrixOptions,
    pub(super) cancel: &'a AtomicBool,
    pub(super) garbler: Prepared,
    pub(super) evaluator: Prepared,
    pub(super) identities: Identities,
    pub(super) listen: String,
    pub(super) connect: String,
    pub(super) rtt_ms: f64,
    circuits: HashMap<String, CopiedCircuit>,
}

/// The name of a party's key file in the temporary directory of its host.
pub(super) const KEY: &str = "identity.key";

/// The fields of the JSON output of `transpute probe` that a matrix needs.
#[derive(Deserialize)]
struct Probe {
    path: ProbedPath,
}

#[derive(Deserialize)]
struct ProbedPath {
    rtt: ProbedRtt,
}

#[derive(Deserialize)]
struct ProbedRtt {
    min_s: f64,
}

impl<'a> HostsRunner<'a> {
    /// Measures the path between two prepared hosts.
    pub(super) fn new(
        options: &'a MatrixOptions,
        cancel: &'a AtomicBool,
        [garbler, evaluator]: [Prepared; 2],
        identities: Identities,
        [listen, connect]: [String; 2],
    ) -> Result<Self, RunError> {
        let mut runner = Self {
            options,
            cancel,
            garbler,
            evaluator,
            identities,
            listen,
            connect,
            rtt_ms: 0.0,
            circuits: HashMap::new(),
        };
        runner.rtt_ms = match runner.probe() {
            Ok(rtt_ms) => rtt_ms,
            Err(Stop::All(error)) => return Err(error),
            Err(Stop::Run(reason) | Stop::CutOff(_, reason)) => {
                return Err(HostError::NoPath {
                    garbler: runner.garbler.host.destination.clone(),
                    evaluator: runner.evaluator.host.destination.clone(),
                    address: runner.connect.clone(),
                    reason,
                }
                .into());
            }
        };
        Ok(runner)
    }

    /// Copies a circuit and the inputs of each party to their hosts.
    pub(super) fn copy_circuit(
        &mut self,
        circuit: &str,
        maker: &mut InputMaker<'_>,
    ) -> Result<(), RunError> {
        if self.circuits.contains_key(circuit) {
            return Ok(());
        }
        let CircuitInputs {
            garbler,
            evaluator,
            outputs,
        } = maker.inputs(circuit, self.cancel)?;
        let number = self.circuits.len();
        let hosts = [&self.garbler.host, &self.evaluator.host];
        let mut names = [circuit.to_owned(), circuit.to_owned()];
        if is_file(circuit) {
            let name = format!("circuit-{number}{}", ending(circuit));
            for (host, path) in hosts.iter().zip(&mut names) {
                host.copy(Path::new(circuit), &name, "600", self.cancel)?;
                *path = host.path(&name);
            }
        }
        let inputs = [
            copy_inputs(hosts[0], &garbler, self.cancel)?,
            copy_inputs(hosts[1], &evaluator, self.cancel)?,
        ];
        let copied = CopiedCircuit {
            names,
            inputs,
            outputs,
        };
        self.circuits.insert(circuit.to_owned(), copied);
        Ok(())
    }

    /// Runs the computation of `cell` once between the two hosts, and returns the record.
    pub(super) fn run(
        &mut self,
        cell: &HostsCell,
        repetition: u32,
    ) -> Result<HostsRecord, RunError> {
        let garbler = describe(&mut self.garbler, self.cancel)?;
        let evaluator = describe(&mut self.evaluator, self.cancel)?;
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let (measured, error) = match self.measure(cell) {
            Ok(measured) => (Some(measured), None),
            Err(Stop::Run(error) | Stop::CutOff(_, error)) => (None, Some(error)),
            Err(Stop::All(error)) => return Err(error),
        };
        Ok(HostsRecord {
            format: RECORD_FORMAT,
            hosts: HostsPath {
                garbler,
                evaluator,
                address: self.connect.clone(),
                rtt_ms: self.rtt_ms,
            },
            circuit: cell.circuit.clone(),
            scheme: cell.scheme.clone(),
            transport: cell.transport.clone(),
            batch: cell.batch,
            encrypted: cell.encrypted,
            repetition,
            started_unix_ms: started.map_or(0, |time| time.as_millis() as u64),
            error,
            measured,
        })
    }

    fn measure(&self, cell: &HostsCell) -> Result<HostsMeasured, Stop> {
        let Some(circuit) = self.circuits.get(&cell.circuit) else {
            return Err(Stop::All(RunError::Empty("the list of circuits")));
        };
        let patience = Deadline::new(self.options.timeout, self.cancel);
        let start = |place: usize, address: (&str, &str)| {
            let host = [&self.garbler.host, &self.evaluator.host][place];
            let role = ["garbler", "evaluator"][place];
            let key = host.path(KEY);
            let mut command = Command::new(PROGRAM);
            let keys = cell.encrypted.then_some(Keys {
                identity: Path::new(&key),
                peer: self.peer_of(place),
            });
            let computation = Computation {
                circuit: &circuit.names[place],
                scheme: &cell.scheme,
                transport: &cell.transport,
                batch: cell.batch,
            };
            party::arguments(
                &mut command,
                computation,
                role,
                address,
                &circuit.inputs[place],
                keys,
                self.options.timeout,
            );
            self.start(host, role, &command)
        };
        let mut garbler = start(0, ("--listen", &self.listen))?;
        (garbler.wait_for_line("listening on ", patience))
            .map_err(|error| failed("garbler", error))?;
        let evaluator = start(1, ("--connect", &self.connect))?.finish(patience);
        let garbler = garbler.finish(garbler_deadline(&evaluator, patience, self.cancel));
        let (evaluator, report) = report_of("evaluator", evaluator)?;
        let (garbler, garbler_report) = report_of("garbler", garbler)?;
        check_outputs(&report, cell.batch, &circuit.outputs)?;
        let evaluator = report.record(evaluator.wall, evaluator.usage, None);
        let garbler = garbler_report.record(garbler.wall, garbler.usage, None);
        let runtime_ms = evaluator.output_ms.unwrap_or(evaluator.session_ms);
        Ok(HostsMeasured {
            runtime_ms,
            total_ms: evaluator.connect_ms + evaluator.handshake_ms + runtime_ms,
            and_gates: report.circuit.and,
            round_trips: report.round_trips,
            chosen: report.chosen(),
            selection: report.selection(),
            payload_up_bytes: garbler.sent_bytes,
            payload_down_bytes: evaluator.sent_bytes,
            achieved_mbit: achieved_mbit(garbler.sent_bytes, runtime_ms),
            garbler,
            evaluator,
        })
    }

    /// Measures the path with `transpute probe`. Returns its smallest round-trip time in
    /// milliseconds.
    fn probe(&self) -> Result<f64, Stop> {
        let patience = Deadline::new(self.options.timeout, self.cancel);
        let start = |place: usize, args: &[&str]| {
            let host = [&self.garbler.host, &self.evaluator.host][place];
            let role = ["garbler", "evaluator"][place];
            let mut command = Command::new(PROGRAM);
            (command.arg("probe").args(args))
                .args(["--identity", &host.path(KEY)])
                .args(["--peer", self.peer_of(place)]);
            self.start(host, role, &command)
        };
        let mut garbler = start(0, &["--listen", &self.listen, "--once"])?;
        (garbler.wait_for_line("listening on ", patience))
            .map_err(|error| failed("garbler", error))?;
        let evaluator = start(1, &["--json", &self.connect])?.finish(patience);
        let finished = evaluator.map_err(|error| failed("evaluator", error))?;
        if !finished.status.success() {
            let complaint = finished.complaint();
            return Err(Stop::Run(format!("evaluator: {complaint}")));
        }
        match serde_json::from_str::<Probe>(&finished.stdout) {
            Ok(probe) => Ok(probe.path.rtt.min_s * 1e3),
            Err(error) => Err(Stop::Run(format!("evaluator: no measurement: {error}"))),
        }
    }

    /// Starts the arguments of a command on a host.
    fn start(&self, host: &Host, role: &str, command: &Command) -> Result<RemoteParty, Stop> {
        let args = command.get_args().map(OsString::from);
        host.start(args, self.options.timeout)
            .map_err(|error: MeasureError| failed(role, error))
    }

    /// Returns the fingerprint of the other party.
    fn peer_of(&self, place: usize) -> &str {
        [&self.identities.evaluator, &self.identities.garbler][place]
            .1
            .as_str()
    }
}

/// Returns the record of a host, with the present offset of its clock.
fn describe(prepared: &mut Prepared, cancel: &AtomicBool) -> Result<HostRecord, RunError> {
    let clock = prepared.host.clock(cancel)?;
    Ok(HostRecord {
        destination: prepared.host.destination.clone(),
        clock_offset_ms: clock.offset_ms,
        clock_uncertainty_ms: clock.uncertainty_ms,
        environment: prepared.environment.clone(),
    })
}

/// Copies the files of `--input` arguments. Returns the arguments with the paths on the host.
fn copy_inputs(
    host: &Host,
    inputs: &[String],
    cancel: &AtomicBool,
) -> Result<Vec<String>, RunError> {
    let copy = |input: &String| {
        let (index, path) = input.split_once("=@").unwrap_or(("0", input));
        let path = Path::new(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        host.copy(path, &name, "600", cancel)?;
        Ok(format!("{index}=@{}", host.path(&name)))
    };
    inputs.iter().map(copy).collect()
}

/// The endings of circuit files that `transpute` recognizes without a path separator. The last one
/// is that of source files.
const ENDINGS: [&str; 3] = [".txt", ".bristol", ".garble.rs"];

/// Returns whether `transpute` reads the circuit from a file.
fn is_file(circuit: &str) -> bool {
    circuit.contains('/') || !ending(circuit).is_empty()
}

fn ending(circuit: &str) -> &'static str {
    let mut endings = ENDINGS.into_iter();
    endings.find(|end| circuit.ends_with(end)).unwrap_or("")
}
