//! The connecting end: opens everything at once, and makes the connection that the policy picks the link.
//!
//! Each connection is set up by a task of its own ([`open`]) that ends in an [`Event`]. The race applies one event after
//! another to its [`Progress`] and asks the policy after each.

mod open;
mod take;

use std::{sync::Arc, time::Duration};

use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until},
};

use self::open::Event;
use super::{
    AutoOptions, ControlReport, Decision, NAME, Offer, Pick, Policy, Progress, QuicReport,
    RudpReport, Stage, rudp,
};
use crate::{
    Link, Quic, Rudp, Security, StripedOptions, Tcp, TcpStriped, TransportError,
    link::Bare,
    quic,
    tcp::{Channel, Connector},
};

/// The round-trip time below which the listener is on the same host or local network, where a TCP handshake is cheaper than
/// the processor time that handshakes of several transports take from one another.
///
/// The UDP handshakes begin this long after TCP's, unless TCP was answered by then. Measured: see
/// `tests/auto_race.rs`, `a_near_listener_is_connected_to_over_tcp_alone`.
const SAME_LAN_RTT: Duration = Duration::from_millis(1);

/// How long the UDP handshakes wait for TLS when TCP was answered within [`SAME_LAN_RTT`]: the answer may come from a proxy
/// near this end, or a packet may be lost. Measured: TLS over loopback takes 2 to 8 ms on a busy machine.
const SAME_LAN_TLS: Duration = Duration::from_millis(15);

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
/// the first read. A listener that refuses shows there, with [`TransportError::ChoiceRefused`], as one does that refuses
/// this end's identity. Connections that were not picked are closed.
///
/// # Errors
/// [`TransportError::NoPinnedPeer`]; [`TransportError::PeerRefusedUs`] as soon as it is known; [`TransportError::NotUp`] if
/// no connection came up or stayed up.
pub async fn race(
    address: &str,
    security: &Security,
    options: AutoOptions,
    policy: &dyn Policy,
) -> Result<Won, TransportError> {
    let mut race = Race::begin(address, security, options)?;
    let mut failed = Vec::new();
    let mut wanted: Option<Pick> = None;
    let mut is_open = race.changed().await;
    loop {
        if let Some(pick) = wanted.take()
            && let Stage::Failed(error) = race.stage(&pick)
        {
            failed.push((pick, error.root().to_string()));
        }
        race.progress.elapsed = race.started.elapsed();
        let pick = match policy.decide(&race.progress) {
            Decision::Pick(pick) if race.stage(&pick).up().is_some() => pick,
            decision if is_open => {
                if let Decision::Pick(pick) = decision {
                    wanted = Some(pick).filter(|pick| race.stage(pick).is_pending());
                }
                race.release_udp();
                is_open = race.changed().await;
                continue;
            }
            _ => race.first_up().ok_or_else(|| race.failure())?,
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
            Err(error @ TransportError::PeerRefusedUs { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(transport = %pick, %error, "the transport that was picked failed");
                failed.push((pick, error.to_string()));
                race.fail(&pick, error);
            }
        }
    }
}

/// Connects to `host:port` over several transports at once, waits until each connection has come up or failed and the path is
/// measured, and closes them all.
///
/// It does not connect to a listener that uses one of the transports by its name: that listener would take the connection for
/// a link ([`AutoOptions::takes_named`]). UDP is not given up early, as it may be in a race.
///
/// # Errors
/// As [`race`].
pub async fn probe(
    address: &str,
    security: &Security,
    options: AutoOptions,
) -> Result<Progress, TransportError> {
    let options = AutoOptions {
        takes_named: false,
        udp_patience: options.choice_timeout,
        ..options
    };
    let mut race = Race::begin(address, security, options)?;
    race.udp_due = race.udp_due.map(|_| race.started);
    while race.changed().await {}
    race.progress.elapsed = race.started.elapsed();
    match race.first_up() {
        Some(_) => Ok(race.progress),
        None => Err(race.failure()),
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
    tcp: Entrant<Channel>,
    quic: Entrant<Established<quic::Reader, quic::Writer>>,
    rudp: Entrant<Established<rudp::Reader, rudp::Writer>>,
    /// When the UDP handshakes begin; `None` once they have.
    udp_due: Option<Instant>,
    udp_began: Instant,
    /// When the first connection came up, or TCP failed.
    first_settled: Option<Instant>,
}

/// One transport's connection.
struct Entrant<C> {
    task: Option<AbortHandle>,
    connection: Option<C>,
}

/// A connection that is up.
struct Established<R, W> {
    bare: Bare<R, W>,
    /// The listener uses the transport by its name and expects no choice.
    is_named: bool,
}

impl<C> Default for Entrant<C> {
    fn default() -> Self {
        Self {
            task: None,
            connection: None,
        }
    }
}

impl<C> Entrant<C> {
    /// Notes the outcome of the task, unless the connection was given up before.
    fn settle<R>(&mut self, stage: &mut Stage<R>, result: Result<(R, C), TransportError>) {
        if !stage.is_pending() {
            return;
        }
        *stage = match result {
            Ok((report, connection)) => {
                self.connection = Some(connection);
                Stage::Up(report)
            }
            Err(error) => Stage::Failed(Arc::new(error)),
        };
    }

    /// Closes the connection, or stops its set-up.
    fn close<R>(&mut self, stage: &mut Stage<R>, becomes: Stage<R>) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.connection = None;
        *stage = becomes;
    }

    fn give_up<R>(&mut self, stage: &mut Stage<R>, error: &Arc<TransportError>) {
        if stage.is_pending() {
            self.close(stage, Stage::Failed(Arc::clone(error)));
        }
    }
}

impl Race {
    fn begin(
        address: &str,
        security: &Security,
        options: AutoOptions,
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
            tcp: Entrant::default(),
            quic: Entrant::default(),
            rudp: Entrant::default(),
            udp_due: None,
            udp_began: now,
            first_settled: None,
        };
        let begins = options.connections;
        if begins.quic && race.connector.encrypts() {
            race.progress.quic = Stage::Pending;
        }
        if begins.rudp {
            race.progress.rudp = Stage::Pending;
        }
        race.udp_due = Some(now);
        if begins.tcp {
            race.progress.tcp = Stage::Pending;
            race.udp_due = Some(now + SAME_LAN_RTT);
            race.open_tcp();
        }
        Ok(race)
    }

    /// Waits until the progress changes. Returns `false` if it cannot change any more.
    async fn changed(&mut self) -> bool {
        loop {
            let (udp_due, blocked_at) = (self.udp_due, self.udp_blocked_at());
            let overdue_at = self.overdue_at().filter(|_| !self.tasks.is_empty());
            tokio::select! {
                biased;
                Some(event) = self.tasks.join_next() => match event {
                    Ok(event) => self.apply(event),
                    Err(error) if error.is_cancelled() => continue,
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                () = until(udp_due), if udp_due.is_some() => {
                    self.begin_udp();
                    continue;
                }
                () = until(blocked_at), if blocked_at.is_some() => self.give_up_udp(),
                () = until(overdue_at), if overdue_at.is_some() => self.give_up_pending(),
                else => return false,
            }
            return true;
        }
    }

    fn begin_udp(&mut self) {
        (self.udp_due, self.udp_began) = (None, Instant::now());
        if self.progress.quic.is_pending() {
            self.open_quic();
        }
        if self.progress.rudp.is_pending() {
            self.open_rudp();
        }
    }

    /// Begins with UDP now if it waits for TCP in vain: TCP is up or has failed, and the policy waits for more.
    fn release_udp(&mut self) {
        if self.udp_due.is_some() && !self.progress.tcp.is_pending() {
            self.udp_due = Some(Instant::now());
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Opened(Ok(opened)) => {
                if !self.progress.tcp.is_pending() {
                    return;
                }
                let (rtt, socket, context) = *opened;
                self.progress.tcp_rtt = Some(rtt);
                if rtt < SAME_LAN_RTT && self.udp_due.is_some() {
                    self.udp_due = Some(self.started + SAME_LAN_TLS);
                }
                self.authenticate_tcp(socket, context);
            }
            Event::Opened(Err(error)) => self.apply(Event::Tcp(Err(error))),
            Event::Tcp(result) => {
                let result = result.map(|(report, offer, channel)| {
                    self.learn(offer);
                    (report, *channel)
                });
                self.tcp.settle(&mut self.progress.tcp, result);
                if matches!(self.progress.tcp, Stage::Failed(_)) {
                    self.first_settled.get_or_insert_with(Instant::now);
                }
            }
            Event::Quic(result) => {
                let result = result.map(|(report, offer, connection)| {
                    self.learn(offer);
                    (report, *connection)
                });
                self.quic.settle(&mut self.progress.quic, result);
            }
            Event::Rudp(result) => {
                let mut measured = None;
                let result = result.map(|(report, offer, up)| {
                    self.learn(offer);
                    let (connection, watch) = *up;
                    measured = Some((watch, report.after));
                    (report, connection)
                });
                self.rudp.settle(&mut self.progress.rudp, result);
                if let Some((watch, after)) = measured
                    && self.progress.rudp.up().is_some()
                {
                    self.measure(watch, after);
                }
            }
            Event::Measured(report) => {
                if let Stage::Up(known) = &mut self.progress.rudp {
                    *known = report;
                }
            }
        }
        let is_up = self.progress.tcp.up().is_some()
            || self.progress.quic.up().is_some()
            || self.progress.rudp.up().is_some();
        if is_up {
            self.first_settled.get_or_insert_with(Instant::now);
        }
    }

    /// Takes note of what the listener offers, and leaves out everything else.
    fn learn(&mut self, offer: Offer) {
        if self.progress.offer.is_some() {
            return;
        }
        let Progress {
            tcp, quic, rudp, ..
        } = &mut self.progress;
        if !offer.allows(Tcp::NAME) && !offer.allows(TcpStriped::NAME) {
            self.tcp.close(tcp, Stage::Absent);
        }
        if !offer.allows(Quic::NAME) {
            self.quic.close(quic, Stage::Absent);
        }
        if !offer.allows(Rudp::NAME) {
            self.rudp.close(rudp, Stage::Absent);
        }
        self.progress.offer = Some(offer);
    }

    /// Returns when UDP counts as blocked; `None` while that is not known.
    ///
    /// The rule: TCP is up and may become the link, for which it took two round trips and TLS. UDP, which needs one, has
    /// begun two round trips ago, too, and nothing has come. Then it gets half a round trip more, and
    /// [`AutoOptions::udp_patience`] at least. Without such a TCP connection each UDP transport has its own time limits,
    /// within those of [`overdue_at`](Self::overdue_at).
    fn udp_blocked_at(&self) -> Option<Instant> {
        let Progress {
            tcp, quic, rudp, ..
        } = &self.progress;
        let is_silent = quic.up().is_none() && rudp.up().is_none();
        let is_pending = quic.is_pending() || rudp.is_pending();
        let tcp = (tcp.up()).filter(|_| self.udp_due.is_none() && is_silent && is_pending)?;
        let due = (self.started + tcp.after).max(self.udp_began + 2 * tcp.rtt());
        due.checked_add(self.options.udp_patience.max(tcp.rtt() / 2))
    }

    fn give_up_udp(&mut self) {
        let error = Arc::new(TransportError::UdpBlocked {
            address: self.address.clone(),
            after: self.udp_began.elapsed(),
        });
        self.quic.give_up(&mut self.progress.quic, &error);
        self.rudp.give_up(&mut self.progress.rudp, &error);
    }

    /// Returns until when connections may come up: a peer that keeps silent on one must not hold up the choice.
    fn overdue_at(&self) -> Option<Instant> {
        // What is longer than the clock reaches is no limit.
        self.first_settled?.checked_add(self.options.choice_timeout)
    }

    fn give_up_pending(&mut self) {
        if self.udp_blocked_at().is_some() {
            self.give_up_udp();
        }
        let error = Arc::new(TransportError::Timeout {
            waiting_for: "further connections to come up",
            address: self.address.clone(),
            after: self.started.elapsed(),
        });
        self.tcp.give_up(&mut self.progress.tcp, &error);
        self.quic.give_up(&mut self.progress.quic, &error);
        self.rudp.give_up(&mut self.progress.rudp, &error);
        if let Stage::Up(report) = &mut self.progress.rudp {
            report.is_complete = true;
        }
        // Stops them all.
        self.tasks = JoinSet::new();
    }

    /// Notes that a connection failed when it was to become the link.
    fn fail(&mut self, pick: &Pick, error: TransportError) {
        let error = Arc::new(error);
        match pick {
            Pick::Tcp { .. } | Pick::TcpStriped { .. } => {
                let failed = Stage::Failed(error);
                self.tcp.close(&mut self.progress.tcp, failed);
            }
            Pick::Quic => {
                let failed = Stage::Failed(error);
                self.quic.close(&mut self.progress.quic, failed);
            }
            Pick::Rudp => {
                let failed = Stage::Failed(error);
                self.rudp.close(&mut self.progress.rudp, failed);
            }
        }
    }

    /// Returns the stage of a transport's connection, without the report.
    fn stage(&self, pick: &Pick) -> Stage<()> {
        match pick {
            Pick::Tcp { .. } | Pick::TcpStriped { .. } => bare(&self.progress.tcp),
            Pick::Quic => bare(&self.progress.quic),
            Pick::Rudp => bare(&self.progress.rudp),
        }
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
        [Pick::Rudp, Pick::Quic, tcp]
            .into_iter()
            .find(|pick| self.stage(pick).up().is_some())
    }

    /// Returns why there is no link: the first error that tells more than that nobody answered, else the first one.
    fn failure(&self) -> TransportError {
        let tcp = Pick::Tcp {
            congestion_control: None,
        };
        let mut failures = Vec::new();
        for pick in [tcp, Pick::Rudp, Pick::Quic] {
            if let Stage::Failed(source) = self.stage(&pick) {
                let transport = pick.transport();
                failures.push(TransportError::NotUp { transport, source });
            }
        }
        let tells = |error: &TransportError| {
            !matches!(
                error.root(),
                TransportError::Connect { .. }
                    | TransportError::Timeout { .. }
                    | TransportError::UdpBlocked { .. }
            )
        };
        let telling = failures.iter().position(tells).unwrap_or(0);
        match failures.into_iter().nth(telling) {
            Some(error) => error,
            // Everything is absent.
            None => TransportError::NotOffered {
                transport: NAME,
                offered: self
                    .progress
                    .offer
                    .iter()
                    .flat_map(Offer::names)
                    .map(String::from)
                    .collect(),
            },
        }
    }
}

fn bare<R>(stage: &Stage<R>) -> Stage<()> {
    match stage {
        Stage::Absent => Stage::Absent,
        Stage::Pending => Stage::Pending,
        Stage::Up(_) => Stage::Up(()),
        Stage::Failed(error) => Stage::Failed(Arc::clone(error)),
    }
}

/// Waits until then; forever for `None`.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => std::future::pending().await,
    }
}
