//! Starting commands, pairs of them, and a relay between them; nothing outlives a test.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use transpute::Identity;

/// How long a process may take; far beyond what any test needs.
const DEADLINE: Duration = Duration::from_secs(100);

/// FIPS-197, appendix C.1.
pub(crate) const KEY: &str = "hex:000102030405060708090a0b0c0d0e0f";
pub(crate) const PLAINTEXT: &str = "hex:00112233445566778899aabbccddeeff";
pub(crate) const CIPHERTEXT: &str = "69c4e0d86a7b0430d8cdb78070b4c55a";

pub(crate) const SCHEMES: [&str; 4] = ["half-gates", "fixed-key", "prf", "three-halves"];

/// A running command, killed on drop.
pub(crate) struct Process {
    child: Child,
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_transpute"));
        command
            .args(args)
            .env_remove("TRANSPUTE_LOG")
            // What is measured of this machine is nothing for its user to keep.
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

    /// Waits for a line on standard error and returns what follows `start` there.
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

    pub(crate) fn listening_on(&mut self) -> String {
        self.line("listening on ")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Ends the process as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
    }

    /// Tells the process to end.
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
    /// Checks the exit code, and that a failure is one line that starts with `error: `.
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

    /// Returns the hex forms of the output values in JSON.
    #[track_caller]
    pub(crate) fn outputs(&self) -> Vec<String> {
        values(&self.json()["outputs"])
    }
}

/// Returns the hex forms of a list of output values.
pub(crate) fn values(list: &Value) -> Vec<String> {
    (list.as_array().unwrap().iter())
        .map(|value| value["hex"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn transpute<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Finished {
    Process::start(args).finish()
}

/// A party with a key.
pub(crate) struct Key {
    pub(crate) path: PathBuf,
    pub(crate) fingerprint: String,
}

pub(crate) struct Keys {
    _folder: TempDir,
    pub(crate) garbler: Key,
    pub(crate) evaluator: Key,
    pub(crate) stranger: Key,
}

/// The keys that all tests share, in the build folder: a static is never dropped.
pub(crate) static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let key = |name: &str| {
        let path = folder.path().join(name);
        let identity = Identity::generate().unwrap();
        identity.save(&path).unwrap();
        Key {
            path,
            fingerprint: identity.fingerprint().to_string(),
        }
    };
    Keys {
        garbler: key("garbler"),
        evaluator: key("evaluator"),
        stranger: key("stranger"),
        _folder: folder,
    }
});

/// The arguments of one party, without an address.
#[derive(Clone)]
pub(crate) struct Party(pub(crate) Vec<String>);

impl Party {
    /// A party over TLS that prints JSON.
    pub(crate) fn new(role: &str, circuit: &str) -> Self {
        let (me, peer) = match role {
            "garbler" => (&KEYS.garbler, &KEYS.evaluator),
            _ => (&KEYS.evaluator, &KEYS.garbler),
        };
        Self::bare(role, circuit)
            .and(["--json", "--identity", me.path.to_str().unwrap()])
            .and(["--peer", &peer.fingerprint])
    }

    pub(crate) fn plaintext(role: &str, circuit: &str) -> Self {
        Self::bare(role, circuit).and(["--json", "--plaintext"])
    }

    pub(crate) fn bare(role: &str, circuit: &str) -> Self {
        Self(vec!["run".to_owned()]).and(["--role", role, "--circuit", circuit])
    }

    pub(crate) fn and<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.0.extend(args.into_iter().map(str::to_owned));
        self
    }

    pub(crate) fn input(self, number: usize, value: &str) -> Self {
        self.and(["--input", &format!("{number}={value}")])
    }

    /// Starts to listen and returns the address.
    pub(crate) fn listen(self) -> (Process, String) {
        let mut process = Process::start(self.and(["--listen", "127.0.0.1:0"]).0);
        let address = process.listening_on();
        (process, address)
    }

    pub(crate) fn connect(self, address: &str) -> Process {
        Process::start(self.and(["--connect", address]).0)
    }
}

/// Both parties of AES-128 on the FIPS-197 vector.
pub(crate) fn aes() -> [Party; 2] {
    [
        Party::new("garbler", "aes128").input(0, KEY),
        Party::new("evaluator", "aes128").input(1, PLAINTEXT),
    ]
}

/// Lets two parties meet and waits for both.
pub(crate) fn meet(listening: Party, connecting: Party) -> [Finished; 2] {
    let (listening, address) = listening.listen();
    let connecting = connecting.connect(&address);
    [listening.finish(), connecting.finish()]
}

/// Writes a file into a folder and returns its path.
pub(crate) fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Passes bytes between one connection and a listening party, and can stop or spoil them.
pub(crate) struct Relay {
    pub(crate) address: String,
    state: Arc<RelayState>,
}

#[derive(Default)]
struct RelayState {
    /// Bytes passed from the listening party.
    passed: AtomicU64,
    /// From here on nothing is passed any more, but the connections stay.
    is_stopped: AtomicBool,
    /// Which byte from the listening party to flip, counted from 1; 0 for none.
    spoil: AtomicU64,
}

impl Relay {
    pub(crate) fn to(target: &str) -> Self {
        Self::with_spoiled_byte(target, 0)
    }

    /// Flips a bit of byte `index`, counted from 1, on its way from the listening party.
    pub(crate) fn with_spoiled_byte(target: &str, index: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let target = target.to_owned();
        let state = Arc::new(RelayState::default());
        state.spoil.store(index, Ordering::Relaxed);
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            let Ok((near, _)) = listener.accept() else {
                return;
            };
            let far = TcpStream::connect(target).unwrap();
            let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let other = Arc::clone(&shared);
            thread::spawn(move || pass(near, far, &other, false));
            pass(far_too, near_too, &shared, true);
        });
        Self { address, state }
    }

    /// Waits until so many bytes came from the listening party.
    pub(crate) fn wait_for(&self, bytes: u64) {
        let deadline = Instant::now() + DEADLINE;
        while self.state.passed.load(Ordering::Relaxed) < bytes {
            assert!(Instant::now() < deadline, "too little traffic");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Passes nothing from here on.
    pub(crate) fn stop(&self) {
        self.state.is_stopped.store(true, Ordering::Relaxed);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &RelayState, is_counted: bool) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        if state.is_stopped.load(Ordering::Relaxed) {
            // Both ends stay open until the test is over.
            thread::sleep(DEADLINE);
            return;
        }
        if is_counted {
            let before = state.passed.fetch_add(read as u64, Ordering::Relaxed);
            let spoil = state.spoil.load(Ordering::Relaxed);
            if (before + 1..=before + read as u64).contains(&spoil) {
                buffer[(spoil - before - 1) as usize] ^= 1;
            }
        }
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
