//! A faulty relay between two parties. It forwards a TCP port and a UDP port of the same number.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    time::{Instant, sleep_until},
};

/// The faults of the relay.
#[derive(Default)]
pub(crate) struct Faults {
    /// Forwards no UDP.
    pub(crate) cut: AtomicBool,
    /// Accepts TCP connections and forwards nothing on them.
    pub(crate) mute: AtomicBool,
    /// Drops one out of this number of UDP packets; zero for none.
    pub(crate) loss: AtomicU32,
    /// Interval between forwarded UDP packets in each direction, without loss; zero for no
    /// interval.
    pub(crate) spacing_ms: AtomicU32,
    /// Time at which the last packet in each direction is forwarded.
    last: Mutex<[Option<Instant>; 2]>,
    /// Number of UDP packets so far: to the service, and from the service.
    seen: [AtomicU32; 2],
    /// The first UDP packets to the service, unchanged.
    pub(crate) recorded: Mutex<Vec<Vec<u8>>>,
}

/// Maximum number of recorded packets.
const MAX_RECORDED: usize = 1000;

pub(crate) struct Relay {
    pub(crate) address: String,
    pub(crate) faults: Arc<Faults>,
}

pub(crate) async fn relay(service: &str) -> Relay {
    let service: SocketAddr = service.parse().unwrap();
    let (tcp, udp) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            break (tcp, udp);
        }
    };
    let address = udp.local_addr().unwrap().to_string();
    let faults = Arc::new(Faults::default());
    tokio::spawn(forward_udp(udp, service, Arc::clone(&faults)));
    tokio::spawn(forward_tcp(tcp, service, Arc::clone(&faults)));
    Relay { address, faults }
}

async fn forward_tcp(listener: TcpListener, service: SocketAddr, faults: Arc<Faults>) {
    let mut connections = tokio::task::JoinSet::new();
    let mut held = Vec::new();
    while let Ok((mut near, _)) = listener.accept().await {
        if faults.mute.load(Ordering::Relaxed) {
            held.push(near);
            continue;
        }
        connections.spawn(async move {
            let mut far = TcpStream::connect(service).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
    }
}

/// Forwards UDP. Each of the connector's sockets gets one towards the service, as from a router
/// that translates addresses.
async fn forward_udp(relay: UdpSocket, service: SocketAddr, faults: Arc<Faults>) {
    let relay = Arc::new(relay);
    let mut clients = HashMap::new();
    let mut buffer = [0; 2048];
    while let Ok((length, client)) = relay.recv_from(&mut buffer).await {
        let packet = &buffer[..length];
        faults.record(packet);
        let far = match clients.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                far.connect(service).await.unwrap();
                let far = Arc::new(far);
                let (near, faults) = (Arc::clone(&relay), Arc::clone(&faults));
                tokio::spawn(return_udp(Arc::clone(&far), near, client, faults));
                new.insert(far)
            }
        };
        if faults.passes(0) {
            let (far, packet) = (Arc::clone(far), packet.to_vec());
            (faults.in_turn(0, async move { far.send(&packet).await })).await;
        }
    }
}

async fn return_udp(
    far: Arc<UdpSocket>,
    near: Arc<UdpSocket>,
    client: SocketAddr,
    faults: Arc<Faults>,
) {
    let mut buffer = [0; 2048];
    loop {
        // An error is about an earlier packet to a closed port.
        let Ok(length) = far.recv(&mut buffer).await else {
            continue;
        };
        if faults.passes(1) {
            let (near, packet) = (Arc::clone(&near), buffer[..length].to_vec());
            (faults.in_turn(1, async move { near.send_to(&packet, client).await })).await;
        }
    }
}

impl Faults {
    fn record(&self, packet: &[u8]) {
        let mut recorded = self.recorded.lock().unwrap();
        if recorded.len() < MAX_RECORDED {
            recorded.push(packet.to_vec());
        }
    }

    /// Forwards a packet at its time, in the background, so that no other packet is lost.
    async fn in_turn<T: Send>(
        &self,
        direction: usize,
        send: impl Future<Output = T> + Send + 'static,
    ) {
        let spacing = self.spacing_ms.load(Ordering::Relaxed);
        if spacing == 0 {
            send.await;
            return;
        }
        let due = {
            let last = &mut self.last.lock().unwrap()[direction];
            let now = Instant::now();
            let due = last.map_or(now, |last| {
                now.max(last + Duration::from_millis(spacing.into()))
            });
            *last = Some(due);
            due
        };
        tokio::spawn(async move {
            sleep_until(due).await;
            send.await;
        });
    }

    /// Counts a UDP packet to the service (0) or from it (1). Returns whether it is forwarded.
    fn passes(&self, direction: usize) -> bool {
        let before = [0, 1].map(|other| {
            let one = u32::from(other == direction);
            self.seen[other].fetch_add(one, Ordering::Relaxed)
        });
        let count = before[0] + before[1] + 1;
        let loss = self.loss.load(Ordering::Relaxed);
        let is_cut = self.cut.load(Ordering::Relaxed);
        !is_cut && (loss == 0 || !count.is_multiple_of(loss))
    }
}
