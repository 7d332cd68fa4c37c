//! Execution of a command, with its time, processor time and memory.

use std::{
    io::{self, Read, Write as _},
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

/// Maximum number of bytes that are stored of each output stream of a command. Further bytes are
/// discarded.
const MAX_PRINTED: usize = 16 << 20;

/// The interval between checks whether the caller has cancelled the run.
const TICK: Duration = Duration::from_millis(50);

/// The interval between checks whether a process that has closed its output has ended.
const REAP_TICK: Duration = Duration::from_millis(1);

/// The error of starting a command or of waiting for it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The command cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The end of the process cannot be determined.
    #[error("cannot wait for a process")]
    Wait(#[source] io::Error),
    /// The process exceeded its time limit and was killed.
    #[error("not done after {} s", limit.as_secs_f64())]
    TooLong {
        /// The time limit.
        limit: Duration,
    },
    /// The process ended before it printed the expected line.
    #[error("it ended early: {0}")]
    EndedEarly(String),
    /// The caller cancelled the run. All processes were killed.
    #[error("interrupted")]
    Cancelled,
}

/// The output and the resources of a process that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The exit status of the process.
    pub status: ExitStatus,
    /// The standard output of the process, up to 16 MiB.
    pub stdout: String,
    /// The standard error of the process, up to 16 MiB.
    pub stderr: String,
    /// Time from the start of the process until it closed its output.
    pub wall: Duration,
    /// The resources that the process used.
    pub usage: Usage,
}

impl Finished {
    /// Returns the last line of standard error without the prefix `error: `.
    #[must_use]
    pub fn complaint(&self) -> &str {
        complaint(&self.stderr)
    }
}

/// Returns the last line of a text without the prefix `error: `.
fn complaint(stderr: &str) -> &str {
    let last = stderr.trim_end().lines().last();
    let last = last.unwrap_or("it said nothing");
    last.strip_prefix("error: ").unwrap_or(last)
}

/// The resources of a process, counted by the kernel at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Peak of resident memory, in bytes.
    pub peak_rss_bytes: u64,
    /// Number of processor cycles. None if the process was not started with
    /// [`Process::start_counted`], or the machine has no hardware counters.
    pub cycles: Option<u64>,
    /// Number of executed instructions. None in the same cases as [`cycles`](Self::cycles).
    pub instructions: Option<u64>,
}

/// A limit for waiting: a time limit, and a flag by which the caller cancels.
#[derive(Clone, Copy, Debug)]
pub struct Deadline<'a> {
    start: Instant,
    limit: Duration,
    cancel: &'a AtomicBool,
}

impl<'a> Deadline<'a> {
    /// Starts the time limit. Waiting also ends when `cancel` becomes true.
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

/// A callback that receives the standard error of a process.
pub(crate) type StderrCallback = Box<dyn FnMut(&[u8]) + Send>;

/// A running process. It is killed on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    start: Instant,
    output: Receiver<Output>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Number of output streams that the process has not closed.
    open: usize,
    /// Time at which the process had closed all its output streams.
    closed: Option<Instant>,
    /// True if the process was waited for. The kernel may then reuse its ID.
    reaped: bool,
    counters: ProcessCounters,
    /// Keeps the thread that started the process alive until dropped. None if the caller's thread
    /// started it.
    starter: Option<Sender<Never>>,
}

/// An empty type, for a channel on which nothing is sent.
#[derive(Debug)]
enum Never {}

#[derive(Debug)]
enum Output {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Closed(Instant),
}

impl Process {
    /// Starts a command without input and stores its output. The kernel kills the command when the
    /// calling thread ends, so at the latest with this process. Ctrl-C at the terminal reaches this
    /// process only, not the command.
    ///
    /// # Errors
    /// Returns [`MeasureError::Start`] if the command cannot be started.
    pub fn start(command: Command) -> Result<Self, MeasureError> {
        Self::start_observed(command, Stdio::null(), None)
    }

    /// Starts a command like [`start`](Self::start), with `input` as its standard input.
    pub(crate) fn start_with_input(
        command: Command,
        input: impl Into<Stdio>,
    ) -> Result<Self, MeasureError> {
        Self::start_observed(command, input.into(), None)
    }

    /// Starts a command with `input` as its standard input. If `on_stderr` is given, another thread
    /// calls it with each piece of the command's standard error.
    fn start_observed(
        mut command: Command,
        input: Stdio,
        on_stderr: Option<StderrCallback>,
    ) -> Result<Self, MeasureError> {
        transpute_netem::lab::end_with_parent(&mut command);
        command
            .process_group(0)
            .stdin(input)
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
            read_in_background(stderr, Output::Stderr, sender, on_stderr);
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

    /// Starts a command like [`start`](Self::start), and counts the cycles and instructions of all
    /// its threads, if this machine has hardware counters. [`Usage`] has the counts. They start
    /// when the process executes the program.
    ///
    /// # Errors
    /// Returns [`MeasureError::Start`] if the command cannot be started.
    pub fn start_counted(command: Command) -> Result<Self, MeasureError> {
        Self::start_counted_observed(command, None)
    }

    /// Starts a command like [`start_counted`](Self::start_counted). Another thread also passes the
    /// command's standard error to `on_stderr`.
    pub(crate) fn start_counted_observed(
        command: Command,
        on_stderr: Option<StderrCallback>,
    ) -> Result<Self, MeasureError> {
        let (mut process, counters) =
            Self::start_from_thread(command, on_stderr, ProcessCounters::of_started)?;
        process.counters = counters;
        Ok(process)
    }

    /// Returns the process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts a command from a new thread that calls `before` first and starts no other command.
    /// The thread ends only after the process was waited for, because the kernel kills the process
    /// when the thread that started it ends.
    pub(crate) fn start_from_thread<T: Send + 'static>(
        command: Command,
        on_stderr: Option<StderrCallback>,
        before: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(Self, T), MeasureError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let (tell, started) = channel();
        let (starter, over) = channel::<Never>();
        let starting = move || {
            let prepared = before();
            let process = Self::start_observed(command, Stdio::null(), on_stderr);
            // The receiver waits for this message, so sending cannot fail.
            let _ = tell.send(process.map(|process| (process, prepared)));
            // Nothing is sent on this channel. The call returns when the sender is dropped.
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

    /// Waits for a line on standard error that starts with `start`. Returns the rest of it.
    ///
    /// # Errors
    /// Returns [`MeasureError::EndedEarly`], [`MeasureError::TooLong`],
    /// [`MeasureError::Cancelled`].
    pub fn wait_for_line(
        &mut self,
        start: &str,
        patience: Deadline<'_>,
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
                return Err(MeasureError::EndedEarly(complaint(&text).to_owned()));
            }
            self.take_output(patience)?;
        }
    }

    /// Waits for the next line of standard output. Returns it without its end and removes it from
    /// the output.
    ///
    /// # Errors
    /// Returns the errors of [`wait_for_line`](Self::wait_for_line).
    pub(crate) fn next_line(&mut self, patience: Deadline<'_>) -> Result<String, MeasureError> {
        loop {
            if let Some(end) = self.stdout.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.stdout.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.open == 0 {
                let text = String::from_utf8_lossy(&self.stderr);
                return Err(MeasureError::EndedEarly(complaint(&text).to_owned()));
            }
            self.take_output(patience)?;
        }
    }

    /// Writes to the standard input of a process that was started with a pipe.
    ///
    /// # Errors
    /// Returns the error of the system, or [`io::ErrorKind::BrokenPipe`] if the input is closed.
    pub(crate) fn write_input(&mut self, text: &str) -> io::Result<()> {
        match &mut self.child.stdin {
            Some(input) => input.write_all(text.as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Closes the standard input, if it is a pipe.
    pub(crate) fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// Waits for the end of the process. Kills the process if it exceeds its time limit, is
    /// cancelled or cannot be waited for.
    ///
    /// # Errors
    /// Returns [`MeasureError::TooLong`], [`MeasureError::Cancelled`], [`MeasureError::Wait`].
    pub fn finish(mut self, patience: Deadline<'_>) -> Result<Finished, MeasureError> {
        self.wait(patience)
    }

    /// Waits for the end of the process. After an error, the process is still running.
    pub(crate) fn wait(&mut self, patience: Deadline<'_>) -> Result<Finished, MeasureError> {
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
        // All threads have ended, so their counters are complete.
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

    fn take_output(&mut self, patience: Deadline<'_>) -> Result<(), MeasureError> {
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

    /// Checks without blocking whether the process has ended.
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
        // process number belongs to our own child, which is not reaped yet.
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
            // Linux reports KiB.
            peak_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
            ..Usage::default()
        };
        Ok(Some((ExitStatus::from_raw(status), usage)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            // Killing a process that has ended fails, which does no harm. The process was not
            // waited for, so its ID is still valid.
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

/// Reads a stream to its end on a separate thread, which ends with the process.
fn read_in_background(
    mut stream: impl Read + Send + 'static,
    wrap: fn(Vec<u8>) -> Output,
    sender: Sender<Output>,
    mut on_stderr: Option<StderrCallback>,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    if let Some(on_stderr) = &mut on_stderr {
                        on_stderr(&buffer[..read]);
                    }
                    if sender.send(wrap(buffer[..read].to_vec())).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // Sending fails if the receiver was dropped together with an abandoned process.
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
        let finished = process.finish(Deadline::new(LONG, never())).unwrap();
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
        let patience = Deadline::new(LONG, never());
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
        let error = process.finish(Deadline::new(Duration::from_millis(80), never()));
        assert!(matches!(error, Err(MeasureError::TooLong { .. })));
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());

        let cancel = AtomicBool::new(true);
        let error = start().finish(Deadline::new(LONG, &cancel));
        assert!(matches!(error, Err(MeasureError::Cancelled)));
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = Process::start(Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start /no/such/program");
    }
}
