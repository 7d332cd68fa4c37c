//! Two sides without a common transport tell each other which ones they use.
//!
//! Where ALPN selects [`NO_COMMON_TRANSPORT`](crate::tls::NO_COMMON_TRANSPORT), each side sends one length byte and its
//! description, such as `udp` or `auto (tcp, quic)`, and reads that of the other. TLS has authenticated both by then, as
//! far as there are pins.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::TransportError;

/// Returns the error with both sides' descriptions, or the reason for which the peer's is missing.
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
