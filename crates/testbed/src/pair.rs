//! Any two programs on an emulated path.

use std::{
    io::{self, Read},
    os::unix::process::CommandExt,
    process::{Child, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;

use crate::{
    flow::Flows,
    lab::{Lab, Side, Timeline},
    live::Live,
    model::PathCounters,
    runner::RunError,
    scenario::Scenario,
};

/// How long the program on side A has to get ready before the one on side B starts.
const HEAD_START: Duration = Duration::from_millis(300);

/// How long the program on side A has to end by itself once the other has, and once more after
/// being told to.
const GRACE: Duration = Duration::from_secs(2);

/// How often somebody looks.
const TICK: Duration = Duration::from_millis(5);

/// How much of what a program prints is kept, in bytes: its end.
const MOST_OUTPUT: usize = 16 << 10;

/// How long what a program has printed may take to be read once it has ended.
const DRAIN: Duration = Duration::from_millis(200);

/// How to run two programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairOptions<'a> {
    /// How long the program on side B may take before that is an error; nothing is for ever.
    pub timeout: Option<Duration>,
    /// Where the run can be looked at while it goes on.
    pub live: Option<&'a Live>,
    /// Whether what arrived when and what the programs print is kept, instead of being printed where this process prints; they
    /// have no input then.
    pub keeps: bool,
}

/// What came of two programs.
#[derive(Clone, Debug, Serialize)]
pub struct PairReport {
    /// The exit code of the program on side A; nothing if a signal ended it, ours for example.
    pub a_code: Option<i32>,
    /// The exit code of the program on side B; nothing if a signal ended it.
    pub b_code: Option<i32>,
    /// From the start of the program on side B to its end, in seconds.
    pub seconds: f64,
    /// What happened to packets from A to B.
    pub up: PathCounters,
    /// What happened to packets from B to A.
    pub down: PathCounters,
    /// Bytes on the wire from A and from B, headers included, of what has a port of
    /// [`PARTY_PORT`](crate::lab::PARTY_PORT): with that port, the share of the programs beside cross
    /// traffic.
    pub party_bytes: [u64; 2],
    /// Packets from A and from B that the emulator was too slow to take: lost, but not by the path.
    pub overruns: [u64; 2],
    /// What arrived when, if that was to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The end of what the programs on sides A and B printed, if that was to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<[String; 2]>,
}

/// Runs a command of the shell on each side until that of side B ends; then that of side A is told
/// to end.
///
/// Both find the addresses of the sides in `TRANSPUTE_A` and `TRANSPUTE_B`, and print where this
/// process prints. When `cancel` becomes true, both are ended.
///
/// # Errors
/// [`RunError`]: the path cannot be emulated, or a command cannot be started. A command that fails
/// is no error.
pub fn run(
    scenario: &Scenario,
    commands: [&str; 2],
    cancel: &AtomicBool,
) -> Result<PairReport, RunError> {
    run_with(scenario, commands, PairOptions::default(), cancel)
}

/// Runs two commands as [`run`] does, with options.
///
/// # Errors
/// Those of [`run`]; and [`RunError::Tool`] for a command that takes too long.
pub fn run_with(
    scenario: &Scenario,
    commands: [&str; 2],
    options: PairOptions<'_>,
    cancel: &AtomicBool,
) -> Result<PairReport, RunError> {
    let mut lab = Lab::start(scenario)?;
    let shown = options.live.map(|live| live.begin(&lab, true));
    let show = |side, group: &Group| {
        if let Some(shown) = &shown {
            shown.party(side, group.shell.id());
        }
    };
    let cross = Flows::of_scenario(&lab, scenario).map_err(RunError::Flow)?;
    let mut a = Group::start(&lab, Side::A, commands[0], options.keeps)?;
    show(Side::A, &a);
    let patience = Instant::now();
    // A program that does its part and ends has had its head start.
    while patience.elapsed() < HEAD_START && a.status()?.is_none() {
        check(cancel)?;
    }
    let start = Instant::now();
    let mut b = Group::start(&lab, Side::B, commands[1], options.keeps)?;
    show(Side::B, &b);
    let b_status = loop {
        if let Some(status) = b.status()? {
            break status;
        }
        check(cancel)?;
        if options
            .timeout
            .is_some_and(|limit| start.elapsed() >= limit)
        {
            let limit = options.timeout.unwrap_or_default().as_secs_f64();
            let error = io::Error::other(format!("not done after {limit} s"));
            return Err(failed(commands[1], &error));
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let [up, down] = lab.counters();
    let a_status = a.end(cancel)?;
    drop(cross);
    drop(shown);
    Ok(PairReport {
        a_code: a_status.code(),
        b_code: b_status.code(),
        seconds,
        up,
        down,
        party_bytes: lab.party_traffic().sent_bytes,
        overruns: lab.overruns()?,
        timeline: options.keeps.then(|| lab.timeline()),
        output: options.keeps.then(|| [a.printed(), b.printed()]),
    })
}

fn check(cancel: &AtomicBool) -> Result<(), RunError> {
    thread::sleep(TICK);
    if cancel.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled);
    }
    Ok(())
}

/// A command with all that it starts. Killed on drop.
struct Group {
    shell: Child,
    command: String,
    ended: Option<ExitStatus>,
    /// What it has printed, where that is kept.
    printed: Option<Printed>,
}

/// The end of what comes out of a program.
#[derive(Clone, Debug, Default)]
struct Printed {
    text: Arc<Mutex<Vec<u8>>>,
    streams: Vec<Arc<AtomicBool>>,
}

impl Printed {
    /// Reads a stream on a thread of its own, which ends with the last process that has the stream.
    fn read(&mut self, mut stream: impl Read + Send + 'static) {
        let over = Arc::new(AtomicBool::new(false));
        let (text, done) = (Arc::clone(&self.text), Arc::clone(&over));
        self.streams.push(over);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => {
                        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                        text.extend_from_slice(&buffer[..read]);
                        let superfluous = text.len().saturating_sub(MOST_OUTPUT);
                        text.drain(..superfluous);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    fn text(&self) -> String {
        let start = Instant::now();
        let is_open = || !(self.streams.iter()).all(|over| over.load(Ordering::Relaxed));
        while is_open() && start.elapsed() < DRAIN {
            thread::sleep(Duration::from_millis(1));
        }
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Group {
    fn start(lab: &Lab, side: Side, command: &str, keeps: bool) -> Result<Self, RunError> {
        let mut shell = lab.command(side, "/bin/sh");
        if keeps {
            shell
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        }
        let mut shell = shell
            .args(["-c", command])
            .env("TRANSPUTE_A", lab.address(Side::A).to_string())
            .env("TRANSPUTE_B", lab.address(Side::B).to_string())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(command, &error))?;
        let printed = keeps.then(|| {
            let mut printed = Printed::default();
            if let Some(stream) = shell.stdout.take() {
                printed.read(stream);
            }
            if let Some(stream) = shell.stderr.take() {
                printed.read(stream);
            }
            printed
        });
        Ok(Self {
            shell,
            command: command.to_owned(),
            ended: None,
            printed,
        })
    }

    fn printed(&self) -> String {
        self.printed
            .as_ref()
            .map_or_else(String::new, Printed::text)
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, RunError> {
        if self.ended.is_none() {
            let status = self.shell.try_wait();
            self.ended = status.map_err(|error| failed(&self.command, &error))?;
        }
        Ok(self.ended)
    }

    /// Waits for its end, and brings it about if need be.
    fn end(&mut self, cancel: &AtomicBool) -> Result<ExitStatus, RunError> {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let Some(signal) = signal {
                self.signal(signal);
            }
            let start = Instant::now();
            while start.elapsed() < GRACE {
                if let Some(status) = self.status()? {
                    return Ok(status);
                }
                check(cancel)?;
            }
        }
        Err(failed(
            &self.command,
            &io::Error::other("it does not even end when killed"),
        ))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw) {
            // Nobody left is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What the shell started may outlive it.
        self.signal(Signal::KILL);
        let _ = self.shell.wait();
    }
}

fn failed(command: &str, error: &io::Error) -> RunError {
    RunError::Tool {
        program: command.to_owned(),
        reason: error.to_string(),
    }
}
