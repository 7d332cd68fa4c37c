//! An observer on the path who copies what a connector sends in the clear.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use transpute_transport::{
    Identity, LinkReader, LinkWriter, Security, StripedOptions, TcpStriped, Transport,
};

const MAGIC: &[u8] = b"stripe04";
const CHALLENGE: usize = 16;
/// Bytes of a join after the challenge.
const FIELDS: usize = 50;

/// Connections of the link: two with a handshake, the others sealed.
const CONNECTIONS: u8 = 5;
const SEALED: usize = 3;

/// Bounds a test that would hang.
const LONG: Duration = Duration::from_secs(20);

/// A relay that plays a copy of each sealed join to the listener, on a connection of its own, before it passes the join on.
#[derive(Clone, Default)]
struct Observer {
    joins: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Copies that the listener has accepted as a stripe.
    accepted: Arc<AtomicUsize>,
    /// True stripes that the listener has accepted.
    joined: Arc<AtomicUsize>,
    /// The connections of accepted copies stay open.
    held: Arc<Mutex<Vec<TcpStream>>>,
}

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

    async fn relay(&self, mut near: TcpStream, target: &str) -> std::io::Result<()> {
        let mut far = TcpStream::connect(target).await?;
        let mut first = [0; MAGIC.len()];
        near.read_exact(&mut first).await?;
        far.write_all(&first).await?;
        if first == MAGIC {
            let mut challenge = [0; CHALLENGE];
            far.read_exact(&mut challenge).await?;
            near.write_all(&challenge).await?;
            let mut fields = [0; FIELDS];
            near.read_exact(&mut fields).await?;
            self.joins.lock().unwrap().push(fields.to_vec());
            if let Some(copy) = replay(target, &fields).await {
                self.accepted.fetch_add(1, Ordering::SeqCst);
                self.held.lock().unwrap().push(copy);
            }
            far.write_all(&fields).await?;
            let mut joined = [0; 1];
            far.read_exact(&mut joined).await?;
            near.write_all(&joined).await?;
            self.joined.fetch_add(1, Ordering::SeqCst);
        }
        tokio::io::copy_bidirectional(&mut near, &mut far).await?;
        Ok(())
    }
}

/// Joins with fields that were copied. Returns the connection if the listener accepts it.
async fn replay(target: &str, fields: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(target).await.unwrap();
    stream.write_all(MAGIC).await.unwrap();
    stream.read_exact(&mut [0; CHALLENGE]).await.unwrap();
    stream.write_all(fields).await.unwrap();
    let answer = timeout(LONG, stream.read(&mut [0; 1])).await;
    // Cleanly or with a reset, it hangs up.
    matches!(answer.expect("no answer"), Ok(1..)).then_some(stream)
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

/// A copied join is accepted neither before the true one nor after it, and costs the link no stripe.
#[tokio::test]
async fn a_copied_join_is_worthless() {
    let mut options = StripedOptions::default();
    options.connections = CONNECTIONS;
    let transport = TcpStriped::new(options);
    let identity = || Arc::new(Identity::generate().unwrap());
    let (a, b) = (identity(), identity());
    let (of_a, of_b) = (a.fingerprint(), b.fingerprint());
    let (listening, connecting) = (Security::tls(a, [of_b]), Security::tls(b, [of_a]));
    let mut listener = transport.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    let observer = Observer::default();
    let via = observer.before(address.clone()).await;

    let (accepted, connected) =
        tokio::join!(listener.accept(), transport.connect(&via, &connecting));
    let (mut near_reader, mut near_writer) = accepted.unwrap().into_parts();
    let (mut far_reader, mut far_writer) = connected.unwrap().into_parts();
    let all_join = async {
        while observer.joined.load(Ordering::SeqCst) < SEALED {
            send(&mut near_writer, &mut far_reader, 1 << 18).await;
            send(&mut far_writer, &mut near_reader, 1 << 18).await;
        }
    };
    timeout(2 * LONG, all_join)
        .await
        .expect("the true stripes do not join");
    assert_eq!(observer.accepted.load(Ordering::SeqCst), 0);

    let joins = observer.joins.lock().unwrap().clone();
    let mut replays = JoinSet::new();
    for fields in joins {
        // As it was, and with the number of another stripe.
        for change in [0, 3] {
            let (mut fields, address) = (fields.clone(), address.clone());
            fields[16] ^= change;
            replays.spawn(async move { replay(&address, &fields).await.is_none() });
        }
    }
    let replays = async {
        while let Some(is_rejected) = replays.join_next().await {
            assert!(is_rejected.unwrap());
        }
    };
    tokio::select! {
        () = replays => {}
        link = listener.accept() => panic!("{link:?}"),
    }
    send(&mut near_writer, &mut far_reader, 1 << 20).await;
    send(&mut far_writer, &mut near_reader, 1 << 20).await;
}
