//! The task that writes buffers from the computing thread to the link.

use std::io;

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    time::timeout,
};
use transpute_session::SessionConnection;

use super::{
    activity::{Activity, control_bytes},
    options::DriverOptions,
    send_buffer::SendQueue,
};

/// Writes buffers until the session ends, then shuts the stream down. It writes keep-alive frames
/// while no buffer waits.
pub(super) async fn write_buffers(
    mut writer: impl AsyncWrite + Unpin,
    mut send_queue: SendQueue,
    options: DriverOptions,
    activity: Activity,
) {
    let mut carried = 0;
    loop {
        let written = match timeout(options.keep_alive_interval, send_queue.next()).await {
            Ok(Some(buffer)) => {
                let written = write_counted(&mut writer, &buffer, &mut carried, &activity).await;
                send_queue.recycle(buffer);
                written
            }
            Ok(None) => break,
            Err(_) => writer.write_all(SessionConnection::sign_of_life()).await,
        };
        let flushed = match written {
            Ok(()) if send_queue.is_empty() => writer.flush().await,
            other => other,
        };
        // The reader reports the error of the link to the session.
        if let Err(error) = flushed {
            tracing::debug!(%error, "writing ended");
            return;
        }
    }
    let _ = writer.shutdown().await;
}

/// Writes a buffer, and counts the written bytes that carry runs. The count is a lower bound,
/// because it assumes that the control frames of the buffer are written first.
async fn write_counted(
    writer: &mut (impl AsyncWrite + Unpin),
    buffer: &[u8],
    carried: &mut u64,
    activity: &Activity,
) -> io::Result<()> {
    let control = control_bytes(buffer);
    let before = *carried;
    let mut written = 0;
    while written < buffer.len() {
        match writer.write(&buffer[written..]).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => written += count,
        }
        *carried = before + (written as u64).saturating_sub(control);
        activity.set_sent(*carried);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};
    use transpute_session::{FrameKind, HEADER_LEN};

    use super::*;
    use crate::tests::frame;

    #[tokio::test]
    async fn bytes_of_runs_count_once_they_are_written() {
        let (mut send_buffer, send_queue) = super::super::send_buffer::ring();
        let activity = Activity::default();
        let (ours, mut peer) = duplex(100);
        let writing = write_buffers(ours, send_queue, DriverOptions::default(), activity.clone());
        let writing = tokio::spawn(writing);
        for (kind, len) in [(FrameKind::Refuse, 50), (FrameKind::Tables, 1000)] {
            send_buffer.bytes.extend(frame(kind, len));
        }
        assert!(send_buffer.send().await);
        let (control, all) = (HEADER_LEN + 50, 2 * HEADER_LEN + 1050);
        let mut read = 0;
        while read < all {
            let carried = activity.carried() as usize;
            // The count includes at most the bytes that the peer has read, and the 100 bytes in the
            // stream.
            assert!(carried <= (read + 100).saturating_sub(control), "{carried}");
            read += peer.read(&mut [0; 64]).await.unwrap();
        }
        drop(send_buffer);
        writing.await.unwrap();
        assert_eq!(activity.carried() as usize, all - control);
    }
}
