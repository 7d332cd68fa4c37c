//! Something between two parties that can go wrong: it forwards a TCP port and a UDP port of the same number.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
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
    /// Forwards no UDP.
    pub(crate) cut: AtomicBool,
    /// Drops one of so many UDP packets; zero: none.
    pub(crate) loss: AtomicU32,
}

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
        faults,
        tcp: tokio::spawn(forward_tcp(tcp, service)),
    }
}

async fn forward_tcp(listener: TcpListener, service: SocketAddr) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
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
    while let Ok((length, from)) = relay.recv_from(&mut buffer).await {
        let to = if from == service {
            client
        } else {
            client = Some(from);
            Some(service)
        };
        count += 1;
        let loss = faults.loss.load(Ordering::Relaxed);
        let lost = faults.cut.load(Ordering::Relaxed) || (loss > 0 && count % loss == 0);
        if let Some(to) = to.filter(|_| !lost) {
            let _ = relay.send_to(&buffer[..length], to).await;
        }
    }
}
