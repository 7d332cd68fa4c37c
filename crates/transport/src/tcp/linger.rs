//! The last words of a link that was dropped right after they were said.
//!
//! A system that gets data for a connection that nobody holds any more answers with a reset, and takes back what it has
//! not sent yet. The peer may well send something then, if it is only that it has finished, too. So a connection whose
//! sending direction was completed is held until the peer has everything, and what comes in is thrown away.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpStream, runtime::Handle, time::Instant};

use super::info::TcpInfo;

/// How long nothing may move.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it may take in all.
const MOST: Duration = Duration::from_secs(60);

/// The first and the longest time between two looks at what the peer has acknowledged.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// Holds a connection whose sending direction was completed for as long as that takes, in the background.
///
/// Without a runtime the connection closes at once.
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

/// Returns whether the peer has everything. Other systems than Linux do not tell; there its end is waited for.
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
                // The peer has finished, too: nothing comes any more, and the system does the rest.
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
