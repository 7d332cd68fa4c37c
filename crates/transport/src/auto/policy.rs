//! The interface between a race of transports and the policy that chooses the winner.
//!
//! A race opens one connection of each kind and reports their state and measurements as
//! [`RaceProgress`]. After each report, the [`Policy`] either chooses the transport that becomes
//! the link, or lets the race continue.

use std::{sync::Arc, time::Duration};

use super::{
    candidate::{Port, SetupReport},
    offer::Offer,
    pick::Pick,
    table::{self, Entry},
};
use crate::{Registry, TransportError};

static ABSENT: Stage = Stage::Absent;

/// The state of one connection in a race.
#[derive(Clone, Debug, Default)]
pub enum Stage {
    /// The connection does not take part: this side does not use it, or the listener does not offer
    /// it.
    #[default]
    Absent,
    /// The connection is being set up.
    Pending,
    /// The connection is established and can become the link.
    Up(Box<SetupReport>),
    /// The connection failed.
    Failed(Arc<TransportError>),
}

/// The progress of a race.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RaceProgress {
    /// Time since the race began.
    pub elapsed: Duration,
    /// Duration of the TCP handshake, which takes one round trip. `None` until the listener's
    /// machine has answered.
    pub tcp_rtt: Option<Duration>,
    /// Whether a TCP connection was established to an address of this host.
    pub is_one_host: bool,
    /// The listener's offer. `None` until a connection is established.
    pub offer: Option<Offer>,
    /// The connections of the race, in the order of preference that applies if the policy does not
    /// decide.
    pub(super) connections: Vec<Attempt>,
}

/// One connection of a race.
#[derive(Clone, Debug)]
pub struct Attempt {
    transports: Vec<&'static str>,
    pub(super) port: Port,
    pub(super) stage: Stage,
}

/// Decides which transport wins a race.
pub trait Policy: Send + Sync {
    /// Returns the transport that becomes the link, or `None` to wait. If the connection of the
    /// returned transport is pending, the race continues and calls this method again after the next
    /// report.
    ///
    /// The race calls this once for each report and each change of a stage. If the policy returns
    /// `None` and no handshake is pending any more, the race takes the established connection with
    /// the fewest round trips of set-up. Among equals, it prefers the one that measures the path
    /// with more bytes.
    fn decide(&self, progress: &RaceProgress) -> Option<Pick>;
}

impl Stage {
    /// Returns the measurements if the connection is established.
    #[must_use]
    pub fn up(&self) -> Option<&SetupReport> {
        match self {
            Self::Up(report) => Some(report),
            _ => None,
        }
    }

    /// Returns the error if the connection has failed.
    #[must_use]
    pub fn error(&self) -> Option<&Arc<TransportError>> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the connection is still being set up.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }
}

impl Attempt {
    /// Returns the names of the transports that the connection can become.
    #[must_use]
    pub fn transports(&self) -> &[&'static str] {
        &self.transports
    }

    /// Returns whether the connection uses the listener's UDP port.
    #[must_use]
    pub fn uses_udp(&self) -> bool {
        matches!(self.port, Port::Datagrams { .. })
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn stage(&self) -> &Stage {
        &self.stage
    }
}

impl RaceProgress {
    /// Returns the progress of a race between the transports of a registry before it has started.
    /// Tests of a policy use this function.
    #[must_use]
    pub fn new(registry: &Registry) -> Self {
        let mut entries = table::of(registry);
        entries.sort_by_key(Entry::preference);
        Self::of_entries(&entries)
    }

    pub(super) fn of_entries(entries: &[Entry]) -> Self {
        let connections = entries.iter().map(|entry| Attempt {
            transports: entry.transports.clone(),
            port: entry.port,
            stage: Stage::Absent,
        });
        Self {
            connections: connections.collect(),
            ..Self::default()
        }
    }

    /// Iterates over the connections.
    pub fn connections(&self) -> impl Iterator<Item = &Attempt> {
        self.connections.iter()
    }

    /// Returns the stage of the connection over which this transport would run.
    #[must_use]
    pub fn stage(&self, transport: &str) -> &Stage {
        (self.connections())
            .find(|it| it.transports.contains(&transport))
            .map_or(&ABSENT, Attempt::stage)
    }

    /// Sets the stage of the connection over which this transport would run. Tests of a policy use
    /// this method.
    pub fn set_stage(&mut self, transport: &str, stage: Stage) {
        let mut connections = self.connections.iter_mut();
        if let Some(found) = connections.find(|it| it.transports.contains(&transport)) {
            found.stage = stage;
        }
    }
}
