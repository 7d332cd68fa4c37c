//! The two processes: a listener that receives, and a connector that sends.
//!
//! Their parameters are in environment variables, and they report lines on standard error, because
//! the harness writes to standard output. Both stay until the measuring process closes their
//! standard input, so that neither misses the end of the other. Times are nanoseconds of the
//! system's clock since 1970, which the emulator uses too.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStderr, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_netem::lab::{Lab, PARTY_PORT, Side};
use transpute_transport::{Identity, Link, Registry, Security};

use super::trains::TrainCounter;

/// The side that connects and sends.
pub(crate) const SENDER: Side = Side::A;

const ROLE: &str = "BARS_ROLE";
const TRANSPORT: &str = "BARS_TRANSPORT";
const ADDRESS: &str = "BARS_ADDRESS";
const KEY: &str = "BARS_KEY";
const PEER: &str = "BARS_PEER";
const BYTES: &str = "BARS_BYTES";
const MARKS: &str = "BARS_MARKS";
const TRAINS: &str = "BARS_TRAINS";

/// Prefix of the lines of a party.
const PREFIX: &str = "party: ";

/// Time limit of a party, in case that it hangs. The runs of `share` are the longest, and take 67
/// s.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Length of the pattern that the sent data repeats, in bytes. It is prime, so that data at a wrong
/// position differs from the pattern.
const PERIOD: usize = 1_000_003;

/// Maximum number of bytes of a read.
const READ_SIZE: usize = 256 << 10;

/// The parameters of two parties.
pub(crate) struct Orders<'a> {
    pub(crate) transport: &'a str,
    /// Bytes that the connector sends.
    pub(crate) bytes: u64,
    /// Seconds after its first byte at which the listener reports "mark" and the number of received
    /// bytes.
    pub(crate) marks: &'a [u64],
    /// True if both parties count train packets. Counting inspects every packet, so it is too slow
    /// for fast paths.
    pub(crate) counts_trains: bool,
}

/// Two running processes, killed on drop.
pub(crate) struct Parties {
    pub(crate) listener: Party,
    pub(crate) connector: Party,
}

impl Parties {
    /// Starts the listener, waits until it listens, and starts the connector.
    pub(crate) fn start(lab: &Lab, orders: &Orders<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity = |name| {
            let identity = Identity::generate().unwrap();
            let path = folder.path().join(name);
            identity.save(&path).unwrap();
            (path, identity.fingerprint().to_string())
        };
        let ((listen_key, listen_name), (connect_key, connect_name)) =
            (identity("listener"), identity("connector"));
        let address = format!("{}:{PARTY_PORT}", lab.address(SENDER.other()));
        let marks: Vec<_> = orders.marks.iter().map(u64::to_string).collect();
        let start = |side: Side, role: &str, key: &Path, peer: &str| {
            let mut command = lab.command(side, env::current_exe().unwrap());
            command
                .args(["--exact", "party_process", "--ignored", "--nocapture"])
                .env(ROLE, role)
                .env(TRANSPORT, orders.transport)
                .env(ADDRESS, &address)
                .env(KEY, key)
                .env(PEER, peer)
                .env(BYTES, orders.bytes.to_string())
                .env(MARKS, marks.join(","))
                .env(TRAINS, orders.counts_trains.to_string())
                .env("RUST_BACKTRACE", "0")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let lines = BufReader::new(child.stderr.take().unwrap());
            Party { child, lines }
        };
        let mut listener = start(SENDER.other(), "listen", &listen_key, &connect_name);
        let [] = listener.wait_for("listening");
        let mut connector = start(SENDER, "connect", &connect_key, &listen_name);
        // Both processes have read their keys, so the folder may be removed.
        let [] = connector.wait_for("connecting");
        Self {
            listener,
            connector,
        }
    }
}

/// One of the two processes.
pub(crate) struct Party {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Party {
    /// Waits for a line that begins with this word. Returns the numbers after it.
    pub(crate) fn wait_for<const N: usize>(&mut self, word: &str) -> [u64; N] {
        let mut other = String::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "a party ended before it said {word:?}:\n{other}");
            let mut words = (line.strip_prefix(PREFIX).unwrap_or_default()).split_whitespace();
            if words.next() == Some(word) {
                let numbers: Vec<u64> = words.map(|number| number.parse().unwrap()).collect();
                return numbers.try_into().unwrap();
            }
            other += &line;
        }
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Converts a time to the form in the parties' lines.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    // Fits until the year 2554.
    time.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn say(word: &str, numbers: &[u64]) {
    let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
    eprintln!("{PREFIX}{word} {}", numbers.join(" "));
}

/// Runs a party, if this process is one.
pub(crate) fn act() {
    let Ok(role) = env::var(ROLE) else { return };
    let variable = |name| env::var(name).unwrap();
    let bytes = variable(BYTES).parse().unwrap();
    let identity = Arc::new(Identity::load(Path::new(&variable(KEY))).unwrap());
    let security = Security::tls(identity, [variable(PEER).parse().unwrap()]);
    let transport = Registry::with_builtins().get(&variable(TRANSPORT)).unwrap();
    let address = variable(ADDRESS);
    let marks = variable(MARKS);
    let marks = marks.split(',').filter(|mark| !mark.is_empty());
    let marks: Vec<u64> = marks.map(|mark| mark.parse().unwrap()).collect();
    let pattern = pattern();
    let trains =
        (variable(TRAINS) == "true").then(|| TrainCounter::start(&address, role == "listen"));
    let trains = || trains.as_ref().map_or([0; 2], TrainCounter::counts);

    let work = async {
        if role == "listen" {
            let mut listener = transport.listen(&address, &security).await.unwrap();
            say("listening", &[]);
            let link = listener.accept().await.unwrap();
            let arrived = receive(link, bytes, &pattern, &marks).await;
            let [sent, came] = trains();
            say("arrived", &[arrived, sent, came]);
        } else {
            say("connecting", &[]);
            let link = transport.connect(&address, &security).await.unwrap();
            let linked = nanoseconds(SystemTime::now());
            send(link, bytes, &pattern).await;
            let [sent, came] = trains();
            say("sent", &[linked, sent, came]);
        }
        // The runtime continues, for the remaining work of the transport.
        let wait = || std::io::stdin().read_to_end(&mut Vec::new());
        tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
    };
    // The runtime of `transpute run`.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let done = runtime.block_on(async { tokio::time::timeout(TIME_LIMIT, work).await });
    assert!(done.is_ok(), "not done after {TIME_LIMIT:?}");
}

/// Sends bytes, and waits until the peer has them.
async fn send(link: Link, bytes: u64, pattern: &[u8]) {
    let (mut reader, mut writer) = link.into_parts();
    let mut left = bytes;
    while left > 0 {
        let length = left.min(pattern.len() as u64);
        writer.write_all(&pattern[..length as usize]).await.unwrap();
        left -= length;
    }
    writer.shutdown().await.unwrap();
    let read = reader.read(&mut [0]).await.unwrap();
    assert_eq!(read, 0, "the listener sent something");
}

/// Receives bytes and the end of the stream. Returns the time of the last byte.
async fn receive(link: Link, bytes: u64, pattern: &[u8], marks: &[u64]) -> u64 {
    let (mut reader, mut writer) = link.into_parts();
    let mut buffer = vec![1; READ_SIZE];
    let (mut position, mut arrived) = (0, 0);
    let mut began = None;
    let mut marks = marks.iter().peekable();
    loop {
        let length = reader.read(&mut buffer).await.unwrap();
        if length == 0 {
            break;
        }
        if position + length as u64 == bytes {
            arrived = nanoseconds(SystemTime::now());
        }
        let elapsed = began.get_or_insert_with(Instant::now).elapsed();
        check(&buffer[..length], position, pattern);
        position += length as u64;
        if (marks.next_if(|mark| elapsed >= Duration::from_secs(**mark))).is_some() {
            say("mark", &[position]);
        }
    }
    assert_eq!(position, bytes, "the stream has another length");
    writer.shutdown().await.unwrap();
    arrived
}

/// Compares bytes with the sent ones at this position.
fn check(mut bytes: &[u8], position: u64, pattern: &[u8]) {
    let mut place = (position % pattern.len() as u64) as usize;
    while !bytes.is_empty() {
        let length = bytes.len().min(pattern.len() - place);
        let is_right = bytes[..length] == pattern[place..place + length];
        assert!(is_right, "bytes from {position} on are altered");
        bytes = &bytes[length..];
        place = 0;
    }
}

/// Returns the bytes that are sent repeatedly.
fn pattern() -> Vec<u8> {
    let byte = |place: u64| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (0..PERIOD as u64).map(byte).collect()
}
