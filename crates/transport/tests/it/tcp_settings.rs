//! Tests of congestion control by name, and of a connection's statistics.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{Registry, Security, TransportError, UnsupportedError};

use crate::meeting::link_at;

#[tokio::test]
async fn a_congestion_control_asked_for_is_in_force_on_both_sides() {
    // Every kernel has reno.
    for text in ["tcp:cc=reno", "tcp-striped:n=2,cc=reno"] {
        let transport = Registry::with_builtins().get(text).unwrap();
        let security = Security::Plaintext;
        let mut listener = transport.listen("127.0.0.1:0", &security).await.unwrap();
        let address = listener.local_address();
        let (accepted, connected) = link_at(&address, &mut *listener, &*transport, &security).await;
        for link in [&accepted, &connected] {
            let path = link.stats().path();
            assert_eq!(path.congestion_control.as_deref(), Some("reno"), "{text}");
        }
        let stats = connected.stats();
        let (_keep, mut writer) = connected.into_parts();
        let (mut reader, _keep_too) = accepted.into_parts();
        let mut got = Vec::new();
        let (sent, read) = tokio::join!(
            async {
                writer.write_all(&vec![0; 4 << 20]).await?;
                writer.shutdown().await
            },
            reader.read_to_end(&mut got)
        );
        sent.unwrap();
        read.unwrap();
        let path = stats.path();
        assert!(path.packets_sent.unwrap() > 0, "{path:?}");
        let times = path.send_times.unwrap();
        let tick = std::time::Duration::from_millis(20);
        assert!(times.busy <= times.elapsed + tick, "{times:?}");
        assert!(
            times.by_receiver + times.by_send_buffer <= times.busy + tick,
            "{times:?}"
        );
    }
}

#[tokio::test]
async fn one_that_does_not_exist_is_an_error_that_says_which_do() {
    for text in ["tcp:cc=nosuch", "tcp-striped:cc=nosuch"] {
        let transport = Registry::with_builtins().get(text).unwrap();
        let security = Security::Plaintext;
        let listening = transport.listen("127.0.0.1:0", &security).await.err();
        let connecting = transport.connect("127.0.0.1:9", &security).await.err();
        for error in [listening.unwrap(), connecting.unwrap()] {
            assert!(
                matches!(
                    error,
                    TransportError::Unsupported(UnsupportedError::CongestionControl { .. })
                ),
                "{error}"
            );
            let message = error.to_string();
            for part in ["nosuch", "reno", "net.ipv4.tcp_allowed_congestion_control"] {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
    }
}
