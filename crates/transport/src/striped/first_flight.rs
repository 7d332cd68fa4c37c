//! What a link puts on which stripe at its beginning, with windows that are told and time that stands still.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::Instant,
};

use super::{
    frame::HEADER,
    roster::{Growth, Sending},
    send::StripedWriter,
    window::Window,
};
use crate::tcp::{SendWindow, WeakSocket};

const PACKET: usize = 1448;
const RTT: Duration = Duration::from_millis(160);

/// Of what a window takes, this is not in a pipe: what TLS adds.
const UNSEEN: usize = 22;

/// A stripe whose window is known, the window in packets, and where its bytes come out.
fn stripe(packets: usize, rtt: Duration) -> (Sending, Arc<AtomicUsize>, DuplexStream) {
    let (near, far) = duplex(1 << 20);
    let room = Arc::new(AtomicUsize::new(packets));
    let looked_at = Arc::clone(&room);
    let window = Window::new(move || {
        Some(SendWindow {
            room: looked_at.load(Ordering::Relaxed) * PACKET,
            packet: PACKET,
            rtt: Some(rtt),
        })
    });
    let sending = Sending {
        writer: Box::new(near),
        window,
    };
    (sending, room, far)
}

fn begin(first: Sending) -> (StripedWriter, Growth) {
    let (growth, _, writers) = Growth::begin(Arc::default(), WeakSocket::default());
    (
        StripedWriter::new(first.writer, first.window, writers),
        growth,
    )
}

/// Writes as much as is taken without waiting.
async fn fill(writer: &mut StripedWriter, room: &AtomicUsize, data: &mut &[u8]) {
    loop {
        let written = tokio::time::timeout(Duration::ZERO, writer.write(data)).await;
        let Ok(written) = written else { return };
        let written = written.unwrap();
        *data = &data[written..];
        // The kernel would say so.
        let packets = (written + HEADER + UNSEEN).div_ceil(PACKET);
        room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
            Some(room.saturating_sub(packets))
        })
        .unwrap();
        if data.is_empty() {
            return;
        }
    }
}

fn come_out(far: &mut DuplexStream) -> usize {
    let mut bytes = vec![0; 1 << 20];
    let mut buffer = tokio::io::ReadBuf::new(&mut bytes);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    while tokio::io::AsyncRead::poll_read(std::pin::Pin::new(far), &mut cx, &mut buffer).is_ready()
        && buffer.remaining() > 0
    {
        if buffer.filled().is_empty() {
            break;
        }
    }
    buffer.filled().len()
}

#[tokio::test(start_paused = true)]
async fn a_stripe_gets_what_its_window_takes_and_the_next_one_the_rest() {
    let (first, first_room, mut first_far) = stripe(10, RTT);
    let (mut writer, growth) = begin(first);
    let data = vec![7; 18 * PACKET];
    let mut rest = &data[..];
    fill(&mut writer, &first_room, &mut rest).await;
    assert_eq!(come_out(&mut first_far), 10 * PACKET - UNSEEN);
    let kept = rest.len();
    assert_eq!(kept, data.len() - (10 * PACKET - UNSEEN - HEADER));

    let (second, second_room, mut second_far) = stripe(10, RTT);
    let before = Instant::now();
    growth.add_halves(1, Box::new(tokio::io::empty()), second);
    fill(&mut writer, &second_room, &mut rest).await;
    writer.flush().await.unwrap();
    assert!(rest.is_empty());
    assert_eq!(come_out(&mut second_far), kept + HEADER);
    assert_eq!(come_out(&mut first_far), 0);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_back_for_long() {
    let (first, room, mut far) = stripe(2, RTT);
    let (mut writer, growth) = begin(first);
    let data = vec![7; 9 * PACKET];
    let mut rest = &data[..];
    fill(&mut writer, &room, &mut rest).await;
    assert_eq!(come_out(&mut far), 2 * PACKET - UNSEEN);
    let before = Instant::now();
    writer.write_all(rest).await.unwrap();
    // It waited for a stripe longer than those begun late take, and then went on with what there was.
    let waited = before.elapsed();
    assert!(waited >= RTT * 9 / 4 && waited <= RTT * 3, "{waited:?}");
    assert!(come_out(&mut far) > rest.len());
    drop(growth);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_opens_is_used_soon() {
    let (first, room, mut far) = stripe(2, RTT);
    let (mut writer, _growth) = begin(first);
    let data = vec![7; 9 * PACKET];
    let mut rest = &data[..];
    fill(&mut writer, &room, &mut rest).await;
    let before = Instant::now();
    let opening = async {
        tokio::time::sleep(RTT / 2).await;
        room.store(20, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(writer.write_all(rest), opening);
    written.unwrap();
    assert!(before.elapsed() <= RTT * 5 / 8, "{:?}", before.elapsed());
    let mut bytes = vec![0; 2 * PACKET - UNSEEN + rest.len() + HEADER];
    far.read_exact(&mut bytes).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_back_within_a_lan_or_when_all_stripes_are_there() {
    for (rtt, all) in [(Duration::from_micros(900), false), (RTT, true)] {
        let (first, _, _far) = stripe(0, rtt);
        let (mut writer, growth) = begin(first);
        let growth = Some(growth).filter(|_| !all);
        let data = vec![7; 9 * PACKET];
        let before = Instant::now();
        writer.write_all(&data).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        drop(growth);
    }
}
