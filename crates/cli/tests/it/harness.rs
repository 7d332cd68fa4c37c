//! Pairs of parties with keys, and a relay between them.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use transpute::Identity;

use crate::process::DEADLINE;
pub(crate) use crate::process::{Finished, KEY, PLAINTEXT, Process, transpute, write};

pub(crate) const CIPHERTEXT: &str = "69c4e0d86a7b0430d8cdb78070b4c55a";

pub(crate) const SCHEMES: [&str; 4] = ["half-gates", "fixed-key", "prf", "three-halves"];

impl Process {
    pub(crate) fn listening_on(&mut self) -> String {
        self.line("listening on ")
    }
}

impl Finished {
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

/// The keys that all tests share. They are in the build folder, because statics are never dropped.
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

    /// Starts this party as the listener. Returns the process and its address.
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

/// Connects two parties and waits for both.
pub(crate) fn meet(listening: Party, connecting: Party) -> [Finished; 2] {
    let (listening, address) = listening.listen();
    let connecting = connecting.connect(&address);
    [listening.finish(), connecting.finish()]
}

/// A relay between one connection and a listening party, which can stop or corrupt the bytes.
pub(crate) struct Relay {
    pub(crate) address: String,
    state: Arc<RelayState>,
}

#[derive(Default)]
struct RelayState {
    /// Number of bytes from the listening party that were relayed.
    passed: AtomicU64,
    /// True if the relay forwards no more bytes. The connections stay open.
    is_stopped: AtomicBool,
    /// Position of the first of [`SPOILED`] bytes from the listening party in which a bit is
    /// flipped, counted from 1. Zero flips no bit.
    spoil: AtomicU64,
}

/// Number of bytes that a relay changes. They are 64 tables of half-gates. An evaluator ignores each
/// half of a table with a probability of 1/2, so a change of a single byte may have no effect.
const SPOILED: u64 = 2048;

impl Relay {
    pub(crate) fn to(target: &str) -> Self {
        Self::with_spoiled_bytes(target, 0)
    }

    /// Flips a bit of each of [`SPOILED`] bytes from the listening party, from byte `index` on,
    /// counted from 1.
    pub(crate) fn with_spoiled_bytes(target: &str, index: u64) -> Self {
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

    /// Waits until this number of bytes has come from the listening party.
    pub(crate) fn wait_for(&self, bytes: u64) {
        let deadline = Instant::now() + DEADLINE;
        while self.state.passed.load(Ordering::Relaxed) < bytes {
            assert!(Instant::now() < deadline, "too little traffic");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops relaying.
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
            // Both connections stay open until the test is over.
            thread::sleep(DEADLINE);
            return;
        }
        if is_counted {
            let before = state.passed.fetch_add(read as u64, Ordering::Relaxed);
            let spoil = state.spoil.load(Ordering::Relaxed);
            for (byte, index) in buffer[..read].iter_mut().zip(before + 1..) {
                if spoil > 0 && (spoil..spoil + SPOILED).contains(&index) {
                    *byte ^= 1;
                }
            }
        }
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
