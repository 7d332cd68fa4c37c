//! Half-open groups, strangers and dead stripes.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use transpute_transport::{
    Identity, Link, Listener, Registry, Security, StripedOptions, TcpStriped, Transport,
    TransportError,
};

const PREAMBLE: &[u8] = b"transpute/1 plaintext\n";

/// Bounds a test that would hang; nothing here waits so long.
const LONG: Duration = Duration::from_secs(60);

fn patient_for(timeout: Duration) -> TcpStriped {
    let mut options = StripedOptions::default();
    options.connections = 4;
    options.tcp.handshake_timeout = timeout;
    TcpStriped::new(options)
}

fn join(id: u8, index: u8, count: u8) -> Vec<u8> {
    [PREAMBLE, b"tpstrip1", &[id; 16], &[index, count], &[0; 32]].concat()
}

async fn say(address: &str, what: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(what).await.unwrap();
    stream
}

/// Waits until the listener hangs up.
async fn is_hung_up_on(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let ended = timeout(LONG, stream.read_to_end(&mut rest)).await;
    // Cleanly or with a reset.
    let _ = ended.expect("it is still open");
}

async fn works(listener: &mut dyn Listener, transport: &TcpStriped, security: &Security) {
    let address = listener.local_address();
    let (accepted, connected) =
        tokio::join!(listener.accept(), transport.connect(&address, security));
    carries(accepted.unwrap(), connected.unwrap()).await;
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

#[tokio::test]
async fn a_link_that_lacks_a_stripe_is_dropped_in_time() {
    let transport = patient_for(Duration::from_millis(500));
    let security = Security::Plaintext;
    let mut listener = transport.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let waiting = async {
        let first = say(&address, &join(1, 0, 2)).await;
        is_hung_up_on(first).await;
    };
    tokio::select! {
        () = waiting => {}
        link = listener.accept() => panic!("{link:?}"),
    }
    works(&mut *listener, &transport, &security).await;
}

#[tokio::test]
async fn stripes_that_do_not_fit_are_dropped_and_the_rest_waits_on() {
    let transport = patient_for(LONG);
    let security = Security::Plaintext;
    let mut listener = transport.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let first = say(&address, &join(1, 0, 2)).await;
    let strangers = async {
        for wrong in [
            join(1, 0, 2),
            join(1, 1, 3),
            join(1, 2, 2),
            join(1, 0, 0),
            join(1, 0, 33),
            [PREAMBLE, b"GET / HTTP/1.1\r\n\r\n", &[0; 60]].concat(),
        ] {
            is_hung_up_on(say(&address, &wrong).await).await;
        }
    };
    tokio::select! {
        () = strangers => {}
        link = listener.accept() => panic!("{link:?}"),
    }
    let second = say(&address, &join(1, 1, 2)).await;
    let link = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    assert_eq!(link.info().transport, "tcp-striped");
    drop((first, second));
}

#[tokio::test]
async fn links_that_lack_stripes_take_bounded_room() {
    let transport = patient_for(LONG);
    let security = Security::Plaintext;
    let mut listener = transport.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let crowd = async {
        let oldest = say(&address, &join(0, 0, 2)).await;
        let mut others = Vec::new();
        for index in 0..300u16 {
            let mut hello = join(1, 0, 2);
            hello[30..32].copy_from_slice(&index.to_le_bytes());
            others.push(say(&address, &hello).await);
        }
        is_hung_up_on(oldest).await;
        others
    };
    let others = tokio::select! {
        others = crowd => others,
        link = listener.accept() => panic!("{link:?}"),
    };
    works(&mut *listener, &transport, &security).await;
    drop(others);
}

#[tokio::test]
async fn a_stripe_that_dies_ends_the_link() {
    // A relay that lets go of one connection of four.
    let transport = patient_for(LONG);
    let (a, b) = (
        Arc::new(Identity::generate().unwrap()),
        Arc::new(Identity::generate().unwrap()),
    );
    let (of_a, of_b) = (a.fingerprint(), b.fingerprint());
    let mut listener = transport
        .listen("127.0.0.1:0", &Security::tls(a, [of_b]))
        .await
        .unwrap();
    let target = listener.local_address();
    let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = relay.local_addr().unwrap().to_string();
    let relaying = tokio::spawn(async move {
        let mut passing = Vec::new();
        for _ in 0..4 {
            let (mut near, _) = relay.accept().await.unwrap();
            let mut far = TcpStream::connect(&target).await.unwrap();
            passing.push(tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            }));
        }
        passing
    });
    let security = Security::tls(b, [of_a]);
    let (accepted, connected) =
        tokio::join!(listener.accept(), transport.connect(&address, &security));
    let (accepted, connected) = (accepted.unwrap(), connected.unwrap());
    assert_eq!(connected.info().peer_fingerprint, Some(of_a));
    let passing = relaying.await.unwrap();
    passing[2].abort();
    for link in [accepted, connected] {
        let (mut reader, _writer) = link.into_parts();
        let read = timeout(LONG, reader.read(&mut [0; 1])).await.unwrap();
        let error = TransportError::from_io(read.unwrap_err());
        assert!(
            matches!(
                error,
                TransportError::Truncated | TransportError::ConnectionReset
            ),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_link_without_pins_works_and_no_pinned_peer_takes_part() {
    for text in ["tcp", "tcp-striped:n=3"] {
        let transport = Registry::with_builtins().get(text).unwrap();
        let identity = || Arc::new(Identity::generate().unwrap());
        let unpinned = || Security::Unpinned {
            identity: identity(),
        };
        let mut listener = transport.listen("127.0.0.1:0", &unpinned()).await.unwrap();
        let address = listener.local_address();
        let security = unpinned();
        let (accepted, connected) =
            tokio::join!(listener.accept(), transport.connect(&address, &security));
        let (accepted, connected) = (accepted.unwrap(), connected.unwrap());
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
            tokio::select! {
                result = attempt => assert!(result.is_err()),
                link = listener.accept() => panic!("{link:?}"),
            }
        }
    }
}
