//! The interface between a race of transports and the policy that ends it.
//!
//! A race opens one connection for each transport and reports their state and measurements as [`Progress`]. After each report the
//! [`Policy`] either picks the transport that becomes the link, or lets the race continue.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Offer, Pick};
use crate::{ConnectError, PathSample, Quic, Rudp, Tcp, TcpStriped, TransportError};

static ABSENT: Stage = Stage::Absent;

/// The report on an established connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetupReport {
    /// The path measurements of the transport, such as its round-trip time.
    pub path: PathSample,
    /// From the start of connecting until the connection was there.
    pub after: Duration,
    /// Whether the set-up will tell nothing more: the trains are over.
    pub is_complete: bool,
}

/// The state of one transport in a race.
#[derive(Clone, Debug, Default)]
pub enum Stage {
    /// It does not take part: this side leaves it out, or the listener does not offer it.
    #[default]
    Absent,
    /// Its connection is being set up.
    Pending,
    /// Its connection is established and can become the link.
    Up(Box<SetupReport>),
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
    pub tcp: Stage,
    /// The QUIC connection.
    pub quic: Stage,
    /// The connection of reliable UDP. Its report grows while the trains of the set-up arrive.
    pub rudp: Stage,
    /// The links of transports of other crates, by name. They begin when the offer is known, which has their ports.
    pub others: BTreeMap<&'static str, Stage>,
}

/// Decides which transport wins a race.
pub trait Policy: Send + Sync {
    /// Returns the transport that becomes the link by what is known now, or `None` to wait. If the connection of that transport is
    /// still pending, the race waits for it and asks again when it is up or has failed.
    ///
    /// The race calls this once for each report and each change of a stage.
    ///
    /// If the policy returns `None` and no handshake is pending any more, the race takes the first of `rudp`, `quic` and `tcp` that is
    /// established.
    fn decide(&self, progress: &Progress) -> Option<Pick>;
}

impl Stage {
    /// Returns the report of a connection that is up.
    #[must_use]
    pub fn up(&self) -> Option<&SetupReport> {
        match self {
            Self::Up(report) => Some(report),
            _ => None,
        }
    }

    /// Returns why the connection failed.
    #[must_use]
    pub fn error(&self) -> Option<&Arc<TransportError>> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the connection is being set up.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }
}

impl Progress {
    /// Returns the stage of the connection that the transport of this name needs.
    #[must_use]
    pub fn stage(&self, transport: &str) -> &Stage {
        match transport {
            Quic::NAME => &self.quic,
            Rudp::NAME => &self.rudp,
            Tcp::NAME | TcpStriped::NAME => &self.tcp,
            other => self.others.get(other).unwrap_or(&ABSENT),
        }
    }

    /// Returns a copy in which the UDP handshakes that are still pending have failed because UDP is blocked.
    pub(super) fn without_udp(&self, address: &str) -> Self {
        let mut progress = self.clone();
        let blocked = Arc::new(TransportError::Connect(ConnectError::UdpBlocked {
            address: address.to_owned(),
            after: self.elapsed,
        }));
        for stage in [&mut progress.quic, &mut progress.rudp] {
            if stage.is_pending() {
                *stage = Stage::Failed(Arc::clone(&blocked));
            }
        }
        progress
    }

    /// Parses the text of a pick: a transport with its settings, or one of another crate that takes part in the race.
    #[must_use]
    pub fn pick(&self, text: &str) -> Option<Pick> {
        let other = || {
            let (name, _) = self.others.get_key_value(text)?;
            Some(Pick::Other(name))
        };
        text.parse().ok().or_else(other)
    }

    /// Iterates over all stages.
    pub fn stages(&self) -> impl Iterator<Item = &Stage> {
        let shared = [&self.tcp, &self.quic, &self.rudp];
        shared.into_iter().chain(self.others.values())
    }

    pub(super) fn set_stage(&mut self, transport: &str, stage: Stage) {
        match transport {
            Quic::NAME => self.quic = stage,
            Rudp::NAME => self.rudp = stage,
            Tcp::NAME | TcpStriped::NAME => self.tcp = stage,
            other => {
                if let Some(known) = self.others.get_mut(other) {
                    *known = stage;
                }
            }
        }
    }
}
