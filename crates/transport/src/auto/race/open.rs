//! Tasks that set up the connections of a race.

use std::time::Duration;

use tokio::time::Instant;

use super::{ControlReport, Established, NAME, Offer, QuicReport, Race, RudpReport, rudp};
use crate::{
    Quic, Rudp, Tcp, TransportError, quic,
    tcp::{Channel, Context, Route, Socket, UNSENT_LIMIT},
};

/// The end of a task.
pub(super) enum Event {
    /// The listener's machine answered over TCP: the round-trip time, and the connection.
    Opened(Result<Box<(Duration, Socket, Context)>, TransportError>),
    /// The TCP connection is authenticated, or failed.
    Tcp(Settled<ControlReport, Channel>),
    /// QUIC is up, or failed.
    Quic(Settled<QuicReport, Established<quic::Reader, quic::Writer>>),
    /// Reliable UDP is up, or failed.
    Rudp(Settled<RudpReport, (Established<rudp::Reader, rudp::Writer>, rudp::Watch)>),
    /// The trains of its set-up are over.
    Measured(RudpReport),
}

/// A connection that is up, with its report and the listener's offer; or why there is none.
type Settled<R, C> = Result<(R, Offer, Box<C>), TransportError>;

impl Race {
    pub(super) fn open_tcp(&mut self) {
        let (address, options) = (self.address.clone(), self.options.tcp);
        let opening = async move {
            let route = Route::find(&address, options).await?;
            let began = Instant::now();
            let (socket, context) = route.open(UNSENT_LIMIT).await?;
            let took = began.elapsed();
            // A retransmitted SYN makes it longer; the kernel knows better.
            let measured = socket.probe().sample().least_rtt();
            let rtt = measured.map_or(took, |rtt| rtt.min(took));
            Ok(Box::new((rtt, socket, context)))
        };
        let task = async { Event::Opened(opening.await) };
        self.tcp.task = Some(self.tasks.spawn(task));
    }

    pub(super) fn authenticate_tcp(&mut self, socket: Socket, context: Context) {
        let (connector, started) = (self.connector.clone(), self.started);
        let authenticating = async move {
            let mut channel = connector.authenticate(socket, context.clone()).await?;
            let offer = match (channel.transport(), channel.message()) {
                (Some(named), _) if named != NAME => Offer::only(named),
                (Some(_), message) => decode(message).await?,
                (None, _) => {
                    let read = Offer::read(&mut channel);
                    context.limit("the listener's offer", read).await??
                }
            };
            let report = ControlReport {
                info: channel.info(Tcp::NAME),
                path: channel.socket().probe().sample(),
                after: started.elapsed(),
            };
            Ok((report, offer, Box::new(channel)))
        };
        let task = async { Event::Tcp(authenticating.await) };
        self.tcp.task = Some(self.tasks.spawn(task));
    }

    pub(super) fn open_quic(&mut self) {
        let (address, security) = (self.address.clone(), self.security.clone());
        let (options, started) = (self.options, self.started);
        let opening = async move {
            let transports = options.transports(&[NAME, Quic::NAME]);
            let quic = Quic::new(options.quic);
            let up = quic.connect_over(&address, &security, transports).await?;
            let (bare, is_named) = (up.bare, up.transport != NAME);
            let offer = match is_named {
                true => Offer::only(Quic::NAME),
                false => decode(up.message.as_deref()).await?,
            };
            let report = QuicReport {
                info: bare.info.clone(),
                path: bare.probe.sample(),
                after: started.elapsed(),
            };
            Ok((report, offer, Box::new(Established { bare, is_named })))
        };
        let task = async { Event::Quic(opening.await) };
        self.quic.task = Some(self.tasks.spawn(task));
    }

    pub(super) fn open_rudp(&mut self) {
        let (address, security) = (self.address.clone(), self.security.clone());
        let (options, started) = (self.options, self.started);
        let opening = async move {
            let transports = options.transports(&[NAME, Rudp::NAME]);
            let rudp = Rudp::new(options.rudp);
            let up = rudp.connect_over(&address, &security, transports).await?;
            let (bare, is_named) = (up.bare, up.transport != NAME);
            let offer = match is_named {
                true => Offer::only(Rudp::NAME),
                false => decode(up.message.as_deref()).await?,
            };
            let report = rudp_report(&up.watch, started.elapsed(), false);
            Ok((
                report,
                offer,
                Box::new((Established { bare, is_named }, up.watch)),
            ))
        };
        let task = async { Event::Rudp(opening.await) };
        self.rudp.task = Some(self.tasks.spawn(task));
    }

    /// Waits for the trains of the set-up of reliable UDP.
    pub(super) fn measure(&mut self, watch: rudp::Watch, after: Duration) {
        let task = async move {
            watch.measured().await;
            Event::Measured(rudp_report(&watch, after, true))
        };
        self.rudp.task = Some(self.tasks.spawn(task));
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

/// Decodes the offer in a listener's certificate or hello.
async fn decode(message: Option<&[u8]>) -> Result<Offer, TransportError> {
    match message {
        Some(message) => Offer::decode(message).await,
        None => Err(TransportError::NotTranspute {
            evidence: "it offers no transports, expected a certificate that names them".into(),
        }),
    }
}
