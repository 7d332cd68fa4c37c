//! The connecting end: opens everything at once, and makes the connection that the policy picks the link.
//!
//! Each connection is set up by a task of its own (`open`), which ends in an [`Event`]. The race applies one event after
//! another and asks the policy after each.

mod open;
mod others;
mod take;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, join},
    task::JoinSet,
    time::{Instant, sleep_until},
};

use self::open::{Established, Event};
use super::{AutoOptions, NAME, Offer, Pick, Policy, Progress, Stage};
use crate::{
    ConnectError, HandshakeError, Link, PathClass, Quic, Registry, Rudp, Security, StripedOptions,
    Tcp, TcpStriped, Transport, TransportError,
    tcp::{Channel, Connector},
};

/// The connections of a race, by the transports that they are enough for.
const CONNECTIONS: [&str; 3] = [Tcp::NAME, Rudp::NAME, Quic::NAME];

/// The result of a race.
#[derive(Debug)]
#[non_exhaustive]
pub struct Won {
    /// The link.
    pub link: Link,
    /// What the race had learnt when the link was picked.
    pub progress: Progress,
    /// What was picked.
    pub pick: Pick,
    /// Earlier picks of the policy that failed, and why.
    pub failed: Vec<(Pick, String)>,
}

/// Connects to `host:port` over several transports at once and makes the one that the policy picks the link.
///
/// The pick costs no round trip: it is sent in front of the first bytes of the link, and the listener's answer is checked at
/// the first read. A listener that refuses the pick, or this end's identity, shows there. Connections that were not picked
/// are closed.
///
/// # Errors
/// [`HandshakeError::NoPinnedPeer`]; [`HandshakeError::PeerRefusedUs`] as soon as it is known; [`ConnectError::NotUp`] if
/// no connection came up or stayed up; [`ConnectError::NotOffered`] if the listener offers nothing that this end takes.
pub async fn race(
    address: &str,
    security: &Security,
    options: AutoOptions,
    policy: &dyn Policy,
) -> Result<Won, TransportError> {
    race_among(address, security, options, &Registry::new(), policy).await
}

/// Connects as [`race()`] does. The transports of other crates in the registry take part, if the listener offers them.
///
/// # Errors
/// As [`race()`].
pub async fn race_among(
    address: &str,
    security: &Security,
    options: AutoOptions,
    registry: &Registry,
    policy: &dyn Policy,
) -> Result<Won, TransportError> {
    let mut race = Race::begin(address, security, options, registry)?;
    let mut failed = Vec::new();
    let mut wanted: Option<Pick> = None;
    race.changed().await;
    loop {
        if let Some(pick) = wanted.take()
            && let Some(error) = race.progress.stage(pick.transport()).error()
        {
            failed.push((pick, error.root().to_string()));
        }
        if let Some(refusal) = race.refusal() {
            return Err(refusal);
        }
        race.progress.elapsed = race.started.elapsed();
        let pick = match policy.decide(&race.progress) {
            Some(pick) if race.is_up(&pick) => pick,
            pick => {
                wanted = pick.filter(|it| race.progress.stage(it.transport()).is_pending());
                if !race.progress.tcp.is_pending() && race.udp_due.is_some() {
                    // TCP alone does not settle it.
                    race.begin_udp();
                }
                if race.changed().await {
                    continue;
                }
                race.first_up().ok_or_else(|| race.failure())?
            }
        };
        match race.take(&pick).await {
            Ok(link) => {
                return Ok(Won {
                    link,
                    progress: race.progress,
                    pick,
                    failed,
                });
            }
            Err(error) => {
                tracing::warn!(transport = %pick, %error, "the transport that was picked failed");
                failed.push((pick, error.to_string()));
                race.end(pick.transport(), Some(&Arc::new(error)));
            }
        }
    }
}

/// Connects to `host:port` over several transports at once, waits until each connection has come up or failed and the path is
/// measured, and closes them all.
///
/// A listener that uses one transport by its name would take the connection for a link, so a probe does not connect to it. A race
/// stops waiting for UDP when an answer is overdue; a probe waits for [`AutoOptions::choice_timeout`].
///
/// # Errors
/// As [`race`].
pub async fn probe(
    address: &str,
    security: &Security,
    options: AutoOptions,
) -> Result<Progress, TransportError> {
    probe_among(address, security, options, &Registry::new()).await
}

/// Measures as [`probe`] does. The transports of other crates in the registry take part, if the listener offers them.
///
/// # Errors
/// As [`race()`].
pub async fn probe_among(
    address: &str,
    security: &Security,
    options: AutoOptions,
    registry: &Registry,
) -> Result<Progress, TransportError> {
    let options = AutoOptions {
        takes_named: false,
        udp_patience: options.choice_timeout,
        ..options
    };
    let mut race = Race::begin(address, security, options, registry)?;
    race.begin_udp();
    while race.changed().await {}
    race.progress.elapsed = race.started.elapsed();
    match (race.refusal(), race.first_up()) {
        (Some(refusal), _) => Err(refusal),
        (None, None) => Err(race.failure()),
        (None, Some(_)) => {
            race.leave().await?;
            Ok(race.progress)
        }
    }
}

/// Connections to a listener, of which one may become the link. Dropping it closes them.
struct Race {
    address: String,
    security: Security,
    connector: Connector,
    options: AutoOptions,
    started: Instant,
    tasks: JoinSet<Event>,
    progress: Progress,
    /// The connections that are up.
    tcp: Option<Channel>,
    quic: Option<Established>,
    rudp: Option<Established>,
    /// Transports of other crates that may take part.
    others: Vec<Arc<dyn Transport>>,
    /// Their links that are up, by name.
    links: BTreeMap<&'static str, Link>,
    /// When the UDP handshakes begin; `None` once they have.
    udp_due: Option<Instant>,
    udp_began: Instant,
    /// When the first connection came up, or TCP failed.
    first_settled: Option<Instant>,
}

impl Race {
    fn begin(
        address: &str,
        security: &Security,
        options: AutoOptions,
        registry: &Registry,
    ) -> Result<Self, TransportError> {
        let transports = options.transports(&[NAME, Tcp::NAME, TcpStriped::NAME]);
        let now = Instant::now();
        let mut race = Self {
            address: address.into(),
            security: security.clone(),
            connector: Connector::new(security, transports, NAME)?,
            options,
            started: now,
            tasks: JoinSet::new(),
            progress: Progress::default(),
            tcp: None,
            quic: None,
            rudp: None,
            others: super::others::of(registry),
            links: BTreeMap::new(),
            udp_due: Some(now),
            udp_began: now,
            first_settled: None,
        };
        if options.opens_quic && race.connector.encrypts() {
            race.progress.quic = Stage::Pending;
        }
        if options.opens_rudp {
            race.progress.rudp = Stage::Pending;
        }
        if options.opens_tcp {
            race.progress.tcp = Stage::Pending;
            race.udp_due = Some(now + PathClass::SAME_LAN_LIMIT);
            race.open_tcp();
        }
        Ok(race)
    }

    fn begin_udp(&mut self) {
        (self.udp_due, self.udp_began) = (None, Instant::now());
        if self.progress.rudp.is_pending() {
            self.open_rudp();
        }
        if self.progress.quic.is_pending() {
            self.open_quic();
        }
    }

    /// Keeps UDP back when the listener is on the same host or LAN. There the handshakes of several transports take from one
    /// another more processor time than the round trips that they save: TCP over loopback is up after 2.8 ms beside the
    /// others and after 0.6 ms alone (medians of 200, `examples/auto.rs`, on two processors). The answer may also come from a
    /// proxy on this side of a long path, so UDP waits no longer than a busy processor may need for TLS.
    fn hold_udp(&mut self, rtt: Duration) {
        if rtt < PathClass::SAME_LAN_LIMIT && self.udp_due.is_some() {
            let due = Instant::now().checked_add(self.options.udp_patience);
            self.udp_due = due.or(self.udp_due);
        }
    }

    /// Waits until the progress changes. Returns `false` if it cannot change any more.
    async fn changed(&mut self) -> bool {
        while self.is_open() {
            let (blocked_at, overdue_at) = (self.udp_blocked_at(), self.overdue_at());
            tokio::select! {
                biased;
                Some(event) = self.tasks.join_next() => match event {
                    Ok(event) => event(self),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                () = until(self.udp_due) => {
                    self.begin_udp();
                    continue;
                }
                () = until(blocked_at) => self.end_udp(),
                () = until(overdue_at) => self.end_overdue(),
            }
            if self.first_up().is_some() || matches!(self.progress.tcp, Stage::Failed(_)) {
                self.first_settled.get_or_insert_with(Instant::now);
            }
            return true;
        }
        false
    }

    /// Returns whether a connection may still come up, or report more.
    fn is_open(&self) -> bool {
        self.progress
            .stages()
            .any(|stage| stage.is_pending() || stage.up().is_some_and(|report| !report.is_complete))
    }

    /// Ends a probe: closes one established connection, and waits until the listener has closed its side or
    /// [`AutoOptions::choice_timeout`] has passed.
    ///
    /// In TLS 1.3 the connector's handshake ends before the listener checks the connector's certificate. If the listener rejects it,
    /// this returns that error.
    async fn leave(&mut self) -> Result<(), TransportError> {
        let limit = self.options.choice_timeout;
        let closed = async {
            match (&mut self.tcp, self.rudp.as_mut().or(self.quic.as_mut())) {
                (Some(channel), _) => close(channel).await,
                (None, Some(Established { bare, .. })) => {
                    close(&mut join(&mut bare.reader, &mut bare.writer)).await
                }
                (None, None) => Ok(()),
            }
        };
        // A listener that takes longer has refused nobody so far.
        tokio::time::timeout(limit, closed).await.unwrap_or(Ok(()))
    }

    /// Takes note of what the listener offers, and leaves out everything else.
    fn learn(&mut self, offer: Offer) {
        if self.progress.offer.is_some() {
            return;
        }
        if !offer.allows(Tcp::NAME) && !offer.allows(TcpStriped::NAME) {
            self.end(Tcp::NAME, None);
        }
        for transport in [Quic::NAME, Rudp::NAME] {
            if !offer.allows(transport) {
                self.end(transport, None);
            }
        }
        self.begin_others(&offer);
        self.progress.offer = Some(offer);
    }

    /// Ends a transport's part in the race: it has failed, or is absent.
    fn end(&mut self, transport: &str, error: Option<&Arc<TransportError>>) {
        let stage = error.cloned().map_or(Stage::Absent, Stage::Failed);
        self.progress.set_stage(transport, stage);
        match transport {
            Quic::NAME => self.quic = None,
            Rudp::NAME => self.rudp = None,
            Tcp::NAME | TcpStriped::NAME => self.tcp = None,
            other => drop(self.links.remove(other)),
        }
    }

    /// Returns whether a UDP handshake is in progress and no UDP transport is established.
    fn waits_for_udp(&self) -> bool {
        let [quic, rudp] = [&self.progress.quic, &self.progress.rudp];
        let is_silent = quic.up().is_none() && rudp.up().is_none();
        is_silent && (quic.is_pending() || rudp.is_pending()) && self.udp_due.is_none()
    }

    /// Returns when UDP counts as blocked (docs/protocol.md, "When UDP is blocked"); `None` while that is not known.
    fn udp_blocked_at(&self) -> Option<Instant> {
        let tcp = (self.progress.tcp.up()).filter(|_| self.waits_for_udp())?;
        // TLS takes a round trip of the whole path; a proxy on this side may have opened the connection.
        let tls = tcp.after.saturating_sub(self.progress.tcp_rtt?);
        let rtt = tls.max(tcp.path.least_rtt().unwrap_or_default());
        let patience = self.options.udp_patience.max(rtt / 2);
        let answer = self.udp_began.checked_add(rtt + patience)?;
        Some(answer.max(self.started + tcp.after))
    }

    fn end_udp(&mut self) {
        self.progress.elapsed = self.started.elapsed();
        self.progress = self.progress.without_udp(&self.address);
    }

    /// Returns until when connections may come up: a peer that keeps silent on one must not hold up the choice.
    fn overdue_at(&self) -> Option<Instant> {
        // A limit that is beyond the clock's range is none.
        self.first_settled?.checked_add(self.options.choice_timeout)
    }

    fn end_overdue(&mut self) {
        if self.udp_blocked_at().is_some() {
            self.end_udp();
        }
        self.end_those_pending(TransportError::Connect(ConnectError::Timeout {
            waiting_for: "further connections to come up",
            address: self.address.clone(),
            after: self.started.elapsed(),
        }));
        if let Stage::Up(report) = &mut self.progress.rudp {
            report.is_complete = true;
        }
    }

    fn end_those_pending(&mut self, error: TransportError) {
        let error = Arc::new(error);
        for transport in self.connections() {
            if self.progress.stage(transport).is_pending() {
                self.end(transport, Some(&error));
            }
        }
    }

    /// Returns the transports that have a connection of their own.
    fn connections(&self) -> Vec<&'static str> {
        let others = self.progress.others.keys().copied();
        CONNECTIONS.into_iter().chain(others).collect()
    }

    fn is_up(&self, pick: &Pick) -> bool {
        self.progress.stage(pick.transport()).up().is_some()
    }

    /// Returns the first transport that is up, in the order that [`Policy::decide`] promises.
    fn first_up(&self) -> Option<Pick> {
        let congestion_control = None;
        let tcp = match &self.progress.offer {
            Some(offer) if !offer.allows(Tcp::NAME) => Pick::TcpStriped {
                connections: StripedOptions::CONNECTIONS,
                congestion_control,
            },
            _ => Pick::Tcp { congestion_control },
        };
        let picks = [Pick::Rudp, Pick::Quic, tcp];
        let others = self.links.keys().map(|name| Pick::Other(name));
        picks
            .into_iter()
            .chain(others)
            .find(|pick| self.is_up(pick))
    }

    /// Returns the errors of the connections that failed.
    fn failures(&self) -> impl Iterator<Item = TransportError> {
        self.connections().into_iter().filter_map(|transport| {
            let source = self.progress.stage(transport).error()?.clone();
            Some(TransportError::Connect(ConnectError::NotUp {
                transport,
                source,
            }))
        })
    }

    /// Returns the listener's refusal of this end's identity: it holds for every transport.
    fn refusal(&self) -> Option<TransportError> {
        let is_refusal = |error: &TransportError| {
            matches!(
                error.root(),
                TransportError::Handshake(HandshakeError::PeerRefusedUs { .. })
            )
        };
        self.failures().find(is_refusal)
    }

    /// Returns why there is no link: the first error that tells more than that nobody answered, else the first one.
    fn failure(&self) -> TransportError {
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
            // Everything is absent.
            .unwrap_or_else(|| {
                TransportError::Connect(ConnectError::NotOffered {
                    transport: NAME,
                    offered: offered.map(String::from).collect(),
                })
            })
    }
}

/// Closes a stream, and returns the peer's refusal if that is its answer.
async fn close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<(), TransportError> {
    let _ = stream.shutdown().await;
    match stream.read(&mut [0]).await.map_err(TransportError::from_io) {
        Err(refusal @ TransportError::Handshake(HandshakeError::PeerRefusedUs { .. })) => {
            Err(refusal)
        }
        _ => Ok(()),
    }
}

/// Waits until then; forever for `None`.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => std::future::pending().await,
    }
}
