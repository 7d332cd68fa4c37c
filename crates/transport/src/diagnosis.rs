//! Explains failed connections. If the listener uses another transport than the connector, the
//! error names the listener's transport. To learn it, the connector connects over TCP and UDP.

use std::{io, time::Duration};

use crate::{ConnectError, Security, TransportError};

/// Replaces a "connection refused" error over TCP by an error that names the listener's transport,
/// if the listener answers over another protocol. Otherwise returns `error` unchanged.
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

/// After this time without an answer, a connector over UDP asks over other protocols which
/// transport the listener uses.
const ASK_AFTER: Duration = Duration::from_millis(500);

/// Waits for a connection over UDP. If this takes longer than [`ASK_AFTER`], or fails with an error
/// for which `is_vague` returns `true`, asks over other protocols which transport the listener
/// uses. If the listener answers, returns an error that names its transport.
pub(crate) async fn connect_or_explain<T>(
    connecting: impl Future<Output = Result<T, TransportError>>,
    is_vague: impl FnOnce(&TransportError) -> bool,
    address: &str,
    security: &Security,
    ours: &str,
) -> Result<T, TransportError> {
    let asking = async {
        tokio::time::sleep(ASK_AFTER).await;
        ask(address, security, ours).await
    };
    let connected = tokio::select! {
        biased;
        connected = connecting => connected,
        Some(error) = asking => return Err(error),
    };
    match connected {
        Err(error) if is_vague(&error) => Err(ask(address, security, ours).await.unwrap_or(error)),
        connected => connected,
    }
}

/// Asks over all protocols which transport the listener uses. Returns `None` if no listener
/// answers, or if the listener accepts `ours`.
#[cfg(feature = "auto")]
async fn ask(address: &str, security: &Security, ours: &str) -> Option<TransportError> {
    /// Time limit for all these attempts, which run concurrently. It suffices for a handshake on a
    /// path with a round-trip time of several hundred milliseconds.
    const TIMEOUT: Duration = Duration::from_secs(1);

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

/// Returns `None`: only the candidates of `auto` can ask.
#[cfg(not(feature = "auto"))]
async fn ask(_: &str, _: &Security, _: &str) -> Option<TransportError> {
    None
}
