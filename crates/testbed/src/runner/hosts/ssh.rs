//! A host as reached by the program `ssh`: its temporary directory, its clock and its commands.
//!
//! One session stays open as long as the host is in use. It creates the directory, answers with the
//! time of the host, and removes the directory when its input ends, so also if this process is
//! killed or the connection is lost.

use std::{
    ffi::OsString,
    fs::File,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use super::{
    super::{environment::printed, error::RunError, repetition::GRACE},
    agent::PartyEnd,
    clock::{self, ClockOffset, Exchange},
    error::HostError,
    quote,
};
use crate::measure::{Deadline, Finished, MeasureError, Process};

/// Time limit for logging in, and for a short command.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// Time limit for copying a file. The program has tens of megabytes.
const COPY_LIMIT: Duration = Duration::from_secs(600);

/// Number of exchanges for one clock offset. The fastest one counts.
const CLOCK_EXCHANGES: usize = 5;

/// The word with which the first line of a session starts. Start files of the shell can print other
/// lines before it.
const GREETING: &str = "transpute-host ";

/// The script of a session. A party that is just being ended may still write to the directory, so
/// removing it is tried twice.
const SESSION: &str = "umask 077; \
    dir=$(mktemp -d \"${TMPDIR:-/tmp}/transpute.XXXXXXXXXX\") || exit; \
    trap 'rm -rf -- \"$dir\" || { sleep 1; rm -rf -- \"$dir\"; }' EXIT; \
    trap 'exit 1' HUP INT PIPE TERM; \
    echo \"transpute-host $(uname -s) $(uname -m) $dir\"; \
    while read -r line; do date +%s.%N; done";

/// Writes the standard input to the file `$1` and prints its digest.
const RECEIVE: &str = "umask 077; cat > \"$1\" && chmod \"$2\" \"$1\" && sha256sum < \"$1\"";

/// Is never cancelled: what must be cleaned up is cleaned up after a cancellation too.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A host with a session and a temporary directory. Both end on drop.
pub(super) struct Host {
    pub(super) destination: String,
    pub(super) directory: String,
    /// The kernel and the processor's architecture, as `uname -s -m` prints them.
    machine: String,
    session: Process,
}

impl Host {
    /// Logs in and creates the temporary directory.
    pub(super) fn connect(destination: &str, cancel: &AtomicBool) -> Result<Self, RunError> {
        let mut command = ssh(destination);
        command.arg(quote::join(["exec", "sh", "-c", SESSION]));
        let mut session = Process::start_with_input(command, Stdio::piped())
            .map_err(|error| failed(destination, error))?;
        let patience = Deadline::new(LIMIT, cancel);
        let mut noise = None;
        loop {
            match session.next_line(patience) {
                Ok(line) => match parse_greeting(&line) {
                    Some((machine, directory)) => {
                        return Ok(Self {
                            destination: destination.to_owned(),
                            directory,
                            machine,
                            session,
                        });
                    }
                    None => noise = Some(line),
                },
                Err(MeasureError::EndedEarly(reason)) => {
                    let end = session
                        .wait(patience)
                        .map_err(|error| failed(destination, error))?;
                    return Err(match end.status.code() {
                        Some(SSH_FAILED) => HostError::Ssh {
                            host: destination.to_owned(),
                            reason,
                        },
                        _ => HostError::Unexpected {
                            host: destination.to_owned(),
                            expected: "a POSIX shell that creates a temporary directory".to_owned(),
                            got: noise.unwrap_or(reason),
                        },
                    }
                    .into());
                }
                Err(error) => return Err(failed(destination, error)),
            }
        }
    }

    /// Checks that this host runs programs of this machine.
    pub(super) fn check_machine(&self, cancel: &AtomicBool) -> Result<(), RunError> {
        let mut command = Command::new("uname");
        command.args(["-s", "-m"]);
        self.expect(printed(command, cancel)?, &self.machine)
    }

    /// Copies a file into the temporary directory, with these permissions, and verifies its digest.
    pub(super) fn copy(
        &self,
        file: &Path,
        name: &str,
        mode: &str,
        cancel: &AtomicBool,
    ) -> Result<(), RunError> {
        let open = || File::open(file).map_err(RunError::Prepare);
        let path = self.path(name);
        let words = ["exec", "sh", "-c", RECEIVE, "sh", &path, mode];
        let found = self.printed(&words, open()?.into(), COPY_LIMIT, cancel)?;
        let digest = Process::start_with_input(Command::new("sha256sum"), open()?)
            .and_then(|process| process.finish(Deadline::new(LIMIT, cancel)))
            .map_err(|error| {
                RunError::from_measure(error, |error| RunError::Tool {
                    program: "sha256sum".to_owned(),
                    reason: error.to_string(),
                })
            })?;
        self.expect(
            format!("the digest {}", digest.stdout.trim()),
            &format!("the digest {found}"),
        )
    }

    /// Returns the path of a file in the temporary directory.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Runs a command on the host and returns its standard output, without blanks around it.
    pub(super) fn printed(
        &self,
        words: &[&str],
        input: Stdio,
        limit: Duration,
        cancel: &AtomicBool,
    ) -> Result<String, RunError> {
        let mut command = ssh(&self.destination);
        command.arg(quote::join(words));
        let finished = Process::start_with_input(command, input)
            .and_then(|process| process.finish(Deadline::new(limit, cancel)))
            .map_err(|error| failed(&self.destination, error))?;
        let complaint = finished.complaint().to_owned();
        match finished.status.code() {
            Some(0) => Ok(finished.stdout.trim().to_owned()),
            Some(SSH_FAILED) => Err(HostError::Ssh {
                host: self.destination.clone(),
                reason: complaint,
            }
            .into()),
            _ => Err(HostError::Unexpected {
                host: self.destination.clone(),
                expected: format!("success of {}", quote::join(words)),
                got: format!("{}: {complaint}", finished.status),
            }
            .into()),
        }
    }

    /// Returns an error unless the host's answer is the expected one.
    pub(super) fn expect(&self, expected: String, got: &str) -> Result<(), RunError> {
        if expected == got {
            return Ok(());
        }
        Err(HostError::Unexpected {
            host: self.destination.clone(),
            expected,
            got: got.to_owned(),
        }
        .into())
    }

    /// Measures the offset of the host's clock over the open session.
    pub(super) fn clock(&mut self, cancel: &AtomicBool) -> Result<ClockOffset, RunError> {
        let mut exchanges = Vec::new();
        for _ in 0..CLOCK_EXCHANGES {
            let asked_ns = clock::now_ns();
            let start = Instant::now();
            let answer = (self.session.write_input("\n"))
                .map_err(|error| MeasureError::EndedEarly(error.to_string()))
                .and_then(|()| self.session.next_line(Deadline::new(LIMIT, cancel)))
                .map_err(|error| failed(&self.destination, error))?;
            let round_trip = start.elapsed();
            let Some(host_ns) = clock::parse(&answer) else {
                return Err(HostError::Unexpected {
                    host: self.destination.clone(),
                    expected: "seconds and nanoseconds from `date +%s.%N`".to_owned(),
                    got: answer,
                }
                .into());
            };
            exchanges.push(Exchange {
                asked_ns,
                round_trip,
                host_ns,
            });
        }
        clock::offset(&exchanges).ok_or(RunError::Empty("the list of clock exchanges"))
    }

    /// Starts the copied program with these arguments as a party, which ends after `limit`.
    pub(super) fn start(
        &self,
        args: impl IntoIterator<Item = OsString>,
        limit: Duration,
    ) -> Result<RemoteParty, MeasureError> {
        let args: Vec<String> = (args.into_iter())
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        let program = self.path(PROGRAM);
        let seconds = limit.as_secs().to_string();
        // The program caches measurements of the machine. They must not remain on the host.
        let cache = format!("XDG_CACHE_HOME={}", self.directory);
        let words = [
            "exec", "env", &cache, &program, "testbed", "party", "--limit", &seconds, "--",
        ];
        let mut command = ssh(&self.destination);
        command.arg(quote::join(
            words.into_iter().chain(args.iter().map(String::as_str)),
        ));
        Ok(RemoteParty {
            destination: self.destination.clone(),
            process: Process::start_with_input(command, Stdio::piped())?,
        })
    }

    /// Ends the session. Returns an error if the directory was not removed.
    pub(super) fn close(mut self) -> Result<(), RunError> {
        self.session.close_input();
        let end = (self.session.wait(Deadline::new(LIMIT, &NEVER)))
            .map_err(|error| failed(&self.destination, error))?;
        if end.status.success() {
            return Ok(());
        }
        Err(HostError::Unexpected {
            host: self.destination.clone(),
            expected: format!("{} to be removed", self.directory),
            got: format!("{}: {}", end.status, end.complaint()),
        }
        .into())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.session.close_input();
        // After `close`, there is no process to wait for, and this fails at once.
        let _ = self.session.wait(Deadline::new(LIMIT, &NEVER));
    }
}

/// The name of the copied program in the temporary directory.
pub(super) const PROGRAM: &str = "transpute";

/// The exit code with which ssh reports its own failures.
const SSH_FAILED: i32 = 255;

/// The ssh process of a party that runs on a host. Dropping it ends the party.
pub(super) struct RemoteParty {
    destination: String,
    process: Process,
}

impl RemoteParty {
    /// Waits for a line on standard error: see [`Process::wait_for_line`].
    pub(super) fn wait_for_line(
        &mut self,
        start: &str,
        patience: Deadline<'_>,
    ) -> Result<String, MeasureError> {
        self.process.wait_for_line(start, patience)
    }

    /// Waits for the end of the party. Ends it if it exceeds its time limit or is cancelled.
    pub(super) fn finish(mut self, patience: Deadline<'_>) -> Result<Finished, MeasureError> {
        let finished = self.process.wait(patience)?;
        if finished.status.success()
            && let Some(party) = PartyEnd::parse(&finished.stdout, finished.stderr.clone())
        {
            return Ok(party);
        }
        Err(MeasureError::EndedEarly(format!(
            "ssh {}: {} ({})",
            self.destination,
            finished.status,
            finished.complaint()
        )))
    }
}

impl Drop for RemoteParty {
    fn drop(&mut self) {
        // The host kills the party when its input ends. Waiting for this leaves the port free for
        // the next run. Without an answer, dropping the process kills ssh.
        self.process.close_input();
        let _ = self.process.wait(Deadline::new(GRACE, &NEVER));
    }
}

/// Returns the host name of a destination in the configuration of ssh.
pub(super) fn host_name(destination: &str, cancel: &AtomicBool) -> Result<String, RunError> {
    let mut command = Command::new("ssh");
    command.args(["-G", "--", destination]);
    let text = printed(command, cancel)?;
    let name = text.lines().find_map(|line| line.strip_prefix("hostname "));
    Ok(name.unwrap_or(destination).trim().to_owned())
}

/// Returns an ssh command that logs in to `destination` without a password prompt. Keep-alives
/// detect a lost connection within a minute. Connection sharing is off, because a process that
/// serves other ssh commands would outlive this one.
fn ssh(destination: &str) -> Command {
    let mut command = Command::new("ssh");
    command.args([
        "-T",
        "-oBatchMode=yes",
        "-oConnectTimeout=20",
        "-oServerAliveInterval=15",
        "-oServerAliveCountMax=3",
        "-oClearAllForwardings=yes",
        "-oControlMaster=no",
        "--",
        destination,
    ]);
    command
}

fn failed(destination: &str, error: MeasureError) -> RunError {
    RunError::from_measure(error, |error| {
        HostError::Ssh {
            host: destination.to_owned(),
            reason: error.to_string(),
        }
        .into()
    })
}

/// Parses the first line of a session. Returns the machine and the directory.
fn parse_greeting(line: &str) -> Option<(String, String)> {
    let (system, rest) = line.strip_prefix(GREETING)?.split_once(' ')?;
    let (processor, directory) = rest.split_once(' ')?;
    let machine = format!("{system} {processor}");
    (directory.starts_with('/')).then(|| (machine, directory.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_has_a_machine_and_an_absolute_directory() {
        let parsed = parse_greeting("transpute-host Linux x86_64 /tmp/with blank/transpute.a1");
        let expected = ("Linux x86_64", "/tmp/with blank/transpute.a1");
        let parsed = parsed.unwrap();
        assert_eq!((&*parsed.0, &*parsed.1), expected);
        for line in [
            "Welcome!",
            "transpute-host Linux x86_64",
            "transpute-host a b c",
        ] {
            assert_eq!(parse_greeting(line), None, "{line}");
        }
    }

    #[test]
    fn a_session_removes_its_directory_when_its_input_ends() {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", SESSION]).env("TMPDIR", place.path());
        let mut session = Process::start_with_input(command, Stdio::piped()).unwrap();
        let patience = Deadline::new(LIMIT, &NEVER);
        let greeting = session.next_line(patience).unwrap();
        let (_, directory) = parse_greeting(&greeting).unwrap();
        std::fs::write(Path::new(&directory).join("file"), "x").unwrap();
        session.write_input("\n").unwrap();
        let time = session.next_line(patience).unwrap();
        assert!(clock::parse(&time).is_some(), "{time}");
        session.close_input();
        assert!(session.finish(patience).unwrap().status.success());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
