//! The connecting end: everything at once, until one is picked.

mod control;
mod further;
mod raise;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::watch,
    task::JoinSet,
};

use self::{control::Shared, further::Further};
use super::{
    AutoOptions, ControlReport, NAME, Offer, Pick, QuicReport, RudpReport, answered::Answered,
    slot::Slot, words::Choice,
};
use crate::{
    Link, PathProbe, Quic, Rudp, Security, StripedOptions, Tcp, TcpStriped, TransportError,
    link::Bare,
    quic,
    rudp::Attempt,
    tcp::{Channel, Connector},
};

/// Connections to a listener, of which one becomes the link.
///
/// They come up concurrently, in tasks of the runtime that they were begun on, whether somebody waits for them or not.
/// Dropping this closes them all; the listener makes no fuss of it. It waits for a choice for the time of a handshake.
pub struct Candidates {
    inner: Arc<Inner>,
    _tasks: JoinSet<()>,
}

/// The transports that a control connection offers by ALPN, and those that a QUIC connection does: `auto`, and the others
/// for a listener that uses one by its name.
const OVER_TCP: [&str; 4] = [NAME, Tcp::NAME, TcpStriped::NAME, Rudp::NAME];
const OVER_QUIC: [&str; 2] = [NAME, Quic::NAME];

/// Leaves only `auto` of them where no other listener is wanted.
fn known_to<'a>(options: AutoOptions, transports: &'a [&'a str]) -> &'a [&'a str] {
    match options.takes_named {
        true => transports,
        false => &transports[..1],
    }
}

/// Nothing was picked; what is left can be.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unpicked {
    /// Why what was picked cannot be had.
    #[source]
    pub error: TransportError,
    /// The other candidates.
    pub candidates: Box<Candidates>,
}

struct Inner {
    address: String,
    security: Security,
    connector: Connector,
    options: AutoOptions,
    started: Instant,
    /// How long the listener's machine took to answer over TCP, once it has.
    answered: watch::Sender<Option<Duration>>,
    /// When the first connection came up, once one has.
    first_up: watch::Sender<Option<Instant>>,
    further: Further,
    /// The lock is held while something is said on it.
    control: Slot<ControlReport, Shared>,
    quic: Slot<QuicReport, quic::Authenticated>,
    rudp: Slot<Measured, Raised>,
}

/// Reliable UDP that is up.
struct Raised {
    attempt: Attempt,
    took: Duration,
}

/// A report, and whether anything is to come.
#[derive(Clone)]
struct Measured {
    report: RudpReport,
    is_complete: bool,
}

impl Candidates {
    /// Begins to connect to `host:port`.
    ///
    /// # Errors
    /// [`TransportError::NoPinnedPeer`]. What goes wrong with the network is told by those who wait.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn connect(
        address: &str,
        security: &Security,
        options: AutoOptions,
    ) -> Result<Self, TransportError> {
        let inner = Arc::new(Inner {
            address: address.into(),
            security: security.clone(),
            connector: Connector::new(security, known_to(options, &OVER_TCP), NAME)?,
            options,
            started: Instant::now(),
            answered: watch::Sender::new(None),
            first_up: watch::Sender::new(None),
            further: Further::default(),
            control: Slot::new(Tcp::NAME),
            quic: Slot::new(Quic::NAME),
            rudp: Slot::new(Rudp::NAME),
        });
        if options.quic_at_once {
            inner.quic.want();
        }
        if options.rudp_at_once {
            inner.rudp.want();
        }
        let mut tasks = JoinSet::new();
        let (control, quic, rudp) = (inner.clone(), inner.clone(), inner.clone());
        tasks.spawn(async move {
            let opening = control.open_control();
            let opened = control
                .in_time("the control connection", control.started, opening)
                .await;
            control.settle(&control.control, opened);
        });
        tasks.spawn(async move {
            quic.quic.wanted().await;
            let opened = quic.in_time("QUIC", Instant::now(), quic.open_quic()).await;
            quic.settle(&quic.quic, opened);
        });
        tasks.spawn(async move {
            rudp.rudp.wanted().await;
            rudp.raise_rudp().await;
        });
        Ok(Self {
            inner,
            _tasks: tasks,
        })
    }

    /// Waits until the listener's machine has answered over TCP, and returns how long that took: a round trip. Cancel-safe.
    ///
    /// # Errors
    /// Those of [`control`](Self::control).
    pub async fn answered(&self) -> Result<Duration, TransportError> {
        let mut answered = self.inner.answered.subscribe();
        let took = async {
            let seen = answered.wait_for(Option::is_some).await;
            let took = seen.ok().and_then(|seen| *seen);
            match took {
                Some(took) => took,
                // The sender lives as long as `self`.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            took = took => Ok(took),
            control = self.control() => control.map(|control| control.rtt()),
        }
    }

    /// Waits for the control connection, which `tcp` and `tcp-striped` need. Cancel-safe.
    ///
    /// # Errors
    /// [`TransportError::NotUp`] with what [`Transport::connect`](crate::Transport::connect) of `tcp` says.
    pub async fn control(&self) -> Result<ControlReport, TransportError> {
        self.inner.control.report(|_| true).await
    }

    /// Begins with QUIC if that was not done at once, and waits for it. Cancel-safe.
    ///
    /// It is given up half a round trip after the control connection is there, and not before
    /// [`AutoOptions::udp_patience`] after it; where nothing is offered that does without UDP, not before half of
    /// [`AutoOptions::choice_timeout`].
    ///
    /// # Errors
    /// [`TransportError::NotUp`] with [`TransportError::UdpBlocked`], [`TransportError::NotOffered`], or what
    /// [`Transport::connect`](crate::Transport::connect) of `quic` says.
    pub async fn quic(&self) -> Result<QuicReport, TransportError> {
        self.inner.quic.want();
        self.inner.quic.report(|_| true).await
    }

    /// Begins to set up reliable UDP if that was not done at once, and waits until it is known how fast the path is in this
    /// end's direction, though not for long. Cancel-safe.
    ///
    /// If nothing came over QUIC either, it is given up as soon as what was said on the control connection when it was begun is
    /// acknowledged, and an eighth of a round trip or [`AutoOptions::udp_patience`] later; otherwise one and a half round trips
    /// later.
    ///
    /// # Errors
    /// [`TransportError::NotUp`] with [`TransportError::UdpBlocked`], [`TransportError::NotOffered`], or why there is no
    /// control connection.
    pub async fn rudp(&self) -> Result<RudpReport, TransportError> {
        self.inner.rudp.want();
        let measured = self.inner.rudp.report(|_| true).await?;
        Ok(measured.report)
    }

    /// Does the same, and waits until the other direction is known too, though not for long. Cancel-safe.
    ///
    /// # Errors
    /// As of [`rudp`](Self::rudp).
    pub async fn rudp_both_ways(&self) -> Result<RudpReport, TransportError> {
        self.inner.rudp.want();
        let is_complete = |measured: &Measured| measured.is_complete;
        Ok(self.inner.rudp.report(is_complete).await?.report)
    }

    /// Begins to open the further connections that a pick of `tcp-striped` with so many in all would need, before anything is
    /// picked. They take processor time of both ends, and help only if that is picked; otherwise they are closed without a
    /// word. Does nothing as long as nobody has [answered](Self::answered) over TCP, or when it was done before.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn begin_further(&self, connections: u8) {
        self.inner.begin_further(connections);
    }

    /// Makes one of them the link, and closes the others. Waits for it if it is not up yet.
    ///
    /// `blob` goes along to the layer above on the other side, at most 1,024 bytes. The listener's answer is not waited for:
    /// should it refuse, then the first read says so, with [`TransportError::ChoiceRefused`]. As on any link, so does that of
    /// a peer that refuses *us*.
    ///
    /// # Errors
    /// The candidates, without the one that failed, and why: [`TransportError::NotOffered`], [`TransportError::NotUp`],
    /// [`TransportError::CongestionControl`], [`TransportError::TooLong`], and what goes wrong when the choice is said.
    pub async fn pick(self, pick: &Pick, blob: Vec<u8>) -> Result<Link, Unpicked> {
        match self.inner.pick(pick, blob).await {
            Ok(link) => Ok(link),
            Err(error) => Err(Unpicked {
                error,
                candidates: Box::new(self),
            }),
        }
    }
}

impl Inner {
    /// Says how it went with one of the connections.
    fn settle<R: Clone, C>(&self, slot: &Slot<R, C>, result: Result<(R, C), TransportError>) {
        if result.is_ok() {
            (self.first_up).send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert_with(Instant::now);
                is_first
            });
        }
        slot.settle(result);
    }

    /// Waits for something, though not for long once a connection is up: a peer must not be able to hold up the choice by
    /// keeping silent on the others.
    async fn in_time<T>(
        &self,
        waiting_for: &'static str,
        began: Instant,
        future: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        tokio::select! {
            biased;
            output = future => output,
            () = self.overdue(began) => Err(TransportError::Timeout {
                waiting_for,
                address: self.address.clone(),
                after: began.elapsed(),
            }),
        }
    }

    /// Waits until the time for further connections is over; for those that were begun later, it begins then.
    async fn overdue(&self, began: Instant) {
        let mut first_up = self.first_up.subscribe();
        let first = first_up.wait_for(Option::is_some).await;
        let Some(first) = first.ok().and_then(|first| *first) else {
            // The sender lives as long as `self`.
            return std::future::pending().await;
        };
        match first.max(began).checked_add(self.options.choice_timeout) {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => std::future::pending().await,
        }
    }

    async fn open_quic(&self) -> Result<(QuicReport, quic::Authenticated), TransportError> {
        let quic = Quic::new(self.options.quic);
        let began = Instant::now();
        let transports = known_to(self.options, &OVER_QUIC);
        let connected = tokio::select! {
            biased;
            connected = quic.connect_over(&self.address, &self.security, transports) => connected?,
            error = self.quic_is_hopeless(began) => return Err(error),
        };
        let offer = match &connected.message {
            _ if connected.transport != NAME => Offer::only(Quic::NAME),
            Some(message) => Offer::decode(message).await?,
            None => return Err(no_offer()),
        };
        let report = QuicReport {
            info: connected.bare.info.clone(),
            offer,
            path: connected.bare.probe.sample(),
            after: self.started.elapsed(),
        };
        Ok((report, connected))
    }

    /// Waits until it is clear that QUIC will not come up: TCP has needed two round trips where it needs one.
    async fn quic_is_hopeless(&self, began: Instant) -> TransportError {
        let control = match self.control.report(|_| true).await {
            Ok(control) => control,
            Err(error) => {
                if is_of_this_side(error.root()) {
                    // Nothing is known of the path then: QUIC has its own time limits.
                    return std::future::pending().await;
                }
                // Whatever TCP met, it took a round trip at least. A listener that uses `quic` by its name has no TCP port,
                // so that its machine refuses at once.
                let least = match is_refused(error.root()) {
                    true => QUIC_HANDSHAKE,
                    false => self.options.udp_patience,
                };
                let enough = (began.elapsed() / 2).max(least);
                tokio::time::sleep(enough).await;
                return TransportError::UdpBlocked {
                    address: self.address.clone(),
                    after: began.elapsed(),
                };
            }
        };
        if let Err(error) = control.offer.check(&Pick::Quic) {
            return error;
        }
        // It may have been begun later than the control connection.
        let least = began + control.rtt() * 5 / 2;
        let enough = (control.rtt() / 2).max(self.udp_patience(&control.offer));
        tokio::time::sleep_until((Instant::now() + enough).max(least).into()).await;
        TransportError::UdpBlocked {
            address: control.info.peer_address,
            after: began.elapsed(),
        }
    }

    /// Returns how long an answer over UDP may be late: not long, unless there is nothing else.
    fn udp_patience(&self, offer: &Offer) -> Duration {
        match offer.needs_udp() {
            true => self
                .options
                .udp_patience
                .max(self.options.choice_timeout / 2),
            false => self.options.udp_patience,
        }
    }

    async fn pick(&self, pick: &Pick, blob: Vec<u8>) -> Result<Link, TransportError> {
        let choice = Choice {
            pick: *pick,
            blob: super::checked(blob)?,
        };
        match pick {
            Pick::Tcp { .. } | Pick::TcpStriped { .. } => self.pick_control(&choice).await,
            Pick::Quic => self.pick_quic(&choice).await,
            Pick::Rudp => self.pick_rudp(&choice).await,
        }
    }

    async fn pick_control(&self, choice: &Choice) -> Result<Link, TransportError> {
        let report = self.control.report(|_| true).await?;
        report.offer.check(&choice.pick)?;
        let shared = self.control.share().ok_or(TransportError::Closed)?;
        let mut held = shared.lock().await;
        let channel = held.as_ref().ok_or(TransportError::Closed)?;
        if let Some(name) = choice.pick.congestion_control() {
            channel.socket().set_congestion_control(name)?;
        }
        let mut channel = held.take().ok_or(TransportError::Closed)?;
        self.control.forget();
        // Begun before anything is said, so that they are there sooner.
        let further = match choice.pick {
            Pick::TcpStriped { connections, .. } => {
                let congestion_control = choice.pick.congestion_control();
                let peer = channel.context().peer;
                let opening = self.take_further(peer, connections, congestion_control);
                Some((opening, connections))
            }
            _ => None,
        };
        let is_named = is_named(&channel);
        let context = channel.context().clone();
        if !is_named && let Err(error) = say(context, &mut channel, &choice.encode()).await {
            return Err(last_word(&mut channel).await.unwrap_or(error));
        }
        let Some((opening, connections)) = further else {
            return Ok(match is_named {
                true => channel.into_bare().link(),
                false => answered(channel.into_bare()),
            });
        };
        let founder = opening.found(&mut channel, connections).await?;
        let striped = TcpStriped::new(StripedOptions {
            max_out_of_order: self.options.max_out_of_order,
            ..StripedOptions::default()
        });
        let (link, growth) = striped.begin(channel, connections, |first| match is_named {
            true => first,
            false => Box::new(Answered::new(first)),
        });
        founder.grow(growth, self.options.tcp.handshake_timeout);
        Ok(link)
    }

    async fn pick_quic(&self, choice: &Choice) -> Result<Link, TransportError> {
        self.quic.want();
        let report = self.quic.report(|_| true).await?;
        report.offer.check(&choice.pick)?;
        let quic::Authenticated {
            mut bare,
            transport,
            ..
        } = self.quic.take().ok_or(TransportError::Closed)?;
        if transport != NAME {
            return Ok(bare.link());
        }
        let words = choice.encode();
        let said = say_on(&mut bare.writer, &words);
        let patience = (self.options.quic.handshake_timeout).min(self.options.choice_timeout);
        tokio::time::timeout(patience, said)
            .await
            .map_err(|_| TransportError::PeerVanished)??;
        Ok(answered(bare))
    }

    async fn pick_rudp(&self, choice: &Choice) -> Result<Link, TransportError> {
        self.rudp.want();
        self.rudp.report(|_| true).await?;
        let Raised { attempt, took } = self.rudp.take().ok_or(TransportError::Closed)?;
        let shared = self.control.share().ok_or(TransportError::Closed)?;
        let mut held = shared.lock().await;
        let channel = held.as_ref().ok_or(TransportError::Closed)?;
        let mut open = attempt.take();
        let is_named = is_named(channel);
        if !is_named {
            // Never waits: there is room in an unused stream.
            say_on(&mut open.writer, &choice.encode()).await?;
        }
        let mut info = channel.info(Rudp::NAME);
        info.timings.handshake += took;
        let bare = open.over(channel, info)?;
        *held = None;
        self.control.forget();
        Ok(match is_named {
            true => bare.link(),
            false => answered(bare),
        })
    }
}

/// Returns whether the listener uses one transport by its name: then nothing is said about a choice.
fn is_named(channel: &Channel) -> bool {
    channel.transport().is_some_and(|named| named != NAME)
}

fn answered<R, W>(bare: Bare<R, W>) -> Link
where
    R: tokio::io::AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let Bare {
        reader,
        writer,
        info,
        probe,
    } = bare;
    Link::new(
        Answered::new(reader),
        writer,
        info,
        Some(probe as Arc<dyn PathProbe>),
    )
}

async fn say(
    context: crate::tcp::Context,
    channel: &mut Channel,
    words: &[u8],
) -> Result<(), TransportError> {
    context
        .limit("words to be sent", say_on(channel, words))
        .await?
}

async fn say_on(
    writer: &mut (impl AsyncWrite + Unpin),
    words: &[u8],
) -> Result<(), TransportError> {
    let said = async {
        writer.write_all(words).await?;
        writer.flush().await
    };
    said.await.map_err(TransportError::from_io)
}

/// Time for a QUIC handshake on a busy machine, where nothing but QUIC may be listened for.
const QUIC_HANDSHAKE: Duration = Duration::from_millis(500);

/// Returns whether TCP failed without an answer of the other machine.
fn is_of_this_side(error: &TransportError) -> bool {
    matches!(error, TransportError::Connect { .. }) && !is_refused(error)
}

/// Returns whether the other machine answered that nothing listens.
fn is_refused(error: &TransportError) -> bool {
    match error {
        TransportError::Connect { source, .. } => {
            source.kind() == std::io::ErrorKind::ConnectionRefused
        }
        _ => false,
    }
}

/// Returns why an authenticated peer has ended the connection, if it says so: it may have refused us.
async fn last_word(channel: &mut Channel) -> Option<TransportError> {
    let word = tokio::time::timeout(Duration::ZERO, channel.read(&mut [0])).await;
    match word {
        Ok(Err(error)) => Some(TransportError::from_io(error)),
        _ => None,
    }
}

fn no_offer() -> TransportError {
    TransportError::NotTranspute {
        evidence: "it says nothing about the transports it allows".into(),
    }
}

impl fmt::Debug for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidates")
            .field("address", &self.inner.address)
            .finish_non_exhaustive()
    }
}
