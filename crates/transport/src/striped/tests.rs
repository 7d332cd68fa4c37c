//! Tests of the order, limits and ends of a striped stream, over pipes in memory, and of invalid
//! frames.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::timeout,
};

use super::{
    frame::{Header, MAX_FRAME},
    growth::Growth,
    receive::StripedReader,
    send::StripedWriter,
};
use crate::{LinkReader, LinkWriter, StreamError, TransportError};

/// Virtual time after which all possible events have occurred.
const SETTLED: Duration = Duration::from_secs(1);

fn pipes(count: usize, size: usize) -> (Vec<LinkWriter>, Vec<LinkReader>) {
    (0..count)
        .map(|_| {
            let (near, far) = duplex(size);
            (Box::new(near) as LinkWriter, Box::new(far) as LinkReader)
        })
        .unzip()
}

/// Returns both halves of a link at one end that starts with one stripe.
fn begin(
    first: (LinkReader, LinkWriter),
    most_held: usize,
) -> (StripedReader, StripedWriter, Growth) {
    let (growth, readers, writers) = Growth::begin(Arc::default());
    (
        StripedReader::new(first.0, readers, most_held),
        StripedWriter::new(first.1, writers),
        growth,
    )
}

fn no_reader() -> LinkReader {
    Box::new(tokio::io::empty())
}

/// Returns a reader of these stripes. No further stripe can join.
fn reading(readers: Vec<LinkReader>, most_held: usize) -> StripedReader {
    let mut readers = readers.into_iter();
    let first = (readers.next().unwrap(), no_writer());
    let (reader, _, growth) = begin(first, most_held);
    for (number, half) in (1..).zip(readers) {
        growth.add_halves(number, half, no_writer());
    }
    reader
}

/// Returns a writer to these stripes. No further stripe can join.
fn writing(writers: Vec<LinkWriter>) -> StripedWriter {
    let mut writers = writers.into_iter();
    let first = (no_reader(), writers.next().unwrap());
    let (_, writer, growth) = begin(first, 0);
    for (number, half) in (1..).zip(writers) {
        growth.add_halves(number, no_reader(), half);
    }
    writer
}

fn no_writer() -> LinkWriter {
    Box::new(tokio::io::sink())
}

fn numbered(length: usize) -> Vec<u8> {
    (0..length as u32)
        .flat_map(|n| (n / 4).to_le_bytes())
        .take(length)
        .collect()
}

fn frame(offset: u64, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&Header { offset, length }.encode()[..], payload].concat()
}

/// Returns the far ends of two stripes, for writing, and their reader.
fn two() -> (DuplexStream, DuplexStream, StripedReader) {
    let ((a, near), (b, other)) = (duplex(1 << 20), duplex(1 << 20));
    let reader = reading(vec![Box::new(near), Box::new(other)], 1000);
    (a, b, reader)
}

async fn error_of(reader: &mut StripedReader) -> TransportError {
    let mut all = Vec::new();
    let read = timeout(SETTLED, reader.read_to_end(&mut all)).await;
    TransportError::from_io(read.expect("it hangs").unwrap_err())
}

#[tokio::test]
async fn bytes_arrive_in_order_over_pipes_of_any_size() {
    for (stripes, size) in [(1, 1), (2, 7), (3, 100), (8, 70_000), (32, 1 << 20)] {
        let (writers, readers) = pipes(stripes, size);
        let mut writer = writing(writers);
        let mut reader = reading(readers, 1 << 16);
        let data = numbered(if size < 100 { 50_000 } else { 5_000_000 });
        let mut got = Vec::new();
        let (sent, read) = tokio::join!(
            async {
                for piece in data.chunks(123_457) {
                    writer.write_all(piece).await?;
                }
                writer.shutdown().await
            },
            reader.read_to_end(&mut got)
        );
        sent.unwrap();
        read.unwrap();
        assert!(got == data, "{stripes} stripes of {size} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stripe_that_stands_still_holds_the_others_back() {
    // The first pipe is never read. It accepts the beginning of a frame.
    let (stuck, _stuck_far) = duplex(64);
    let (free, free_far) = duplex(1 << 20);
    let mut writer = writing(vec![Box::new(stuck), Box::new(free)]);
    let (_silent, silent_far) = duplex(64);
    let limit = 100_000;
    let mut reader = reading(vec![Box::new(silent_far), Box::new(free_far)], limit);

    let chunk = vec![1; 10_000];
    let mut taken = 0;
    let mut buffer = vec![0; 4096];
    loop {
        tokio::select! {
            biased;
            read = reader.read(&mut buffer) => panic!("{read:?}: the first byte has not come"),
            written = timeout(SETTLED, writer.write(&chunk)) => match written {
                Ok(written) => taken += written.unwrap(),
                Err(_) => break,
            },
        }
    }
    // The pipe, the read-ahead memory and a few partly sent frames can hold this many bytes.
    let most = (1 << 20) + limit + 4 * MAX_FRAME;
    assert!(taken > 1 << 20 && taken <= most, "{taken}");
}

#[tokio::test]
async fn an_end_is_an_end_only_with_every_byte() {
    let (mut a, mut b, mut reader) = two();
    b.write_all(&frame(3, b"def")).await.unwrap();
    b.write_all(&frame(6, b"")).await.unwrap();
    a.write_all(&[frame(0, b"abc"), frame(6, b"")].concat())
        .await
        .unwrap();
    drop((a, b));
    let mut got = String::new();
    reader.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "abcdef");
    assert_eq!(reader.read(&mut [0; 1]).await.unwrap(), 0, "it stays so");

    let (mut a, mut b, mut reader) = two();
    b.write_all(&frame(3, b"")).await.unwrap();
    a.write_all(&frame(0, b"ab")).await.unwrap();
    drop(a);
    assert!(matches!(
        error_of(&mut reader).await,
        TransportError::Stream(StreamError::Truncated)
    ));
    assert!(matches!(
        TransportError::from_io(reader.read(&mut [0; 1]).await.unwrap_err()),
        TransportError::Stream(StreamError::Closed)
    ));
}

#[tokio::test]
async fn one_dead_stripe_is_a_dead_link() {
    let (a, _b, mut reader) = two();
    drop(a);
    assert!(matches!(
        error_of(&mut reader).await,
        TransportError::Stream(StreamError::Truncated)
    ));

    let (writers, mut readers) = pipes(2, 1 << 20);
    let mut writer = writing(writers);
    readers.pop();
    let chunk = vec![0; MAX_FRAME];
    let broken = async {
        loop {
            if let Err(error) = writer.write_all(&chunk).await {
                break error;
            }
        }
    };
    let error = timeout(SETTLED, broken).await.expect("it hangs");
    assert!(matches!(
        TransportError::from_io(error),
        TransportError::Stream(StreamError::Closed)
    ));
    assert!(writer.write(&chunk).await.is_err() && writer.flush().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn frames_that_do_not_fit_together_are_an_error_and_no_hang() {
    let long = Header {
        offset: 0,
        length: MAX_FRAME as u32 + 1,
    };
    for (first, second, complaint) in [
        (frame(0, b"abc"), frame(2, b"cd"), "repeats byte 2"),
        (frame(5, b"abc"), frame(9, b"abc"), "byte 0 is on none"),
        (
            [frame(3, b"a"), frame(1, b"b")].concat(),
            frame(9, b"c"),
            "repeats byte 1",
        ),
        (frame(4, b""), frame(5, b""), "different places"),
        (frame(4, b""), frame(3, b"abc"), "behind the end"),
        (
            [frame(4, b""), frame(9, b"")].concat(),
            vec![],
            "behind the end",
        ),
        (frame(4, b""), frame(4, b""), "byte 0 is on none"),
        (long.encode().to_vec(), vec![], "65537 bytes"),
        (frame(u64::MAX, b"a"), vec![], "beyond the end"),
    ] {
        let (mut a, mut b, mut reader) = two();
        a.write_all(&first).await.unwrap();
        b.write_all(&second).await.unwrap();
        let error = error_of(&mut reader).await.to_string();
        assert!(error.contains(complaint), "{error}, expected {complaint:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tiny_frames_count_as_what_they_cost() {
    let (mut a, b, mut reader) = two();
    let flood = async {
        for offset in 1u64.. {
            a.write_all(&frame(offset, b"x")).await.unwrap();
        }
    };
    let mut byte = [0; 1];
    tokio::select! {
        _ = reader.read(&mut byte) => panic!("the first byte has not come"),
        done = timeout(SETTLED, flood) => assert!(done.is_err(), "it takes everything"),
    }
    drop(b);
}

/// Returns both ends of a stripe, each with its reader and its writer.
fn stripe(size: usize) -> [(LinkReader, LinkWriter); 2] {
    let (near, far) = duplex(size);
    [near, far].map(|end| {
        let (reader, writer) = tokio::io::split(end);
        (
            Box::new(reader) as LinkReader,
            Box::new(writer) as LinkWriter,
        )
    })
}

#[tokio::test(start_paused = true)]
async fn one_that_joins_takes_frames_at_once() {
    // The first stripe is full and is not read.
    let (near, _stuck) = duplex(64);
    let (_, mut writer, growth) = begin((no_reader(), Box::new(near)), 0);
    let data = numbered(100_000);
    let sending = tokio::spawn(async move { writer.write_all(&data).await.map(|()| writer) });
    tokio::time::sleep(SETTLED).await;
    assert!(!sending.is_finished(), "there is nowhere to put it");
    let (late, mut far) = duplex(1 << 20);
    growth.add_halves(1, no_reader(), Box::new(late));
    let writer = timeout(SETTLED, sending).await.expect("it hangs");
    let _writer = writer.unwrap().unwrap();
    let mut header = [0; 12];
    far.read_exact(&mut header).await.unwrap();
    let header = Header::decode(header).unwrap();
    assert!(header.offset > 0 && header.length > 0);
}

#[tokio::test(start_paused = true)]
async fn a_byte_may_come_on_a_stripe_that_joins_later() {
    let (mut first, near) = duplex(1 << 10);
    let (mut reader, _writer, growth) = begin((Box::new(near), no_writer()), 1000);
    first
        .write_all(&[frame(3, b"def"), frame(6, b"")].concat())
        .await
        .unwrap();
    drop(first);
    let mut reading = tokio::spawn(async move {
        let mut got = String::new();
        reader.read_to_string(&mut got).await.map(|_| got)
    });
    assert!(timeout(SETTLED, &mut reading).await.is_err());
    let (mut late, near) = duplex(1 << 10);
    growth.add_halves(1, Box::new(near), no_writer());
    late.write_all(&frame(0, b"abc")).await.unwrap();
    assert!(
        timeout(SETTLED, &mut reading).await.is_err(),
        "it has not ended"
    );
    late.write_all(&frame(6, b"")).await.unwrap();
    drop(late);
    let got = timeout(SETTLED, reading).await.expect("it hangs");
    assert_eq!(got.unwrap().unwrap(), "abcdef");
}

#[tokio::test(start_paused = true)]
async fn a_byte_that_no_stripe_can_bring_any_more_is_an_error() {
    let (mut first, near) = duplex(1 << 10);
    let (mut reader, _writer, growth) = begin((Box::new(near), no_writer()), 1000);
    first.write_all(&frame(3, b"def")).await.unwrap();
    let reading = tokio::spawn(async move { error_of(&mut reader).await });
    tokio::time::sleep(SETTLED / 2).await;
    drop(growth);
    let error = reading.await.unwrap().to_string();
    assert!(error.contains("byte 0 is on none"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_that_has_carried_nothing_can_go_and_no_other() {
    for carried in ["nothing", "from the peer", "to the peer"] {
        let [first, mut peers_first] = stripe(1 << 20);
        let (mut reader, mut writer, growth) = begin(first, 1000);
        let [near, mut far] = stripe(1 << 20);
        growth.add_halves(1, near.0, near.1);
        let mut end = 3;
        match carried {
            "from the peer" => {
                far.1.write_all(&frame(3, b"def")).await.unwrap();
                end = 6;
            }
            "to the peer" => {
                // The first frame stays on stripe 0.
                writer.write_all(&[7; 40_000]).await.unwrap();
                writer.flush().await.unwrap();
            }
            _ => {}
        }
        drop((far, growth));
        let said = [frame(0, b"abc"), frame(end, b"")].concat();
        peers_first.1.write_all(&said).await.unwrap();
        let mut got = Vec::new();
        // The end of a pipe is visible when both of its halves are dropped.
        drop(peers_first);
        let read = timeout(SETTLED, reader.read_to_end(&mut got)).await;
        match (carried, read.expect("it hangs")) {
            ("nothing", read) => {
                read.unwrap();
                assert_eq!(got, b"abc");
            }
            (_, Ok(_)) => panic!("something was {carried}"),
            (_, Err(error)) => assert!(matches!(
                TransportError::from_io(error),
                TransportError::Stream(StreamError::Truncated)
            )),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_has_ended_is_not_given_anything() {
    let [first, mut peers_first] = stripe(1 << 20);
    let (mut reader, mut writer, growth) = begin(first, 1000);
    let [near, far] = stripe(1 << 20);
    growth.add_halves(1, near.0, near.1);
    drop(far);
    // The reader detects that the stripe ended.
    assert!(timeout(SETTLED, reader.read(&mut [0])).await.is_err());
    writer.write_all(&[7; 100_000]).await.unwrap();
    writer.shutdown().await.unwrap();
    let mut all = Vec::new();
    drop((reader, writer));
    peers_first.0.read_to_end(&mut all).await.unwrap();
    assert!(all.len() > 100_000);
}

#[tokio::test(start_paused = true)]
async fn one_that_joins_after_the_end_hears_of_it() {
    let [first, _peers_first] = stripe(1 << 20);
    let (_reader, mut writer, growth) = begin(first, 1000);
    writer.write_all(b"abc").await.unwrap();
    writer.shutdown().await.unwrap();
    let [near, mut far] = stripe(1 << 20);
    growth.add_halves(1, near.0, near.1);
    let mut said = Vec::new();
    let heard = timeout(SETTLED, far.0.read_to_end(&mut said)).await;
    heard.expect("it hangs").unwrap();
    assert_eq!(said, frame(3, b""));
}

#[tokio::test(start_paused = true)]
async fn who_brings_up_stripes_is_told_when_nobody_needs_them() {
    let [first, _far] = stripe(64);
    let (reader, writer, growth) = begin(first, 1000);
    let mut ended = Box::pin(growth.link_ended());
    drop(reader);
    assert!(timeout(SETTLED, &mut ended).await.is_err());
    drop(writer);
    timeout(SETTLED, ended).await.expect("not told");
    // A stripe that joins too late ends at once.
    let [near, mut far] = stripe(64);
    growth.add_halves(1, near.0, near.1);
    assert_eq!(far.0.read(&mut [0]).await.unwrap(), 0);
}

/// A conversation over stripes that join during it: first at the listener, and then at the
/// connector.
async fn converses(joins: Vec<(u64, u64)>, sizes: [usize; 2], pauses: [u64; 2], pipe: usize) {
    let [near, far] = stripe(pipe);
    let (near, far) = (begin(near, 4096), begin(far, 4096));
    let mut opening = tokio::task::JoinSet::new();
    for (number, (at, later)) in (1..).zip(joins) {
        let (here, there) = (near.2.clone(), far.2.clone());
        opening.spawn(async move {
            let [one, other] = stripe(pipe);
            tokio::time::sleep(Duration::from_millis(at)).await;
            there.add_halves(number, other.0, other.1);
            tokio::time::sleep(Duration::from_millis(later)).await;
            here.add_halves(number, one.0, one.1);
        });
    }
    let ends = [(near.0, near.1), (far.0, far.1)];
    drop((near.2, far.2));
    let mut talks = tokio::task::JoinSet::new();
    for (who, (mut reader, mut writer)) in (0..).zip(ends) {
        let mine = numbered(sizes[who]);
        let theirs = numbered(sizes[1 - who]);
        let pause = Duration::from_millis(pauses[who]);
        talks.spawn(async move {
            let sending = async {
                for piece in mine.chunks(7001) {
                    writer.write_all(piece).await.unwrap();
                    tokio::time::sleep(pause).await;
                }
                writer.shutdown().await.unwrap();
            };
            let mut got = Vec::new();
            let reading = async { reader.read_to_end(&mut got).await.unwrap() };
            tokio::join!(sending, reading);
            assert!(got == theirs, "{} bytes of {}", got.len(), theirs.len());
            // Close the link as soon as all data has arrived.
            drop((reader, writer));
        });
    }
    while let Some(talked) = talks.join_next().await {
        talked.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Stripes may join at any time, at either end, before or after the ends. Every byte arrives,
    /// and no reader hangs.
    #[test]
    fn stripes_may_join_at_any_time(
        joins in prop::collection::vec((0..60u64, 0..30u64), 0..6),
        sizes in [0..200_000usize, 0..200_000usize],
        pauses in [0..4u64, 0..4u64],
        pipe in prop::sample::select(vec![13usize, 600, 20_000, 1 << 20]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let talked = timeout(Duration::from_secs(3600), converses(joins, sizes, pauses, pipe));
            talked.await.expect("it hangs");
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any frames, the reader ends, and its output has the right offsets.
    #[test]
    fn no_frames_make_it_panic_or_hang(
        frames in prop::collection::vec((0..3usize, 0..40u64, 0..6usize), 0..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (mut near, far): (Vec<_>, Vec<_>) = (0..3).map(|_| duplex(1 << 16)).unzip();
            for (stripe, offset, length) in frames {
                let payload: Vec<_> = (0..length).map(|i| (offset as usize + i) as u8).collect();
                near[stripe].write_all(&frame(offset, &payload)).await.unwrap();
            }
            drop(near);
            let readers = far.into_iter().map(|end| Box::new(end) as LinkReader).collect();
            let mut reader = reading(readers, 50);
            let mut got = Vec::new();
            let read = timeout(SETTLED, reader.read_to_end(&mut got)).await;
            assert!(read.is_ok(), "it hangs");
            assert!(got.iter().enumerate().all(|(i, &byte)| byte == i as u8));
        });
    }
}
