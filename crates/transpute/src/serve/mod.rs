//! A party that serves many peers at once.

mod connection;
mod limits;
mod line;
mod rooms;
mod service;
mod watchdog;

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};
use transpute_driver::DriverOptions;
use transpute_session::{
    AbortReason, Config, Connection, ConnectionConfig, Decline, Field, OPEN_START, Proposal, Role,
    is_open_start,
};
use transpute_transport::{Link, Listener};

pub use connection::Departure;
pub use limits::{Limits, Memory};
pub use rooms::{Summary, Turned};
pub use service::{News, Offered, Peer, PeerId, Request, Service};

use crate::{Error, Listening};
use rooms::{Place, Rooms, add};

/// Peers that may be told at the same time why they are turned away; others are just cut off.
const TURNED_AT_ONCE: usize = 64;

/// How long that may take.
const TURNING: Duration = Duration::from_secs(2);

/// A listening party that serves connections of many peers at once, each in a task of its own.
///
/// Peers call for one run with [`Connecting::run`](crate::Connecting::run) or for many with
/// [`Connecting::open`](crate::Connecting::open); the [`Service`] gives this side's inputs.
///
/// # Examples
/// ```
/// use transpute::{Bits, Builder, Party, UInt, serve::{Limits, Request}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let circuit = Builder::build(|b| {
///     let (x, y) = (b.input::<UInt<16>>(), b.input::<UInt<16>>());
///     b.output(x + y);
/// })?;
/// let server = Party::garbler(&circuit)
///     .plaintext()
///     .listen("127.0.0.1:0")
///     .await?
///     .serve(|_: &Request| Ok(Bits::from_u128(1000, 16)), Limits::default())?;
/// let (address, stop) = (server.local_address(), server.stopper());
/// let serving = tokio::spawn(server.run());
///
/// for value in 1..4 {
///     let connection = Party::evaluator(&circuit)
///         .plaintext()
///         .connect(&address)
///         .open()
///         .await?;
///     let outcome = connection.run(Bits::from_u128(value, 16)).await?;
///     assert_eq!(outcome.bits(), Bits::from_u128(1000 + value, 16));
///     connection.close().await?;
/// }
/// stop.stop();
/// assert_eq!(serving.await??.runs, 3);
/// # Ok(())
/// # }
/// ```
pub struct Server<S> {
    listener: Box<dyn Listener>,
    shared: Arc<Shared<S>>,
    stop: watch::Sender<bool>,
}

/// What the tasks of all connections have in common.
struct Shared<S> {
    service: S,
    offered: Vec<Offered>,
    limits: Limits,
    connection: ConnectionConfig,
    driver: DriverOptions,
    places: Arc<Semaphore>,
    rooms: Rooms,
    stopped: watch::Receiver<bool>,
}

/// Stops a [`Server`].
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Lets the server take nobody any more, finish the runs under way within [`Limits::drain`], and return.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Says whether it was told to.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}

impl Listening {
    /// Serves any number of peers, each with any number of runs of this party's computation.
    ///
    /// # Errors
    /// [`Error::Split`].
    pub fn serve<S: Service>(self, service: S, limits: Limits) -> Result<Server<S>, Error> {
        let offered = vec![Offered::new(self.party())?];
        Ok(self.serve_all(offered, service, limits))
    }

    /// Serves any number of peers with any of these computations; what this party itself computes is not among them unless
    /// it is listed. Where two have the same circuit in the same role, the first counts.
    #[must_use]
    pub fn serve_all<S: Service>(
        self,
        offered: Vec<Offered>,
        service: S,
        limits: Limits,
    ) -> Server<S> {
        let (party, listener) = self.into_parts();
        let (stop, stopped) = watch::channel(false);
        let connection = party.connection_settings();
        let shared = Shared {
            connection: limits.connection(connection, &offered),
            driver: limits.driver(party.driver_settings(), &offered, connection.base_ot),
            places: Arc::new(Semaphore::new(
                limits.runs_at_once.clamp(1, Semaphore::MAX_PERMITS),
            )),
            rooms: Rooms::default(),
            stopped,
            service,
            offered,
            limits,
        };
        Server {
            listener,
            shared: Arc::new(shared),
            stop,
        }
    }
}

impl<S: Service> Server<S> {
    /// Returns the address listened on.
    #[must_use]
    pub fn local_address(&self) -> String {
        self.listener.local_address()
    }

    /// Returns what stops this server.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Returns the memory that serving takes at most.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let shared = &self.shared;
        shared
            .limits
            .memory(&shared.offered, shared.connection.base_ot)
    }

    /// Serves until stopped.
    ///
    /// # Errors
    /// [`Error::Transport`] if the listening socket is broken; runs under way are finished before. What goes wrong with a
    /// peer is no error.
    ///
    /// # Cancel safety
    /// Dropping the future cuts all links.
    pub async fn run(self) -> Result<Summary, Error> {
        let Self {
            mut listener,
            shared,
            stop,
        } = self;
        let mut stopped = shared.stopped.clone();
        let mut connections = JoinSet::new();
        let mut turned = JoinSet::new();
        let mut number = 0;
        let end = loop {
            let link = tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => break Ok(()),
                Some(_) = connections.join_next() => continue,
                Some(_) = turned.join_next() => continue,
                accepted = listener.accept() => match accepted {
                    Ok(link) => link,
                    Err(error) => break Err(error),
                },
            };
            number += 1;
            let peer = Arc::new(Peer {
                connection: number,
                link: link.info().clone(),
            });
            match shared.rooms.enter(peer.id(), &shared.limits) {
                Ok(place) => {
                    connections.spawn(receive(shared.clone(), link, peer, place));
                }
                Err(why) => {
                    shared.turn(&peer, why);
                    if turned.len() < TURNED_AT_ONCE {
                        let words = Connection::refusal(peer.link.encrypted, AbortReason::Busy);
                        turned.spawn(tell(link, words));
                    }
                }
            }
        };
        // Who connects now finds nobody.
        drop(listener);
        stop.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        // Whoever is not done by then is cut off with the task.
        let _ = timeout(shared.limits.drain + shared.driver.linger, drained).await;
        drop(connections);
        let summary = shared.rooms.counters().summary();
        end?;
        Ok(summary)
    }
}

impl<S: Service> Shared<S> {
    /// Finds what a peer asks for among what is offered.
    fn settle(
        &self,
        role: Role,
        proposal: Option<&Proposal>,
    ) -> Result<(usize, &Offered, Config), Decline> {
        // The peer has given the run up.
        let proposal = proposal.ok_or(Decline::Reason(AbortReason::Cancelled))?;
        let mut refused = Err(Decline::Field(Field::Circuit));
        for (index, one) in self.offered.iter().enumerate() {
            if *one.program.digest() == proposal.circuit {
                match one.settle(role, proposal) {
                    Ok(config) => return Ok((index, one, config)),
                    Err(why) => refused = Err(why),
                }
            }
        }
        refused
    }

    fn turn(&self, peer: &Peer, why: Turned) {
        add(&self.rooms.counters().turned_away, 1);
        self.service.hear(News::Turned(peer, why));
    }
}

/// Serves a peer that a place was found for.
async fn receive<S: Service>(
    shared: Arc<Shared<S>>,
    mut link: Link,
    peer: Arc<Peer>,
    place: Place,
) {
    let mut first = [0; OPEN_START];
    let reading = link.reader_mut().read_exact(&mut first);
    let heard = matches!(timeout(shared.limits.first_words, reading).await, Ok(Ok(_)));
    if heard && is_open_start(&first) {
        let link = link.unread(first.to_vec());
        connection::attend(&shared, link, &peer).await;
    } else {
        shared.turn(&peer, Turned::Stranger);
    }
    drop(place);
}

/// Says last words, and hears the peer out so that they are not lost.
async fn tell(link: Link, words: Vec<u8>) {
    let (mut reader, mut writer) = link.into_parts();
    let telling = async {
        writer.write_all(&words).await?;
        writer.shutdown().await?;
        let mut rest = [0; 4096];
        while reader.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whether it arrives is up to the peer.
    let _ = timeout(TURNING, telling).await;
}
