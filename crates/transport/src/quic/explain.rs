//! Conversion of the QUIC library's errors to errors of this crate.

use std::io;

use quinn::{ConnectionError, ReadError, TransportErrorCode, VarInt, WriteError};
use rustls::AlertDescription;

use crate::{Fingerprint, HandshakeError, StreamError, TransportError, error::PinMismatch, tls};

/// The first QUIC error code of a TLS alert (RFC 9000, section 20.1: 0x0100 to 0x01ff).
const FIRST_ALERT: u64 = 0x100;

/// The close code of a side that has sent all data, and has read all data of the peer.
pub(super) const COMPLETE: VarInt = VarInt::from_u32(1);

/// The close code of a side that has sent all data, and was dropped before it had read all data of
/// the peer.
pub(super) const SAID_ALL: VarInt = VarInt::from_u32(3);

/// The operation during which the end of a connection was noticed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum During {
    Handshake,
    Reading,
    Writing,
}

/// Converts the reason for a connection's end to an error.
pub(super) fn connection(error: &ConnectionError, during: During) -> TransportError {
    match error {
        // This side detected the error, so use the TLS library's own description.
        ConnectionError::TransportError(fault) => match alert(fault.code) {
            Some(AlertDescription::NoApplicationProtocol) => {
                tls::explain(&rustls::Error::NoApplicationProtocol).into()
            }
            Some(AlertDescription::CertificateRequired) => {
                tls::explain(&rustls::Error::NoCertificatesPresented).into()
            }
            Some(_) => TransportError::Handshake(HandshakeError::Tls {
                detail: fault.reason.clone(),
            }),
            None => quic_fault(error),
        },
        // The peer detected the error and sent a TLS alert.
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code) {
            Some(alert) => tls::explain(&rustls::Error::AlertReceived(alert)).into(),
            None if close.error_code == TransportErrorCode::CONNECTION_REFUSED => {
                TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
            }
            None => quic_fault(error),
        },
        ConnectionError::ApplicationClosed(_) => match during {
            During::Handshake => TransportError::Handshake(HandshakeError::ClosedDuringHandshake),
            During::Reading => TransportError::Stream(StreamError::Truncated),
            During::Writing => TransportError::Stream(StreamError::ConnectionReset),
        },
        ConnectionError::Reset => TransportError::Stream(StreamError::ConnectionReset),
        ConnectionError::TimedOut => TransportError::Stream(StreamError::PeerVanished),
        ConnectionError::LocallyClosed => TransportError::Stream(StreamError::Closed),
        ConnectionError::VersionMismatch => {
            TransportError::Handshake(HandshakeError::NotTranspute {
                evidence: "it speaks another version of QUIC".into(),
            })
        }
        ConnectionError::CidsExhausted => quic_fault(error),
    }
}

/// Converts the error of a failed handshake. `pins` are the keys that this side accepts.
pub(super) fn handshake(error: &ConnectionError, pins: &[Fingerprint]) -> TransportError {
    let found = match error {
        ConnectionError::TransportError(fault) => PinMismatch::found_in(&fault.reason),
        _ => None,
    };
    match found {
        Some(found) => TransportError::Handshake(HandshakeError::WrongPeer {
            expected: pins.to_vec(),
            found,
        }),
        None => connection(error, During::Handshake),
    }
}

/// Returns whether the peer closed the connection after it had sent all its data.
pub(super) fn is_in_order(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ApplicationClosed(close) if [COMPLETE, SAID_ALL].contains(&close.error_code))
}

pub(super) fn read(error: ReadError) -> io::Error {
    match error {
        ReadError::ConnectionLost(error) => connection(&error, During::Reading),
        // A peer of this protocol never resets a stream.
        ReadError::Reset(code) => protocol(format!("it reset a stream with code {code}")),
        ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected => {
            TransportError::Stream(StreamError::Closed)
        }
    }
    .into_io()
}

pub(super) fn write(error: WriteError) -> io::Error {
    match error {
        WriteError::ConnectionLost(error) => connection(&error, During::Writing),
        WriteError::Stopped(code) => stopped(code),
        WriteError::ClosedStream | WriteError::ZeroRttRejected => {
            TransportError::Stream(StreamError::Closed)
        }
    }
    .into_io()
}

/// Returns the error for a STOP_SENDING frame, which a peer of this protocol never sends.
pub(super) fn stopped(code: VarInt) -> TransportError {
    protocol(format!("it stopped a stream with code {code}"))
}

pub(super) fn protocol(evidence: String) -> TransportError {
    TransportError::Handshake(HandshakeError::NotTranspute { evidence })
}

fn alert(code: TransportErrorCode) -> Option<AlertDescription> {
    let code = u64::from(code).checked_sub(FIRST_ALERT)?;
    u8::try_from(code).ok().map(AlertDescription::from)
}

fn quic_fault(error: &ConnectionError) -> TransportError {
    TransportError::Stream(StreamError::Io {
        source: io::Error::other(format!("QUIC: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed_with(code: TransportErrorCode) -> TransportError {
        let close = quinn::ConnectionClose {
            error_code: code,
            frame_type: None,
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
                TransportError::Handshake(HandshakeError::PeerRefusedUs { .. })
            ));
        }
        assert!(matches!(
            closed_with(TransportErrorCode::crypto(
                AlertDescription::NoApplicationProtocol.into()
            )),
            TransportError::Handshake(HandshakeError::NotTranspute { .. })
        ));
        assert!(matches!(
            closed_with(TransportErrorCode::FLOW_CONTROL_ERROR),
            TransportError::Stream(StreamError::Io { .. })
        ));
    }

    #[test]
    fn an_end_without_notice_is_no_end_of_the_stream() {
        assert!(matches!(
            connection(&ConnectionError::TimedOut, During::Reading),
            TransportError::Stream(StreamError::PeerVanished)
        ));
        assert!(matches!(
            connection(&ConnectionError::Reset, During::Writing),
            TransportError::Stream(StreamError::ConnectionReset)
        ));
    }
}
