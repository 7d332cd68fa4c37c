//! Premature ends of a connection, and their meaning for each user.

use std::{io, net::SocketAddr, time::Duration};

use transpute_rudp::ClosedReason;

use super::handshake::SECURITY_MISMATCH;
use crate::{TransportError, tls};

/// The close code of a link that was dropped.
pub(super) const DROPPED: u64 = 1;

/// The reason for a premature end of a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Core(ClosedReason),
    /// The peer's system reports that the port is closed.
    Refused,
}

/// The connection has ended, with the reason if the end was premature.
#[derive(Debug)]
pub(super) struct Broken(pub(super) Option<Ending>);

impl Broken {
    /// Returns the error for a user that sets up the connection.
    pub(super) fn during_setup(&self, peer: SocketAddr, waited: Duration) -> TransportError {
        match self.0 {
            Some(
                Ending::Refused
                | Ending::Core(ClosedReason::PathBlocked(_) | ClosedReason::PathTooNarrow),
            ) => TransportError::UdpBlocked {
                address: peer.to_string(),
                after: waited,
            },
            Some(Ending::Core(ClosedReason::ClosedByPeer(_))) => {
                TransportError::ClosedDuringHandshake
            }
            _ => self.reading(),
        }
    }

    /// Returns whether one side encrypts and the other does not.
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

    /// Returns the error for a user that reads.
    pub(super) fn reading(&self) -> TransportError {
        match self.0 {
            None | Some(Ending::Refused) => TransportError::Truncated,
            Some(Ending::Core(reason)) => match reason {
                ClosedReason::ClosedByPeer(_) => TransportError::Truncated,
                _ => other(reason),
            },
        }
    }

    /// Returns the error for a user that writes.
    pub(super) fn writing(&self) -> TransportError {
        match self.0 {
            None => TransportError::Closed,
            Some(Ending::Refused) => TransportError::ConnectionReset,
            Some(Ending::Core(reason)) => match reason {
                ClosedReason::ClosedByPeer(_) => TransportError::ConnectionReset,
                _ => other(reason),
            },
        }
    }
}

fn other(reason: ClosedReason) -> TransportError {
    match reason {
        ClosedReason::TimedOut(_) | ClosedReason::PathBlocked(_) => TransportError::PeerVanished,
        ClosedReason::ClosedHere(_) => TransportError::Closed,
        ClosedReason::VersionMismatch { ours, theirs } => TransportError::NotTranspute {
            evidence: format!(
                "it speaks version {theirs} of reliable UDP, and this side version {ours}"
            ),
        },
        ClosedReason::RefusedByPeer(alert) | ClosedReason::HandshakeFailed(alert) => {
            tls::explain(&rustls::Error::AlertReceived(alert.into()))
        }
        ClosedReason::Lost { arrived, sent } => TransportError::PacketsLost { arrived, sent },
        _ => TransportError::Io {
            source: io::Error::new(io::ErrorKind::InvalidData, reason),
        },
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
            assert!(matches!(error, TransportError::PeerVanished), "{error}");
        }
    }
}
