//! Counts the train packets of a set-up of reliable UDP at one end, on the interface.

use std::{
    io::Read as _,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use socket2::{Domain, Protocol, Socket, Type};

/// Kinds of train packets (docs/rudp.md, "Packets"). The connector's have a kind of their own. The
/// listener's are handshake packets, of which no others have this size.
const KINDS: [u8; 2] = [0x34, 0x31];

/// The byte after the kind: version 3 of the protocol.
const VERSION: u8 = 3;

/// Bytes of UDP payload of a train packet.
const TRAIN_BYTES: usize = 1200;

/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;

/// The protocol number of UDP in an IP header.
const UDP: u8 = 17;

/// Counts the UDP packets of this process from its creation until the process ends.
pub(crate) struct TrainCounter {
    /// Packets that this end sent, and packets that arrived.
    counts: Arc<[AtomicU64; 2]>,
}

impl TrainCounter {
    /// Starts to count. `listener` is the address of the listening end; `is_listener` states that
    /// this is it.
    pub(crate) fn start(listener: &str, is_listener: bool) -> Self {
        let listener: SocketAddr = listener.parse().unwrap();
        let all = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
        let mut socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(all)).unwrap();
        let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let shared = Arc::clone(&counts);
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok(length) = socket.read(&mut buffer) {
                if let Some(source) = train_source(&buffer[..length]) {
                    let is_own = (source == listener.ip()) == is_listener;
                    shared[usize::from(!is_own)].fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { counts }
    }

    /// Returns the number of train packets that this end sent, and that arrived.
    pub(crate) fn counts(&self) -> [u64; 2] {
        (self.counts.each_ref()).map(|count| count.load(Ordering::Relaxed))
    }
}

/// Returns the source of an IPv4 packet that is a train packet.
fn train_source(packet: &[u8]) -> Option<IpAddr> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let payload = packet.get(header + UDP_HEADER..)?;
    let is_train = packet[9] == UDP
        && payload.len() == TRAIN_BYTES
        && KINDS.contains(&payload[0])
        && payload[1] == VERSION;
    let source: [u8; 4] = packet[12..16].try_into().ok()?;
    is_train.then(|| source.into())
}
