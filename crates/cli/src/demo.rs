//! `transpute demo`: both parties on this machine, as two processes over loopback.

use std::{
    ffi::OsString,
    fmt::Write as _,
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
use transpute::{Choice, Identity, Scheme};

use crate::{
    failure::{Failure, Kind},
    interrupt::unless_interrupted,
    output::{self, grouped},
    run::RunReport,
};

/// FIPS-197, appendix C.1.
const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const PLAINTEXT: &str = "00112233445566778899aabbccddeeff";
const CIPHERTEXT: &str = "69c4e0d86a7b0430d8cdb78070b4c55a";

const CIRCUIT: &str = "aes128";

/// How long all of it may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// The most a child may print before it is cut off.
const MAX_PRINTED: u64 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The garbling scheme: half-gates, fixed-key, prf or three-halves
    #[arg(long, default_value_t = Scheme::HalfGates)]
    scheme: Scheme,
    /// The transport, by name or auto
    #[arg(long, default_value_t = Choice::Auto, value_parser = |text: &str| text.parse::<Choice>())]
    transport: Choice,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What happened, as JSON.
#[derive(Serialize)]
struct Demo {
    ok: bool,
    key: &'static str,
    plaintext: &'static str,
    expected: &'static str,
    computed: String,
    garbler: RunReport,
    evaluator: RunReport,
}

pub(crate) fn demo(args: &Args) -> Result<(), Failure> {
    let demo = crate::block_on(unless_interrupted(async {
        (timeout(DEADLINE, run(args)).await).unwrap_or_else(|_| {
            Err(Failure::new(
                Kind::Protocol,
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
        Err(Failure::other("the evaluator computed a wrong ciphertext"))
    }
}

/// Starts both parties and waits for them. Dropping the future kills them.
async fn run(args: &Args) -> Result<Demo, Failure> {
    let cannot = |error| Failure::other("cannot prepare the demo").because(error);
    let folder = tempfile::Builder::new()
        .prefix("transpute-demo-")
        .tempdir()
        .map_err(cannot)?;
    let [garbler_key, evaluator_key] = ["garbler.key", "evaluator.key"];
    let garbler_is = new_identity(&folder.path().join(garbler_key))?;
    let evaluator_is = new_identity(&folder.path().join(evaluator_key))?;

    // The garbler listens: its first tables then travel with the end of the handshake.
    let mut garbler = Party::start(args, folder.path(), garbler_key, &evaluator_is, |command| {
        command
            .args(["--role", "garbler", "--listen", "127.0.0.1:0"])
            .args(["--input", &format!("0=hex:{KEY}")]);
    })?;
    let address = garbler.listening_on().await?;
    let evaluator = Party::start(args, folder.path(), evaluator_key, &garbler_is, |command| {
        command
            .args(["--role", "evaluator", "--connect", &address])
            .args(["--input", &format!("1=hex:{PLAINTEXT}")]);
    })?;
    let (garbler, evaluator) =
        tokio::try_join!(garbler.finish("garbler"), evaluator.finish("evaluator"))?;
    let computed = match &evaluator.outputs[..] {
        [ciphertext] => ciphertext.hex.clone(),
        _ => String::new(),
    };
    folder.close().map_err(cannot)?;
    Ok(Demo {
        ok: computed == CIPHERTEXT && garbler.outputs.is_empty(),
        key: KEY,
        plaintext: PLAINTEXT,
        expected: CIPHERTEXT,
        computed,
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

/// A child process that runs one party; killed on drop.
struct Party {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Party {
    fn start(
        args: &Args,
        folder: &Path,
        key: &str,
        peer: &str,
        part: impl FnOnce(&mut Command),
    ) -> Result<Self, Failure> {
        let cannot = |error| Failure::other("cannot start a party").because(error);
        let program = std::env::current_exe().map_err(cannot)?;
        let mut command = Command::new(program);
        command
            .args(["run", "--json", "--circuit", CIRCUIT, "--peer", peer])
            .args(["--scheme".into(), OsString::from(args.scheme.to_string())])
            .args(["--transport", &args.transport.to_string()])
            .arg("--identity")
            .arg(folder.join(key))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        part(&mut command);
        let mut child = command.spawn().map_err(cannot)?;
        let Some(stderr) = child.stderr.take() else {
            return Err(Failure::other("a party has no standard error"));
        };
        Ok(Self {
            child,
            stderr: BufReader::new(stderr),
        })
    }

    /// Waits until the party listens.
    async fn listening_on(&mut self) -> Result<String, Failure> {
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            let read = (&mut self.stderr)
                .take(MAX_PRINTED)
                .read_line(&mut line)
                .await
                .map_err(|error| Failure::other("cannot read from a party").because(error))?;
            if let Some(address) = line.trim_end().strip_prefix("listening on ") {
                return Ok(address.to_owned());
            }
            printed.push_str(&line);
            if read == 0 || printed.len() as u64 > MAX_PRINTED {
                return Err(self.failed("garbler", &printed).await);
            }
        }
    }

    /// Waits for the end of the party and reads what it has to tell.
    async fn finish(mut self, role: &str) -> Result<RunReport, Failure> {
        let stdout = self.child.stdout.take();
        let (told, complaints) = tokio::join!(
            async {
                match stdout {
                    Some(stdout) => read_all(stdout).await,
                    None => String::new(),
                }
            },
            read_all(&mut self.stderr),
        );
        let status = self.child.wait().await;
        if !status.is_ok_and(|status| status.success()) {
            return Err(self.failed(role, &complaints).await);
        }
        serde_json::from_str(&told)
            .map_err(|error| Failure::other(format!("the {role} printed no report")).because(error))
    }

    /// Makes a failure of what a party that ended has printed, with its exit code.
    async fn failed(&mut self, role: &str, printed: &str) -> Failure {
        let code = self
            .child
            .wait()
            .await
            .ok()
            .as_ref()
            .and_then(ExitStatus::code);
        let kind = [
            Kind::Usage,
            Kind::File,
            Kind::Peer,
            Kind::Disagreement,
            Kind::Protocol,
        ]
        .into_iter()
        .find(|kind| Some(*kind as i32) == code)
        .unwrap_or(Kind::Other);
        let last = printed.lines().last().unwrap_or("it said nothing");
        let reason = last.strip_prefix("error: ").unwrap_or(last);
        Failure::new(kind, format!("the {role} failed: {reason}"))
    }
}

/// Reads to the end; what cannot be read is missing.
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
        line("garbler", format!("held the key        {}", self.key));
        line(
            "evaluator",
            format!("held the plaintext  {}", self.plaintext),
        );
        line("computed", format!("AES-128 ciphertext  {}", self.computed));
        line("expected", format!("by FIPS-197 C.1     {}", self.expected));
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
                "{} AND and {} XOR gates, garbled with {}",
                grouped(report.circuit.and),
                grouped(report.circuit.xor),
                report.scheme,
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
        text
    }
}
