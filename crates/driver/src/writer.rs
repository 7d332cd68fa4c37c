//! The task that writes.

use std::io;

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    time::timeout,
};
use transpute_session::Connection;

use super::{
    activity::{Activity, control_bytes},
    options::DriverOptions,
    outbox::Outlet,
};

/// Writes buffers until the session ends, with signs of life in between, then closes the stream.
pub(super) async fn write_buffers(
    mut writer: impl AsyncWrite + Unpin,
    mut outlet: Outlet,
    options: DriverOptions,
    activity: Activity,
) {
    let mut carried = 0;
    loop {
        let written = match timeout(options.sign_of_life, outlet.next()).await {
            Ok(Some(buffer)) => {
                let written = write_counted(&mut writer, &buffer, &mut carried, &activity).await;
                outlet.give_back(buffer);
                written
            }
            Ok(None) => break,
            Err(_) => writer.write_all(Connection::sign_of_life()).await,
        };
        let flushed = match written {
            Ok(()) if outlet.is_empty() => writer.flush().await,
            other => other,
        };
        // The reader finds out why.
        if let Err(error) = flushed {
            tracing::debug!(%error, "writing ended");
            return;
        }
    }
    let _ = writer.shutdown().await;
}

/// Writes a buffer and counts what is written of it that carries runs: at least all but the buffer's
/// other bytes.
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
    async fn bytes_of_runs_count_when_they_are_written() {
        let (mut outbox, outlet) = super::super::outbox::ring();
        let activity = Activity::default();
        let (ours, mut peer) = duplex(100);
        let writing = write_buffers(ours, outlet, DriverOptions::default(), activity.clone());
        let writing = tokio::spawn(writing);
        for (kind, len) in [(FrameKind::Refuse, 50), (FrameKind::Tables, 1000)] {
            outbox.bytes.extend(frame(kind, len));
        }
        assert!(outbox.send().await);
        let (control, all) = (HEADER_LEN + 50, 2 * HEADER_LEN + 1050);
        let mut read = 0;
        while read < all {
            let carried = activity.carried() as usize;
            // Not more than the peer has read or the stream holds.
            assert!(carried <= (read + 100).saturating_sub(control), "{carried}");
            read += peer.read(&mut [0; 64]).await.unwrap();
        }
        drop(outbox);
        writing.await.unwrap();
        assert_eq!(activity.carried() as usize, all - control);
    }
}
