//! Explanation of a refused connection: asks over each protocol which transport the listener uses.

use std::io;

use crate::{ConnectError, Security, TransportError};

/// Replaces a "connection refused" error over TCP by one that names the listener's transport, if
/// the listener answers over another one. Returns any other error unchanged.
pub(crate) async fn explain_refused(
    error: TransportError,
    address: &str,
    security: &Security,
    ours: &str,
) -> TransportError {
    let is_refused = matches!(
        &error,
        TransportError::Connect(ConnectError::Connect { source, .. }) if source.kind() == io::ErrorKind::ConnectionRefused
    );
    match is_refused {
        true => ask(address, security, ours).await.unwrap_or(error),
        false => error,
    }
}

/// Asks over all protocols which transport the listener uses. Returns `None` if no listener
/// answers, or if the listener accepts `ours`.
#[cfg(unix)]
pub(crate) async fn ask(address: &str, security: &Security, ours: &str) -> Option<TransportError> {
    /// Time limit of all questions together. It suffices for a handshake on a path with a
    /// round-trip time of several hundred milliseconds.
    const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

    let mut asking = tokio::task::JoinSet::new();
    for transport in crate::Registry::with_builtins().iter() {
        let Some(candidate) = transport.shared_port().map(|it| it.into_candidate()) else {
            continue;
        };
        let (address, security) = (address.to_owned(), security.clone());
        let ours = ours.to_owned();
        asking.spawn(async move { candidate.ask(&address, &security, &ours).await });
    }
    let answer = async {
        while let Some(asked) = asking.join_next().await {
            if let Ok(Some(error)) = asked {
                return Some(error);
            }
        }
        None
    };
    tokio::time::timeout(TIMEOUT, answer).await.ok()?
}

/// Returns `None`: only the candidates of `auto` can ask, and `auto` requires Unix.
#[cfg(not(unix))]
pub(crate) async fn ask(_: &str, _: &Security, _: &str) -> Option<TransportError> {
    None
}
