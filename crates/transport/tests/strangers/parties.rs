//! Two parties of which one listens, for tests with unknown peers.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinHandle,
};
use transpute_transport::{Link, Listener, Security, Transport};

use crate::meeting::pinned;

/// Two parties that have pinned each other.
pub(crate) struct Parties {
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) listening: Security,
    pub(crate) connecting: Security,
}

/// A listener that waits for one link.
pub(crate) type Accepting = JoinHandle<(Link, Box<dyn Listener>)>;

impl Parties {
    pub(crate) fn new(transport: impl Transport + 'static) -> Self {
        let (listening, connecting) = pinned();
        Self {
            transport: Box::new(transport),
            listening,
            connecting,
        }
    }

    /// Accepts one link in a task, so that the listener works while other connections are made.
    pub(crate) async fn listen(&self) -> (String, Accepting) {
        let mut listener = (self.transport)
            .listen("127.0.0.1:0", &self.listening)
            .await
            .unwrap();
        let address = listener.local_address();
        let accepting = tokio::spawn(async move { (listener.accept().await.unwrap(), listener) });
        (address, accepting)
    }

    /// Links the parties, and sends data from one to the other.
    pub(crate) async fn meet(&self, address: &str, accepting: Accepting) {
        let link = (self.transport)
            .connect(address, &self.connecting)
            .await
            .unwrap();
        let (accepted, _listener) = accepting.await.unwrap();
        greet(accepted, link).await;
    }
}

/// Sends data from one end of a link to the other.
pub(crate) async fn greet(from: Link, to: Link) {
    let (mut reader, _keep) = to.into_parts();
    let (_keep_too, mut writer) = from.into_parts();
    writer.write_all(b"hello").await.unwrap();
    writer.flush().await.unwrap();
    let mut got = [0; 5];
    reader.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}

/// Returns the resident memory of this process.
#[cfg(target_os = "linux")]
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
