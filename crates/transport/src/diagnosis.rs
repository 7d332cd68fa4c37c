//! Explains a refused connection: asks over each protocol which transport the listener uses.

use std::io;

use crate::{Security, TransportError};

/// Replaces the error of a connector that was refused over TCP, if the listener uses another
/// transport.
pub(crate) async fn explain_refused(
    error: TransportError,
    address: &str,
    security: &Security,
    ours: &str,
) -> TransportError {
    let is_refused = matches!(
        &error,
        TransportError::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused
    );
    match is_refused {
        true => ask(address, security, ours).await.unwrap_or(error),
        false => error,
    }
}

/// Asks over all protocols which transport the listener uses. Returns `None` if there is no answer,
/// or if the listener accepts this transport too.
#[cfg(unix)]
pub(crate) async fn ask(address: &str, security: &Security, ours: &str) -> Option<TransportError> {
    /// Time for an answer of another protocol: a handshake over a path of several hundred
    /// milliseconds.
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

/// Without `auto` there is nothing to ask with.
#[cfg(not(unix))]
pub(crate) async fn ask(_: &str, _: &Security, _: &str) -> Option<TransportError> {
    None
}
