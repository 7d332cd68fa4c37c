//! Two sides without a common transport tell each other which ones they use.
//!
//! All transports but `quic` begin with a TLS connection over TCP. There each side sends one length byte and its
//! description, such as `udp` or `auto (tcp, quic)`, and reads that of the other. TLS has authenticated both by then, as
//! far as there are pins.
//!
//! A connector that finds nothing at its own port asks at the other one: over QUIC where TCP was refused, and over TCP
//! where QUIC was.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    Quic, QuicOptions, Security, TcpOptions, TransportError,
    tcp::{Connector, Route, UNSENT_LIMIT},
    tls::NO_COMMON_TRANSPORT,
};

/// How long the other port may take to answer: a handshake over a path of several hundred milliseconds.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// Replaces the error of a connector over TCP by a better one, if the listener uses `quic`.
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
    if !is_refused {
        return error;
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
            let _ = tokio::time::timeout(ASK_TIMEOUT, reader.read(&mut [0])).await;
        }
        Err(TransportError::ClosedDuringHandshake) => {}
        Err(_) => return error,
    }
    TransportError::NoCommonTransport {
        ours: ours.into(),
        theirs: Quic::NAME.into(),
    }
}

/// Asks over TCP why nothing answers to QUIC. `None` if nothing is known, or the listener takes `quic` too.
pub(crate) async fn ask_over_tcp(address: &str, security: &Security) -> Option<TransportError> {
    let asking = async {
        let connector = Connector::new(security, &[], Quic::NAME)?;
        let route = Route::find(address, TcpOptions::default()).await?;
        let (socket, context) = route.open(UNSENT_LIMIT).await?;
        connector.authenticate(socket, context).await
    };
    match tokio::time::timeout(ASK_TIMEOUT, asking).await {
        Ok(Err(error @ TransportError::NoCommonTransport { .. })) => match &error {
            TransportError::NoCommonTransport { theirs, .. } if theirs.contains(Quic::NAME) => None,
            _ => Some(error),
        },
        _ => None,
    }
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
