//! Tasks that set up the connections of a race.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

use super::{NAME, Offer, Race, Stage};
use crate::{
    HandshakeError, PathSample, Quic, Rudp, Tcp, TransportError,
    auto::SetupReport,
    link::{Bare, LinkReader, LinkWriter},
    rudp,
    tcp::{Context, Route, Socket, UNSENT_LIMIT},
};

/// The end of a task: what to do with the race.
pub(super) type Event = Box<dyn FnOnce(&mut Race) + Send>;

/// A connection that can become a link.
pub(super) struct Established {
    pub(super) bare: Bare<LinkReader, LinkWriter>,
    /// The listener uses the transport by its name and expects no choice.
    pub(super) is_named: bool,
}

impl Race {
    /// Sets up a connection in a task; `then` applies it to the race, unless it was given up by then.
    pub(super) fn open<T: Send + 'static>(
        &mut self,
        transport: &'static str,
        opening: impl Future<Output = Result<T, TransportError>> + Send + 'static,
        then: impl FnOnce(&mut Self, T) + Send + 'static,
    ) {
        self.tasks.spawn(async move {
            let opened = opening.await;
            let event: Event = Box::new(move |race: &mut Self| match opened {
                _ if !race.progress.stage(transport).is_pending() => {}
                Ok(opened) => then(race, opened),
                Err(error) => race.end(transport, Some(&Arc::new(error))),
            });
            event
        });
    }

    pub(super) fn open_tcp(&mut self) {
        let (address, options) = (self.address.clone(), self.options.tcp);
        let opening = async move {
            let route = Route::find(&address, options).await?;
            let began = Instant::now();
            let (socket, context) = route.open(UNSENT_LIMIT).await?;
            // The kernel leaves out the time of a SYN that was lost.
            let measured = socket.probe().sample().least_rtt();
            let rtt = measured.unwrap_or_else(|| began.elapsed());
            Ok((rtt, socket, context))
        };
        self.open(Tcp::NAME, opening, |race, (rtt, socket, context)| {
            race.progress.tcp_rtt = Some(rtt);
            race.hold_udp(rtt);
            race.authenticate_tcp(socket, context);
        });
    }

    fn authenticate_tcp(&mut self, socket: Socket, context: Context) {
        let (connector, started) = (self.connector.clone(), self.started);
        let authenticating = async move {
            let mut channel = connector.authenticate(socket, context.clone()).await?;
            let offer = match channel.transport() {
                Some(transport) => offer(transport, channel.message()).await?,
                None => {
                    let read = Offer::read(&mut channel);
                    context.limit("the listener's offer", read).await??
                }
            };
            let mut path = channel.socket().probe().sample();
            // Where the kernel tells nothing: opening the connection took a round trip, and the name's resolution.
            let connect = channel.info(Tcp::NAME).timings.connect;
            path.min_rtt = path.least_rtt().or(Some(connect));
            Ok((report(path, started.elapsed()), channel, offer))
        };
        self.open(
            Tcp::NAME,
            authenticating,
            |race, (report, channel, offer)| {
                (race.progress.tcp, race.tcp) = (Stage::Up(report.into()), Some(channel));
                race.learn(offer);
            },
        );
    }

    pub(super) fn open_quic(&mut self) {
        let (address, security) = (self.address.clone(), self.security.clone());
        let (options, started) = (self.options, self.started);
        let opening = async move {
            let transports = options.transports(&[NAME, Quic::NAME]);
            let quic = Quic::new(options.quic);
            let up = quic.connect_over(&address, &security, transports).await?;
            let offer = offer(&up.transport, up.message.as_deref()).await?;
            let report = report(up.bare.probe.sample(), started.elapsed());
            Ok((report, Established::new(up.bare, &up.transport), offer))
        };
        self.open(Quic::NAME, opening, |race, (report, connection, offer)| {
            (race.progress.quic, race.quic) = (Stage::Up(report.into()), Some(connection));
            race.learn(offer);
        });
    }

    pub(super) fn open_rudp(&mut self) {
        let (address, security) = (self.address.clone(), self.security.clone());
        let (options, started) = (self.options, self.started);
        let opening = async move {
            let transports = options.transports(&[NAME, Rudp::NAME]);
            let rudp = Rudp::new(options.rudp);
            let up = rudp.connect_over(&address, &security, transports).await?;
            let offer = offer(&up.transport, up.message.as_deref()).await?;
            let connection = Established::new(up.bare, &up.transport);
            Ok((connection, up.watch, started.elapsed(), offer))
        };
        self.open(
            Rudp::NAME,
            opening,
            |race, (connection, watch, after, offer)| {
                race.progress.rudp = rudp_stage(&watch, after, false);
                race.rudp = Some(connection);
                race.measure(watch, after);
                race.learn(offer);
            },
        );
    }

    /// Waits for the trains of the set-up of reliable UDP.
    fn measure(&mut self, watch: rudp::Watch, after: Duration) {
        self.tasks.spawn(async move {
            watch.measured().await;
            let event: Event = Box::new(move |race: &mut Self| {
                if race.rudp.is_some() {
                    race.progress.rudp = rudp_stage(&watch, after, true);
                }
            });
            event
        });
    }
}

impl Established {
    pub(super) fn new<R, W>(bare: Bare<R, W>, transport: &str) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self {
            is_named: transport != NAME,
            bare: Bare {
                reader: Box::new(bare.reader),
                writer: Box::new(bare.writer),
                info: bare.info,
                probe: bare.probe,
            },
        }
    }
}

fn report(path: PathSample, after: Duration) -> SetupReport {
    SetupReport {
        path,
        after,
        is_complete: true,
    }
}

fn rudp_stage(watch: &rudp::Watch, after: Duration, is_complete: bool) -> Stage {
    Stage::Up(Box::new(SetupReport {
        is_complete,
        ..report(watch.sample(), after)
    }))
}

/// Returns the offer of a listener that was agreed with on this transport; `message` is that in its certificate.
async fn offer(transport: &str, message: Option<&[u8]>) -> Result<Offer, TransportError> {
    match message {
        _ if transport != NAME => Ok(Offer::only(transport)),
        Some(message) => Offer::decode(message).await,
        None => Err(TransportError::Handshake(HandshakeError::NotTranspute {
            evidence: "its certificate offers no transports".into(),
        })),
    }
}
