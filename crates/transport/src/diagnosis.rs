//! Explains a refused connection: asks over TCP, QUIC and reliable UDP which transport the listener uses.

use std::{io, time::Duration};

use tokio::io::AsyncReadExt;

use crate::{
    ConnectError, HandshakeError, Quic, QuicOptions, Security, TcpOptions, TransportError,
    mismatch::tell,
    tcp::{Connector, Route, UNSENT_LIMIT},
    tls::NO_COMMON_TRANSPORT,
};

/// Time for an answer of another protocol: a handshake over a path of several hundred milliseconds.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// Replaces the error of a connector that was refused over TCP by a better one, if the listener uses another transport.
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

/// Asks over all protocols which transport the listener uses. `None`: nothing answers, or it takes this one too.
pub(crate) async fn ask(address: &str, security: &Security, ours: &str) -> Option<TransportError> {
    let asking = async {
        tokio::select! {
            Some(error) = over_tcp(address, security, ours) => Some(error),
            Some(error) = over_quic(address, security, ours) => Some(error),
            Some(error) = over_rudp(address, security, ours) => Some(error),
            else => None,
        }
    };
    tokio::time::timeout(ASK_TIMEOUT, asking).await.ok()?
}

async fn over_tcp(address: &str, security: &Security, ours: &str) -> Option<TransportError> {
    let connector = Connector::new(security, &[], ours).ok()?;
    let route = Route::find(address, TcpOptions::default()).await.ok()?;
    let (socket, context) = route.open(UNSENT_LIMIT).await.ok()?;
    let error = connector.authenticate(socket, context).await.err()?;
    match &error {
        TransportError::Handshake(HandshakeError::NoCommonTransport { theirs, .. })
            if !names(theirs, ours) =>
        {
            Some(error)
        }
        _ => None,
    }
}

/// Returns whether a description names this transport.
fn names(description: &str, transport: &str) -> bool {
    let is_separator = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    description
        .split(is_separator)
        .any(|word| word == transport)
}

async fn over_quic(address: &str, security: &Security, ours: &str) -> Option<TransportError> {
    if ours == Quic::NAME {
        return None;
    }
    let options = QuicOptions {
        connect_timeout: ASK_TIMEOUT,
        ..QuicOptions::default()
    };
    let asked = Quic::new(options)
        .connect_over(address, security, &[NO_COMMON_TRANSPORT])
        .await;
    // The listener closes as soon as it has understood, which may be before the handshake is complete here.
    match asked {
        Ok(authenticated) => {
            let mut reader = authenticated.bare.reader;
            let _ = reader.read(&mut [0]).await;
        }
        Err(TransportError::Handshake(HandshakeError::ClosedDuringHandshake)) => {}
        Err(_) => return None,
    }
    Some(TransportError::Handshake(
        HandshakeError::NoCommonTransport {
            ours: ours.into(),
            theirs: Quic::NAME.into(),
        },
    ))
}

#[cfg(unix)]
async fn over_rudp(address: &str, security: &Security, ours: &str) -> Option<TransportError> {
    let rudp = crate::Rudp::default();
    let asked = rudp.connect_over(address, security, &[NO_COMMON_TRANSPORT]);
    let bare = asked.await.ok()?.bare;
    let mut stream = tokio::io::join(bare.reader, bare.writer);
    match tell(&mut stream, ours).await {
        error @ TransportError::Handshake(HandshakeError::NoCommonTransport { .. }) => Some(error),
        _ => None,
    }
}

#[cfg(not(unix))]
async fn over_rudp(_: &str, _: &Security, _: &str) -> Option<TransportError> {
    None
}
