//! The attempts of a race.
//!
//! Each connection has a task that sets it up and reports [`Update`]s. The race applies the reports
//! one after another.

use std::{iter, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until},
};

use super::super::{
    AutoOptions, NAME, Offer, Pick, RaceProgress, Stage,
    candidate::{Connection, Port, Target, Up, Update, Updates},
    table::{self, Entry},
};
use crate::{
    ConnectError, HandshakeError, Link, PathClass, Registry, Security, StreamError, TransportError,
};

/// A race: connections to a listener, of which one may become the link. Dropping the race closes
/// the connections.
pub(super) struct Race {
    address: String,
    security: Security,
    options: AutoOptions,
    pub(super) started: Instant,
    tasks: JoinSet<()>,
    updates: UnboundedReceiver<(usize, Update)>,
    sender: UnboundedSender<(usize, Update)>,
    /// The attempts. `progress.connections` has the same order.
    running: Vec<Running>,
    pub(super) progress: RaceProgress,
    /// Time at which the UDP handshakes start. `None` after they have started.
    pub(super) udp_due: Option<Instant>,
    udp_began: Instant,
    /// Time at which the first connection was established, or TCP failed.
    first_settled: Option<Instant>,
}

/// A candidate with the task that sets up its connection.
struct Running {
    entry: Entry,
    task: Option<AbortHandle>,
    /// The connection, if it is established.
    connection: Option<Box<dyn Connection>>,
}

impl Race {
    pub(super) fn begin(
        address: &str,
        security: &Security,
        options: AutoOptions,
        registry: &Registry,
    ) -> Result<Self, TransportError> {
        if matches!(security, Security::Tls { peers, .. } if peers.is_empty()) {
            return Err(TransportError::Handshake(HandshakeError::NoPinnedPeer));
        }
        let mut entries = table::of(registry);
        entries.retain(|it| it.fits(security));
        entries.sort_by_key(Entry::preference);
        let now = Instant::now();
        let (sender, updates) = mpsc::unbounded_channel();
        let mut race = Self {
            address: address.into(),
            security: security.clone(),
            options,
            started: now,
            tasks: JoinSet::new(),
            updates,
            sender,
            progress: RaceProgress::of_entries(&entries),
            running: Vec::new(),
            udp_due: Some(now),
            udp_began: now,
            first_settled: None,
        };
        for connection in &mut race.progress.connections {
            if connection.port != Port::Own {
                connection.stage = Stage::Pending;
            }
        }
        race.running = (entries.into_iter())
            .map(|entry| Running {
                entry,
                task: None,
                connection: None,
            })
            .collect();
        for index in race.all(|port| port == Port::Stream) {
            race.udp_due = Some(now + PathClass::SAME_LAN_LIMIT);
            race.open(index, race.address.clone());
        }
        Ok(race)
    }

    /// Returns the indices of the connections whose port satisfies `has`.
    fn all(&self, has: impl Fn(Port) -> bool) -> Vec<usize> {
        let connections = &self.progress.connections;
        (0..connections.len())
            .filter(|&it| has(connections[it].port))
            .collect()
    }

    /// Returns the index of the connection over which a transport would run.
    pub(super) fn find(&self, transport: &str) -> Option<usize> {
        (self.running.iter()).position(|it| it.entry.transports.contains(&transport))
    }

    /// Returns the stage of the connection on the TCP port, if one takes part.
    pub(super) fn stream(&self) -> Option<&Stage> {
        let mut connections = self.progress.connections();
        (connections.find(|it| it.port == Port::Stream)).map(|it| &it.stage)
    }

    /// Starts an attempt in a task. Dropping the race aborts the task.
    fn open(&mut self, index: usize, address: String) {
        let running = &mut self.running[index];
        let named: &[&str] = match self.options.takes_named {
            true => &running.entry.transports,
            false => &[],
        };
        let target = Target {
            address,
            security: self.security.clone(),
            transports: iter::once(NAME).chain(named.iter().copied()).collect(),
        };
        let updates = Updates {
            index,
            started: self.started,
            sender: self.sender.clone(),
        };
        let candidate = Arc::clone(&running.entry.candidate);
        running.task = Some(self.tasks.spawn(async move {
            if let Err(error) = candidate.open(target, &updates).await {
                updates.send(Update::Failed(error));
            }
        }));
    }

    pub(super) fn begin_udp(&mut self) {
        (self.udp_due, self.udp_began) = (None, Instant::now());
        for index in self.all(|port| matches!(port, Port::Datagrams { .. })) {
            if self.progress.connections[index].stage.is_pending() {
                self.open(index, self.address.clone());
            }
        }
    }

    /// Updates the progress and the connections with a report of one attempt.
    fn apply(&mut self, index: usize, update: Update) {
        let stage = &mut self.progress.connections[index].stage;
        match (update, &mut *stage) {
            (Update::Measured(path), Stage::Up(report)) => {
                (report.path, report.is_complete) = (path, true);
            }
            (Update::Answered { rtt, is_one_host }, Stage::Pending) => {
                self.progress.tcp_rtt = Some(rtt);
                self.progress.is_one_host = is_one_host;
                self.hold_udp(rtt);
            }
            (Update::Up(up), Stage::Pending) => {
                let Up {
                    connection,
                    report,
                    offer,
                } = up;
                *stage = Stage::Up(Box::new(report));
                self.running[index].connection = Some(connection);
                if let Some(offer) = offer {
                    self.learn(offer);
                }
            }
            (Update::Failed(error), Stage::Pending) => self.end(index, Some(&Arc::new(error))),
            // Ignore reports of an attempt that has ended.
            _ => {}
        }
    }

    /// Delays the UDP handshakes if the listener is on the same host or LAN. On such a path, the
    /// computation of concurrent handshakes takes more time than they save in round trips. Over
    /// loopback, TCP is established after 2.8 ms together with the UDP handshakes, and after 0.6 ms
    /// alone (medians of 200, `examples/auto.rs`, on two processors). The TCP answer may also come
    /// from a nearby proxy in front of a long path. So the delay is at most
    /// [`AutoOptions::udp_patience`], the time that a busy processor may need for TLS.
    fn hold_udp(&mut self, rtt: Duration) {
        if rtt < PathClass::SAME_LAN_LIMIT && self.udp_due.is_some() {
            let due = Instant::now().checked_add(self.options.udp_patience);
            self.udp_due = due.or(self.udp_due);
        }
    }

    /// Waits until [`RaceProgress`] changes. Returns `false` if no further change is possible.
    pub(super) async fn changed(&mut self) -> bool {
        while self.is_open() {
            let (blocked_at, overdue_at) = (self.udp_blocked_at(), self.overdue_at());
            tokio::select! {
                biased;
                Some((index, update)) = self.updates.recv() => self.apply(index, update),
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended && let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                    continue;
                }
                () = until(self.udp_due) => {
                    self.begin_udp();
                    continue;
                }
                () = until(blocked_at) => self.end_udp(),
                () = until(overdue_at) => self.end_overdue(),
            }
            let has_stream_failed = matches!(self.stream(), Some(Stage::Failed(_)));
            if self.first_up().is_some() || has_stream_failed {
                self.first_settled.get_or_insert_with(Instant::now);
            }
            return true;
        }
        false
    }

    /// Returns whether any connection is pending, or is established and still measures the path.
    fn is_open(&self) -> bool {
        let is_open = |stage: &Stage| {
            stage.is_pending() || stage.up().is_some_and(|report| !report.is_complete)
        };
        self.progress.connections().any(|it| is_open(&it.stage))
    }

    /// Ends a probe: closes one established connection, and waits until the listener has closed its
    /// side or [`AutoOptions::choice_timeout`] has passed.
    ///
    /// In TLS 1.3, the connector's handshake ends before the listener checks the connector's
    /// certificate. If the listener rejects the certificate, this returns the error.
    pub(super) async fn leave(&mut self) -> Result<(), TransportError> {
        let limit = self.options.choice_timeout;
        for index in self.by_port() {
            if let Some(connection) = &mut self.running[index].connection {
                // Without an answer in time, the listener is assumed to have accepted the
                // certificate.
                return (tokio::time::timeout(limit, connection.close()).await).unwrap_or(Ok(()));
            }
        }
        Ok(())
    }

    /// Records the listener's offer, ends the attempts of transports that are not offered, and
    /// starts the attempts on the separate ports that the offer contains.
    fn learn(&mut self, offer: Offer) {
        if self.progress.offer.is_some() {
            return;
        }
        let host = self
            .address
            .rsplit_once(':')
            .map(|(host, _)| host.to_owned());
        for index in 0..self.running.len() {
            let entry = &self.running[index].entry;
            let port = entry.transports.first().and_then(|it| offer.port(it));
            if !entry.is_offered(&offer) {
                self.end(index, None);
            } else if let (Port::Own, Some(port), Some(host)) = (entry.port, port, &host) {
                self.progress.connections[index].stage = Stage::Pending;
                self.open(index, format!("{host}:{port}"));
            }
        }
        self.progress.offer = Some(offer);
    }

    /// Ends an attempt. Its stage becomes `Failed` with an error, and `Absent` without one.
    pub(super) fn end(&mut self, index: usize, error: Option<&Arc<TransportError>>) {
        let stage = error.cloned().map_or(Stage::Absent, Stage::Failed);
        self.progress.connections[index].stage = stage;
        let running = &mut self.running[index];
        running.connection = None;
        if let Some(task) = running.task.take() {
            task.abort();
        }
    }

    /// Fails the pending attempts on the ports for which `is_concerned` returns `true`.
    fn end_pending(&mut self, is_concerned: impl Fn(Port) -> bool, error: TransportError) {
        let error = Arc::new(error);
        for index in self.all(is_concerned) {
            if self.progress.connections[index].stage.is_pending() {
                self.end(index, Some(&error));
            }
        }
    }

    /// Converts the connection of the chosen transport to the link. The connection must be
    /// established.
    pub(super) async fn take(&mut self, pick: &Pick) -> Result<Link, TransportError> {
        let index = self
            .find(pick.transport())
            .ok_or(TransportError::Stream(StreamError::Closed))?;
        let running = &mut self.running[index];
        let mut names = running.entry.transports.iter();
        if let Some(offer) = &self.progress.offer
            && let Some(name) = names.find(|name| **name == pick.transport())
        {
            offer.check(name)?;
        }
        let connection = running
            .connection
            .take()
            .ok_or(TransportError::Stream(StreamError::Closed))?;
        connection.take(pick).await
    }

    /// Returns whether a UDP handshake is in progress and no UDP transport is established.
    fn waits_for_udp(&self) -> bool {
        let over_udp = || self.progress.connections().filter(|it| it.uses_udp());
        self.udp_due.is_none()
            && over_udp().any(|it| it.stage.is_pending())
            && !over_udp().any(|it| it.stage.up().is_some())
    }

    /// Returns the time from which UDP is considered blocked (docs/protocol.md, "When UDP is
    /// blocked"). Returns `None` if TCP is not established, or if the race does not wait for UDP.
    fn udp_blocked_at(&self) -> Option<Instant> {
        let tcp = self.stream()?.up().filter(|_| self.waits_for_udp())?;
        // A nearby proxy may have answered the TCP handshake. The TLS handshake takes a round trip
        // over the whole path, so its duration is an upper bound of the round-trip time.
        let tls = tcp.after.saturating_sub(self.progress.tcp_rtt?);
        let rtt = tls.max(tcp.path.least_rtt().unwrap_or_default());
        let patience = self.options.udp_patience.max(rtt / 2);
        let answer = self.udp_began.checked_add(rtt + patience)?;
        Some(answer.max(self.started + tcp.after))
    }

    fn end_udp(&mut self) {
        let blocked = TransportError::Connect(ConnectError::UdpBlocked {
            address: self.address.clone(),
            after: self.started.elapsed(),
        });
        self.end_pending(|port| matches!(port, Port::Datagrams { .. }), blocked);
    }

    /// Returns the time at which pending connections fail, so that a connection without an answer
    /// cannot delay the choice further. Returns `None` until a connection is established or TCP has
    /// failed.
    fn overdue_at(&self) -> Option<Instant> {
        // A timeout that exceeds the clock's range means no deadline.
        self.first_settled?.checked_add(self.options.choice_timeout)
    }

    fn end_overdue(&mut self) {
        if self.udp_blocked_at().is_some() {
            self.end_udp();
        }
        let overdue = TransportError::Connect(ConnectError::Timeout {
            waiting_for: "further connections to come up",
            address: self.address.clone(),
            after: self.started.elapsed(),
        });
        self.end_pending(|_| true, overdue);
        for connection in &mut self.progress.connections {
            if let Stage::Up(report) = &mut connection.stage {
                report.is_complete = true;
            }
        }
    }

    /// Returns the first established transport, in the order specified in
    /// [`Policy::decide`](crate::auto::Policy::decide).
    pub(super) fn first_up(&self) -> Option<Pick> {
        let mut connections = self.progress.connections();
        let up = connections.find(|it| it.stage.up().is_some())?;
        let is_offered =
            |name: &&&str| (self.progress.offer.as_ref()).is_none_or(|offer| offer.allows(name));
        Some(Pick::from(*up.transports().iter().find(is_offered)?))
    }

    /// Returns the indices of the connections, with TCP first.
    fn by_port(&self) -> Vec<usize> {
        let stream = self.all(|port| port == Port::Stream);
        let others = self.all(|port| port != Port::Stream);
        [stream, others].concat()
    }

    /// Returns the errors of the connections that failed.
    fn failures(&self) -> impl Iterator<Item = TransportError> {
        self.by_port().into_iter().filter_map(|index| {
            let connection = &self.progress.connections[index];
            Some(TransportError::Connect(ConnectError::NotUp {
                transport: connection.transports().first()?,
                source: connection.stage.error()?.clone(),
            }))
        })
    }

    /// Returns the error with which the listener rejected this end's identity on any connection.
    /// The listener would reject it on every transport.
    pub(super) fn refusal(&self) -> Option<TransportError> {
        let is_refusal = |error: &TransportError| {
            matches!(
                error.root(),
                TransportError::Handshake(HandshakeError::PeerRefusedUs { .. })
            )
        };
        self.failures().find(is_refusal)
    }

    /// Returns the error of a race without an established connection. Errors that the listener
    /// caused take precedence over missing answers.
    pub(super) fn failure(&self) -> TransportError {
        let tells = |error: &TransportError| {
            !matches!(
                error.root(),
                TransportError::Connect(
                    ConnectError::Connect { .. }
                        | ConnectError::Timeout { .. }
                        | ConnectError::UdpBlocked { .. }
                ) | TransportError::Handshake(HandshakeError::Timeout { .. })
            )
        };
        let offered = self.progress.offer.iter().flat_map(Offer::names);
        (self.failures().find(tells))
            .or_else(|| self.failures().next())
            // All transports are absent.
            .unwrap_or_else(|| {
                TransportError::Connect(ConnectError::NotOffered {
                    transport: NAME,
                    offered: offered.map(String::from).collect(),
                })
            })
    }
}

/// Waits until this time, or forever for `None`.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => std::future::pending().await,
    }
}
