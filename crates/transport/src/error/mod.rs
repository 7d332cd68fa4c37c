//! Errors of transports, by operation: find a transport, bind, connect, handshake, use the stream.

mod address;
mod bind;
mod connect;
mod handshake;
mod registry;
mod stream;
mod unsupported;

use std::io;

use thiserror::Error;

pub(crate) use self::handshake::PinMismatch;
pub use self::{
    address::AddressError, bind::BindError, connect::ConnectError, handshake::HandshakeError,
    registry::RegistryError, stream::StreamError, unsupported::UnsupportedError,
};

/// The error of any operation on a transport or a link.
///
/// Reads and writes on a link return [`io::Error`], which [`TransportError::from_io`] converts to
/// this type.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The registry has no such transport or setting.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The address cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The transport or the system does not support an option.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedError),
    /// The listening socket failed.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The peer could not be reached, or could not be reached over the chosen transport.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The two sides did not accept each other.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The link broke.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl TransportError {
    /// Converts the I/O error of a [`Link`](crate::Link) to a transport error.
    ///
    /// If a transport has wrapped a `TransportError` in the [`io::Error`]
    /// ([`into_io`](Self::into_io)), this returns the wrapped error. Otherwise it converts the
    /// error kind.
    #[must_use]
    pub fn from_io(error: io::Error) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(ours) => return ours,
            Err(error) => error,
        };
        if let Some(tls) = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return crate::tls::explain(tls).into();
        }
        let meaning = match error.kind() {
            io::ErrorKind::UnexpectedEof => StreamError::Truncated,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
                StreamError::ConnectionReset
            }
            io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected | io::ErrorKind::WriteZero => {
                StreamError::Closed
            }
            io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => StreamError::PeerVanished,
            _ => StreamError::Io { source: error },
        };
        meaning.into()
    }

    /// Unwraps [`ConnectError::NotUp`], which only adds the name of a transport. Returns any other
    /// error unchanged.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::Connect(ConnectError::NotUp { source, .. }) => source.root(),
            other => other,
        }
    }

    /// Wraps this error so that it can pass through [`AsyncRead`](tokio::io::AsyncRead) and
    /// [`AsyncWrite`](tokio::io::AsyncWrite).
    #[must_use]
    pub fn into_io(self) -> io::Error {
        let kind = match &self {
            Self::Stream(StreamError::Truncated)
            | Self::Handshake(HandshakeError::ClosedDuringHandshake) => {
                io::ErrorKind::UnexpectedEof
            }
            Self::Stream(StreamError::ConnectionReset) => io::ErrorKind::ConnectionReset,
            Self::Stream(StreamError::Closed) => io::ErrorKind::BrokenPipe,
            Self::Stream(StreamError::PeerVanished)
            | Self::Connect(ConnectError::Timeout { .. })
            | Self::Handshake(HandshakeError::Timeout { .. }) => io::ErrorKind::TimedOut,
            Self::Handshake(
                HandshakeError::WrongPeer { .. } | HandshakeError::PeerRefusedUs { .. },
            ) => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fingerprint;

    #[test]
    fn a_typed_error_survives_the_io_layer() {
        let found = Fingerprint::from([1; 32]);
        let error = TransportError::Handshake(HandshakeError::WrongPeer {
            expected: vec![],
            found,
        });
        assert!(matches!(
            TransportError::from_io(error.into_io()),
            TransportError::Handshake(HandshakeError::WrongPeer { found: got, .. }) if got == found
        ));
    }

    #[test]
    fn system_errors_are_told_apart() {
        for (kind, expected) in [
            (io::ErrorKind::UnexpectedEof, "may be cut off"),
            (io::ErrorKind::ConnectionReset, "reset"),
            (io::ErrorKind::BrokenPipe, "is closed"),
            (io::ErrorKind::TimedOut, "stopped answering"),
            (io::ErrorKind::PermissionDenied, "link failed"),
        ] {
            let message = TransportError::from_io(kind.into()).to_string();
            assert!(message.contains(expected), "{kind:?}: {message}");
        }
    }
}
