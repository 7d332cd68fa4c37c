//! Any two programs on an emulated path.

mod listener;
mod watchdog;

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use listener::{Listener, Tail, is_object, is_text};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use transpute_netem::{
    lab::{Lab, Side, Timeline},
    model::PathCounters,
    scenario::Scenario,
};
use watchdog::Watchdog;

use crate::{flow::Flows, live::Live, runner::RunError};

/// How long the program on side A has to get ready before the one on side B starts.
const HEAD_START: Duration = Duration::from_millis(300);

/// How long the program on side A has to end by itself once the other has, and once more after
/// being told to.
const GRACE: Duration = Duration::from_secs(2);

/// The most characters of a complaint that are kept.
const MAX_COMPLAINT: usize = 500;

/// How often somebody looks.
const TICK: Duration = Duration::from_millis(5);

/// How to run two programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairOptions<'a> {
    /// How long the program on side B may take before that is an error; nothing is for ever. With a limit, it is also ended soon
    /// after the other one has failed.
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
    /// Whether the program on side A was told to end, as a server is once side B has ended: its exit code is no result then.
    pub a_stopped: bool,
    /// The exit code of the program on side B; nothing if a signal ended it.
    pub b_code: Option<i32>,
    /// From the start of the program on side B to its end, in seconds.
    pub seconds: f64,
    /// What happened to packets from A to B.
    pub up: PathCounters,
    /// What happened to packets from B to A.
    pub down: PathCounters,
    /// Bytes on the wire from A and from B, headers included, of what has a port of
    /// [`PARTY_PORT`](transpute_netem::lab::PARTY_PORT): with that port, the share of the programs beside cross
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
    let pair = Pair {
        commands,
        folder: None,
        variables: [&[], &[]],
        options,
    };
    let outcome = pair.run(scenario, cancel)?;
    match options.timeout {
        Some(limit) if outcome.is_cut_off => {
            let reason = format!("not done after {} s", limit.as_secs_f64());
            Err(failed(commands[1], &io::Error::other(reason)))
        }
        _ => Ok(outcome.report),
    }
}

/// Commands for side A and side B, and what they have beside the path.
pub(crate) struct Pair<'a> {
    pub(crate) commands: [&'a str; 2],
    /// Where they run, if not where this process does.
    pub(crate) folder: Option<&'a Path>,
    /// What they find in their environments beside the addresses.
    pub(crate) variables: [&'a [(&'a str, &'a OsStr)]; 2],
    pub(crate) options: PairOptions<'a>,
}

/// What of a command's output is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Printed {
    /// The last line of standard output that is a JSON object.
    pub(crate) said: Option<serde_json::Value>,
    /// The last line of standard error, without `error: `.
    pub(crate) complaint: String,
    /// The end of all of it.
    text: String,
}

/// What came of a [`Pair`].
pub(crate) struct Outcome {
    pub(crate) report: PairReport,
    /// Whether the command on side B was ended at its limit.
    pub(crate) is_cut_off: bool,
    /// Whether we told the command to end.
    pub(crate) is_told: [bool; 2],
    pub(crate) printed: [Printed; 2],
    pub(crate) statuses: [ExitStatus; 2],
}

impl Pair<'_> {
    /// Runs both, as [`run`] says.
    pub(crate) fn run(
        &self,
        scenario: &Scenario,
        cancel: &AtomicBool,
    ) -> Result<Outcome, RunError> {
        let mut lab = Lab::start(scenario)?;
        // Before the commands: it outlives them and this process.
        let watchdog = Watchdog::start(&lab).map_err(|error| failed("/bin/sh", &error))?;
        let shown = (self.options.live).map(|live| live.begin(&lab, true));
        let show = |side, group: &Group| {
            if let Some(shown) = &shown {
                shown.party(side, group.shell.id());
            }
        };
        let cross = Flows::of_scenario(&lab, scenario).map_err(RunError::Flow)?;
        let mut a = Group::start(&lab, Side::A, self)?;
        show(Side::A, &a);
        let patience = Instant::now();
        // A program that does its part and ends has had its head start.
        while patience.elapsed() < HEAD_START && a.status()?.is_none() {
            check(cancel)?;
        }
        let start = Instant::now();
        let mut b = Group::start(&lab, Side::B, self)?;
        show(Side::B, &b);
        let mut a_failed = None;
        let mut is_cut_off = false;
        let b_status = loop {
            if let Some(status) = b.status()? {
                break status;
            }
            check(cancel)?;
            let Some(limit) = self.options.timeout else {
                continue;
            };
            if a_failed.is_none() && a.status()?.is_some_and(|status| !status.success()) {
                a_failed = Some(Instant::now());
            }
            is_cut_off = start.elapsed() >= limit;
            if is_cut_off || a_failed.is_some_and(|since| since.elapsed() >= GRACE) {
                break b.end(&[Some(Signal::TERM), Some(Signal::KILL)], cancel)?;
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        let [up, down] = lab.counters();
        let a_status = a.end(&[None, Some(Signal::TERM), Some(Signal::KILL)], cancel)?;
        drop(cross);
        drop(shown);
        drop(watchdog);
        let keeps = self.options.keeps;
        let mut printed = [a.printed(), b.printed()];
        let texts = printed
            .each_mut()
            .map(|printed| std::mem::take(&mut printed.text));
        Ok(Outcome {
            is_cut_off,
            is_told: [a.is_told, b.is_told],
            printed,
            statuses: [a_status, b_status],
            report: PairReport {
                a_code: a_status.code(),
                a_stopped: a.is_told,
                b_code: b_status.code(),
                seconds,
                up,
                down,
                party_bytes: lab.party_traffic().sent_bytes,
                overruns: lab.overruns()?,
                timeline: keeps.then(|| lab.timeline()),
                output: keeps.then_some(texts),
            },
        })
    }
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
    is_told: bool,
    output: Option<Output>,
}

/// What comes out of a command.
struct Output {
    stdout: Listener,
    stderr: Listener,
    tail: Tail,
}

impl Group {
    fn start(lab: &Lab, side: Side, pair: &Pair<'_>) -> Result<Self, RunError> {
        let text = pair.commands[side as usize];
        let mut command = lab.command(side, "/bin/sh");
        command
            .args(["-c", text])
            .env("TRANSPUTE_A", lab.address(Side::A).to_string())
            .env("TRANSPUTE_B", lab.address(Side::B).to_string())
            .envs(pair.variables[side as usize].iter().copied())
            .process_group(0);
        if let Some(folder) = pair.folder {
            command.current_dir(folder);
        }
        if pair.options.keeps {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        }
        let mut shell = command.spawn().map_err(|error| failed(text, &error))?;
        let output = match (shell.stdout.take(), shell.stderr.take()) {
            (Some(stdout), Some(stderr)) => {
                let tail = Tail::default();
                Some(Output {
                    stdout: Listener::to(stdout, is_object, &tail),
                    stderr: Listener::to(stderr, is_text, &tail),
                    tail,
                })
            }
            _ => None,
        };
        Ok(Self {
            shell,
            command: text.to_owned(),
            ended: None,
            is_told: false,
            output,
        })
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, RunError> {
        if self.ended.is_none() {
            let status = self.shell.try_wait();
            self.ended = status.map_err(|error| failed(&self.command, &error))?;
        }
        Ok(self.ended)
    }

    /// Waits for its end, and brings it about with signals, one after the other.
    fn end(
        &mut self,
        signals: &[Option<Signal>],
        cancel: &AtomicBool,
    ) -> Result<ExitStatus, RunError> {
        for &signal in signals {
            if let Some(signal) = signal {
                self.is_told = true;
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

    /// Returns what it has printed, once it has ended.
    fn printed(&mut self) -> Printed {
        // What is left of it would keep the streams open.
        self.signal(Signal::KILL);
        let deadline = Instant::now() + GRACE;
        let Some(output) = self.output.take() else {
            return Printed::default();
        };
        let said = output.stdout.last_line(deadline);
        let complaint = output.stderr.last_line(deadline).unwrap_or_default();
        let complaint = String::from_utf8_lossy(&complaint);
        let complaint = complaint.trim();
        let complaint = complaint.strip_prefix("error: ").unwrap_or(complaint);
        Printed {
            said: said.and_then(|line| serde_json::from_slice(&line).ok()),
            complaint: complaint.chars().take(MAX_COMPLAINT).collect(),
            text: output.tail.text(),
        }
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
