//! Something between two parties that can go wrong: it forwards a TCP port and a UDP port of the same number.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinHandle,
};

/// What the relay does to packets.
#[derive(Default)]
pub(crate) struct Faults {
    /// Forwards no UDP, but the first `spared` packets of each direction.
    pub(crate) cut: AtomicBool,
    pub(crate) spared: AtomicU32,
    /// Takes TCP connections and forwards nothing of them, but of the first `heard`.
    pub(crate) mute: AtomicBool,
    pub(crate) heard: AtomicU32,
    /// Drops one of so many UDP packets; zero: none.
    pub(crate) loss: AtomicU32,
    /// The first UDP packets to the service, as they were.
    pub(crate) recorded: Mutex<Vec<Vec<u8>>>,
}

/// How many packets are recorded.
const MOST_RECORDED: usize = 1000;

pub(crate) struct Relay {
    pub(crate) address: String,
    pub(crate) faults: Arc<Faults>,
    /// Aborting it resets the control connections.
    pub(crate) tcp: JoinHandle<()>,
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
    Relay {
        address,
        faults: Arc::clone(&faults),
        tcp: tokio::spawn(forward_tcp(tcp, service, faults)),
    }
}

async fn forward_tcp(listener: TcpListener, service: SocketAddr, faults: Arc<Faults>) {
    let mut connections = tokio::task::JoinSet::new();
    let mut held = Vec::new();
    let mut count = 0;
    while let Ok((mut near, _)) = listener.accept().await {
        count += 1;
        let heard = faults.heard.load(Ordering::Relaxed);
        if faults.mute.load(Ordering::Relaxed) && count > heard {
            held.push(near);
            continue;
        }
        connections.spawn(async move {
            let mut far = TcpStream::connect(service).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
    }
}

async fn forward_udp(relay: UdpSocket, service: SocketAddr, faults: Arc<Faults>) {
    let mut client = None;
    let mut buffer = [0; 2048];
    let mut count = 0;
    // Upwards and downwards.
    let mut counts = [0; 2];
    while let Ok((length, from)) = relay.recv_from(&mut buffer).await {
        let is_down = from == service;
        let to = if is_down {
            client
        } else {
            client = Some(from);
            let mut recorded = faults.recorded.lock().unwrap();
            if recorded.len() < MOST_RECORDED {
                recorded.push(buffer[..length].to_vec());
            }
            Some(service)
        };
        count += 1;
        let passed = &mut counts[usize::from(is_down)];
        *passed += 1;
        let spared = *passed <= faults.spared.load(Ordering::Relaxed);
        let loss = faults.loss.load(Ordering::Relaxed);
        let cut = faults.cut.load(Ordering::Relaxed) && !spared;
        let lost = cut || (loss > 0 && count % loss == 0);
        if let Some(to) = to.filter(|_| !lost) {
            let _ = relay.send_to(&buffer[..length], to).await;
        }
    }
}
