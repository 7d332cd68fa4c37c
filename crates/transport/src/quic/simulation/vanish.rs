//! Tests that a link reports a vanished peer within 10 seconds, and that it waits for a live peer
//! that does not read.

use super::*;
use crate::LinkReader;

/// Maximum time in which a link must report a vanished peer.
const PROMISE: Duration = Duration::from_secs(10);

/// Two linked parties, and the path between them.
struct Pair {
    a: Link,
    b: Link,
    wires: [Arc<Mutex<Wire>>; 2],
}

impl Pair {
    async fn new() -> Self {
        let conditions = Conditions::new(20.0, 1000.0, 0.0, 1);
        let wires = conditions.wires();
        let options = QuicOptions::default();
        let (a, b) = conditions.link_over(&wires, &options).await;
        Self { a, b, wires }
    }
}

fn cut(wires: &[Arc<Mutex<Wire>>; 2], is_cut: bool) {
    for wire in wires {
        wire.lock().unwrap().is_cut = is_cut;
    }
}

async fn is_reported_in_time(reader: &mut LinkReader) {
    let since = Instant::now();
    let error = TransportError::from_io(reader.read(&mut [0]).await.unwrap_err());
    assert!(
        matches!(error, TransportError::Stream(StreamError::PeerVanished)),
        "{error}"
    );
    assert!(since.elapsed() <= PROMISE, "after {:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_idle_peer_that_vanishes_is_noticed() {
    let Pair { a, b, wires } = Pair::new().await;
    let ((mut one, _writer), (mut other, _its_writer)) = (a.into_parts(), b.into_parts());
    // Wait longer than the idle timeout. Keep-alives keep the connection open.
    tokio::time::sleep(Duration::from_secs(20)).await;
    cut(&wires, true);
    tokio::join!(
        is_reported_in_time(&mut one),
        is_reported_in_time(&mut other)
    );
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_vanishes_while_data_is_on_its_way_is_noticed() {
    let Pair { a, b: _b, wires } = Pair::new().await;
    let (mut reader, mut writer) = a.into_parts();
    cut(&wires, true);
    writer.write_all(&[1; 100_000]).await.unwrap();
    let (closed, ()) = tokio::join!(writer.shutdown(), is_reported_in_time(&mut reader));
    let error = TransportError::from_io(closed.unwrap_err());
    assert!(
        matches!(error, TransportError::Stream(StreamError::PeerVanished)),
        "{error}"
    );
}

/// Sends more bytes from `a` than the receive window of `b` holds. Reads the first megabyte before
/// `meanwhile` runs and the rest after it, and checks that no byte is lost.
async fn is_survived(meanwhile: impl Future<Output = ()>, a: Link, b: Link) {
    const TOTAL: usize = 40 << 20;
    let (_reader, mut writer) = a.into_parts();
    let (mut reader, _writer) = b.into_parts();
    let send = async {
        writer.write_all(&vec![1; TOTAL]).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let receive = async {
        let mut buffer = vec![0; 1 << 20];
        reader.read_exact(&mut buffer).await.unwrap();
        meanwhile.await;
        let mut got = buffer.len();
        loop {
            match reader.read(&mut buffer).await.unwrap() {
                0 => break,
                read => got += read,
            }
        }
        assert_eq!(got, TOTAL);
    };
    tokio::join!(send, receive);
}

#[tokio::test(start_paused = true)]
async fn a_live_peer_that_does_not_read_is_waited_for() {
    let Pair { a, b, .. } = Pair::new().await;
    is_survived(tokio::time::sleep(Duration::from_secs(60)), a, b).await;
}

/// An outage of five seconds causes only a delay.
#[tokio::test(start_paused = true)]
async fn a_short_outage_is_survived() {
    let Pair { a, b, wires } = Pair::new().await;
    let outage = async {
        cut(&wires, true);
        tokio::time::sleep(Duration::from_secs(5)).await;
        cut(&wires, false);
    };
    is_survived(outage, a, b).await;
}
