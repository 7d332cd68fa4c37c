//! Checks of what a link does with bytes.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, timeout},
    try_join,
};

use super::{
    Mode,
    bench::{Bench, Pair, expect_end, finish, receive, send},
    pattern::{Pattern, Sizes},
};
use crate::{Link, LinkReader, LinkStats, LinkWriter, TransportError};

/// Both sides send at once, in writes from one byte to the full payload, and close.
pub(super) async fn duplex_bulk(bench: &Bench<'_>) -> Result<(), String> {
    let Pair {
        accepted,
        connected,
        listener: _listener,
    } = bench.pair().await?;
    exchange(bench, accepted, connected).await
}

/// Sends the payload each way, in one write first and in random sizes then.
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

/// A conversation of small flushed messages: one that is held back stops it.
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

/// One direction closes, the other goes on.
pub(super) async fn half_close(bench: &Bench<'_>) -> Result<(), String> {
    let (one, other) = (bench.pair().await?, bench.pair().await?);
    for (first, second) in [
        (one.accepted, one.connected),
        (other.connected, other.accepted),
    ] {
        let (mut a_reader, mut a_writer) = first.into_parts();
        let (mut b_reader, mut b_writer) = second.into_parts();
        let mut sizes = Sizes::new(bench.options.seed);
        let early = async {
            send(&mut a_writer, &mut Pattern::new(1), 1000, 100, &mut sizes).await?;
            finish(&mut a_writer).await
        };
        let seen = async {
            receive(
                &mut b_reader,
                &mut Pattern::new(1),
                1000,
                &mut Sizes::new(1),
            )
            .await?;
            expect_end(&mut b_reader).await
        };
        try_join!(early, seen)?;
        let length = bench.options.payload;
        let mut sizes = Sizes::new(2);
        let late = async {
            send(
                &mut b_writer,
                &mut Pattern::new(2),
                length,
                65_536,
                &mut sizes,
            )
            .await?;
            finish(&mut b_writer).await
        };
        let seen = async {
            receive(
                &mut a_reader,
                &mut Pattern::new(2),
                length,
                &mut Sizes::new(3),
            )
            .await?;
            expect_end(&mut a_reader).await
        };
        try_join!(late, seen)?;
    }
    Ok(())
}

/// While nobody reads, the writer must come to wait; when somebody does, nothing may be missing.
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

/// Reads that are given up half way must not lose bytes.
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
            // Long enough for the reader to come back to an empty link and give up.
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
                Some(Ok(read)) => pattern.check(&buffer[..read])?,
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

/// Two links of one listener carry different things at once.
pub(super) async fn two_links(bench: &Bench<'_>) -> Result<(), String> {
    let mut listener = bench.listen().await?;
    let address = listener.local_address();
    let accept_both = async {
        let first = listener.accept().await;
        (first, listener.accept().await)
    };
    let ((a, b), c, d) = tokio::join!(
        accept_both,
        bench.connect(&address),
        bench.connect(&address)
    );
    let open = |link: Result<Link, TransportError>| link.map_err(|error| error.to_string());
    let length = bench.options.payload / 4;
    let serve = async |link: Link| {
        // The first byte says which of the two this is.
        let (mut reader, mut writer) = link.into_parts();
        let id = reader.read_u8().await.map_err(|error| error.to_string())?;
        let mut sizes = Sizes::new(id.into());
        send(
            &mut writer,
            &mut Pattern::new(id.into()),
            length,
            length,
            &mut sizes,
        )
        .await?;
        finish(&mut writer).await
    };
    let fetch = async |link: Link, id: u8| {
        let (mut reader, mut writer) = link.into_parts();
        writer
            .write_all(&[id])
            .await
            .map_err(|error| error.to_string())?;
        writer.flush().await.map_err(|error| error.to_string())?;
        let mut pattern = Pattern::new(id.into());
        receive(
            &mut reader,
            &mut pattern,
            length,
            &mut Sizes::new(id.into()),
        )
        .await?;
        expect_end(&mut reader).await
    };
    try_join!(
        serve(open(a)?),
        serve(open(b)?),
        fetch(open(c)?, 1),
        fetch(open(d)?, 2)
    )?;
    Ok(())
}

/// The counters agree with what was sent, and watching them does not keep a link open.
pub(super) async fn statistics(bench: &Bench<'_>) -> Result<(), String> {
    let pair = bench.pair().await?;
    let (a, b) = (pair.accepted.stats(), pair.connected.stats());
    exchange(bench, pair.accepted, pair.connected).await?;
    let expected = 2 * bench.options.payload as u64;
    for (side, stats) in [("accepting", &a), ("connecting", &b)] {
        check_counters(stats, expected).map_err(|error| format!("{side} side: {error}"))?;
    }

    let Pair {
        accepted,
        connected,
        listener: _listener,
    } = bench.pair().await?;
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

/// A peer that drops its link without a word is noticed, by reading and by writing, and not taken for a clean end.
pub(super) async fn peer_drop(bench: &Bench<'_>) -> Result<(), String> {
    let Pair {
        accepted,
        connected,
        listener: _listener,
    } = bench.pair().await?;
    let (mut reader, mut writer) = accepted.into_parts();
    drop(connected);
    match timeout(NOTICE, reader.read(&mut [0; 1])).await {
        Err(_) => {
            return Err(format!(
                "reading does not notice within {NOTICE:?} that the peer is gone"
            ));
        }
        Ok(Ok(0)) if bench.mode == Mode::Tls => {
            return Err("a cut stream looks like one that its sender completed".into());
        }
        Ok(Ok(1..)) => return Err("bytes arrived that nobody sent".into()),
        Ok(_) => {}
    }
    let deadline = Instant::now() + NOTICE;
    let press_on = async {
        let bytes = [0; 16 * 1024];
        while writer.write_all(&bytes).await.is_ok() && writer.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout_at(deadline, press_on)
        .await
        .map_err(|_| format!("writing does not notice within {NOTICE:?} that the peer is gone"))
}

/// The time within which a vanished peer must be noticed.
const NOTICE: Duration = Duration::from_secs(10);
