//! Commands as processes, for the tests of both programs. No process outlives its test.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::BINARY;

/// Maximum duration of a process, far beyond what any test needs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(100);

/// The key and the plaintext of the AES-128 example in FIPS-197, appendix C.1.
pub(crate) const KEY: &str = "hex:000102030405060708090a0b0c0d0e0f";
pub(crate) const PLAINTEXT: &str = "hex:00112233445566778899aabbccddeeff";

/// A running command, killed on drop.
pub(crate) struct Process {
    pub(crate) child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Receiver<String>,
    seen: String,
}

/// A command that ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        Self::start_with(args, |command| command)
    }

    pub(crate) fn start_with<S: AsRef<std::ffi::OsStr>>(
        args: impl IntoIterator<Item = S>,
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .env_remove("TRANSPUTE_LOG")
            // Measurements of this machine do not go into the user's cache.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = prepare(&mut command).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let stdout = thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        let err = BufReader::new(child.stderr.take().unwrap());
        let (sender, stderr) = channel();
        thread::spawn(move || {
            for line in err.lines() {
                let _ = sender.send(line.unwrap() + "\n");
            }
        });
        Self {
            child,
            stdout: Some(stdout),
            stderr,
            seen: String::new(),
        }
    }

    /// Waits for a line on standard error that starts with `start`. Returns the rest of it.
    pub(crate) fn line(&mut self, start: &str) -> String {
        loop {
            let Ok(line) = self.stderr.recv_timeout(DEADLINE) else {
                panic!("no line {start:?}, only:\n{}", self.seen);
            };
            self.seen.push_str(&line);
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
    }

    /// Interrupts the process.
    #[cfg(target_os = "linux")]
    pub(crate) fn interrupt(self) -> Self {
        let id = rustix::process::Pid::from_raw(self.id().cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self
    }

    pub(crate) fn finish(mut self) -> Finished {
        let deadline = Instant::now() + DEADLINE;
        let code = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if Instant::now() > deadline => panic!("it does not end:\n{}", self.seen),
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let stdout = self.stdout.take().unwrap().join().unwrap();
        let mut stderr = std::mem::take(&mut self.seen);
        stderr.extend(self.stderr.iter());
        Finished {
            code,
            stdout,
            stderr,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// Checks the exit code, and that a failure prints one line that starts with `error: `.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn fails(self, code: i32, fragment: &str) -> Self {
        let finished = self.expect(code);
        let errors: Vec<_> = (finished.stderr.lines())
            .filter(|line| line.starts_with("error: "))
            .collect();
        assert_eq!(errors.len(), 1, "{}", finished.stderr);
        assert!(
            errors[0].contains(fragment),
            "{} lacks {fragment:?}",
            errors[0]
        );
        finished
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }
}

pub(crate) fn transpute<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Finished {
    Process::start(args).finish()
}

/// Writes a file into a folder. Returns its path.
pub(crate) fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}
