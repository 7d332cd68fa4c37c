//! Two sides without a common transport tell each other which ones they use.
//!
//! All transports but `quic` begin with a TLS connection over TCP. There each side sends one length byte and its
//! description, such as `udp` or `auto (tcp, quic)`, and reads that of the other. TLS has authenticated both by then, as
//! far as there are pins.
//!
//! A connector that finds nothing at its own port asks over the other protocols: TCP, QUIC and reliable UDP.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    Quic, QuicOptions, Security, TcpOptions, TransportError,
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
        TransportError::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused
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
        TransportError::NoCommonTransport { theirs, .. } if !theirs.contains(ours) => Some(error),
        _ => None,
    }
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
        Err(TransportError::ClosedDuringHandshake) => {}
        Err(_) => return None,
    }
    Some(TransportError::NoCommonTransport {
        ours: ours.into(),
        theirs: Quic::NAME.into(),
    })
}

#[cfg(unix)]
async fn over_rudp(address: &str, security: &Security, ours: &str) -> Option<TransportError> {
    let rudp = crate::Rudp::default();
    let asked = rudp.connect_over(address, security, &[NO_COMMON_TRANSPORT]);
    let bare = asked.await.ok()?.bare;
    let mut stream = tokio::io::join(bare.reader, bare.writer);
    match tell(&mut stream, ours).await {
        error @ TransportError::NoCommonTransport { .. } => Some(error),
        _ => None,
    }
}

#[cfg(not(unix))]
async fn over_rudp(_: &str, _: &Security, _: &str) -> Option<TransportError> {
    None
}

/// Returns the error that says what each side uses, or why the peer's description cannot be had.
pub(crate) async fn tell(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ours: &str,
) -> TransportError {
    match exchange(stream, ours).await {
        Ok(theirs) => TransportError::NoCommonTransport {
            ours: ours.into(),
            theirs,
        },
        Err(error) => error,
    }
}

async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ours: &str,
) -> Result<String, TransportError> {
    let mut text = vec![0; 255];
    let exchanged = async {
        let ours = &ours.as_bytes()[..ours.len().min(255)];
        stream.write_u8(ours.len() as u8).await?;
        stream.write_all(ours).await?;
        stream.flush().await?;
        text.truncate(stream.read_u8().await?.into());
        stream.read_exact(&mut text).await?;
        // The peer may have closed already.
        let _ = stream.shutdown().await;
        Ok(())
    };
    exchanged.await.map_err(TransportError::from_io)?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_ (),".contains(byte);
    match String::from_utf8(text) {
        Ok(text) if text.as_bytes().iter().all(is_plain) => Ok(text),
        _ => Err(TransportError::NotTranspute {
            evidence: "it has no common transport with this side and names none".into(),
        }),
    }
}
