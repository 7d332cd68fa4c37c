//! Tests of an observer on the path that copies the connector's data.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use transpute_transport::{LinkReader, LinkWriter, StripedOptions, TcpStriped, Transport};

use crate::meeting::{beside, link_at, pinned};

/// Connections of the link.
const CONNECTIONS: u8 = 5;

/// Number of bytes of a connection that the observer keeps: more than handshake and join.
const KEPT: usize = 16 << 10;

/// Time limit of a test that would hang.
const LONG: Duration = Duration::from_secs(20);

/// A relay that keeps the data of each connection from the connector.
#[derive(Clone, Default)]
struct Observer(Arc<Mutex<Vec<Vec<u8>>>>);

impl Observer {
    async fn before(&self, target: String) -> String {
        let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = relay.local_addr().unwrap().to_string();
        let this = self.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = relay.accept().await {
                let (this, target) = (this.clone(), target.clone());
                tokio::spawn(async move {
                    // Connections fail when the link ends.
                    let _ = this.relay(near, &target).await;
                });
            }
        });
        address
    }

    async fn relay(&self, near: TcpStream, target: &str) -> io::Result<()> {
        let (mut from_far, mut to_far) = TcpStream::connect(target).await?.into_split();
        let (mut from_near, mut to_near) = near.into_split();
        let number = {
            let mut copies = self.0.lock().unwrap();
            copies.push(Vec::new());
            copies.len() - 1
        };
        let there = async {
            let mut buffer = vec![0; KEPT];
            while let read @ 1.. = from_near.read(&mut buffer).await? {
                self.keep(number, &buffer[..read]);
                to_far.write_all(&buffer[..read]).await?;
            }
            to_far.shutdown().await
        };
        let back = async { tokio::io::copy(&mut from_far, &mut to_near).await };
        tokio::try_join!(there, back)?;
        Ok(())
    }

    fn keep(&self, number: usize, bytes: &[u8]) {
        let copy = &mut self.0.lock().unwrap()[number];
        let room = KEPT - copy.len();
        copy.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the copies of connections that have carried more than handshake and join.
    fn copies(&self) -> Vec<Vec<u8>> {
        let copies = self.0.lock().unwrap();
        (copies.iter().filter(|copy| copy.len() == KEPT).cloned()).collect()
    }
}

/// Sends a copy to the listener, which must reject it.
async fn replay(target: &str, copy: &[u8]) {
    let mut stream = TcpStream::connect(target).await.unwrap();
    // The listener may close before it has received everything.
    let _ = stream.write_all(copy).await;
    let mut answer = Vec::new();
    let ended = timeout(LONG, stream.read_to_end(&mut answer)).await;
    // It closes cleanly or with a reset.
    let _ = ended.expect("the listener accepts a copy");
}

async fn send(writer: &mut LinkWriter, reader: &mut LinkReader, bytes: usize) {
    let mut got = vec![0; bytes];
    let (sent, read) = tokio::join!(
        async {
            writer.write_all(&vec![7; bytes]).await?;
            writer.flush().await
        },
        timeout(LONG, reader.read_exact(&mut got))
    );
    sent.unwrap();
    read.expect("the link stalls").unwrap();
}

/// A copy of a connection is accepted neither while its link grows nor later, and does not affect
/// the link.
#[tokio::test]
async fn a_copied_connection_is_worthless() {
    let mut options = StripedOptions::default();
    options.connections = Some(CONNECTIONS);
    let transport = TcpStriped::new(options);
    let (listening, connecting) = pinned();
    let mut listener = transport.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let observer = Observer::default();
    let via = observer.before(address.clone()).await;

    let (accepted, connected) = link_at(&via, &mut *listener, &transport, &connecting).await;
    let (mut near_reader, mut near_writer) = accepted.into_parts();
    let (mut far_reader, mut far_writer) = connected.into_parts();
    let all_join = async {
        while observer.copies().len() < CONNECTIONS.into() {
            send(&mut near_writer, &mut far_reader, 1 << 18).await;
            send(&mut far_writer, &mut near_reader, 1 << 18).await;
            for copy in observer.copies() {
                replay(&address, &copy).await;
            }
        }
    };
    let joined = beside(&mut *listener, timeout(2 * LONG, all_join)).await;
    joined.expect("the true stripes do not join");
    let replays = async {
        for copy in observer.copies() {
            replay(&address, &copy).await;
        }
    };
    beside(&mut *listener, replays).await;
    send(&mut near_writer, &mut far_reader, 1 << 20).await;
    send(&mut far_writer, &mut near_reader, 1 << 20).await;
}
