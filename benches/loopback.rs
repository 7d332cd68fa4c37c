//! Compares the speed of links over TCP with that of plain sockets, both on loopback. It measures
//! the transfer of one gigabyte in one direction, and a round trip of one byte.
//!
//! Each end has its own thread. The plain sockets are blocking. A link uses a Tokio runtime with
//! one thread at each end.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
};
use transpute_transport::{Identity, Link, LinkReader, LinkWriter, Security, Tcp, Transport as _};

/// Maximum number of bytes that one call reads or writes.
const CHUNK_BYTES: usize = 256 << 10;

/// Length of the bulk transfer: one gigabyte.
const BULK_BYTES: usize = 1_000_000_000;

/// The sending end of a connection whose other end answers each transfer with one byte.
trait Client {
    /// Executes `times` transfers one after the other. Each sends `bytes` bytes and waits for the
    /// answer. Returns the total time.
    fn exchange(&mut self, bytes: usize, times: u64) -> Duration;
}

/// Answers every `bytes` received bytes with one byte, until the connection ends.
fn serve_plain(mut stream: TcpStream, bytes: usize) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let mut left = bytes;
        while left > 0 {
            match stream.read(&mut buffer[..left.min(CHUNK_BYTES)]) {
                Ok(read @ 1..) => left -= read,
                _ => return,
            }
        }
        if stream.write_all(&[1]).is_err() {
            return;
        }
    }
}

struct Plain {
    stream: TcpStream,
    chunk: Vec<u8>,
}

impl Plain {
    fn new(bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback accepts a listener");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("the other end connects");
            stream.set_nodelay(true).expect("TCP has the option");
            serve_plain(stream, bytes);
        });
        let stream = TcpStream::connect(address).expect("the listener accepts connections");
        stream.set_nodelay(true).expect("TCP has the option");
        Self {
            stream,
            chunk: vec![7; CHUNK_BYTES],
        }
    }
}

impl Client for Plain {
    fn exchange(&mut self, bytes: usize, times: u64) -> Duration {
        let started = Instant::now();
        for _ in 0..times {
            let mut left = bytes;
            while left > 0 {
                let length = left.min(CHUNK_BYTES);
                (self.stream.write_all(&self.chunk[..length])).expect("the other end reads");
                left -= length;
            }
            (self.stream.read_exact(&mut [0])).expect("the other end answers");
        }
        started.elapsed()
    }
}

/// Does the same as [`serve_plain`] over a link.
async fn serve(link: Link, bytes: usize) {
    let (mut reader, mut writer) = link.into_parts();
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let mut left = bytes;
        while left > 0 {
            match reader.read(&mut buffer[..left.min(CHUNK_BYTES)]).await {
                Ok(read @ 1..) => left -= read,
                _ => return,
            }
        }
        if writer.write_all(&[1]).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}

struct Linked {
    runtime: Runtime,
    reader: LinkReader,
    writer: LinkWriter,
    chunk: Vec<u8>,
}

impl Linked {
    fn new(listening: Security, connecting: Security, bytes: usize) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            runtime().block_on(async {
                let mut listener = (Tcp::default().listen("127.0.0.1:0", &listening).await)
                    .expect("loopback accepts a listener");
                (sender.send(listener.local_address())).expect("the receiver is open");
                let link = listener.accept().await.expect("the other end connects");
                serve(link, bytes).await;
            });
        });
        let address = receiver.recv().expect("the listener reports its address");
        let runtime = runtime();
        let link = (runtime.block_on(Tcp::default().connect(&address, &connecting)))
            .expect("the listener accepts connections");
        let (reader, writer) = link.into_parts();
        Self {
            runtime,
            reader,
            writer,
            chunk: vec![7; CHUNK_BYTES],
        }
    }
}

impl Client for Linked {
    fn exchange(&mut self, bytes: usize, times: u64) -> Duration {
        self.runtime.block_on(async {
            let started = Instant::now();
            for _ in 0..times {
                let mut left = bytes;
                while left > 0 {
                    let length = left.min(CHUNK_BYTES);
                    (self.writer.write_all(&self.chunk[..length]).await)
                        .expect("the other end reads");
                    left -= length;
                }
                self.writer.flush().await.expect("the other end reads");
                (self.reader.read_exact(&mut [0]).await).expect("the other end answers");
            }
            started.elapsed()
        })
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system can create a runtime")
}

fn tls() -> (Security, Security) {
    let key = || Identity::generate().expect("the system has randomness");
    let (a, b) = (key(), key());
    let (of_a, of_b) = (a.fingerprint(), b.fingerprint());
    (
        Security::tls(a.into(), [of_b]),
        Security::tls(b.into(), [of_a]),
    )
}

fn compare(group: &mut BenchmarkGroup<'_, WallTime>, bytes: usize) {
    let (listening, connecting) = tls();
    let clients: [(&str, Box<dyn Client>); 3] = [
        ("sockets", Box::new(Plain::new(bytes))),
        (
            "tcp-plaintext",
            Box::new(Linked::new(Security::Plaintext, Security::Plaintext, bytes)),
        ),
        (
            "tcp-tls",
            Box::new(Linked::new(listening, connecting, bytes)),
        ),
    ];
    for (name, mut client) in clients {
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter_custom(|times| client.exchange(bytes, times));
        });
    }
}

fn loopback(c: &mut Criterion) {
    let mut group = c.benchmark_group("loopback/bulk");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(BULK_BYTES as u64));
    compare(&mut group, BULK_BYTES);
    group.finish();
    let mut group = c.benchmark_group("loopback/round-trip");
    compare(&mut group, 1);
    group.finish();
}

criterion_group!(benches, loopback);
criterion_main!(benches);
