//! The part of the testbed that runs on a host of a matrix, started over ssh: it describes the
//! host, or runs one party and measures its process.

use std::{
    ffi::OsString,
    io::{self, Read, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::super::{
    environment::{self, line},
    error::RunError,
};
use crate::{
    measure::{Deadline, Finished, Process, Usage},
    record::Environment,
};

/// The output and the resources of a party that has ended, as the host sends them.
#[derive(Debug, Deserialize, Serialize)]
pub struct PartyEnd {
    /// The wait status of the process.
    status: i32,
    stdout: String,
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    peak_rss_bytes: u64,
    cycles: Option<u64>,
    instructions: Option<u64>,
}

impl PartyEnd {
    fn new(finished: Finished) -> Self {
        let usage = finished.usage;
        Self {
            status: finished.status.into_raw(),
            stdout: finished.stdout,
            wall_s: finished.wall.as_secs_f64(),
            user_s: usage.user.as_secs_f64(),
            system_s: usage.system.as_secs_f64(),
            peak_rss_bytes: usage.peak_rss_bytes,
            cycles: usage.cycles,
            instructions: usage.instructions,
        }
    }

    /// Parses the output of [`run_party`]'s command, and adds the standard error that came with it.
    pub(super) fn parse(text: &str, stderr: String) -> Option<Finished> {
        let end: Self = serde_json::from_str(text).ok()?;
        let duration = |seconds| Duration::try_from_secs_f64(seconds).ok();
        Some(Finished {
            status: ExitStatus::from_raw(end.status),
            stdout: end.stdout,
            stderr,
            wall: duration(end.wall_s)?,
            usage: Usage {
                user: duration(end.user_s)?,
                system: duration(end.system_s)?,
                peak_rss_bytes: end.peak_rss_bytes,
                cycles: end.cycles,
                instructions: end.instructions,
            },
        })
    }
}

/// Runs a party as a process of the program `binary`, and passes its standard error on. Kills it
/// after `limit`, or as soon as `input` ends: a party must not outlive the connection over which it
/// was started.
///
/// # Errors
/// Returns [`RunError`] if the party cannot be started or was killed. A party that fails is not an
/// error.
pub fn run_party(
    binary: &Path,
    args: &[OsString],
    limit: Duration,
    mut input: impl Read + Send + 'static,
) -> Result<PartyEnd, RunError> {
    let is_abandoned = Arc::new(AtomicBool::new(false));
    let abandon = is_abandoned.clone();
    thread::spawn(move || {
        // An error ends the connection too.
        let _ = io::copy(&mut input, &mut io::sink());
        abandon.store(true, Ordering::Relaxed);
    });
    let mut command = Command::new(binary);
    command.args(args);
    let pass_on = Box::new(|bytes: &[u8]| {
        // Without a connection, nobody reads the messages.
        let _ = io::stderr().write_all(bytes);
    });
    let finished = Process::start_counted_observed(command, Some(pass_on))
        .and_then(|process| process.finish(Deadline::new(limit, &is_abandoned)))
        .map_err(|error| {
            RunError::from_measure(error, |error| RunError::Tool {
                program: binary.display().to_string(),
                reason: error.to_string(),
            })
        })?;
    Ok(PartyEnd::new(finished))
}

/// Describes this machine, its TCP settings and the program `binary`.
///
/// # Errors
/// Returns [`RunError`] if the program cannot be run.
pub fn describe(binary: &Path) -> Result<Environment, RunError> {
    let setting = |name: &str| {
        let text = line(&format!("/proc/sys/net/ipv4/{name}"));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    Ok(Environment {
        congestion_control: setting("tcp_congestion_control"),
        tcp_rmem: setting("tcp_rmem"),
        tcp_wmem: setting("tcp_wmem"),
        ..environment::describe(binary, &AtomicBool::new(false))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> [OsString; 2] {
        ["-c".into(), script.into()]
    }

    #[test]
    fn the_end_of_a_party_survives_the_transfer() {
        // The input stays open until the party has ended.
        let (input, _open) = io::pipe().unwrap();
        let args = shell("echo out; exit 3");
        let end = run_party(Path::new("sh"), &args, LONG, input).unwrap();
        let text = serde_json::to_string(&end).unwrap();
        let finished = PartyEnd::parse(&text, "error: bad\n".to_owned()).unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!((&*finished.stdout, finished.complaint()), ("out\n", "bad"));
        assert!(finished.usage.peak_rss_bytes > 0);
        assert!(PartyEnd::parse("ssh: no", String::new()).is_none());
    }

    #[test]
    fn a_party_ends_with_its_connection() {
        let (input, open) = io::pipe().unwrap();
        drop(open);
        let args = shell("exec sleep 3600");
        let error = run_party(Path::new("sh"), &args, LONG, input).unwrap_err();
        assert!(matches!(error, RunError::Cancelled), "{error}");
    }
}
