//! QUIC links over an emulated path, in virtual time.
//!
//! Both ends, the path between them and the clock are in one task of a runtime with paused time,
//! which jumps to the next timer when no task is ready. A seed determines which packets the path
//! loses, damages and delays. The handshake draws its keys from the system, so the bytes of the
//! packets differ between two runs with the same seed. The sizes, times and losses are equal,
//! except for the random times at which BBR probes.

mod vanish;

use std::{
    collections::VecDeque,
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use quinn::{
    AsyncUdpSocket, Endpoint, TokioRuntime, UdpPoller,
    udp::{RecvMeta, Transmit},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, Sleep},
};
use transpute_netem::{model::Path, scenario::PathConfig};
use transpute_units::Bandwidth;

use super::{Quic, QuicCongestion, QuicDriver, QuicOptions, SERVER_NAME, config, handshake};
use crate::{Identity, Link, Security, StreamError, TransportError};

/// Size of the IP and UDP headers per packet, in bytes. The path's rate applies to them too.
const HEADERS: usize = 28;

/// Returns the next number of Marsaglia's xorshift generator. Its state is never 0.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// One direction of the emulated path.
struct Wire {
    started: Instant,
    path: Path<Vec<u8>>,
    /// Mean number of packets from one damaged packet to the next. If it is 0, no packet is
    /// damaged.
    damage_one_in: u64,
    random: u64,
    /// True if the path loses every packet.
    is_cut: bool,
    reader: Option<Waker>,
}

impl Wire {
    fn new(path: &PathConfig, damage_one_in: u64, seed: u64) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            started: Instant::now(),
            path: Path::new(path, seed),
            damage_one_in,
            random: seed | 1,
            is_cut: false,
            reader: None,
        }))
    }

    fn nanos(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn draw(&mut self, below: u64) -> u64 {
        next_random(&mut self.random) % below
    }

    fn send(&mut self, datagram: &[u8]) {
        if self.is_cut {
            return;
        }
        let mut packet = vec![0; HEADERS];
        packet.extend_from_slice(datagram);
        if self.damage_one_in > 0 && self.draw(self.damage_one_in) == 0 {
            let at = HEADERS + self.draw(datagram.len() as u64) as usize;
            packet[at] ^= 1 << self.draw(8);
        }
        let now = self.nanos();
        self.path.enqueue(now, packet);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// A socket at one end of the path.
struct Socket {
    local: SocketAddr,
    peer: SocketAddr,
    out: Arc<Mutex<Wire>>,
    inward: Arc<Mutex<Wire>>,
    alarm: Mutex<Pin<Box<Sleep>>>,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Socket")
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut wire = self.out.lock().unwrap();
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        for datagram in transmit.contents.chunks(segment.max(1)) {
            wire.send(datagram);
        }
        Ok(())
    }

    fn max_transmit_segments(&self) -> usize {
        64
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut alarm = self.alarm.lock().unwrap();
        loop {
            let mut wire = self.inward.lock().unwrap();
            let now = wire.nanos();
            let mut count = 0;
            while count < bufs.len().min(meta.len())
                && let Some(packet) = wire.path.dequeue(now)
            {
                let datagram = &packet[HEADERS..];
                bufs[count][..datagram.len()].copy_from_slice(datagram);
                meta[count] = RecvMeta::default();
                meta[count].addr = self.peer;
                meta[count].len = datagram.len();
                meta[count].stride = datagram.len();
                count += 1;
            }
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            wire.reader = Some(cx.waker().clone());
            let Some(deadline) = wire.path.next_deadline() else {
                return Poll::Pending;
            };
            let deadline = wire.started + Duration::from_nanos(deadline);
            drop(wire);
            alarm.as_mut().reset(deadline);
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The properties of the emulated path in a run, with the seed.
#[derive(Clone, Debug)]
struct Conditions {
    up: PathConfig,
    down: PathConfig,
    damage_one_in: u64,
    seed: u64,
}

impl Conditions {
    fn new(rtt_ms: f64, mbit: f64, loss: f64, seed: u64) -> Self {
        let mut path = PathConfig::default();
        path.delay_ms = rtt_ms / 2.0;
        path.rate_mbit = Some(mbit);
        path.loss = loss;
        Self {
            up: path.clone(),
            down: path,
            damage_one_in: 0,
            seed,
        }
    }

    /// Returns random conditions with all kinds of errors, derived from the seed.
    fn with_all_faults(seed: u64) -> Self {
        let mut random = VecDeque::new();
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for _ in 0..8 {
            random.push_back((next_random(&mut state) >> 11) as f64 / (1u64 << 53) as f64);
        }
        let mut draw = |low: f64, high: f64| low + (high - low) * random.pop_front().unwrap();
        let mut conditions = Self::new(draw(0.5, 300.0), draw(2.0, 200.0), draw(0.0, 0.1), seed);
        for path in [&mut conditions.up, &mut conditions.down] {
            path.reorder = draw(0.0, 0.1);
            path.duplicate = draw(0.0, 0.05);
        }
        conditions.up.jitter_ms = draw(0.0, 0.4) * conditions.up.delay_ms;
        conditions.damage_one_in = 50;
        conditions
    }

    /// Links two parties over the path.
    async fn link(&self, options: &QuicOptions) -> (Link, Link) {
        self.link_over(&self.wires(), options).await
    }

    /// Makes the two directions of the path.
    fn wires(&self) -> [Arc<Mutex<Wire>>; 2] {
        [
            Wire::new(&self.up, self.damage_one_in, self.seed * 2 + 1),
            Wire::new(&self.down, self.damage_one_in, self.seed * 2 + 2),
        ]
    }

    async fn link_over(
        &self,
        [up, down]: &[Arc<Mutex<Wire>>; 2],
        options: &QuicOptions,
    ) -> (Link, Link) {
        let [a, b] = [0, 1].map(|_| Arc::new(Identity::generate().unwrap()));
        let addresses: [SocketAddr; 2] =
            ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap()];
        let endpoint = |index: usize, out: &Arc<_>, inward: &Arc<_>, server| {
            let socket = Socket {
                local: addresses[index],
                peer: addresses[1 - index],
                out: Arc::clone(out),
                inward: Arc::clone(inward),
                alarm: Mutex::new(Box::pin(tokio::time::sleep(Duration::ZERO))),
            };
            let mut config = config::endpoint();
            config.rng_seed(Some([self.seed as u8; 32]));
            Endpoint::new_with_abstract_socket(
                config,
                server,
                Arc::new(socket),
                Arc::new(TokioRuntime),
            )
            .unwrap()
        };
        let listening = Security::tls(Arc::clone(&b), [a.fingerprint()]);
        let connecting = Security::tls(a, [b.fingerprint()]);
        let server = config::server(options, &listening, &[Quic::NAME]).unwrap();
        let client = config::client(options, &connecting, &[Quic::NAME]).unwrap();
        let connector = endpoint(0, up, down, None);
        let listener = endpoint(1, down, up, Some(server));
        let context = |index: usize| handshake::Context {
            started: std::time::Instant::now(),
            local: addresses[index],
            peer: addresses[1 - index],
            connect: None,
            timeout: Duration::from_secs(30),
            options: QuicOptions {
                driver: QuicDriver::Caller,
                ..*options
            },
            security: [&connecting, &listening][index].clone(),
        };
        let connect = async {
            let connecting = connector.connect_with(client, addresses[1], SERVER_NAME);
            handshake::authenticate(connecting.unwrap(), context(0)).await
        };
        let accept = async {
            loop {
                let incoming = listener.accept().await.unwrap();
                // Ignore a damaged first packet, as a listener does.
                if let Ok(connecting) = incoming.accept() {
                    break handshake::authenticate(connecting, context(1)).await;
                }
            }
        };
        let (connected, accepted) = tokio::join!(connect, accept);
        (
            connected.unwrap().bare.link(),
            accepted.unwrap().bare.link(),
        )
    }
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

/// Sends bytes in both directions at the same time, closes both, and checks the received data.
async fn exchange(a: Link, b: Link, sizes: [usize; 2]) {
    let there = pattern(1, sizes[0]);
    let back = pattern(2, sizes[1]);
    let party = async |link: Link, out: &[u8], inward: &[u8]| {
        let (mut reader, mut writer) = link.into_parts();
        let send = async {
            // Write pieces of many sizes, and flush after some of them.
            let mut rest = out;
            let mut size = 1;
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(size.min(rest.len()));
                writer.write_all(piece).await?;
                if size % 3 == 0 {
                    writer.flush().await?;
                }
                size = size * 7 % 65_521;
                rest = after;
            }
            writer.shutdown().await
        };
        let mut got = Vec::new();
        let (sent, received) = tokio::join!(send, reader.read_to_end(&mut got));
        sent.unwrap();
        received.unwrap();
        assert!(got == inward, "{} bytes of {}", got.len(), inward.len());
    };
    tokio::join!(party(a, &there, &back), party(b, &back, &there));
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_through_any_weather() {
    for seed in 0..200 {
        let conditions = Conditions::with_all_faults(seed);
        let mut options = QuicOptions::default();
        if seed % 3 == 1 {
            // A third of the runs starts with a wrong round-trip time and rate of the path.
            options.path.rtt = Some(Duration::from_millis(100));
            options.path.to_peer.rate = Some(Bandwidth::from_megabits_per_second(40.0));
        } else if seed % 3 == 2 {
            options.congestion = QuicCongestion::Cubic;
        }
        let run = async {
            let (a, b) = conditions.link(&options).await;
            exchange(a, b, [300_000, 70_000]).await;
        };
        tokio::time::timeout(Duration::from_secs(600), run)
            .await
            .unwrap_or_else(|_| panic!("hangs: {conditions:?}"));
    }
}

/// Sends from one side. Returns the virtual seconds from the established link to the last byte, and
/// the share of the sent bytes that were retransmitted.
async fn bulk(conditions: &Conditions, options: &QuicOptions, bytes: usize) -> (f64, f64) {
    send(conditions.link(options).await, bytes).await
}

/// Sends bytes over the first of two linked ends.
async fn send((a, b): (Link, Link), bytes: usize) -> (f64, f64) {
    let started = Instant::now();
    let stats = a.stats();
    let (mut end, mut writer) = a.into_parts();
    let (mut reader, mut answer) = b.into_parts();
    let send = async {
        let chunk = vec![1; 64 << 10];
        let mut left = bytes;
        while left > 0 {
            let size = chunk.len().min(left);
            writer.write_all(&chunk[..size]).await.unwrap();
            left -= size;
        }
        writer.shutdown().await.unwrap();
        end.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let receive = async {
        let mut buffer = vec![0; 256 << 10];
        let mut left = bytes;
        while left > 0 {
            let read = reader.read(&mut buffer).await.unwrap();
            assert!(read > 0, "{left} bytes are missing");
            left -= read;
        }
        let elapsed = started.elapsed();
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 0);
        answer.shutdown().await.unwrap();
        elapsed
    };
    let ((), elapsed) = tokio::join!(send, receive);
    let path = stats.path();
    let again = path.wire_bytes_retransmitted.unwrap() as f64;
    let sent = path.wire_bytes_sent.unwrap() as f64;
    (elapsed.as_secs_f64(), again / sent)
}

/// Finishing fails after the peer has aborted, but not after the peer has shut down.
#[tokio::test(start_paused = true)]
async fn finishing_after_the_peer_has_left_in_order_is_no_error() {
    for (written, is_in_order) in [(0, true), (1000, true), (0, false), (1000, false)] {
        let conditions = Conditions::new(20.0, 100.0, 0.0, 1);
        let (leaving, staying) = conditions.link(&QuicOptions::default()).await;
        let (mut reader, mut writer) = staying.into_parts();
        writer.write_all(&vec![7; written]).await.unwrap();
        let (its_reader, mut its_writer) = leaving.into_parts();
        if is_in_order {
            its_writer.shutdown().await.unwrap();
        }
        drop((its_reader, its_writer));
        tokio::time::sleep(Duration::from_millis(100)).await;
        match writer.shutdown().await.map_err(TransportError::from_io) {
            Ok(()) => {
                assert!(is_in_order, "{written}");
                assert_eq!(reader.read(&mut [0; 1]).await.unwrap(), 0);
            }
            Err(TransportError::Stream(StreamError::ConnectionReset)) => {
                assert!(!is_in_order, "{written}")
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// On this path, the library would close a connection that used one stream with a large window.
#[tokio::test(start_paused = true)]
async fn a_long_lossy_path_does_not_kill_the_connection() {
    let conditions = Conditions::new(200.0, 100.0, 0.01, 7);
    let (elapsed, again) = bulk(&conditions, &QuicOptions::default(), 20 << 20).await;
    println!("20 MiB in {elapsed:.2} s, {:.1} % again", again * 100.0);
    // At 100 Mbit/s, the transfer would take 1.8 s without losses. Virtual time does not depend on
    // the machine, so the limit can be strict.
    assert!(elapsed < 6.0, "{elapsed}");
    // The start-up may overflow the queue once, which holds one bandwidth-delay product: 12 %.
    assert!(again < 0.12, "{again}");
}

/// The first flight is as large as AES-128, although the handshake had only a few packets in flight.
#[tokio::test(start_paused = true)]
async fn a_small_run_needs_no_further_round_trip() {
    let conditions = Conditions::new(110.0, 100.0, 0.0, 1);
    let (elapsed, _) = bulk(&conditions, &QuicOptions::default(), 210_000).await;
    let limit = 0.055 + 210_000.0 / 12_500_000.0;
    assert!(elapsed < 1.1 * limit, "{elapsed} s, limit {limit} s");
}

#[tokio::test(start_paused = true)]
async fn a_known_rate_is_used_from_the_start() {
    let conditions = Conditions::new(110.0, 100.0, 0.0, 1);
    let mut options = QuicOptions::default();
    let bytes = 3 << 20;
    let (unknown, _) = bulk(&conditions, &options, bytes).await;
    options.path.rtt = Some(Duration::from_millis(110));
    options.path.to_peer.rate = Some(Bandwidth::from_megabits_per_second(100.0));
    let (known, again) = bulk(&conditions, &options, bytes).await;
    let limit = 0.055 + bytes as f64 / 12_500_000.0;
    println!("unknown {unknown:.3} s, known {known:.3} s, limit {limit:.3} s");
    assert!(known < 1.2 * limit && known < unknown);
    assert!(again < 0.01, "{again}");
    // With a known rate of twice the path's rate, the link lowers its rate after some losses.
    options.path.to_peer.rate = Some(Bandwidth::from_megabits_per_second(200.0));
    let (wrong, again) = bulk(&conditions, &options, bytes).await;
    println!("twice too high {wrong:.3} s, {:.1} % again", again * 100.0);
    assert!(wrong < 2.0 * limit);
}

/// Prints how long transfers take, and the share of the bytes that is sent again.
#[tokio::test(start_paused = true)]
#[ignore = "measures; run by hand: cargo test --release -p transpute-transport quic::simulation::grid -- --ignored --nocapture"]
async fn grid() {
    for (rtt_ms, mbit) in [(110.0, 1000.0), (110.0, 100.0), (300.0, 1000.0)] {
        for loss in [0.0, 0.0005, 0.01] {
            for bytes in [210_000, 2_770_000, 30_500_000] {
                let limit = rtt_ms / 2e3 + bytes as f64 * 8e-6 / mbit;
                let mut line =
                    format!("{rtt_ms} ms, {mbit} Mbit/s, {loss}, {bytes} B, limit {limit:.3} s:");
                for (name, congestion, seeded) in [
                    ("bbr", QuicCongestion::Bbr, false),
                    ("cubic", QuicCongestion::Cubic, false),
                    ("bbr seeded", QuicCongestion::Bbr, true),
                    ("cubic seeded", QuicCongestion::Cubic, true),
                ] {
                    let mut options = QuicOptions {
                        congestion,
                        ..QuicOptions::default()
                    };
                    if seeded {
                        options.path.rtt = Some(Duration::from_secs_f64(rtt_ms / 1e3));
                        options.path.to_peer.rate = Some(Bandwidth::from_megabits_per_second(mbit));
                    }
                    let mut runs = Vec::new();
                    for seed in 0..5 {
                        let conditions = Conditions::new(rtt_ms, mbit, loss, seed);
                        runs.push(bulk(&conditions, &options, bytes).await);
                    }
                    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
                    let (seconds, again) = runs[2];
                    line += &format!(" {name} {seconds:.3} ({:.1} %)", again * 100.0);
                }
                println!("{line}");
            }
        }
    }
}
