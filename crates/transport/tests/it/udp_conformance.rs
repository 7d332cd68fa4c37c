//! Tests that UDP without repair passes the conformance suite without loss, and reports a loss.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{
    Identity, Registry, Security, StreamError, Transport, TransportError, Udp,
    conformance::{self, Mode, Port},
};

use crate::relay;

/// Slow enough for the socket buffers of any system, because this transport does not survive a full
/// one.
const PACED: &str = "udp:rate=400m";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn udp_conforms_where_nothing_is_lost() {
    let udp = Registry::with_builtins().get(PACED).unwrap();
    let mut options = conformance::ConformanceOptions::default();
    options.modes = vec![Mode::Tls, Mode::Unpinned, Mode::Plaintext];
    options.payload = 1 << 20;
    options.port = Port::Udp;
    let report = conformance::run(&*udp, &options)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    assert_eq!(report.checks.len(), 53);
}

#[tokio::test]
async fn a_loss_ends_both_sides_with_its_figures_and_nothing_is_altered() {
    let identity = || Arc::new(Identity::generate().unwrap());
    let (a, b) = (identity(), identity());
    let listening = Security::tls(Arc::clone(&a), [b.fingerprint()]);
    let connecting = Security::tls(b, [a.fingerprint()]);
    for lost in [97, 333, 1_000] {
        let udp = Udp::default();
        let mut listener = udp.listen("127.0.0.1:0", &listening).await.unwrap();
        let relay = relay::relay(&listener.local_address()).await;
        let (accepted, connected) =
            tokio::join!(listener.accept(), udp.connect(&relay.address, &connecting));
        let (mut reader, _keep) = accepted.unwrap().into_parts();
        let (_keep, mut writer) = connected.unwrap().into_parts();
        relay.faults.loss.store(lost, Ordering::Relaxed);
        let sent: Vec<u8> = (0..4_000_000_u32)
            .map(|n| (n.wrapping_mul(n) >> 7) as u8)
            .collect();
        let copy = sent.clone();
        let sending = tokio::spawn(async move {
            writer.write_all(&copy).await?;
            writer.shutdown().await
        });
        let mut got = Vec::new();
        let reading = reader.read_to_end(&mut got);
        let read = tokio::time::timeout(Duration::from_secs(20), reading).await;
        let received = TransportError::from_io(read.unwrap().unwrap_err());
        assert!(sent.starts_with(&got) && got.len() < sent.len());
        let TransportError::Stream(StreamError::PacketsLost { arrived, sent }) = &received else {
            panic!("{received}");
        };
        assert!(arrived < sent, "{received}");
        let text = received.to_string();
        assert!(text.contains("rudp") && text.contains("tcp"), "{text}");
        let error = TransportError::from_io(sending.await.unwrap().unwrap_err());
        assert!(
            matches!(
                error,
                TransportError::Stream(StreamError::PacketsLost { .. })
            ),
            "{error}"
        );
    }
}
