//! Repeated attempts to connect.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{ConnectError, TransportError};

/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// Calls `attempt` until it connects, until it fails with another error than
/// [`ConnectError::Connect`], or until `deadline`. There is always a first attempt.
///
/// A peer that does not listen yet refuses connections, so this function lets both parties start
/// in any order.
///
/// # Errors
/// Returns the error of the last attempt.
pub async fn retry_connect<T, F>(
    deadline: Instant,
    mut attempt: impl FnMut() -> F,
) -> Result<T, TransportError>
where
    F: Future<Output = Result<T, TransportError>>,
{
    loop {
        match attempt().await {
            Err(error)
                if matches!(
                    error.root(),
                    TransportError::Connect(ConnectError::Connect { .. })
                ) && Instant::now() + PAUSE < deadline =>
            {
                sleep(PAUSE).await;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn refused() -> TransportError {
        TransportError::Connect(ConnectError::Connect {
            address: "peer:1".into(),
            source: io::ErrorKind::ConnectionRefused.into(),
        })
    }

    /// Counts the attempts within `patience`, of which the one with the number `accepted` connects.
    async fn attempts(patience: Duration, accepted: u32) -> (u32, bool) {
        let mut number = 0;
        let connecting = retry_connect(Instant::now() + patience, || {
            number += 1;
            let result = if number == accepted {
                Ok(())
            } else {
                Err(refused())
            };
            async { result }
        });
        let is_connected = connecting.await.is_ok();
        (number, is_connected)
    }

    #[tokio::test(start_paused = true)]
    async fn refused_attempts_are_repeated_until_the_deadline() {
        assert_eq!(attempts(Duration::ZERO, 0).await, (1, false));
        assert_eq!(attempts(Duration::from_millis(350), 0).await, (4, false));
        assert_eq!(attempts(Duration::from_secs(60), 7).await, (7, true));
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_final() {
        let mut number = 0;
        let deadline = Instant::now() + Duration::from_secs(60);
        let result: Result<(), _> = retry_connect(deadline, || {
            number += 1;
            async { Err(crate::HandshakeError::NoPinnedPeer.into()) }
        })
        .await;
        assert!(result.is_err());
        assert_eq!(number, 1);
    }
}
