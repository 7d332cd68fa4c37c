//! Tests of links that grow: late stripes, foreign ones, and dead ones.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Semaphore,
    task::AbortHandle,
    time::timeout,
};
use transpute_transport::{
    Link, LinkReader, LinkWriter, Listener, Registry, Security, StreamError, StripedOptions,
    TcpStriped, Transport, TransportError,
};

use crate::meeting::{beside, identity, link_at, pinned, unpinned};

const PREAMBLE: &[u8] = b"transpute/1 plaintext \x17tcp-striped tcp-striped";

/// Time limit of a test that would hang. Nothing here waits as long.
const LONG: Duration = Duration::from_secs(60);

fn patient_for(timeout: Duration) -> TcpStriped {
    let mut options = StripedOptions::default();
    options.connections = Some(4);
    options.tcp.handshake_timeout = timeout;
    TcpStriped::new(options)
}

fn join(id: u8, index: u8, count: u8) -> Vec<u8> {
    [PREAMBLE, b"tpstrip3", &[id; 16], &[index, count], &[0; 32]].concat()
}

async fn say(address: &str, what: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(what).await.unwrap();
    stream
}

/// Waits until the listener closes the connection.
async fn is_hung_up_on(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let ended = timeout(LONG, stream.read_to_end(&mut rest)).await;
    // Cleanly or with a reset.
    let _ = ended.expect("it is still open");
}

async fn works(listener: &mut dyn Listener, transport: &TcpStriped, security: &Security) {
    let address = listener.local_address();
    let (accepted, connected) = link_at(&address, listener, transport, security).await;
    carries(accepted, connected).await;
}

async fn carries(accepted: Link, connected: Link) {
    let (mut reader, _keep) = accepted.into_parts();
    let (_keep_too, mut writer) = connected.into_parts();
    let data = vec![7; 1 << 20];
    let mut got = Vec::new();
    let (sent, read) = tokio::join!(
        async {
            writer.write_all(&data).await?;
            writer.shutdown().await
        },
        reader.read_to_end(&mut got)
    );
    sent.unwrap();
    read.unwrap();
    assert!(got == data);
}

/// Waits until the listener accepts a stripe.
async fn is_let_in(stream: &mut TcpStream) {
    let mut said = vec![0; PREAMBLE.len() + 1];
    let heard = timeout(LONG, stream.read_exact(&mut said)).await;
    heard.expect("it is not let in").unwrap();
    assert_eq!(said, [PREAMBLE, &[0]].concat());
}

fn frame(offset: u64, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&offset.to_le_bytes()[..], &length.to_le_bytes(), payload].concat()
}

#[tokio::test]
async fn a_link_begins_with_one_stripe_and_does_without_those_that_do_not_come() {
    let transport = patient_for(Duration::from_millis(300));
    let security = Security::Plaintext;
    let mut listener = transport.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let mut first = say(&address, &join(1, 0, 3)).await;
    let link = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    assert_eq!(link.info().transport, "tcp-striped");
    // A gap is not an error while stripes may join. Then it is.
    first.write_all(&frame(3, b"def")).await.unwrap();
    let (mut reader, _writer) = link.into_parts();
    let error = timeout(LONG, reader.read(&mut [0])).await.unwrap();
    assert!(error.unwrap_err().to_string().contains("byte 0 is on none"));
    // A stripe after that time belongs to no link, and waits in vain.
    let late = say(&address, &join(1, 1, 3)).await;
    beside(&mut *listener, is_hung_up_on(late)).await;
    works(&mut *listener, &transport, &security).await;
}

#[tokio::test]
async fn stripes_join_whether_anybody_waits_for_a_link_or_not() {
    let transport = patient_for(LONG);
    let security = Security::Plaintext;
    for keeps_listening in [true, false] {
        let mut listener = transport.listen("127.0.0.1:0", &security).await.unwrap();
        let address = listener.local_address();
        // One arrives early.
        let mut early = say(&address, &join(1, 2, 3)).await;
        let nobody = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(nobody.is_err());
        let (link, mut first) = tokio::join!(listener.accept(), async {
            say(&address, &join(1, 0, 3)).await
        });
        let listener = keeps_listening.then_some(listener);
        is_let_in(&mut early).await;
        let mut late = say(&address, &join(1, 1, 3)).await;
        is_let_in(&mut late).await;
        early
            .write_all(&[frame(6, b"ghi"), frame(9, b"")].concat())
            .await
            .unwrap();
        first
            .write_all(&[frame(0, b"abc"), frame(9, b"")].concat())
            .await
            .unwrap();
        late.write_all(&[frame(3, b"def"), frame(9, b"")].concat())
            .await
            .unwrap();
        for stream in [&mut early, &mut first, &mut late] {
            stream.shutdown().await.unwrap();
        }
        let (mut reader, mut writer) = link.unwrap().into_parts();
        let mut got = String::new();
        let read = timeout(LONG, reader.read_to_string(&mut got)).await;
        read.expect("it hangs").unwrap();
        assert_eq!(got, "abcdefghi");
        // The other direction uses them all.
        let data = vec![7; 1 << 20];
        let sending = tokio::spawn(async move {
            writer.write_all(&data).await?;
            writer.shutdown().await
        });
        let mut heard = [Vec::new(), Vec::new(), Vec::new()];
        let [a, b, c] = &mut heard;
        let hearing = async {
            tokio::try_join!(
                first.read_to_end(a),
                early.read_to_end(b),
                late.read_to_end(c)
            )
        };
        timeout(LONG, hearing).await.expect("it hangs").unwrap();
        for (number, bytes) in heard.iter().enumerate() {
            assert!(bytes.len() > 8_000, "{number}: {}", bytes.len());
        }
        sending.await.unwrap().unwrap();
        drop(reader);
        if !keeps_listening {
            // Nothing is accepted any more.
            drop(listener);
            let refused = async {
                while TcpStream::connect(&address).await.is_ok() {
                    tokio::task::yield_now().await;
                }
            };
            timeout(LONG, refused).await.expect("the port is open");
        }
    }
}

#[tokio::test]
async fn stripes_that_do_not_fit_are_dropped_and_cost_the_link_nothing() {
    let transport = patient_for(LONG);
    let security = Security::Plaintext;
    let mut listener = transport.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    // Early stripes are checked when the first one arrives.
    let wrong = [
        join(1, 1, 3),
        [&join(1, 1, 2)[..PREAMBLE.len() + 26], &[1; 32]].concat(),
    ];
    let mut early = Vec::new();
    for wrong in &wrong {
        let stranger = say(&address, wrong).await;
        let heard = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(heard.is_err(), "{heard:?}");
        early.push(stranger);
    }
    let first = join(1, 0, 2);
    let (link, _first) = tokio::join!(listener.accept(), say(&address, &first));
    for stranger in early {
        is_hung_up_on(stranger).await;
    }
    for wrong in [
        join(1, 0, 2),
        join(1, 1, 3),
        join(1, 2, 2),
        join(1, 0, 0),
        join(1, 0, 33),
        [&join(1, 1, 2)[..PREAMBLE.len() + 26], &[1; 32]].concat(),
        [PREAMBLE, b"GET / HTTP/1.1\r\n\r\n", &[0; 60]].concat(),
    ] {
        is_hung_up_on(say(&address, &wrong).await).await;
    }
    let mut second = say(&address, &join(1, 1, 2)).await;
    is_let_in(&mut second).await;
    // There is no room for another one.
    let doubled = say(&address, &join(1, 1, 2)).await;
    let (mut reader, mut writer) = link.unwrap().into_parts();
    second.write_all(&frame(0, b"abc")).await.unwrap();
    let mut got = [0; 3];
    timeout(LONG, reader.read_exact(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&got, b"abc");
    writer.write_all(b"def").await.unwrap();
    writer.flush().await.unwrap();
    works(&mut *listener, &transport, &security).await;
    drop(doubled);
}

#[tokio::test]
async fn links_that_lack_stripes_take_bounded_room() {
    let transport = patient_for(LONG);
    let security = Security::Plaintext;
    let mut listener = transport.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let crowd = async {
        let oldest = say(&address, &join(0, 1, 2)).await;
        let mut others = Vec::new();
        for index in 0..300u16 {
            let mut hello = join(1, 1, 2);
            hello[30..32].copy_from_slice(&index.to_le_bytes());
            others.push(say(&address, &hello).await);
        }
        is_hung_up_on(oldest).await;
        others
    };
    let others = beside(&mut *listener, crowd).await;
    works(&mut *listener, &transport, &security).await;
    drop(others);
}

/// A relay that forwards one connection at once, and the others on request.
struct Gate {
    address: String,
    open: Arc<Semaphore>,
    /// Bytes that each connection has carried back, with a handle that stops it.
    passing: Arc<Mutex<Vec<Passing>>>,
}

type Passing = (Arc<AtomicU64>, AbortHandle);

impl Gate {
    async fn before(target: String) -> Self {
        let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let this = Self {
            address: relay.local_addr().unwrap().to_string(),
            open: Arc::new(Semaphore::new(1)),
            passing: Arc::default(),
        };
        let (open, passing) = (Arc::clone(&this.open), Arc::clone(&this.passing));
        tokio::spawn(async move {
            while let Ok((near, _)) = relay.accept().await {
                let (target, open) = (target.clone(), Arc::clone(&open));
                let count = Arc::<AtomicU64>::default();
                let counting = Arc::clone(&count);
                let task = tokio::spawn(async move {
                    open.acquire().await.unwrap().forget();
                    let far = TcpStream::connect(&target).await.unwrap();
                    let ((from_near, to_near), (from_far, to_far)) =
                        (near.into_split(), far.into_split());
                    tokio::join!(
                        pass(from_near, to_far, Arc::default()),
                        pass(from_far, to_near, counting)
                    );
                });
                passing.lock().unwrap().push((count, task.abort_handle()));
            }
        });
        this
    }

    /// Returns the number of connections that have carried back this many bytes.
    fn busy(&self, bytes: u64) -> usize {
        let passing = self.passing.lock().unwrap();
        let is_busy = |(count, _): &&Passing| count.load(Ordering::Relaxed) >= bytes;
        passing.iter().filter(is_busy).count()
    }

    /// Stops a connection that has, other than the first.
    fn cut(&self, bytes: u64) {
        let passing = self.passing.lock().unwrap();
        let mut least: Vec<_> = passing.iter().collect();
        least.sort_by_key(|(count, _)| count.load(Ordering::Relaxed));
        let found = least
            .iter()
            .find(|(count, _)| count.load(Ordering::Relaxed) >= bytes);
        found.unwrap().1.abort();
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, count: Arc<AtomicU64>) {
    let mut buffer = vec![0; 1 << 14];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
    let _ = to.shutdown().await;
}

/// Sends bytes and waits until they have arrived.
async fn send(writer: &mut LinkWriter, reader: &mut LinkReader, length: usize) {
    let (data, mut got) = (vec![5; length], vec![0; length]);
    let sent = async {
        writer.write_all(&data).await?;
        writer.flush().await
    };
    let (sent, read) = tokio::join!(sent, reader.read_exact(&mut got));
    sent.unwrap();
    read.unwrap();
    assert!(got == data);
}

/// More bytes than handshakes take.
const BUSY: u64 = 50_000;

#[tokio::test]
async fn late_stripes_join_a_link_that_works_already() {
    let transport = patient_for(LONG);
    let (listening, connecting) = pinned();
    let mut listener = transport.listen("127.0.0.1:0", &listening).await.unwrap();
    let gate = Gate::before(listener.local_address()).await;
    let (accepted, connected) =
        link_at(&gate.address, &mut *listener, &transport, &connecting).await;
    // The listener is dropped.
    drop(listener);
    let (mut near_reader, mut near_writer) = accepted.into_parts();
    let (mut far_reader, mut far_writer) = connected.into_parts();
    send(&mut near_writer, &mut far_reader, 300_000).await;
    send(&mut far_writer, &mut near_reader, 300_000).await;
    assert_eq!(gate.busy(BUSY), 1);
    gate.open.add_permits(2);
    let all = async {
        while gate.busy(BUSY) < 3 {
            send(&mut near_writer, &mut far_reader, 1 << 18).await;
            send(&mut far_writer, &mut near_reader, 1 << 10).await;
        }
    };
    timeout(LONG, all).await.expect("they do not take part");
    // The fourth joins when one direction has ended.
    near_writer.shutdown().await.unwrap();
    assert_eq!(far_reader.read(&mut [0]).await.unwrap(), 0);
    gate.open.add_permits(1);
    for _ in 0..20 {
        send(&mut far_writer, &mut near_reader, 1 << 18).await;
    }
    far_writer.shutdown().await.unwrap();
    let ended = timeout(LONG, near_reader.read(&mut [0])).await;
    assert_eq!(ended.expect("it hangs").unwrap(), 0);
}

#[tokio::test]
async fn stripes_that_never_come_are_done_without() {
    for patience in [Duration::from_millis(200), LONG] {
        let transport = patient_for(patience);
        let (listening, connecting) = pinned();
        let mut listener = transport.listen("127.0.0.1:0", &listening).await.unwrap();
        let gate = Gate::before(listener.local_address()).await;
        let (accepted, connected) =
            link_at(&gate.address, &mut *listener, &transport, &connecting).await;
        carries(accepted, connected).await;
        assert_eq!(gate.busy(1), 1);
    }
}

#[tokio::test]
async fn a_stripe_that_dies_when_it_has_carried_something_ends_the_link() {
    let transport = patient_for(LONG);
    let (listening, connecting) = pinned();
    let mut listener = transport.listen("127.0.0.1:0", &listening).await.unwrap();
    let gate = Gate::before(listener.local_address()).await;
    gate.open.add_permits(3);
    let (accepted, connected) =
        link_at(&gate.address, &mut *listener, &transport, &connecting).await;
    assert!(connected.info().peer_fingerprint.is_some());
    let (mut near_reader, mut near_writer) = accepted.into_parts();
    let (mut far_reader, _far_writer) = connected.into_parts();
    let all = async {
        while gate.busy(BUSY) < 4 {
            send(&mut near_writer, &mut far_reader, 1 << 18).await;
        }
    };
    timeout(LONG, all).await.expect("they do not take part");
    gate.cut(BUSY);
    for reader in [&mut near_reader, &mut far_reader] {
        let read = timeout(LONG, reader.read(&mut [0; 1])).await.unwrap();
        let error = TransportError::from_io(read.unwrap_err());
        assert!(
            matches!(
                error,
                TransportError::Stream(StreamError::Truncated | StreamError::ConnectionReset)
            ),
            "{error}"
        );
    }
}

#[tokio::test]
async fn peers_without_an_identity_are_rejected_and_cost_a_growing_link_nothing() {
    let transport = patient_for(LONG);
    let (listening, connecting) = pinned();
    let mut listener = transport.listen("127.0.0.1:0", &listening).await.unwrap();
    let address = listener.local_address();
    // A link that can still grow.
    let gate = Gate::before(address.clone()).await;
    let (accepted, connected) =
        link_at(&gate.address, &mut *listener, &transport, &connecting).await;
    let (_near_reader, mut near_writer) = accepted.into_parts();
    let (mut far_reader, _far_writer) = connected.into_parts();
    for nonsense in [
        join(1, 0, 4),
        join(1, 1, 4),
        [b"tpstrip3", &join(1, 1, 4)[30..]].concat(),
        vec![b's'; 100],
    ] {
        is_hung_up_on(say(&address, &nonsense).await).await;
    }
    // The link still gets its stripes.
    gate.open.add_permits(3);
    let all = async {
        while gate.busy(BUSY) < 3 {
            send(&mut near_writer, &mut far_reader, 1 << 18).await;
        }
    };
    timeout(LONG, all).await.expect("they do not take part");
    works(&mut *listener, &transport, &connecting).await;
}

#[tokio::test]
async fn a_link_without_pins_works_and_no_pinned_peer_takes_part() {
    for text in ["tcp", "tcp-striped:n=3"] {
        let transport = Registry::with_builtins().get(text).unwrap();
        let mut listener = transport.listen("127.0.0.1:0", &unpinned()).await.unwrap();
        let address = listener.local_address();
        let (accepted, connected) =
            link_at(&address, &mut *listener, &*transport, &unpinned()).await;
        for link in [&accepted, &connected] {
            assert!(link.info().encrypted && link.info().peer_fingerprint.is_none());
        }
        carries(accepted, connected).await;

        let me = identity();
        let anybody = [me.fingerprint()];
        for security in [Security::tls(me, anybody), Security::Plaintext] {
            let attempt = async {
                let link = transport.connect(&address, &security).await?;
                let (mut reader, _writer) = link.into_parts();
                match reader.read(&mut [0; 1]).await {
                    Ok(read) => panic!("read {read}"),
                    Err(error) => Err::<(), _>(TransportError::from_io(error)),
                }
            };
            assert!(beside(&mut *listener, attempt).await.is_err());
        }
    }
}
