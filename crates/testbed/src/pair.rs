//! Runs any two programs on an emulated path.

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

/// Time for the program on side A to start before the one on side B starts.
const HEAD_START: Duration = Duration::from_millis(300);

/// Time for the program on side A to exit after the program on side B has ended, and again after
/// each signal.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum number of characters of a program's error message. The rest is not stored.
const MAX_COMPLAINT: usize = 500;

/// The interval between checks whether a process has ended.
const TICK: Duration = Duration::from_millis(5);

/// Options for the execution of two programs.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct PairOptions<'a> {
    /// Time limit of the program on side B, after which the run fails. `None` for no limit. With a
    /// limit, the program on side B is also ended soon after the program on side A has failed.
    pub timeout: Option<Duration>,
    /// The handle through which other threads observe the run in progress.
    pub live: Option<&'a Live>,
    /// True if the result includes the timeline and the output of the programs. Their output is
    /// then not printed, and they have no input.
    pub keeps: bool,
}

/// The result of a run of two programs.
#[derive(Clone, Debug, Serialize)]
pub struct PairReport {
    /// The exit code of the program on side A. None if a signal ended it.
    pub a_code: Option<i32>,
    /// True if this process ended the program on side A by a signal after the program on side B had
    /// ended. This is usual for a server. `a_code` then does not show success or failure.
    pub a_stopped: bool,
    /// The exit code of the program on side B. None if a signal ended it.
    pub b_code: Option<i32>,
    /// Time from the start to the end of the program on side B, in seconds.
    pub seconds: f64,
    /// Counters of packets from A to B.
    pub up: PathCounters,
    /// Counters of packets from B to A.
    pub down: PathCounters,
    /// Bytes on the wire from A and from B, with headers, of packets that have the port
    /// [`PARTY_PORT`](transpute_netem::lab::PARTY_PORT). This excludes cross traffic.
    pub party_bytes: [u64; 2],
    /// Number of packets from A and from B that the emulator dropped because it was too slow.
    pub overruns: [u64; 2],
    /// The timeline of arriving bytes, if [`PairOptions::keeps`] is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The last bytes of the output of the programs on sides A and B, if [`PairOptions::keeps`] is
    /// true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<[String; 2]>,
}

/// Runs a shell command on each side. When the command on side B ends, the command on side A is
/// ended by a signal.
///
/// The variables `TRANSPUTE_A` and `TRANSPUTE_B` contain the addresses of the sides. The commands
/// print to the streams of this process. Both are ended when `cancel` becomes true.
///
/// # Errors
/// Returns [`RunError`] if the path cannot be emulated or a command cannot be started. A command
/// that fails is not an error.
pub fn run(
    scenario: &Scenario,
    commands: [&str; 2],
    cancel: &AtomicBool,
) -> Result<PairReport, RunError> {
    run_with(scenario, commands, PairOptions::default(), cancel)
}

/// Runs two commands like [`run`], with options.
///
/// # Errors
/// Returns the errors of [`run`], and [`RunError::Tool`] if the command on side B exceeds the time
/// limit.
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

/// Shell commands for side A and side B, with their working folder and environment variables.
pub(crate) struct Pair<'a> {
    pub(crate) commands: [&'a str; 2],
    /// The working folder of the commands. `None` for the working folder of this process.
    pub(crate) folder: Option<&'a Path>,
    /// Environment variables of the commands on sides A and B, in addition to the addresses.
    pub(crate) variables: [&'a [(&'a str, &'a OsStr)]; 2],
    pub(crate) options: PairOptions<'a>,
}

/// The parts of a command's output that are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KeptOutput {
    /// The last line of standard output that is a JSON object.
    pub(crate) said: Option<serde_json::Value>,
    /// The last line of standard error without the prefix `error: `.
    pub(crate) complaint: String,
    /// The last bytes of standard output and standard error.
    text: String,
}

/// The result of a [`Pair`].
pub(crate) struct Outcome {
    pub(crate) report: PairReport,
    /// True if the command on side B was ended at its time limit.
    pub(crate) is_cut_off: bool,
    /// True for each side (A, B) whose command this process ended by a signal.
    pub(crate) is_told: [bool; 2],
    pub(crate) printed: [KeptOutput; 2],
    pub(crate) statuses: [ExitStatus; 2],
}

impl Pair<'_> {
    /// Runs both commands as [`run`] does.
    pub(crate) fn run(
        &self,
        scenario: &Scenario,
        cancel: &AtomicBool,
    ) -> Result<Outcome, RunError> {
        let mut lab = Lab::start(scenario)?;
        // The watchdog starts before the commands, because it may miss programs that were started
        // earlier.
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
        // A program that ends early needs no time to start.
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

/// The process group of a command. Its processes are killed on drop.
struct Group {
    shell: Child,
    command: String,
    ended: Option<ExitStatus>,
    is_told: bool,
    output: Option<Output>,
}

/// The output streams of a command.
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

    /// Waits for the end of the command. Sends `signals` in order, with a pause of [`GRACE`] after
    /// each. `None` waits without a signal.
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

    /// Returns the output of a command that has ended.
    fn printed(&mut self) -> KeptOutput {
        // Remaining child processes would keep the streams open.
        self.signal(Signal::KILL);
        let deadline = Instant::now() + GRACE;
        let Some(output) = self.output.take() else {
            return KeptOutput::default();
        };
        let said = output.stdout.last_line(deadline);
        let complaint = output.stderr.last_line(deadline).unwrap_or_default();
        let complaint = String::from_utf8_lossy(&complaint);
        let complaint = complaint.trim();
        let complaint = complaint.strip_prefix("error: ").unwrap_or(complaint);
        KeptOutput {
            said: said.and_then(|line| serde_json::from_slice(&line).ok()),
            complaint: complaint.chars().take(MAX_COMPLAINT).collect(),
            text: output.tail.text(),
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw) {
            // An error means that the group has no processes. Then there is nothing to signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Child processes of the shell may outlive it.
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
