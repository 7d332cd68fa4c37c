//! Checks of authentication.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use super::{
    Port,
    bench::{Bench, Pair, works},
    pattern::{Pattern, mix},
};
use crate::{HandshakeError, Link, Listener, StreamError, TransportError};

/// [`LinkInfo`](crate::LinkInfo) describes the link correctly.
pub(super) async fn info(bench: &Bench<'_>) -> Result<(), String> {
    let Pair {
        accepted,
        connected,
        listener,
    } = bench.pair().await?;
    let encrypted = bench.mode.is_encrypted();
    for (side, link, peer) in [
        ("accepting", &accepted, &bench.connecting),
        ("connecting", &connected, &bench.listening),
    ] {
        let info = link.info();
        if info.transport != bench.transport.name() {
            return Err(format!(
                "{side} side: the link names the transport {:?}",
                info.transport
            ));
        }
        if info.encrypted != encrypted {
            return Err(format!(
                "{side} side: the link says encrypted = {}",
                info.encrypted
            ));
        }
        if info.peer_fingerprint != bench.fingerprint(peer) {
            return Err(format!(
                "{side} side: the peer is {:?}, expected {:?}",
                info.peer_fingerprint,
                bench.fingerprint(peer)
            ));
        }
    }
    let (told, seen) = (listener.local_address(), &connected.info().peer_address);
    if &told == seen {
        Ok(())
    } else {
        Err(format!(
            "the listener is at {told} and the connector reached {seen}"
        ))
    }
}

/// A listener whose `accept` was cancelled and resumed loses no peer.
pub(super) async fn cancelled_accepts(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let address = listener.local_address();
    let accept = async {
        loop {
            if let Ok(link) = timeout(Duration::from_millis(1), listener.accept()).await {
                return link;
            }
        }
    };
    let (accepted, connected) = tokio::join!(accept, bench.connect(&address));
    let accepted = accepted.map_err(|error| format!("cannot accept: {error}"))?;
    let connected = connected.map_err(|error| format!("cannot connect: {error}"))?;
    works(accepted, connected).await
}

/// A closed listener accepts no connection.
pub(super) async fn closed_listener(bench: &Bench<'_>) -> Result<(), String> {
    let listener = bench.listen().await?;
    let address = listener.local_address();
    drop(listener);
    match bench.connect(&address).await {
        Err(_) => Ok(()),
        Ok(link) => {
            let (mut reader, _writer) = link.into_parts();
            match reader.read(&mut [0; 1]).await {
                Ok(1..) => Err("somebody answers at the address of a dropped listener".into()),
                _ => Ok(()),
            }
        }
    }
}

/// The connector rejects a listener whose key is not pinned, and reports both keys.
pub(super) async fn wrong_pin_by_connector(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let address = listener.local_address();
    let security = bench.security(&bench.connecting, &bench.stranger);
    let connect = bench.transport.connect(&address, &security);
    match alone(&mut *listener, connect).await? {
        Err(TransportError::Handshake(HandshakeError::WrongPeer { expected, found }))
            if found == bench.listening.fingerprint()
                && expected == [bench.stranger.fingerprint()] => {}
        Err(error) => return Err(format!("expected the error WrongPeer, got: {error}")),
        Ok(_) => return Err("connected to a peer whose key is not pinned".into()),
    }
    still_serves(bench, &mut *listener).await
}

/// The listener rejects a connector whose key is not pinned. The connector learns the reason.
pub(super) async fn wrong_pin_by_listener(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let address = listener.local_address();
    let security = bench.security(&bench.stranger, &bench.listening);
    let intrude = async {
        let link = bench.transport.connect(&address, &security).await?;
        first_byte(link).await
    };
    match alone(&mut *listener, intrude).await? {
        Err(TransportError::Handshake(HandshakeError::PeerRefusedUs { .. })) => {}
        Err(error) => return Err(format!("expected the error PeerRefusedUs, got: {error}")),
        Ok(()) => return Err("a party whose key is not pinned was served".into()),
    }
    still_serves(bench, &mut *listener).await
}

/// Different kinds of link do not connect: encrypted with plaintext, and pinned with unpinned.
pub(super) async fn security_mismatch(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let address = listener.local_address();
    for &other in &bench.options.modes {
        if other == bench.mode {
            continue;
        }
        let security = bench.security_of(other, &bench.connecting, &bench.listening);
        let mismatched = async {
            let link = bench.transport.connect(&address, &security).await?;
            first_byte(link).await
        };
        if alone(&mut *listener, mismatched).await?.is_ok() {
            return Err(format!(
                "the listener asked for {}, the connector for {other}, and they understood",
                bench.mode
            ));
        }
    }
    still_serves(bench, &mut *listener).await
}

/// Many connections that send garbage, or nothing, do not prevent the right peer from connecting.
pub(super) async fn garbage(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let address = listener.local_address();
    // Keep the garbage connections open until the end: a listener must not wait for silent peers.
    let mut crowd = Vec::new();
    let throw = async {
        for round in 0..100u64 {
            let mut bytes = match round % 5 {
                0 => Vec::new(),
                // A TLS record that announces a handshake message of 16 MiB.
                1 => b"\x16\x03\x01\x40\x00\x01\xff\xff\xff".to_vec(),
                2 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
                3 => b"transpute/1 plain".to_vec(),
                _ => Vec::new(),
            };
            if round % 5 == 4 {
                bytes.resize(1000, 0);
                Pattern::new(mix(bench.options.seed ^ round)).fill(&mut bytes);
            }
            match bench.options.port {
                Port::Tcp => {
                    let mut stream = TcpStream::connect(&address).await?;
                    // Ignore errors, because the listener may have closed the connection already.
                    let _ = stream.write_all(&bytes).await;
                    if round % 2 == 0 {
                        crowd.push(stream);
                    }
                }
                Port::Udp => {
                    let local = if address.starts_with('[') {
                        "[::1]:0"
                    } else {
                        "127.0.0.1:0"
                    };
                    let socket = UdpSocket::bind(local).await?;
                    socket.send_to(&bytes, &address).await?;
                }
                Port::Other => {}
            }
        }
        std::io::Result::Ok(())
    };
    alone(&mut *listener, throw)
        .await?
        .map_err(|error| format!("cannot reach the port: {error}"))?;
    still_serves(bench, &mut *listener).await
}

/// Runs a future, and checks that the listener returns neither a link nor an error meanwhile.
async fn alone<T>(
    listener: &mut dyn Listener,
    future: impl Future<Output = T>,
) -> Result<T, String> {
    tokio::select! {
        output = future => Ok(output),
        accepted = listener.accept() => Err(match accepted {
            Ok(link) => format!("the listener accepted a stranger: {:?}", link.info()),
            Err(error) => format!("the listener broke: {error}"),
        }),
    }
}

/// Checks that the right peer still gets a working link.
async fn still_serves(bench: &Bench<'_>, listener: &mut dyn Listener) -> Result<(), String> {
    let (accepted, connected) = bench
        .link(listener)
        .await
        .map_err(|error| format!("afterwards: {error}"))?;
    works(accepted, connected)
        .await
        .map_err(|error| format!("afterwards: {error}"))
}

/// Reads once, like a party that does not know yet whether the peer accepts it.
async fn first_byte(link: Link) -> Result<(), TransportError> {
    let (mut reader, mut writer) = link.into_parts();
    let written = async {
        writer.write_all(&[0; 1000]).await?;
        writer.flush().await
    };
    // Ignore the result of the write: the peer's rejection may arrive before or after the write.
    let _ = written.await;
    match reader.read(&mut [0; 1]).await {
        Ok(0) => Err(TransportError::Stream(StreamError::Closed)),
        Ok(_) => Ok(()),
        Err(error) => Err(TransportError::from_io(error)),
    }
}
