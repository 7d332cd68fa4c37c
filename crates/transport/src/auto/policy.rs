//! The interface between a race of transports and the policy that ends it.
//!
//! The race opens connections and reports what they learn ([`Progress`]). The policy looks at each report and answers whether
//! to wait or which transport becomes the link ([`Decision`]). Neither knows how the other works.

use std::{sync::Arc, time::Duration};

use super::{ControlReport, Offer, Pick, QuicReport, RudpReport};
use crate::TransportError;

/// The state of one transport in a race.
#[derive(Clone, Debug, Default)]
pub enum Stage<R> {
    /// It does not take part: this side leaves it out, or the listener does not offer it.
    #[default]
    Absent,
    /// Its connection is being set up.
    Pending,
    /// Its connection is established and can become the link.
    Up(R),
    /// Its connection failed.
    Failed(Arc<TransportError>),
}

/// What a race has learnt so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Time since the race began.
    pub elapsed: Duration,
    /// Duration of the TCP handshake, one round trip, once the listener's machine has answered it.
    pub tcp_rtt: Option<Duration>,
    /// What the listener offers, once any connection is up.
    pub offer: Option<Offer>,
    /// The TCP connection with TLS, which `tcp` and `tcp-striped` need.
    pub tcp: Stage<ControlReport>,
    /// The QUIC connection.
    pub quic: Stage<QuicReport>,
    /// The connection of reliable UDP. Its report grows while the trains of the set-up arrive:
    /// [`RudpReport::is_complete`] tells when nothing more will come.
    pub rudp: Stage<RudpReport>,
}

/// The answer of a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// The next report may change the choice by more than waiting for it costs.
    Wait,
    /// This transport becomes the link. If its connection is still pending, the race waits for it and asks again when it
    /// is up or has failed.
    Pick(Pick),
}

/// Decides which transport wins a race.
pub trait Policy: Send + Sync {
    /// Decides with what is known now. It is asked once per report and whenever a stage changes, never by a timer.
    ///
    /// When nothing is pending any more and something is up, [`Decision::Wait`] counts as the first transport that is up, in
    /// the order `rudp`, `quic`, `tcp`.
    fn decide(&self, progress: &Progress) -> Decision;
}

impl<R> Stage<R> {
    /// Returns the report of a connection that is up.
    #[must_use]
    pub fn up(&self) -> Option<&R> {
        match self {
            Self::Up(report) => Some(report),
            _ => None,
        }
    }

    /// Returns whether the connection is being set up.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }
}
