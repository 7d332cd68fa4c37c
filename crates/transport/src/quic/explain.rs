//! The meaning of the QUIC library's errors.

use std::io;

use noq::{ConnectionError, ReadError, TransportErrorCode, VarInt, WriteError};
use rustls::AlertDescription;

use crate::{TransportError, tls};

/// The first QUIC error code of a TLS alert (RFC 9000, section 20.1: 0x0100 to 0x01ff).
const FIRST_ALERT: u64 = 0x100;

/// The close code of a connection whose sides have both sent and read everything.
pub(super) const COMPLETE: VarInt = VarInt::from_u32(1);

/// The close code of a connection whose side has sent everything, and needs nothing more of the
/// peer.
pub(super) const SAID_ALL: VarInt = VarInt::from_u32(3);

/// The phase in which the connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum During {
    Handshake,
    Reading,
    Writing,
}

/// Returns the meaning of a connection's end.
pub(super) fn connection(error: &ConnectionError, during: During) -> TransportError {
    match error {
        // This side found the fault, so the TLS library's own error describes it.
        ConnectionError::TransportError(fault) => fault
            .crypto
            .as_deref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
            .map_or_else(|| quic_fault(error), tls::explain),
        // The peer found a fault and reported it.
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code) {
            Some(alert) => tls::explain(&rustls::Error::AlertReceived(alert)),
            None if close.error_code == TransportErrorCode::CONNECTION_REFUSED => {
                TransportError::ClosedDuringHandshake
            }
            None => quic_fault(error),
        },
        ConnectionError::ApplicationClosed(_) => match during {
            During::Handshake => TransportError::ClosedDuringHandshake,
            During::Reading => TransportError::Truncated,
            During::Writing => TransportError::ConnectionReset,
        },
        ConnectionError::Reset => TransportError::ConnectionReset,
        ConnectionError::TimedOut => TransportError::PeerVanished,
        ConnectionError::LocallyClosed => TransportError::Closed,
        ConnectionError::VersionMismatch => TransportError::NotTranspute {
            evidence: "it speaks another version of QUIC".into(),
        },
        ConnectionError::CidsExhausted => quic_fault(error),
    }
}

/// Returns whether the peer closed the connection after it had sent everything, so it waits for
/// nothing more.
pub(super) fn is_in_order(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ApplicationClosed(close) if [COMPLETE, SAID_ALL].contains(&close.error_code))
}

pub(super) fn read(error: ReadError) -> io::Error {
    match error {
        ReadError::ConnectionLost(error) => connection(&error, During::Reading),
        // A peer of this protocol never resets a stream.
        ReadError::Reset(code) => protocol(format!("it reset a stream with code {code}")),
        ReadError::ClosedStream | ReadError::ZeroRttRejected => TransportError::Closed,
    }
    .into_io()
}

pub(super) fn write(error: WriteError) -> io::Error {
    match error {
        WriteError::ConnectionLost(error) => connection(&error, During::Writing),
        WriteError::Stopped(code) => stopped(code),
        WriteError::ClosedStream | WriteError::ZeroRttRejected => TransportError::Closed,
    }
    .into_io()
}

/// Returns the error of a stopped stream. A peer of this protocol never stops one.
pub(super) fn stopped(code: VarInt) -> TransportError {
    protocol(format!("it stopped a stream with code {code}"))
}

pub(super) fn protocol(evidence: String) -> TransportError {
    TransportError::NotTranspute { evidence }
}

fn alert(code: TransportErrorCode) -> Option<AlertDescription> {
    let code = u64::from(code).checked_sub(FIRST_ALERT)?;
    u8::try_from(code).ok().map(AlertDescription::from)
}

fn quic_fault(error: &ConnectionError) -> TransportError {
    TransportError::Io {
        source: io::Error::other(format!("QUIC: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed_with(code: TransportErrorCode) -> TransportError {
        let close = noq::ConnectionClose {
            error_code: code,
            frame_type: noq_proto::MaybeFrame::None,
            reason: Vec::new().into(),
        };
        connection(&ConnectionError::ConnectionClosed(close), During::Reading)
    }

    #[test]
    fn alerts_of_the_peer_keep_their_meaning() {
        for alert in [
            AlertDescription::CertificateUnknown,
            AlertDescription::AccessDenied,
        ] {
            assert!(matches!(
                closed_with(TransportErrorCode::crypto(alert.into())),
                TransportError::PeerRefusedUs { .. }
            ));
        }
        assert!(matches!(
            closed_with(TransportErrorCode::crypto(
                AlertDescription::NoApplicationProtocol.into()
            )),
            TransportError::NotTranspute { .. }
        ));
        assert!(matches!(
            closed_with(TransportErrorCode::FLOW_CONTROL_ERROR),
            TransportError::Io { .. }
        ));
    }

    #[test]
    fn an_end_without_notice_is_no_end_of_the_stream() {
        assert!(matches!(
            connection(&ConnectionError::TimedOut, During::Reading),
            TransportError::PeerVanished
        ));
        assert!(matches!(
            connection(&ConnectionError::Reset, During::Writing),
            TransportError::ConnectionReset
        ));
    }
}
