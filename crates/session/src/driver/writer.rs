//! The task that writes.

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use super::{DriverOptions, outbox::Outlet};
use crate::Session;

/// Writes buffers until the session ends, with signs of life in between, then closes the stream.
pub(super) async fn write_buffers(
    mut writer: impl AsyncWrite + Unpin,
    mut outlet: Outlet,
    options: DriverOptions,
) {
    loop {
        let written = match timeout(options.sign_of_life, outlet.next()).await {
            Ok(Some(buffer)) => {
                let written = writer.write_all(&buffer).await;
                outlet.give_back(buffer);
                written
            }
            Ok(None) => break,
            Err(_) => writer.write_all(Session::sign_of_life()).await,
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
