//! Running a command to its end, and what it took: time, processor and memory.

use std::{
    io::{self, Read},
    mem::MaybeUninit,
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use thiserror::Error;

use crate::perf::ProcessCounters;

/// The most that a command may print to one of its streams, in bytes; more is read and forgotten.
const MAX_PRINTED: usize = 16 << 20;

/// How often somebody looks whether to go on.
const TICK: Duration = Duration::from_millis(50);

/// How often somebody looks whether a process that has closed its output has ended.
const REAP_TICK: Duration = Duration::from_millis(1);

/// Why a command cannot be started or waited for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The command does not start.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// The system does not tell of the end of a process.
    #[error("cannot wait for a process")]
    Wait(#[source] io::Error),
    /// A process takes too long. It was killed.
    #[error("not done after {} s", limit.as_secs_f64())]
    TooLong {
        /// How long it had.
        limit: Duration,
    },
    /// A process ended without saying what was waited for.
    #[error("it ended early: {0}")]
    EndedEarly(String),
    /// Whoever asked for it wants it no more. All processes were killed.
    #[error("interrupted")]
    Cancelled,
}

/// What a process that ended has said and used.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// From its start until it had closed its output.
    pub wall: Duration,
    /// What it used.
    pub usage: Usage,
}

impl Finished {
    /// Returns the last line of what it complained about, without `error: `.
    #[must_use]
    pub fn complaint(&self) -> &str {
        let last = self.stderr.trim_end().lines().last();
        let last = last.unwrap_or("it said nothing");
        last.strip_prefix("error: ").unwrap_or(last)
    }
}

/// What a process used, by the kernel's count at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The most memory that was resident, in bytes.
    pub peak_rss_bytes: u64,
    /// Processor cycles; nothing without [`Process::start_counted`] or where this machine cannot count.
    pub cycles: Option<u64>,
    /// Instructions; nothing without [`Process::start_counted`] or where this machine cannot count.
    pub instructions: Option<u64>,
}

/// Until when to wait, and whether still to.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    start: Instant,
    limit: Duration,
    cancel: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    /// Waits for `limit` from now, unless `cancel` becomes true.
    #[must_use]
    pub fn new(limit: Duration, cancel: &'a AtomicBool) -> Self {
        Self {
            start: Instant::now(),
            limit,
            cancel,
        }
    }

    fn check(&self) -> Result<(), MeasureError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(MeasureError::Cancelled);
        }
        if self.start.elapsed() >= self.limit {
            return Err(MeasureError::TooLong { limit: self.limit });
        }
        Ok(())
    }
}

/// Is given what a process writes to standard error.
pub(crate) type Hears = Box<dyn FnMut(&[u8]) + Send>;

/// A running process, killed on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    start: Instant,
    output: Receiver<Output>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Streams that the process has not closed.
    open: usize,
    /// When it had closed them.
    closed: Option<Instant>,
    /// Whether the kernel may have given its number to another process.
    reaped: bool,
    counters: ProcessCounters,
    /// Keeps the thread that started the process, where it is one of its own.
    starter: Option<Sender<Never>>,
}

/// What is never sent.
#[derive(Debug)]
enum Never {}

#[derive(Debug)]
enum Output {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Closed(Instant),
}

impl Process {
    /// Starts a command without input. All it prints is kept. It is killed when the calling thread
    /// ends, and so at the latest with this process. An interruption by the user at a terminal goes to
    /// this process alone, which decides what becomes of the command.
    ///
    /// # Errors
    /// [`MeasureError::Start`].
    pub fn start(command: Command) -> Result<Self, MeasureError> {
        Self::start_heard(command, None)
    }

    /// Starts a command like [`start`](Self::start). What it writes to standard error is given to `hears` too, as it comes and
    /// from another thread.
    fn start_heard(mut command: Command, hears: Option<Hears>) -> Result<Self, MeasureError> {
        transpute_netem::lab::end_with_parent(&mut command);
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn().map_err(|source| MeasureError::Start {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        let (sender, output) = channel();
        let mut open = 0;
        if let Some(stdout) = child.stdout.take() {
            read_in_background(stdout, Output::Stdout, sender.clone(), None);
            open += 1;
        }
        if let Some(stderr) = child.stderr.take() {
            read_in_background(stderr, Output::Stderr, sender, hears);
            open += 1;
        }
        Ok(Self {
            child,
            start,
            output,
            stdout: Vec::new(),
            stderr: Vec::new(),
            open,
            closed: None,
            reaped: false,
            counters: ProcessCounters::default(),
            starter: None,
        })
    }

    /// Starts a command like [`start`](Self::start), and counts cycles and instructions of it with
    /// all its threads, as far as this machine can: see [`Usage`]. The moment between the start of
    /// the process and its becoming the program is not counted.
    ///
    /// # Errors
    /// [`MeasureError::Start`].
    pub fn start_counted(command: Command) -> Result<Self, MeasureError> {
        Self::start_counted_and_heard(command, None)
    }

    /// Starts a command like [`start_counted`](Self::start_counted). What it writes to standard error is given to `hears` too, as
    /// it comes and from another thread.
    pub(crate) fn start_counted_and_heard(
        command: Command,
        hears: Option<Hears>,
    ) -> Result<Self, MeasureError> {
        let (mut process, counters) =
            Self::start_beside(command, hears, ProcessCounters::of_started)?;
        process.counters = counters;
        Ok(process)
    }

    /// Returns the number that the system gave the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts a command from a thread that calls `before` first and starts nothing else. The thread
    /// stays for as long as the process is waited for, because a process may be bound to end with
    /// the thread that started it.
    pub(crate) fn start_beside<T: Send + 'static>(
        command: Command,
        hears: Option<Hears>,
        before: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(Self, T), MeasureError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let (tell, started) = channel();
        let (starter, over) = channel::<Never>();
        let starting = move || {
            let prepared = before();
            let process = Self::start_heard(command, hears);
            // Whoever waits for it cannot be gone.
            let _ = tell.send(process.map(|process| (process, prepared)));
            // Nothing is ever sent: this ends when the other end is dropped.
            let _ = over.recv();
        };
        let failed = |source| MeasureError::Start { program, source };
        if let Err(error) = thread::Builder::new().spawn(starting) {
            return Err(failed(error));
        }
        match started.recv() {
            Ok(result) => result.map(|(mut process, prepared)| {
                process.starter = Some(starter);
                (process, prepared)
            }),
            Err(_) => Err(failed(io::Error::other("the starting thread panicked"))),
        }
    }

    /// Waits for a line on standard error that starts with `start`, and returns the rest of it.
    ///
    /// # Errors
    /// [`MeasureError::EndedEarly`], [`MeasureError::TooLong`], [`MeasureError::Cancelled`].
    pub fn wait_for_line(
        &mut self,
        start: &str,
        patience: Patience<'_>,
    ) -> Result<String, MeasureError> {
        loop {
            let text = String::from_utf8_lossy(&self.stderr);
            let found = (text.split_inclusive('\n'))
                .filter_map(|line| line.strip_suffix('\n')?.strip_prefix(start))
                .map(str::to_owned)
                .next();
            if let Some(rest) = found {
                return Ok(rest);
            }
            if self.open == 0 {
                let last = text.trim_end().lines().last().unwrap_or("it said nothing");
                let last = last.strip_prefix("error: ").unwrap_or(last);
                return Err(MeasureError::EndedEarly(last.to_owned()));
            }
            self.take_output(patience)?;
        }
    }

    /// Waits until the process has ended.
    ///
    /// # Errors
    /// [`MeasureError::TooLong`], [`MeasureError::Cancelled`], [`MeasureError::Wait`]; the process
    /// is killed.
    pub fn finish(mut self, patience: Patience<'_>) -> Result<Finished, MeasureError> {
        while self.open > 0 {
            self.take_output(patience)?;
        }
        let (status, mut usage) = loop {
            if let Some(end) = self.reap()? {
                break end;
            }
            patience.check()?;
            thread::sleep(REAP_TICK);
        };
        // All threads have ended now, so their counts are complete.
        [usage.cycles, usage.instructions] = self.counters.read();
        let closed = self.closed.unwrap_or_else(Instant::now);
        Ok(Finished {
            status,
            stdout: String::from_utf8_lossy(&self.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&self.stderr).into_owned(),
            wall: closed - self.start,
            usage,
        })
    }

    fn take_output(&mut self, patience: Patience<'_>) -> Result<(), MeasureError> {
        let keep = |kept: &mut Vec<u8>, bytes: &[u8]| {
            let room = MAX_PRINTED.saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        };
        patience.check()?;
        match self.output.recv_timeout(TICK) {
            Ok(Output::Stdout(bytes)) => keep(&mut self.stdout, &bytes),
            Ok(Output::Stderr(bytes)) => keep(&mut self.stderr, &bytes),
            Ok(Output::Closed(when)) => {
                self.open -= 1;
                self.closed = self.closed.max(Some(when));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.open = 0,
        }
        Ok(())
    }

    /// Asks the kernel for the end of the process, without waiting.
    #[expect(
        unsafe_code,
        reason = "the standard library waits without telling of resources"
    )]
    fn reap(&mut self) -> Result<Option<(ExitStatus, Usage)>, MeasureError> {
        use std::os::unix::process::ExitStatusExt;

        let Ok(pid) = libc::pid_t::try_from(self.child.id()) else {
            return Err(MeasureError::Wait(io::Error::from_raw_os_error(
                libc::ESRCH,
            )));
        };
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are to memory of the right types that outlives the call; the
        // number is that of our own child, which nobody has waited for.
        let ended = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, usage.as_mut_ptr()) };
        match ended {
            0 => return Ok(None),
            -1 => return Err(MeasureError::Wait(io::Error::last_os_error())),
            _ => self.reaped = true,
        }
        // SAFETY: all bits zero are a valid `rusage`, whether or not the kernel has filled it.
        let usage = unsafe { usage.assume_init() };
        let usage = Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            // In KiB on Linux.
            peak_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
            ..Usage::default()
        };
        Ok(Some((ExitStatus::from_raw(status), usage)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            // It may have ended on its own; either way nobody has waited for it.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Reads a stream to its end on a thread of its own, which ends with the process.
fn read_in_background(
    mut stream: impl Read + Send + 'static,
    wrap: fn(Vec<u8>) -> Output,
    sender: Sender<Output>,
    mut hears: Option<Hears>,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    if let Some(hears) = &mut hears {
                        hears(&buffer[..read]);
                    }
                    if sender.send(wrap(buffer[..read].to_vec())).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // Nobody listens when the process was given up.
        let _ = sender.send(Output::Closed(Instant::now()));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn never() -> &'static AtomicBool {
        static NEVER: AtomicBool = AtomicBool::new(false);
        &NEVER
    }

    #[test]
    fn output_status_and_use_are_reported() {
        let script = "echo out; echo 'error: bad' >&2; i=0; \
                      while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3";
        let process = Process::start(shell(script)).unwrap();
        let finished = process.finish(Patience::new(LONG, never())).unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(finished.stdout, "out\n");
        assert_eq!(finished.complaint(), "bad");
        let usage = finished.usage;
        assert!(usage.user > Duration::ZERO, "{usage:?}");
        assert!(usage.user + usage.system <= finished.wall + Duration::from_millis(50));
        assert!(
            (100 << 10..1 << 30).contains(&usage.peak_rss_bytes),
            "{usage:?}"
        );
    }

    #[test]
    fn a_line_can_be_waited_for() {
        let script = "echo noise >&2; echo 'listening on 1.2.3.4:5' >&2; exec sleep 60";
        let mut process = Process::start(shell(script)).unwrap();
        let patience = Patience::new(LONG, never());
        let address = process.wait_for_line("listening on ", patience).unwrap();
        assert_eq!(address, "1.2.3.4:5");

        let mut process = Process::start(shell("echo 'error: no' >&2")).unwrap();
        let error = process.wait_for_line("listening", patience).unwrap_err();
        assert_eq!(error.to_string(), "it ended early: no");
    }

    #[test]
    fn what_takes_too_long_or_is_unwanted_is_killed() {
        let start = || Process::start(shell("exec sleep 3600")).unwrap();
        let process = start();
        let pid = process.child.id();
        let error = process.finish(Patience::new(Duration::from_millis(80), never()));
        assert!(matches!(error, Err(MeasureError::TooLong { .. })));
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());

        let cancel = AtomicBool::new(true);
        let error = start().finish(Patience::new(LONG, &cancel));
        assert!(matches!(error, Err(MeasureError::Cancelled)));
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = Process::start(Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start /no/such/program");
    }
}
