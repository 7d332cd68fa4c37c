//! Order, bounds and ends of a striped stream, over pipes in memory; and frames that do not fit together.

use std::time::Duration;

use proptest::prelude::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::timeout,
};

use super::{
    frame::{Header, MAX_FRAME},
    receive::StripedReader,
    send::StripedWriter,
};
use crate::{LinkReader, LinkWriter, TransportError};

/// Long enough for whatever can happen to have happened; time is paused.
const SETTLED: Duration = Duration::from_secs(1);

fn pipes(count: usize, size: usize) -> (Vec<LinkWriter>, Vec<LinkReader>) {
    (0..count)
        .map(|_| {
            let (near, far) = duplex(size);
            (Box::new(near) as LinkWriter, Box::new(far) as LinkReader)
        })
        .unzip()
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

/// A reader of two stripes, and the ends to write to.
fn two() -> (DuplexStream, DuplexStream, StripedReader) {
    let ((a, near), (b, other)) = (duplex(1 << 20), duplex(1 << 20));
    let reader = StripedReader::new(vec![Box::new(near), Box::new(other)], 1000);
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
        let mut writer = StripedWriter::new(writers);
        let mut reader = StripedReader::new(readers, 1 << 16);
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
    // The first pipe is never read: it takes a frame's beginning.
    let (stuck, _stuck_far) = duplex(64);
    let (free, free_far) = duplex(1 << 20);
    let mut writer = StripedWriter::new(vec![Box::new(stuck), Box::new(free)]);
    let (_silent, silent_far) = duplex(64);
    let limit = 100_000;
    let mut reader = StripedReader::new(vec![Box::new(silent_far), Box::new(free_far)], limit);

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
    // The pipe, what may be held, a frame on each stripe, and not much more.
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
        TransportError::Truncated
    ));
    assert!(matches!(
        TransportError::from_io(reader.read(&mut [0; 1]).await.unwrap_err()),
        TransportError::Closed
    ));
}

#[tokio::test]
async fn one_dead_stripe_is_a_dead_link() {
    let (a, _b, mut reader) = two();
    drop(a);
    assert!(matches!(
        error_of(&mut reader).await,
        TransportError::Truncated
    ));

    let (writers, mut readers) = pipes(2, 1 << 20);
    let mut writer = StripedWriter::new(writers);
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
        TransportError::Closed
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the frames, the reader ends, and what it hands out has the offsets it should.
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
            let mut reader = StripedReader::new(readers, 50);
            let mut got = Vec::new();
            let read = timeout(SETTLED, reader.read_to_end(&mut got)).await;
            assert!(read.is_ok(), "it hangs");
            assert!(got.iter().enumerate().all(|(i, &byte)| byte == i as u8));
        });
    }
}
