//! The task that reads frames from the link and passes them to the computing thread.

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use transpute_session::{Frame, FrameKind, HEADER_LEN, SessionError};
use transpute_transport::TransportError;

use super::{
    activity::{Activity, carries_run},
    options::DriverOptions,
    receive_buffer::ReceiveBuffer,
};

/// Size of the buffer for bytes that are read and discarded.
const DISCARD_BYTES: usize = 64 << 10;

/// Reads frames until the stream or the session ends. Then it reads and discards the rest of the
/// stream, for at most [`DriverOptions::linger`]. Closing a TCP socket with unread bytes would
/// reset the connection, and sent data could be lost.
pub(super) async fn read_frames(
    mut reader: impl AsyncRead + Unpin,
    frames: mpsc::Sender<Result<Frame, SessionError>>,
    options: DriverOptions,
    activity: Activity,
) {
    // Number of received bytes of complete frames that carry runs, with headers.
    let mut carried = 0;
    let mut receive_buffer = ReceiveBuffer::new(options.max_payload);
    let error = loop {
        match receive_buffer.next_frame() {
            Ok(Some(frame)) if frame.kind == FrameKind::Alive => continue,
            Ok(Some(frame)) => {
                if carries_run(frame.kind) {
                    carried += (HEADER_LEN + frame.payload.len()) as u64;
                }
                if frames.send(Ok(frame)).await.is_err() {
                    break None;
                }
                continue;
            }
            Ok(None) => activity.set_received(carried + receive_buffer.unfinished(carries_run)),
            Err(error) => break Some(error.into()),
        }
        let mut room = match receive_buffer.room() {
            Ok(room) => room,
            Err(error) => break Some(error.into()),
        };
        let read = tokio::select! {
            read = timeout(options.idle_timeout, reader.read_buf(&mut room)) => read,
            () = frames.closed() => break None,
        };
        match read {
            Ok(Ok(0)) => break Some(SessionError::Closed),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let error = TransportError::from_io(error);
                break Some(SessionError::Link(Box::new(error)));
            }
            Err(_) => break Some(SessionError::PeerLost(options.idle_timeout)),
        }
    };
    if let Some(error) = error {
        let ended = !matches!(error, SessionError::Frame(_));
        let _ = frames.send(Err(error)).await;
        if ended {
            return;
        }
    }
    drop(frames);
    let mut rest = vec![0; DISCARD_BYTES];
    let deadline = Instant::now() + options.linger;
    while let Ok(Ok(1..)) = timeout_at(deadline, reader.read(&mut rest)).await {}
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncWriteExt, DuplexStream, duplex},
        time::sleep,
    };
    use transpute_session::SessionConnection;

    use super::*;

    /// Starts a reader on a stream and returns the peer's end.
    fn reading(activity: &Activity) -> DuplexStream {
        let (peer, ours) = duplex(1 << 16);
        let (sender, mut frames) = mpsc::channel(8);
        let options = DriverOptions::default();
        tokio::spawn(read_frames(ours, sender, options, activity.clone()));
        tokio::spawn(async move { while frames.recv().await.is_some() {} });
        peer
    }

    async fn send(peer: &mut DuplexStream, bytes: &[u8]) {
        peer.write_all(bytes).await.unwrap();
        sleep(Duration::from_millis(1)).await;
    }

    fn header(kind: FrameKind, len: u32) -> Vec<u8> {
        [&[kind as u8][..], &len.to_le_bytes()].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_carry_nothing() {
        let activity = Activity::default();
        let mut peer = reading(&activity);
        for per_second in [8, 100] {
            for _ in 0..60 * per_second {
                send(&mut peer, SessionConnection::sign_of_life()).await;
                sleep(Duration::from_secs(1) / per_second).await;
            }
        }
        for kind in [FrameKind::Alive, FrameKind::Hello, FrameKind::Refuse] {
            // The frame arrives in pieces.
            send(&mut peer, &header(kind, 1000)).await;
            for _ in 0..100 {
                send(&mut peer, &[7; 10]).await;
            }
        }
        send(&mut peer, &header(FrameKind::Alive, 1000)).await;
        send(&mut peer, &[7; 999]).await;
        assert_eq!(activity.carried(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn received_bytes_of_an_unfinished_frame_count() {
        let activity = Activity::default();
        let mut peer = reading(&activity);
        for frame in 0..2 {
            let before = frame * 1005;
            send(&mut peer, &header(FrameKind::Tables, 1000)).await;
            for pieces in 1..=100 {
                send(&mut peer, &[7; 10]).await;
                assert_eq!(activity.carried(), before + 5 + 10 * pieces);
            }
            send(&mut peer, SessionConnection::sign_of_life()).await;
            assert_eq!(activity.carried(), before + 1005);
        }
    }
}
