//! Bytes that arrive: echoes from both sides, half-closed connections, many connections at once.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{DEADLINE, echo, exchange, pair, pattern, server, until};

#[tokio::test]
async fn both_sides_forward_over_every_kind_of_link() {
    for (transport, is_pinned) in [("tcp", false), ("tcp", true), ("rudp", true)] {
        let target = echo().await;
        let ends = pair(transport, is_pinned, &[&target]).await;
        for end in &ends {
            for len in [0, 1, 1000, 3_000_000] {
                let bytes = pattern(len, len);
                let answer = exchange(end.connect(&target).await, bytes.clone()).await;
                assert!(answer.unwrap() == bytes, "{transport}: {len} bytes differ");
            }
        }
        for end in &ends {
            until("all streams end", || end.tunnel.stats().streams == 0).await;
            assert_eq!(end.tunnel.stats().window_growth, 0);
            assert!(end.tunnel.is_open());
        }
    }
}

#[tokio::test]
async fn one_direction_ends_before_the_other() {
    // The server ends its direction first, and then still receives.
    let (sender, mut received) = tokio::sync::mpsc::channel(1);
    let target = server(move |mut socket| {
        let sender = sender.clone();
        async move {
            socket.write_all(b"greeting").await.unwrap();
            socket.shutdown().await.unwrap();
            let mut bytes = Vec::new();
            socket.read_to_end(&mut bytes).await.unwrap();
            sender.send(bytes).await.unwrap();
        }
    })
    .await;
    let ends = pair("tcp", false, &[&target]).await;
    for end in &ends {
        let mut client = end.connect(&target).await;
        let mut greeting = Vec::new();
        client.read_to_end(&mut greeting).await.unwrap();
        assert_eq!(greeting, b"greeting");
        let bytes = pattern(500_000, 3);
        client.write_all(&bytes).await.unwrap();
        client.shutdown().await.unwrap();
        assert!(received.recv().await.unwrap() == bytes);
    }

    // The client ends its direction first, and then still receives.
    let target = server(|mut socket| async move {
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        socket.write_all(&bytes).await.unwrap();
    })
    .await;
    let ends = pair("tcp", false, &[&target]).await;
    for end in &ends {
        let bytes = pattern(700_000, 4);
        let answer = exchange(end.connect(&target).await, bytes.clone()).await;
        assert!(answer.unwrap() == bytes);
    }
}

/// Raises the limit of open files: each connection has four sockets in this process.
#[cfg(unix)]
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_thousand_connections_are_served_at_once() {
    const COUNT: usize = 1000;
    raise_file_limit();
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(COUNT));
    let target = echo().await;
    let [_near, far] = pair("tcp", true, &[&target]).await;
    let address = far.forward(&target).await;
    let clients = (0..COUNT).map(|number| {
        let barrier = std::sync::Arc::clone(&barrier);
        tokio::spawn(async move {
            let mut socket = TcpStream::connect(address).await.unwrap();
            let mut byte = [0];
            socket.write_all(b"x").await.unwrap();
            socket.read_exact(&mut byte).await.unwrap();
            // All connections are open now.
            barrier.wait().await;
            let bytes = pattern(1000 + number * 7, number);
            let answer = exchange(socket, bytes.clone()).await.unwrap();
            assert!(answer == bytes, "connection {number} has other bytes");
        })
    });
    let clients: Vec<_> = clients.collect();
    for client in clients {
        client.await.unwrap();
    }
    until("all streams end", || far.tunnel.stats().streams == 0).await;
}

#[tokio::test]
async fn a_program_opens_a_stream_without_a_socket() {
    let target = echo().await;
    let [near, far] = pair("tcp", false, &[&target]).await;
    for end in [&near, &far] {
        let bytes = pattern(1_000_000, 5);
        let stream = end.tunnel.open(target.parse().unwrap());
        let answer = exchange(stream, bytes.clone()).await.unwrap();
        assert!(answer == bytes);
    }
    until("all streams end", || near.tunnel.stats().streams == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_of_many_sizes_share_links_of_several_threads() {
    for (transport, is_pinned) in [("tcp", true), ("rudp", true)] {
        let target = echo().await;
        let ends = pair(transport, is_pinned, &[&target]).await;
        let mut clients = Vec::new();
        for number in 0..120 {
            let end = &ends[number % 2];
            let socket = end.connect(&target).await;
            let stream = end.tunnel.open(target.parse().unwrap());
            // From 1 byte to 2 MiB: some streams need new credit, and others do not.
            let len = (1 << (number % 22)) + number * 13;
            let bytes = pattern(len, number);
            clients.push(tokio::spawn(async move {
                let answer = exchange(socket, bytes.clone()).await.unwrap();
                assert!(answer == bytes, "connection {number} has other bytes");
                let answer = exchange(stream, bytes.clone()).await.unwrap();
                assert!(answer == bytes, "stream {number} has other bytes");
            }));
        }
        for client in clients {
            (tokio::time::timeout(DEADLINE, client).await.unwrap()).unwrap();
        }
        for end in &ends {
            until("all streams end", || end.tunnel.stats().streams == 0).await;
            assert_eq!(end.tunnel.stats().window_growth, 0);
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unix_sockets_are_forwarded_on_both_ends() {
    use tokio::net::{UnixListener, UnixStream};
    use transpute_tunnel::{Forward, TunnelSet};

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let target = format!("unix:{}", path("target"));
    let listener = UnixListener::bind(path("target")).unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let (mut reader, mut writer) = socket.split();
            tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            writer.shutdown().await.unwrap();
        }
    });
    let [_near, far] = pair("tcp", false, &[&target]).await;
    let rule = || format!("unix:{}={target}", path("local")).parse().unwrap();
    let forward = Forward::bind(rule()).await.unwrap();
    let error = Forward::bind(rule()).await.unwrap_err().to_string();
    assert!(error.contains("cannot listen on unix:/"), "{error}");
    drop(forward);
    // A file that a killed process left behind does not prevent the start.
    drop(std::os::unix::net::UnixListener::bind(path("local")).unwrap());
    let forward = Forward::bind(rule()).await.unwrap();
    let tunnels = TunnelSet::default();
    tunnels.add(far.tunnel.clone());
    tokio::spawn(forward.serve(tunnels));

    let client = UnixStream::connect(path("local")).await.unwrap();
    let bytes = pattern(400_000, 6);
    let answer = exchange(client, bytes.clone()).await.unwrap();
    assert!(answer == bytes);
}
