//! Flow control: programs that do not read, and windows that grow.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

use crate::harness::{echo, exchange, pair, pattern, reset, server, until};

/// Window of a new stream, in bytes.
const WINDOW: usize = 256 << 10;

#[tokio::test]
async fn a_program_that_does_not_read_stops_only_its_own_stream() {
    const STOPPED: usize = 20;
    let (sender, mut held) = mpsc::channel::<TcpStream>(STOPPED);
    let silent = server(move |socket| {
        let sender = sender.clone();
        async move { sender.send(socket).await.unwrap() }
    })
    .await;
    let target = echo().await;
    let [near, far] = pair("tcp", false, &[&silent, &target]).await;
    let mut writers = Vec::new();
    for _ in 0..STOPPED {
        let mut client = far.connect(&silent).await;
        // Far more than all buffers on the way hold.
        writers.push(tokio::spawn(async move {
            let bytes = pattern(32 << 20, 1);
            client.write_all(&bytes).await.unwrap();
            client.shutdown().await.unwrap();
            bytes
        }));
    }
    // Each queue fills up to its window, and does not grow.
    until("all queues are full", || {
        near.tunnel.stats().queued_bytes >= STOPPED * WINDOW / 2
    })
    .await;
    for number in 0..20 {
        let bytes = pattern(1_000_000, number);
        let answer = exchange(far.connect(&target).await, bytes.clone()).await;
        assert!(answer.unwrap() == bytes);
        let stats = near.tunnel.stats();
        let maximum = stats.streams * WINDOW + usize::try_from(stats.window_growth).unwrap();
        assert!(stats.queued_bytes <= maximum, "{stats:?}");
    }
    assert!(writers.iter().all(|writer| !writer.is_finished()));
    // The programs read now, and all bytes arrive.
    for writer in writers {
        let mut socket = held.recv().await.unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        assert!(writer.await.unwrap() == bytes);
        drop(socket);
    }
    until("all queues are empty", || near.tunnel.stats().streams == 0).await;
    assert_eq!(near.tunnel.stats().window_growth, 0);
}

#[tokio::test]
async fn the_window_of_a_fast_stream_grows_within_the_pool() {
    let target = server(|mut socket| async move {
        let mut buffer = vec![0; 1 << 20];
        while socket.read(&mut buffer).await.is_ok_and(|len| len > 0) {}
    })
    .await;
    let [near, far] = pair("tcp", false, &[&target]).await;
    let mut client = far.connect(&target).await;
    let bytes = pattern(1 << 20, 2);
    let mut growth = 0;
    // A debug build on a busy machine may need many attempts to be fast for a moment.
    for _ in 0..500 {
        client.write_all(&bytes).await.unwrap();
        growth = growth.max(near.tunnel.stats().window_growth);
    }
    assert!(growth > 0, "no growth after 500 MiB");
    assert!(growth <= 64 << 20);
    drop(client);
    until("the stream ends", || near.tunnel.stats().streams == 0).await;
    assert_eq!(near.tunnel.stats().window_growth, 0);
}

#[tokio::test]
async fn a_reset_passes_although_the_window_is_used_up() {
    let (sender, mut held) = mpsc::channel::<TcpStream>(1);
    let silent = server(move |socket| {
        let sender = sender.clone();
        async move { sender.send(socket).await.unwrap() }
    })
    .await;
    let [near, far] = pair("tcp", false, &[&silent]).await;
    let mut client = far.connect(&silent).await;
    let _socket = held.recv().await.unwrap();
    let bytes = pattern(1 << 20, 1);
    let is_stopped = async {
        loop {
            client.write_all(&bytes).await.unwrap();
        }
    };
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(1), is_stopped).await;
    assert!(stopped.is_err());
    assert!(near.tunnel.stats().queued_bytes >= WINDOW / 2);
    reset(client);
    for end in [&near, &far] {
        until("the stream ends", || end.tunnel.stats().streams == 0).await;
    }
}
