//! Within what time a party learns that its peer has vanished.

use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use transpute_transport::{LinkReader, TransportError};

/// What every transport promises.
const PROMISE: Duration = Duration::from_secs(10);

/// Waits until reading says so.
pub(crate) async fn is_reported_in_time(reader: &mut LinkReader, since: Instant, case: &str) {
    let read = tokio::time::timeout(3 * PROMISE, reader.read(&mut [0; 1])).await;
    let elapsed = since.elapsed();
    let error = TransportError::from_io(read.unwrap().unwrap_err());
    println!("{case}: {error} after {elapsed:?}");
    assert!(
        matches!(error, TransportError::PeerVanished),
        "{case}: {error}"
    );
    assert!(elapsed <= PROMISE, "{case}: noticed after {elapsed:?}");
}
