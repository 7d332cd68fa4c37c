//! `transpute demo`: runs both parties as two processes of this machine, connected over loopback.

mod case;

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    num::{NonZeroU64, NonZeroUsize},
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader},
    process::{Child, ChildStderr, Command},
    time::timeout,
};
use transpute::{Identity, TransportChoice};

use self::case::{AES, Case};
use crate::{
    failure::{Failure, FailureKind},
    flags::{at_least_one, parse_transport},
    interrupt::unless_interrupted,
    log,
    output::{self, grouped},
    run::RunReport,
    scheme::SchemeWish,
};

/// Maximum duration of the demo.
const DEADLINE: Duration = Duration::from_secs(30);

/// Maximum number of bytes that are read from a child process's standard output, and from its
/// standard error while it starts.
const MAX_PRINTED: u64 = 16 << 20;

#[derive(clap::Args)]
#[command(after_help = "Example:\n  transpute demo --circuit sha256 --batch 400")]
pub(crate) struct Args {
    /// The garbling scheme: half-gates, fixed-key, prf or three-halves; or auto, or auto:NAME,...:
    /// the fastest on the path
    #[arg(
        long,
        value_name = "NAME|auto[:NAME,...]",
        default_value = "half-gates"
    )]
    scheme: SchemeWish,
    /// The transport, by name or auto
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value_t = TransportChoice::Auto, value_parser = parse_transport)]
    transport: TransportChoice,
    /// The circuit: a file, or the name of a built-in one. AES-128 gets the input values of
    /// FIPS-197, C.1; other circuits get arbitrary values
    #[arg(long, value_name = "NAME|FILE", default_value = AES)]
    circuit: String,
    /// Number of evaluations
    #[arg(long, value_name = "K", default_value = "1", value_parser = at_least_one::<NonZeroU64>)]
    batch: NonZeroU64,
    /// Number of threads with which each party garbles or evaluates a batch
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one::<NonZeroUsize>)]
    threads: NonZeroUsize,
    /// Disable encryption and authentication
    #[arg(long)]
    plaintext: bool,
    /// Print one JSON object with the reports of both parties, or with the error
    #[arg(long)]
    json: bool,
}

/// The result of the demo, and the JSON object that `--json` prints.
#[derive(Serialize)]
struct Demo {
    ok: bool,
    /// All input values of the circuit, in hexadecimal digits.
    inputs: Vec<String>,
    /// Expected output values of each evaluation, in hexadecimal digits, separated by blanks.
    expected: String,
    computed: String,
    #[serde(skip)]
    authority: &'static str,
    garbler: RunReport,
    evaluator: RunReport,
}

/// Runs the demo and prints its result. `verbosity` is the number of `-v` flags, which are passed
/// on to both child processes.
pub(crate) fn demo(args: &Args, verbosity: u8) -> Result<(), Failure> {
    let demo = crate::block_on(unless_interrupted(async {
        (timeout(DEADLINE, run(args, verbosity)).await).unwrap_or_else(|_| {
            Err(Failure::new(
                FailureKind::Protocol,
                format!("the parties were not done after {} s", DEADLINE.as_secs()),
            ))
        })
    }))?;
    if args.json {
        output::print_json(&demo)?;
    } else {
        output::print(|out| out.write_all(demo.describe().as_bytes()))?;
    }
    if demo.ok {
        Ok(())
    } else {
        Err(Failure::other("the evaluator computed a wrong output"))
    }
}

/// Starts both child processes and waits until they exit. Dropping the future kills them.
async fn run(args: &Args, verbosity: u8) -> Result<Demo, Failure> {
    let case = Case::new(&args.circuit)?;
    let cannot = |error| Failure::other("cannot prepare the demo").because(error);
    let folder = tempfile::Builder::new()
        .prefix("transpute-demo-")
        .tempdir()
        .map_err(cannot)?;
    let [garbler_key, evaluator_key] = ["garbler.key", "evaluator.key"];
    let garbler_is = new_identity(&folder.path().join(garbler_key))?;
    let evaluator_is = new_identity(&folder.path().join(evaluator_key))?;

    // Inputs are passed in files, because Linux limits an argument to 128 KiB.
    let mut inputs = Vec::new();
    for (number, value) in case.inputs.iter().enumerate() {
        let file = folder.path().join(number.to_string());
        fs::write(&file, format!("hex:{value}")).map_err(cannot)?;
        inputs.push(format!("{number}=@{}", file.display()));
    }
    // By default, input value 0 belongs to the garbler and all others to the evaluator.
    let (garblers, evaluators) = inputs.split_at(inputs.len().min(1));

    // The garbler listens. So it can send its first tables together with the end of the handshake.
    let party = |role, key, peer: &str, part: &dyn Fn(&mut Command)| {
        Party::start(args, verbosity, role, &folder.path().join(key), peer, part)
    };
    let mut garbler = party("garbler", garbler_key, &evaluator_is, &|command| {
        command.args(["--listen", "127.0.0.1:0"]);
        command.args(garblers.iter().flat_map(|input| ["--input", input]));
    })?;
    let address = garbler.listening_on().await?;
    let evaluator = party("evaluator", evaluator_key, &garbler_is, &|command| {
        command.args(["--connect", &address]);
        command.args(evaluators.iter().flat_map(|input| ["--input", input]));
    })?;
    let (garbler, evaluator) = tokio::try_join!(garbler.finish(), evaluator.finish())?;
    folder.close().map_err(cannot)?;
    let computed: Vec<_> = (evaluator.outputs.iter().map(|value| value.hex.as_str())).collect();
    Ok(Demo {
        ok: case.is_answered_by(&evaluator, args.batch) && garbler.outputs.is_empty(),
        expected: case.outputs.join(" "),
        computed: computed.join(" "),
        authority: case.authority,
        inputs: case.inputs,
        garbler,
        evaluator,
    })
}

fn new_identity(path: &Path) -> Result<String, Failure> {
    let identity = Identity::generate().and_then(|identity| {
        identity.save(path)?;
        Ok(identity)
    });
    match identity {
        Ok(identity) => Ok(identity.fingerprint().to_string()),
        Err(error) => Err(Failure::other("cannot make an identity").because(error)),
    }
}

/// A child process that runs one party. It is killed on drop.
struct Party {
    role: &'static str,
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// Whether the child's standard error is printed, because it contains log messages.
    is_logging: bool,
}

impl Party {
    fn start(
        args: &Args,
        verbosity: u8,
        role: &'static str,
        key: &Path,
        peer: &str,
        part: &dyn Fn(&mut Command),
    ) -> Result<Self, Failure> {
        let cannot = |error| Failure::other("cannot start a party").because(error);
        let program = std::env::current_exe().map_err(cannot)?;
        let mut command = Command::new(program);
        command
            .args(["run", "--json", "--role", role, "--circuit", &args.circuit])
            .args((0..verbosity).map(|_| "-v"))
            .args(["--batch", &args.batch.to_string()])
            .args(["--threads", &args.threads.to_string()])
            .args(["--scheme".into(), OsString::from(args.scheme.to_string())])
            .args(["--transport", &args.transport.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if args.plaintext {
            command.arg("--plaintext");
        } else {
            command.args(["--peer", peer]).arg("--identity").arg(key);
        }
        part(&mut command);
        let mut child = command.spawn().map_err(cannot)?;
        let Some(stderr) = child.stderr.take() else {
            return Err(Failure::other("a party has no standard error"));
        };
        Ok(Self {
            role,
            child,
            stderr: BufReader::new(stderr),
            is_logging: verbosity > 0 || std::env::var_os(log::VARIABLE).is_some(),
        })
    }

    /// Waits until the child process listens, and returns the address on which it listens.
    async fn listening_on(&mut self) -> Result<String, Failure> {
        let mut printed = String::new();
        loop {
            let line = self.line().await;
            if let Some(address) = line.trim_end().strip_prefix("listening on ") {
                return Ok(address.to_owned());
            }
            printed.push_str(&line);
            if line.is_empty() || printed.len() as u64 > MAX_PRINTED {
                return Err(self.failed(&printed).await);
            }
        }
    }

    /// Reads a line from the child's standard error. Prints the line if logging is on. Returns an
    /// empty string at the end of the stream.
    async fn line(&mut self) -> String {
        let mut bytes = Vec::new();
        let mut stderr = (&mut self.stderr).take(MAX_PRINTED);
        // A read error is treated like the end of the stream.
        let _ = stderr.read_until(b'\n', &mut bytes).await;
        let line = String::from_utf8_lossy(&bytes).into_owned();
        if self.is_logging && !line.is_empty() {
            output::note(format!("{}: {}", self.role, line.trim_end()));
        }
        line
    }

    /// Waits until the child process exits, and parses the report that it printed.
    async fn finish(mut self) -> Result<RunReport, Failure> {
        let stdout = self.child.stdout.take();
        let (told, complaints) = tokio::join!(
            async {
                match stdout {
                    Some(stdout) => read_all(stdout).await,
                    None => String::new(),
                }
            },
            async {
                let mut last = String::new();
                loop {
                    match self.line().await {
                        line if line.is_empty() => return last,
                        line => last = line,
                    }
                }
            },
        );
        let status = self.child.wait().await;
        if !status.is_ok_and(|status| status.success()) {
            return Err(self.failed(&complaints).await);
        }
        serde_json::from_str(&told).map_err(|error| {
            Failure::other(format!("the {} printed no report", self.role)).because(error)
        })
    }

    /// Waits until the child process exits. Returns a failure of the kind that its exit code
    /// states, with the last line of `printed` as its message.
    async fn failed(&mut self, printed: &str) -> Failure {
        let role = self.role;
        let code = self
            .child
            .wait()
            .await
            .ok()
            .as_ref()
            .and_then(ExitStatus::code);
        let kind = [
            FailureKind::Usage,
            FailureKind::File,
            FailureKind::Peer,
            FailureKind::Disagreement,
            FailureKind::Protocol,
        ]
        .into_iter()
        .find(|kind| Some(*kind as i32) == code)
        .unwrap_or(FailureKind::Other);
        let last = printed.lines().last().unwrap_or("it said nothing");
        let reason = last.strip_prefix("error: ").unwrap_or(last);
        Failure::new(kind, format!("the {role} failed: {reason}"))
    }
}

/// Reads text until the end of the stream, a read error, or [`MAX_PRINTED`] bytes.
async fn read_all(reader: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    let _ = reader.take(MAX_PRINTED).read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Demo {
    fn describe(&self) -> String {
        let (report, times) = (&self.evaluator, &self.evaluator.times_ms);
        let bytes = &report.bytes;
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<12}{value}");
        };
        for (number, value) in self.inputs.iter().enumerate() {
            let party = if number == 0 { "garbler" } else { "evaluator" };
            line(
                party,
                format!("held input value {number}  {}", shortened(value)),
            );
        }
        line(
            "computed",
            format!("{:<18}  {}", "the output", shortened(&self.computed)),
        );
        line(
            "expected",
            format!("{:<18}  {}", self.authority, shortened(&self.expected)),
        );
        line(
            "result",
            if self.ok {
                "correct; neither process saw the other's input".to_owned()
            } else {
                "WRONG".to_owned()
            },
        );
        line(
            "circuit",
            format!(
                "{}: {} AND and {} XOR gates, garbled with {}, {} time{}",
                report.circuit.name,
                grouped(report.circuit.and),
                grouped(report.circuit.xor),
                report.scheme,
                grouped(report.batch),
                if report.batch == 1 { "" } else { "s" },
            ),
        );
        line("transport", report.via());
        line(
            "protection",
            report.cipher.clone().unwrap_or_else(|| "none".to_owned()),
        );
        line(
            "bytes",
            format!(
                "{} from the garbler, {} from the evaluator; tables {}, \
                 transfer of inputs {} ({})",
                grouped(bytes.received),
                grouped(bytes.sent),
                report.tables(),
                grouped(bytes.ot),
                report.ot,
            ),
        );
        line(
            "rounds",
            format!("{} from connected to output", report.round_trips()),
        );
        line(
            "times",
            format!(
                "connect {:.1} ms, handshake {:.1} ms, then first table {:.1} ms, output {:.1} ms",
                times.connect,
                times.handshake,
                times.first_table.unwrap_or_default(),
                times.output.unwrap_or(times.session),
            ),
        );
        if let Some(rate) = report.mega_and_per_second {
            line(
                "speed",
                format!("{rate:.1} M AND gates/s from connected to output"),
            );
        }
        text
    }
}

/// Replaces the middle of more than 70 digits by "...".
fn shortened(digits: &str) -> String {
    match (
        digits.get(..30),
        digits.get(digits.len().saturating_sub(30)..),
    ) {
        (Some(first), Some(last)) if digits.len() > 70 => format!("{first}...{last}"),
        _ => digits.to_owned(),
    }
}
