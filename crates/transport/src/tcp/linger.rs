//! The remaining data of a link that was dropped right after its shutdown.
//!
//! A system that receives data for a closed connection answers with a reset, and discards data that
//! it has not sent. The peer may well send something then, for example its own end. So a connection
//! whose sending direction was completed is kept until the peer has everything, and received data
//! is discarded.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpStream, runtime::Handle, time::Instant};

use super::info::TcpInfo;

/// Maximum time without progress.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum time in total.
const MOST: Duration = Duration::from_secs(60);

/// The first and the longest interval between checks of the peer's acknowledgements.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// Keeps a connection whose sending direction was completed as long as necessary, in the
/// background. Without a runtime, the connection closes at once.
pub(super) fn linger(stream: &Arc<TcpStream>) {
    if is_done(&TcpInfo::of(stream)) {
        return;
    }
    if let Ok(runtime) = Handle::try_current() {
        let stream = Arc::clone(stream);
        runtime.spawn(async move {
            let _ = tokio::time::timeout(MOST, outlast(&stream)).await;
        });
    }
}

/// Returns whether the peer has everything. Systems other than Linux do not report it, so there the
/// peer's end is awaited.
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
                // The peer has finished too. The system completes the close.
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
        } else if moved.elapsed() > PATIENCE {
            return;
        }
    }
}
