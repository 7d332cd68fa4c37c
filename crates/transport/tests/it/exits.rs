//! Tests that a process may exit as soon as its side of a link is complete: the peer still receives
//! a clean end.
//!
//! The connecting side runs in a process of its own, because threads of this one would continue to
//! send for it.

use std::{env, process::Command};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transpute_transport::{Link, Registry, TransportError};

use crate::meeting::unpinned;

/// Environment variable with the transport and the address for the child process.
const TRANSPORT: &str = "TRANSPUTE_TEST_TRANSPORT";
const ADDRESS: &str = "TRANSPUTE_TEST_ADDRESS";

/// Number of processes per transport. Without a wait for the last packet, most of them fail over
/// QUIC.
const ROUNDS: usize = 20;

/// Sends a message, closes, and reads up to the peer's end. The side that is `last` waits with its
/// end for the peer's. So the other side is complete as soon as that end arrives, and has
/// acknowledged nothing of it.
async fn exchange(link: Link, is_last: bool) -> Result<(), TransportError> {
    let (mut reader, mut writer) = link.into_parts();
    let mut got = Vec::new();
    let exchanged = async {
        writer.write_all(&[7; 100]).await?;
        writer.flush().await?;
        if is_last {
            reader.read_to_end(&mut got).await?;
        }
        writer.shutdown().await?;
        reader.read_to_end(&mut got).await
    };
    exchanged.await.map_err(TransportError::from_io)?;
    assert_eq!(got, [7; 100]);
    Ok(())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Runs the child process. Does nothing unless a test of this file starts it.
#[test]
fn child() {
    let (Ok(transport), Ok(address)) = (env::var(TRANSPORT), env::var(ADDRESS)) else {
        return;
    };
    let runtime = runtime();
    runtime.block_on(async {
        let transport = Registry::with_builtins().get(&transport).unwrap();
        let link = transport.connect(&address, &unpinned()).await.unwrap();
        exchange(link, false).await.unwrap();
    });
    drop(runtime);
    std::process::exit(0);
}

fn peers_that_exit_are_seen_to_close(transport: &str) {
    runtime().block_on(async {
        let listening = Registry::with_builtins().get(transport).unwrap();
        let mut listener = listening.listen("127.0.0.1:0", &unpinned()).await.unwrap();
        for round in 0..ROUNDS {
            let mut child = Command::new(env::current_exe().unwrap())
                .args(["--exact", "exits::child"])
                .env(TRANSPORT, transport)
                .env(ADDRESS, listener.local_address())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let link = listener.accept().await.unwrap();
            let exchanged = exchange(link, true).await;
            assert!(exchanged.is_ok(), "{transport}, {round}: {exchanged:?}");
            assert!(child.wait().unwrap().success());
        }
    });
}

#[test]
fn over_quic() {
    peers_that_exit_are_seen_to_close("quic");
}

#[test]
fn over_tcp() {
    peers_that_exit_are_seen_to_close("tcp");
}

#[test]
fn over_reliable_udp() {
    peers_that_exit_are_seen_to_close("rudp");
}
