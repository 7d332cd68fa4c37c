//! Delivery of the remaining data of a link that was dropped right after its shutdown.
//!
//! If the kernel receives data for a closed connection, it sends a reset and discards unsent data.
//! The peer may still send data at that time. So a connection whose sending direction was shut down
//! stays open in the background until the peer has received all data. Data received meanwhile is
//! discarded.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpStream, runtime::Handle, time::Instant};

use super::info::TcpInfo;

/// Maximum time without new acknowledgements from the peer.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum total time for which a connection lingers.
const MAX_LINGER: Duration = Duration::from_secs(60);

/// The first and the longest interval between checks of the peer's acknowledgements.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// Keeps a connection open in the background until the peer has received all data. The caller
/// has shut down its sending direction. Without a Tokio runtime, the connection closes at once.
pub(super) fn linger(stream: &Arc<TcpStream>) {
    if is_done(&TcpInfo::of(stream)) {
        return;
    }
    if let Ok(runtime) = Handle::try_current() {
        let stream = Arc::clone(stream);
        runtime.spawn(async move {
            let _ = tokio::time::timeout(MAX_LINGER, outlast(&stream)).await;
        });
    }
}

/// Returns whether the peer has acknowledged all data. Only Linux reports this. On other systems,
/// [`linger`] waits until the peer closes the connection.
fn is_done(info: &TcpInfo) -> bool {
    info.is_acknowledged() == Some(true)
}

async fn outlast(stream: &TcpStream) {
    let mut scratch = [0; 4096];
    let mut pause = PAUSES[0];
    let (mut last, mut moved) = (None, Instant::now());
    loop {
        match tokio::time::timeout(pause, stream.readable()).await {
            Ok(Ok(())) => match stream.try_read(&mut scratch) {
                // The peer has shut down its direction too, so the kernel can complete the close.
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            },
            Ok(Err(_)) => return,
            Err(_) => pause = (2 * pause).min(PAUSES[1]),
        }
        let info = TcpInfo::of(stream);
        if is_done(&info) {
            return;
        }
        let left = Some((info.unacked, info.not_sent));
        if left != last {
            (last, moved) = (left, Instant::now());
        } else if moved.elapsed() > PROGRESS_TIMEOUT {
            return;
        }
    }
}
