//! Ends that are not clean: refusals, resets, and lost links.

use std::io::ErrorKind;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};
use transpute_tunnel::{Forward, TunnelConfig, TunnelError, TunnelSet, TunnelSide};

use crate::harness::{
    DEADLINE, End, allowing, assert_reset, echo, exchange, links, pair, pattern, reset, server,
    until,
};

#[tokio::test]
async fn refused_connections_are_reset() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let open = echo().await;
    let ends = pair("tcp", false, &[&closed]).await;
    for end in &ends {
        // The port is closed, or the target is not allowed.
        for target in [&closed, &open] {
            let socket = end.connect(target).await;
            assert_reset(exchange(socket, pattern(1000, 1)).await);
            let mut stream = end.tunnel.open(target.parse().unwrap());
            let error = stream.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            let error = stream.write_u8(1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        assert!(end.tunnel.is_open());
    }
    for end in &ends {
        until("all streams end", || end.tunnel.stats().streams == 0).await;
    }
}

#[tokio::test]
async fn a_reset_passes_through_the_tunnel() {
    // The server resets the connection after the first byte.
    let target = server(|mut socket| async move {
        socket.read_u8().await.unwrap();
        reset(socket);
    })
    .await;
    let (sender, mut results) = tokio::sync::mpsc::channel(1);
    let reporting = server(move |mut socket| {
        let sender = sender.clone();
        async move {
            socket.write_u8(1).await.unwrap();
            let mut bytes = Vec::new();
            let result = socket.read_to_end(&mut bytes).await.map(|_| bytes);
            sender.send(result).await.unwrap();
        }
    })
    .await;
    let ends = pair("tcp", true, &[&target, &reporting]).await;
    for end in &ends {
        let mut socket = end.connect(&target).await;
        socket.write_u8(1).await.unwrap();
        let mut bytes = Vec::new();
        assert_reset(socket.read_to_end(&mut bytes).await.map(|_| bytes));

        // The client resets the connection.
        let mut socket = end.connect(&reporting).await;
        socket.read_u8().await.unwrap();
        reset(socket);
        assert_reset(results.recv().await.unwrap());
        until("all streams end", || end.tunnel.stats().streams == 0).await;
    }
}

#[tokio::test]
async fn a_lost_link_resets_the_connections_of_both_sides() {
    let (sender, mut results) = tokio::sync::mpsc::channel(1);
    let target = server(move |mut socket| {
        let sender = sender.clone();
        async move {
            let mut bytes = Vec::new();
            socket.write_u8(1).await.unwrap();
            let result = socket.read_to_end(&mut bytes).await.map(|_| bytes);
            sender.send(result).await.unwrap();
        }
    })
    .await;
    for (transport, is_pinned) in [("tcp", false), ("tcp", true), ("rudp", true)] {
        let [near, far] = pair(transport, is_pinned, &[&target]).await;
        let address = far.forward(&target).await;
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut stream = far.tunnel.open(target.parse().unwrap());
        client.read_u8().await.unwrap();
        stream.read_u8().await.unwrap();
        drop(near.task);
        let mut bytes = Vec::new();
        assert_reset(client.read_to_end(&mut bytes).await.map(|_| bytes));
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        for _ in 0..2 {
            assert_reset(results.recv().await.unwrap());
        }
        let error = timeout(DEADLINE, far.task.wait()).await.unwrap();
        assert!(matches!(error, Err(TunnelError::ClosedByPeer)), "{error:?}");
        assert!(!far.tunnel.is_open() && !near.tunnel.is_open());
        // A new connection finds no link.
        let client = tokio::net::TcpStream::connect(address).await.unwrap();
        assert_reset(exchange(client, pattern(10, 1)).await);
        let mut stream = far.tunnel.open(target.parse().unwrap());
        stream.read_u8().await.unwrap_err();
    }
}

#[tokio::test]
async fn this_side_closes_a_tunnel_without_an_error() {
    let [near, far] = pair("tcp", true, &[]).await;
    near.tunnel.close();
    near.task.wait().await.unwrap();
    assert!(matches!(
        far.task.wait().await,
        Err(TunnelError::ClosedByPeer)
    ));
}

#[tokio::test]
async fn connections_use_the_newest_live_link() {
    let target = echo().await;
    let tunnels = TunnelSet::default();
    let forward = Forward::bind(format!("0={target}").parse().unwrap()).await;
    let forward = forward.unwrap();
    let address = forward.rule().local.to_string();
    tokio::spawn(forward.serve(tunnels.clone()));
    let connect = || tokio::net::TcpStream::connect(address.clone());
    assert_reset(exchange(connect().await.unwrap(), pattern(9, 1)).await);

    let [first, _first_peer] = pair("tcp", false, &[&target]).await;
    let [second, _second_peer] = pair("tcp", false, &[&target]).await;
    tunnels.add(first.tunnel.clone());
    tunnels.add(second.tunnel.clone());
    let stream = connect().await.unwrap();
    until("the newest is used", || second.tunnel.stats().streams == 1).await;
    drop(stream);
    second.tunnel.close();
    second.task.wait().await.unwrap();
    let answer = exchange(connect().await.unwrap(), pattern(9, 1)).await;
    assert_eq!(answer.unwrap(), pattern(9, 1));
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = Forward::bind(format!("{address}=80").parse().unwrap()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, TunnelError::Bind { .. }), "{error:?}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn streams_over_the_limit_are_reset() {
    let target = echo().await;
    for limited in [TunnelSide::Listener, TunnelSide::Connector] {
        let [near, far] = links("tcp", false).await;
        let mut few = allowing(&[&target]);
        few.max_streams = 2;
        let (near_config, far_config) = match limited {
            TunnelSide::Listener => (few, TunnelConfig::default()),
            TunnelSide::Connector => (allowing(&[&target]), few),
        };
        let _near = End::start(near, TunnelSide::Listener, near_config);
        let far = End::start(far, TunnelSide::Connector, far_config);
        let mut held = Vec::new();
        for _ in 0..2 {
            let mut stream = far.tunnel.open(target.parse().unwrap());
            stream.write_u8(7).await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), 7);
            held.push(stream);
        }
        let mut stream = far.tunnel.open(target.parse().unwrap());
        stream.read_u8().await.unwrap_err();
        held.pop();
        until("a stream ends", || far.tunnel.stats().streams == 1).await;
        let mut stream = far.tunnel.open(target.parse().unwrap());
        stream.write_u8(7).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 7);
    }
}
