//! Any two programs on an emulated path.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, ExitStatus},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;

use crate::{
    flow::Flows,
    lab::{Lab, Side},
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
    let mut lab = Lab::start(scenario)?;
    let cross = Flows::of_scenario(&lab, scenario).map_err(RunError::Flow)?;
    let mut a = Group::start(&lab, Side::A, commands[0])?;
    let patience = Instant::now();
    // A program that does its part and ends has had its head start.
    while patience.elapsed() < HEAD_START && a.status()?.is_none() {
        check(cancel)?;
    }
    let start = Instant::now();
    let mut b = Group::start(&lab, Side::B, commands[1])?;
    let b_status = loop {
        if let Some(status) = b.status()? {
            break status;
        }
        check(cancel)?;
    };
    let seconds = start.elapsed().as_secs_f64();
    let [up, down] = lab.counters();
    let a_status = a.end(cancel)?;
    drop(cross);
    Ok(PairReport {
        a_code: a_status.code(),
        b_code: b_status.code(),
        seconds,
        up,
        down,
        party_bytes: lab.party_traffic().sent_bytes,
        overruns: lab.overruns()?,
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
}

impl Group {
    fn start(lab: &Lab, side: Side, command: &str) -> Result<Self, RunError> {
        let shell = lab
            .command(side, "/bin/sh")
            .args(["-c", command])
            .env("TRANSPUTE_A", lab.address(Side::A).to_string())
            .env("TRANSPUTE_B", lab.address(Side::B).to_string())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(command, &error))?;
        Ok(Self {
            shell,
            command: command.to_owned(),
            ended: None,
        })
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
