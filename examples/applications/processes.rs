//! Helpers for tests of the applications that run each party as a separate process.
//!
//! Each child process executes the test program itself, with only the ignored test
//! `tests::party_process`. That test runs the application with the arguments in the environment
//! variable [`ARGUMENTS`].

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use transpute::Identity;
use transpute_applications::causes;

/// Environment variable with the arguments of a party, one per line.
const ARGUMENTS: &str = "TRANSPUTE_EXAMPLE_ARGUMENTS";

/// Time after which a child process is killed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A temporary folder with a key file for each of the two parties.
pub(crate) struct Keys {
    folder: TempDir,
    /// The flags `--identity` and `--peer`: of the party that listens, then of the one that
    /// connects.
    flags: [Vec<String>; 2],
}

/// The exit status and the output of a child process.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Returns the line of standard error that begins with `error: `. Panics if the process
    /// succeeded.
    pub(crate) fn complaint(&self) -> &str {
        assert!(!self.status.success(), "{self:?}");
        let mut lines = self.stderr.lines();
        lines.find(|line| line.starts_with("error: ")).unwrap()
    }

    /// Returns the JSON object that the party printed.
    pub(crate) fn json(&self) -> serde_json::Value {
        // The test harness prints the name of the test before the object.
        let start = self
            .stdout
            .find('{')
            .unwrap_or_else(|| panic!("no object: {self:?}"));
        let mut objects = serde_json::Deserializer::from_str(&self.stdout[start..]).into_iter();
        objects.next().unwrap().unwrap()
    }
}

/// Runs the application if this process is a child process: if [`ARGUMENTS`] is set. `run` gets the
/// arguments. Otherwise does nothing.
pub(crate) fn act<F: Future<Output = Result<(), Box<dyn Error>>>>(
    run: impl FnOnce(Vec<String>) -> F,
) {
    let Ok(arguments) = env::var(ARGUMENTS) else {
        return;
    };
    let arguments = arguments.lines().map(str::to_owned).collect();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    if let Err(error) = runtime.block_on(run(arguments)) {
        eprintln!("error: {}", causes(&*error));
        std::process::exit(1);
    }
}

impl Keys {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = ["one.key", "other.key"].map(|name| folder.path().join(name));
        let [one, other] = files
            .each_ref()
            .map(|file| Identity::load_or_create(file).unwrap().fingerprint());
        let flags = |file: &PathBuf, peer: &dyn std::fmt::Display| {
            [
                "--identity",
                &file.to_string_lossy(),
                "--peer",
                &peer.to_string(),
            ]
            .map(str::to_owned)
            .to_vec()
        };
        Self {
            flags: [flags(&files[0], &other), flags(&files[1], &one)],
            folder,
        }
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs two parties with these arguments until both exit. Returns the results in the order of
    /// the parameters.
    pub(crate) fn meet(&self, listening: &[&str], connecting: &[&str]) -> [Ended; 2] {
        let mut listener = Party::start(listening, &self.flags[0], ["--listen", "127.0.0.1:0"]);
        let address = listener.address();
        let connector = Party::start(connecting, &self.flags[1], ["--connect", &address]);
        let connector = connector.end();
        [listener.end(), connector]
    }
}

struct Party {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    said: String,
}

impl Party {
    fn start(arguments: &[&str], keys: &[String], end: [&str; 2]) -> Self {
        let all = (arguments.iter().copied())
            .chain(keys.iter().map(String::as_str))
            .chain(end);
        let all: Vec<&str> = all.collect();
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "tests::party_process",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(ARGUMENTS, all.join("\n"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stderr,
            said: String::new(),
        }
    }

    /// Waits until the party listens. Returns the address on which it listens.
    fn address(&mut self) -> String {
        loop {
            let start = self.said.len();
            assert_ne!(
                self.stderr.read_line(&mut self.said).unwrap(),
                0,
                "it listens not: {}",
                self.said
            );
            if let Some(address) = self.said[start..].trim().strip_prefix("listening on ") {
                return address.to_owned();
            }
        }
    }

    fn end(mut self) -> Ended {
        let mut stdout = self.child.stdout.take().unwrap();
        // Threads read the output while this one waits, because a process blocks when a pipe is
        // full.
        let (stdout, stderr) = (
            thread::spawn(move || {
                let mut text = String::new();
                stdout.read_to_string(&mut text).unwrap();
                text
            }),
            thread::spawn(move || {
                self.stderr.read_to_string(&mut self.said).unwrap();
                self.said
            }),
        );
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > PATIENCE {
                self.child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ended {
            status,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    }
}

/// Converts a path to a command-line argument.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
