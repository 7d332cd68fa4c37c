//! Checks of the transfer of bytes.

use std::{task::Poll, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
    try_join,
};

use super::{
    bench::{Bench, NOTICE, Pair, expect_end, finish, receive, send},
    pattern::{Pattern, Sizes},
};
use crate::{Link, LinkReader, LinkStats, LinkWriter};

/// Both sides send concurrently, in writes from one byte to the full payload, and close.
pub(super) async fn duplex_bulk(bench: &Bench<'_>) -> Result<(), String> {
    let Pair {
        accepted,
        connected,
        listener: _listener,
    } = bench.pair().await?;
    exchange(bench, accepted, connected).await
}

/// Sends the payload in each direction, first in one write and then in random sizes.
async fn exchange(bench: &Bench<'_>, a: Link, b: Link) -> Result<(), String> {
    let seed = bench.options.seed;
    let payload = bench.options.payload;
    let (mut a_reader, mut a_writer) = a.into_parts();
    let (mut b_reader, mut b_writer) = b.into_parts();
    let from = async |writer: &mut LinkWriter, seed: u64| {
        let (mut pattern, mut sizes) = (Pattern::new(seed), Sizes::new(seed));
        let mut whole = vec![0; payload];
        pattern.fill(&mut whole);
        writer
            .write_all(&whole)
            .await
            .map_err(|error| format!("cannot write {payload} bytes: {error}"))?;
        send(writer, &mut pattern, payload, payload, &mut sizes).await?;
        finish(writer).await
    };
    let to = async |reader: &mut LinkReader, seed: u64| {
        let (mut pattern, mut sizes) = (Pattern::new(seed), Sizes::new(seed ^ 1));
        receive(reader, &mut pattern, 2 * payload, &mut sizes).await?;
        expect_end(reader).await
    };
    try_join!(
        from(&mut a_writer, seed),
        from(&mut b_writer, !seed),
        to(&mut a_reader, !seed),
        to(&mut b_reader, seed),
    )?;
    Ok(())
}

/// The parties exchange small flushed messages in turn. The check hangs if the transport holds a
/// message back.
pub(super) async fn small_writes(bench: &Bench<'_>) -> Result<(), String> {
    const ROUNDS: usize = 100;
    let pair = bench.pair().await?;
    let (mut a_reader, mut a_writer) = pair.accepted.into_parts();
    let (mut b_reader, mut b_writer) = pair.connected.into_parts();
    let mut lengths = Sizes::new(bench.options.seed);
    let lengths: Vec<_> = (0..ROUNDS).map(|_| lengths.draw(300)).collect();
    let ask = async {
        let (mut out, mut back) = (Pattern::new(1), Pattern::new(2));
        let mut sizes = Sizes::new(1);
        for &length in &lengths {
            send(&mut a_writer, &mut out, length, 16, &mut sizes).await?;
            receive(&mut a_reader, &mut back, length, &mut sizes).await?;
        }
        Ok::<_, String>(())
    };
    let answer = async {
        let (mut inward, mut out) = (Pattern::new(1), Pattern::new(2));
        let mut sizes = Sizes::new(2);
        for &length in &lengths {
            receive(&mut b_reader, &mut inward, length, &mut sizes).await?;
            send(&mut b_writer, &mut out, length, 16, &mut sizes).await?;
        }
        Ok(())
    };
    try_join!(ask, answer)?;
    Ok(())
}

/// One direction closes, the other continues.
pub(super) async fn half_close(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    for accepting_side_first in [true, false] {
        let (accepted, connected) = bench.link(&mut *listener).await?;
        let (first, second) = if accepting_side_first {
            (accepted, connected)
        } else {
            (connected, accepted)
        };
        let (mut a_reader, mut a_writer) = first.into_parts();
        let (mut b_reader, mut b_writer) = second.into_parts();
        try_join!(
            bench.send_all(&mut a_writer, 1, 1000, 100),
            bench.receive_all(&mut b_reader, 1, 1000)
        )?;
        let length = bench.options.payload;
        try_join!(
            bench.send_all(&mut b_writer, 2, length, 65_536),
            bench.receive_all(&mut a_reader, 2, length)
        )?;
    }
    Ok(())
}

/// While the peer does not read, the writer must block. When the peer reads, all bytes must arrive.
pub(super) async fn back_pressure(bench: &Bench<'_>) -> Result<(), String> {
    const STALL: Duration = Duration::from_millis(500);
    let pair = bench.pair().await?;
    let (_a_reader, mut writer) = pair.accepted.into_parts();
    let (mut reader, _b_writer) = pair.connected.into_parts();
    let mut pattern = Pattern::new(bench.options.seed);
    let mut chunk = vec![0; 64 * 1024];
    let mut unwritten = &chunk[..0];
    let limit = bench.options.max_buffered;
    let mut taken = 0;
    loop {
        if unwritten.is_empty() {
            pattern.fill(&mut chunk);
            unwritten = &chunk[..];
        }
        match timeout(STALL, writer.write(unwritten)).await {
            Err(_) => break,
            Ok(Err(error)) => return Err(format!("cannot write: {error}")),
            Ok(Ok(0)) => return Err("a write took 0 bytes".into()),
            Ok(Ok(written)) => {
                unwritten = &unwritten[written..];
                taken += written as u64;
            }
        }
        if taken > limit {
            return Err(format!(
                "took {taken} bytes while nobody read, expected at most {limit}"
            ));
        }
    }
    let total = pattern.position();
    let resume = async {
        writer
            .write_all(unwritten)
            .await
            .map_err(|error| format!("cannot write after a stall: {error}"))?;
        finish(&mut writer).await
    };
    let drain = async {
        let total = usize::try_from(total).map_err(|_| "too much was taken")?;
        let mut expected = Pattern::new(bench.options.seed);
        receive(&mut reader, &mut expected, total, &mut Sizes::new(1)).await?;
        expect_end(&mut reader).await
    };
    try_join!(resume, drain)?;
    Ok(())
}

/// Cancelled reads must not lose bytes.
pub(super) async fn cancelled_reads(bench: &Bench<'_>) -> Result<(), String> {
    const TOTAL: usize = 10_000;
    let pair = bench.pair().await?;
    let (_a_reader, mut writer) = pair.accepted.into_parts();
    let (mut reader, _b_writer) = pair.connected.into_parts();
    let trickle = async {
        let (mut pattern, mut sizes) = (Pattern::new(5), Sizes::new(5));
        let mut left = TOTAL;
        while left > 0 {
            let length = sizes.draw(500).min(left);
            send(&mut writer, &mut pattern, length, 500, &mut sizes).await?;
            left -= length;
            // This pause is long enough for the reader to find the link empty and to cancel the
            // read.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        finish(&mut writer).await
    };
    let snatch = async {
        let mut pattern = Pattern::new(5);
        let mut buffer = [0; 100];
        loop {
            // Polls the read once and drops it if it is not ready.
            let attempt = tokio::select! {
                biased;
                read = reader.read(&mut buffer) => Some(read),
                () = std::future::ready(()) => None,
            };
            match attempt {
                None => tokio::time::sleep(Duration::from_micros(100)).await,
                Some(Ok(0)) => break,
                Some(Ok(read)) => {
                    (pattern.check(&buffer[..read])).map_err(|mismatch| mismatch.to_string())?
                }
                Some(Err(error)) => return Err(format!("cannot read: {error}")),
            }
        }
        if pattern.position() == TOTAL as u64 {
            Ok(())
        } else {
            Err(format!(
                "{} bytes arrived, expected {TOTAL}",
                pattern.position()
            ))
        }
    };
    try_join!(trickle, snatch)?;
    Ok(())
}

/// Several links of one listener, opened at the same time, carry different data concurrently.
pub(super) async fn many_links(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let address = listener.local_address();
    let count = bench.options.links;
    let length = bench.options.payload / 8;
    let serve = async |link: Link| {
        // The first byte of the data is the number of the link.
        let (mut reader, mut writer) = link.into_parts();
        let id = (reader.read_u64().await)
            .map_err(|error| format!("cannot read which link this is: {error}"))?;
        bench.send_all(&mut writer, id, length, length).await?;
        expect_end(&mut reader).await
    };
    let fetch = async |id: u64| {
        let link =
            (bench.connect(&address).await).map_err(|error| format!("cannot connect: {error}"))?;
        let (mut reader, mut writer) = link.into_parts();
        (writer.write_u64(id).await).map_err(|error| format!("cannot say which: {error}"))?;
        (writer.flush().await).map_err(|error| format!("cannot flush: {error}"))?;
        bench.receive_all(&mut reader, id, length).await?;
        finish(&mut writer).await
    };
    // No link starts its transfer before all links are open.
    let accept_all = async {
        let mut links = Vec::with_capacity(count);
        while links.len() < count {
            let link = listener.accept().await;
            links.push(link.map_err(|error| format!("cannot accept: {error}"))?);
        }
        all(links.into_iter().map(serve)).await
    };
    try_join!(accept_all, all((0..count as u64).map(fetch)))?;
    Ok(())
}

/// Runs futures concurrently in this task. Returns the first error.
async fn all<F: Future<Output = Result<(), String>>>(
    futures: impl Iterator<Item = F>,
) -> Result<(), String> {
    let mut running: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        let mut failure = None;
        running.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(reason)) => {
                failure.get_or_insert(reason);
                false
            }
        });
        match failure {
            Some(reason) => Poll::Ready(Err(reason)),
            None if running.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

/// The byte counts of the statistics are right, and a handle on the statistics does not keep a link
/// open.
pub(super) async fn statistics(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let (accepted, connected) = bench.link(&mut *listener).await?;
    let (a, b) = (accepted.stats(), connected.stats());
    exchange(bench, accepted, connected).await?;
    let expected = 2 * bench.options.payload as u64;
    for (side, stats) in [("accepting", &a), ("connecting", &b)] {
        check_counters(stats, expected).map_err(|error| format!("{side} side: {error}"))?;
    }

    let (accepted, connected) = bench.link(&mut *listener).await?;
    let _watched = accepted.stats();
    drop(accepted);
    let (mut reader, _writer) = connected.into_parts();
    match timeout(NOTICE, reader.read(&mut [0; 1])).await {
        Ok(Ok(1..)) => Err("bytes arrived that nobody sent".into()),
        Ok(_) => Ok(()),
        Err(_) => Err("holding the statistics keeps a dropped link open".into()),
    }
}

fn check_counters(stats: &LinkStats, expected: u64) -> Result<(), String> {
    let snapshot = stats.snapshot();
    if (snapshot.bytes_sent, snapshot.bytes_received) != (expected, expected) {
        return Err(format!(
            "{} bytes sent and {} received are counted, expected {expected} each",
            snapshot.bytes_sent, snapshot.bytes_received
        ));
    }
    for (what, wire) in [
        ("sent", snapshot.path.wire_bytes_sent),
        ("received", snapshot.path.wire_bytes_received),
    ] {
        if wire.is_some_and(|wire| wire < expected) {
            return Err(format!(
                "{wire:?} bytes {what} on the wire carried {expected} bytes"
            ));
        }
    }
    Ok(())
}
