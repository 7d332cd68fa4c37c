//! Tasks that set up the connections of a race.

use std::time::Duration;

use tokio::time::Instant;

use super::{NAME, Offer, Race, rudp};
use crate::{
    Quic, Rudp, Tcp, TransportError,
    auto::{ControlReport, QuicReport, RudpReport},
    link::Bare,
    quic,
    tcp::{Channel, Context, Route, Socket, UNSENT_LIMIT},
};

/// The end of a task.
pub(super) enum Event {
    /// The listener's machine answered over TCP: the round-trip time, and the connection.
    Answered(Box<(Duration, Socket, Context)>),
    /// A connection is up: the listener's offer, and the connection.
    Up(Offer, Box<Up>),
    /// The set-up of this transport's connection failed.
    Failed(&'static str, TransportError),
    /// The trains of reliable UDP's set-up are over.
    Measured(RudpReport),
}

/// A connection that is up, and its report.
pub(super) enum Up {
    Tcp(ControlReport, Channel),
    Quic(QuicReport, Established<quic::Reader, quic::Writer>),
    Rudp(
        RudpReport,
        Established<rudp::Reader, rudp::Writer>,
        rudp::Watch,
    ),
}

/// A connection that can become a link.
pub(super) struct Established<R, W> {
    pub(super) bare: Bare<R, W>,
    /// The listener uses the transport by its name and expects no choice.
    pub(super) is_named: bool,
}

impl Event {
    /// Returns the transport that it concerns.
    pub(super) fn transport(&self) -> &'static str {
        match self {
            Self::Answered(_) => Tcp::NAME,
            Self::Failed(transport, _) => transport,
            Self::Measured(_) => Rudp::NAME,
            Self::Up(_, up) => match **up {
                Up::Tcp(..) => Tcp::NAME,
                Up::Quic(..) => Quic::NAME,
                Up::Rudp(..) => Rudp::NAME,
            },
        }
    }
}

impl Race {
    fn open(
        &mut self,
        transport: &'static str,
        opening: impl Future<Output = Result<Event, TransportError>> + Send + 'static,
    ) {
        let failed = move |error| Event::Failed(transport, error);
        (self.tasks).spawn(async move { opening.await.unwrap_or_else(failed) });
    }

    pub(super) fn open_tcp(&mut self) {
        let (address, options) = (self.address.clone(), self.options.tcp);
        self.open(Tcp::NAME, async move {
            let route = Route::find(&address, options).await?;
            let began = Instant::now();
            let (socket, context) = route.open(UNSENT_LIMIT).await?;
            // The kernel leaves out the time of a SYN that was lost.
            let measured = socket.probe().sample().least_rtt();
            let rtt = measured.unwrap_or_else(|| began.elapsed());
            Ok(Event::Answered(Box::new((rtt, socket, context))))
        });
    }

    pub(super) fn authenticate_tcp(&mut self, socket: Socket, context: Context) {
        let (connector, started) = (self.connector.clone(), self.started);
        self.open(Tcp::NAME, async move {
            let mut channel = connector.authenticate(socket, context.clone()).await?;
            let offer = match channel.transport() {
                Some(transport) => offer(transport, channel.message()).await?,
                None => {
                    let read = Offer::read(&mut channel);
                    context.limit("the listener's offer", read).await??
                }
            };
            let report = ControlReport {
                info: channel.info(Tcp::NAME),
                path: channel.socket().probe().sample(),
                after: started.elapsed(),
            };
            Ok(Event::Up(offer, Box::new(Up::Tcp(report, channel))))
        });
    }

    pub(super) fn open_quic(&mut self) {
        let (address, security) = (self.address.clone(), self.security.clone());
        let (options, started) = (self.options, self.started);
        self.open(Quic::NAME, async move {
            let transports = options.transports(&[NAME, Quic::NAME]);
            let quic = Quic::new(options.quic);
            let up = quic.connect_over(&address, &security, transports).await?;
            let offer = offer(&up.transport, up.message.as_deref()).await?;
            let report = QuicReport {
                info: up.bare.info.clone(),
                path: up.bare.probe.sample(),
                after: started.elapsed(),
            };
            let established = Established::new(up.bare, &up.transport);
            Ok(Event::Up(offer, Box::new(Up::Quic(report, established))))
        });
    }

    pub(super) fn open_rudp(&mut self) {
        let (address, security) = (self.address.clone(), self.security.clone());
        let (options, started) = (self.options, self.started);
        self.open(Rudp::NAME, async move {
            let transports = options.transports(&[NAME, Rudp::NAME]);
            let rudp = Rudp::new(options.rudp);
            let up = rudp.connect_over(&address, &security, transports).await?;
            let offer = offer(&up.transport, up.message.as_deref()).await?;
            let report = rudp_report(&up.watch, started.elapsed(), false);
            let established = Established::new(up.bare, &up.transport);
            let up = Up::Rudp(report, established, up.watch);
            Ok(Event::Up(offer, Box::new(up)))
        });
    }

    /// Waits for the trains of the set-up of reliable UDP.
    pub(super) fn measure(&mut self, watch: rudp::Watch, after: Duration) {
        self.open(Rudp::NAME, async move {
            watch.measured().await;
            Ok(Event::Measured(rudp_report(&watch, after, true)))
        });
    }
}

impl<R, W> Established<R, W> {
    pub(super) fn new(bare: Bare<R, W>, transport: &str) -> Self {
        let is_named = transport != NAME;
        Self { bare, is_named }
    }
}

fn rudp_report(watch: &rudp::Watch, after: Duration, is_complete: bool) -> RudpReport {
    let [up, down] = watch.trains().map(|train| train.map(Into::into));
    let path = watch.sample();
    RudpReport {
        rtt: path.min_rtt,
        up,
        down,
        datagram: watch.datagram_size(),
        path,
        after,
        is_complete,
    }
}

/// Returns the offer of a listener that was agreed with on this transport; `message` is that in its certificate.
async fn offer(transport: &str, message: Option<&[u8]>) -> Result<Offer, TransportError> {
    match message {
        _ if transport != NAME => Ok(Offer::only(transport)),
        Some(message) => Offer::decode(message).await,
        None => Err(TransportError::NotTranspute {
            evidence: "its certificate offers no transports".into(),
        }),
    }
}
