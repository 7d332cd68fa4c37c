//! The task that reads.

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use transpute_transport::TransportError;

use super::{DriverOptions, inbox::Inbox};
use crate::{Frame, FrameKind, SessionError};

/// Room for what is read and thrown away.
const SINK_LEN: usize = 64 << 10;

/// Reads frames until the stream or the session ends, then reads on to the end of the stream, so
/// that closing does not reset a connection with bytes on their way.
pub(super) async fn read_frames(
    mut reader: impl AsyncRead + Unpin,
    frames: mpsc::Sender<Result<Frame, SessionError>>,
    options: DriverOptions,
) {
    let mut inbox = Inbox::new(options.max_payload);
    let error = loop {
        match inbox.next_frame() {
            Ok(Some(frame)) if frame.kind == FrameKind::Alive => continue,
            Ok(Some(frame)) => {
                if frames.send(Ok(frame)).await.is_err() {
                    break None;
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => break Some(error.into()),
        }
        let mut room = match inbox.room() {
            Ok(room) => room,
            Err(error) => break Some(error.into()),
        };
        let read = tokio::select! {
            read = timeout(options.silence_limit, reader.read_buf(&mut room)) => read,
            () = frames.closed() => break None,
        };
        match read {
            Ok(Ok(0)) => break Some(SessionError::Closed),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => break Some(TransportError::from_io(error).into()),
            Err(_) => break Some(SessionError::PeerLost(options.silence_limit)),
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
    let mut rest = vec![0; SINK_LEN];
    let deadline = Instant::now() + options.linger;
    while let Ok(Ok(1..)) = timeout_at(deadline, reader.read(&mut rest)).await {}
}
