//! Delivers the remaining data of a link that was dropped right after its shutdown.
//!
//! If the kernel receives data for a closed connection, it sends a reset and discards unsent data.
//! The peer may still send data at that time. So a background task keeps a connection whose sending
//! direction was shut down open until the peer has received all data. The task discards data from
//! the peer.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpStream, runtime::Handle, time::Instant};

use super::info::TcpInfo;

/// The connection closes when the peer has acknowledged no further data for this time.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// The connection closes after this time in any case.
const MAX_LINGER: Duration = Duration::from_secs(60);

/// The first and the maximum interval between checks of the peer's acknowledgements. The interval
/// doubles after each check before which the peer sent no data.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// Keeps a connection open in the background until the peer has acknowledged all data or a time
/// limit is reached. The caller must have shut down the sending direction. Outside of a Tokio
/// runtime, this function does nothing, so the connection closes when the caller drops it.
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
/// the result is `false`, so [`linger`] waits until the peer closes the connection or a time limit
/// is reached.
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
