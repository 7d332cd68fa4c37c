//! Exchange of the transports' names between two sides that have no transport in common, for error
//! messages.
//!
//! If ALPN selects [`NO_COMMON_TRANSPORT`](crate::tls::NO_COMMON_TRANSPORT), each side sends one
//! length byte and its description, such as `udp` or `auto (tcp, quic)`, and reads the description
//! of the other side. If keys are pinned, TLS has authenticated both sides by then.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{HandshakeError, TransportError};

/// Sends `ours`, the description of this side's transports, and reads the peer's description.
/// Returns [`HandshakeError::NoCommonTransport`] with both descriptions, or the error of the
/// exchange.
pub(crate) async fn tell(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ours: &str,
) -> TransportError {
    match exchange(stream, ours).await {
        Ok(theirs) => TransportError::Handshake(HandshakeError::NoCommonTransport {
            ours: ours.into(),
            theirs,
        }),
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
        // Ignore an error of the shutdown, because the peer may have closed the connection already.
        let _ = stream.shutdown().await;
        Ok(())
    };
    exchanged.await.map_err(TransportError::from_io)?;
    (parse(&text).map(str::to_owned)).ok_or_else(|| {
        TransportError::Handshake(HandshakeError::NotTranspute {
            evidence: "it has no common transport with this side and names none".into(),
        })
    })
}

/// Returns a description of transports as text. Returns `None` if it contains a character that no
/// description has. Error messages quote the text, so it must not control a terminal.
pub(crate) fn parse(bytes: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_ (),".contains(byte);
    let text = str::from_utf8(bytes).ok()?;
    bytes.iter().all(is_plain).then_some(text)
}
