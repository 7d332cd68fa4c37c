//! Conversion of the reason for a connection's end to the error of the operation in progress.

use std::{io, net::SocketAddr, time::Duration};

use transpute_rudp::ClosedReason;

use super::handshake::SECURITY_MISMATCH;
use crate::{ConnectError, HandshakeError, StreamError, TransportError, tls};

/// The close code that an end sends when its link is dropped.
pub(super) const DROPPED: u64 = 1;

/// The reason for a premature end of a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Core(ClosedReason),
    /// ICMP reported that the peer's port is closed.
    Refused,
}

/// The end of a connection. Contains the reason if the connection ended prematurely.
#[derive(Debug)]
pub(super) struct Broken(pub(super) Option<Ending>);

impl Broken {
    /// Returns the error if the connection ended during its set-up. `waited` is the time since it
    /// began.
    pub(super) fn during_setup(&self, peer: SocketAddr, waited: Duration) -> TransportError {
        match self.0 {
            Some(
                Ending::Refused
                | Ending::Core(ClosedReason::PathBlocked(_) | ClosedReason::PathTooNarrow),
            ) => TransportError::Connect(ConnectError::UdpBlocked {
                address: peer.to_string(),
                after: waited,
            }),
            Some(Ending::Core(ClosedReason::ClosedByPeer(_))) => {
                TransportError::Handshake(HandshakeError::ClosedDuringHandshake)
            }
            _ => self.reading(),
        }
    }

    /// Returns whether the set-up failed because only one side encrypts.
    pub(super) fn is_security_mismatch(&self) -> bool {
        matches!(
            self.0,
            Some(Ending::Core(
                ClosedReason::RefusedByPeer(SECURITY_MISMATCH)
                    | ClosedReason::HandshakeFailed(SECURITY_MISMATCH)
            ))
        )
    }

    /// Returns whether the peer dropped its link.
    pub(super) fn peer_left(&self) -> bool {
        matches!(
            self.0,
            Some(Ending::Core(ClosedReason::ClosedByPeer(DROPPED)))
        )
    }

    /// Returns the error of a read.
    pub(super) fn reading(&self) -> TransportError {
        match self.0 {
            None | Some(Ending::Refused) => TransportError::Stream(StreamError::Truncated),
            Some(Ending::Core(reason)) => match reason {
                ClosedReason::ClosedByPeer(_) => TransportError::Stream(StreamError::Truncated),
                _ => other(reason),
            },
        }
    }

    /// Returns the error of a write.
    pub(super) fn writing(&self) -> TransportError {
        match self.0 {
            None => TransportError::Stream(StreamError::Closed),
            Some(Ending::Refused) => TransportError::Stream(StreamError::ConnectionReset),
            Some(Ending::Core(reason)) => match reason {
                ClosedReason::ClosedByPeer(_) => {
                    TransportError::Stream(StreamError::ConnectionReset)
                }
                _ => other(reason),
            },
        }
    }
}

fn other(reason: ClosedReason) -> TransportError {
    match reason {
        ClosedReason::TimedOut(_) | ClosedReason::PathBlocked(_) => {
            TransportError::Stream(StreamError::PeerVanished)
        }
        ClosedReason::ClosedHere(_) => TransportError::Stream(StreamError::Closed),
        ClosedReason::VersionMismatch { ours, theirs } => {
            TransportError::Handshake(HandshakeError::NotTranspute {
                evidence: format!(
                    "it speaks version {theirs} of reliable UDP, and this side version {ours}"
                ),
            })
        }
        ClosedReason::RefusedByPeer(alert) | ClosedReason::HandshakeFailed(alert) => {
            tls::explain(&rustls::Error::AlertReceived(alert.into())).into()
        }
        ClosedReason::Lost { arrived, sent } => {
            TransportError::Stream(StreamError::PacketsLost { arrived, sent })
        }
        _ => TransportError::Stream(StreamError::Io {
            source: io::Error::new(io::ErrorKind::InvalidData, reason),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_has_vanished() {
        let silence = ClosedReason::TimedOut(Duration::from_secs(30));
        let broken = Broken(Some(Ending::Core(silence)));
        for error in [broken.reading(), broken.writing()] {
            assert!(
                matches!(error, TransportError::Stream(StreamError::PeerVanished)),
                "{error}"
            );
        }
    }
}
