//! Servers: listening parties that serve many peers concurrently.

mod admission;
mod connection;
mod limits;
mod run_queue;
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
    AbortReason, Config, ConnectionConfig, Decline, Field, OPEN_START, Proposal, Role,
    SessionConnection, is_open_start,
};
use transpute_transport::{Link, Listener};

pub use admission::{Rejection, ServeSummary};
pub use connection::Disconnection;
pub use limits::{Limits, Memory};
pub use service::{Offered, Peer, PeerId, Request, ServerEvent, Service};

use crate::{Error, Listening};
use admission::{Admission, Slot, add};

/// Maximum number of rejected peers to which the server sends the reason at the same time. The
/// server closes the links of further rejected peers without a reason.
const MAX_REJECTIONS: usize = 64;

/// Time within which the server sends the reason of a rejection and the peer closes its link.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// A listening party that serves many peers concurrently, each connection in its own task.
///
/// Peers start one run with [`Connecting::run`](crate::Connecting::run), or many with
/// [`Connecting::open`](crate::Connecting::open). The [`Service`] provides the server's inputs.
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

/// The state that the tasks of all connections share.
struct Shared<S> {
    service: S,
    offered: Vec<Offered>,
    limits: Limits,
    connection: ConnectionConfig,
    driver: DriverOptions,
    permits: Arc<Semaphore>,
    admission: Admission,
    stopped: watch::Receiver<bool>,
}

/// Stops a [`Server`].
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Stops the server: it accepts no more connections, completes active runs within
    /// [`Limits::drain`], and returns.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Returns whether [`stop`](Self::stop) was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}

impl Listening {
    /// Serves this party's computation to any number of peers, with any number of runs each.
    ///
    /// # Errors
    /// Returns the errors of [`Offered::new`].
    pub fn serve<S: Service>(self, service: S, limits: Limits) -> Result<Server<S>, Error> {
        let offered = vec![Offered::new(self.party())?];
        Ok(self.serve_all(offered, service, limits))
    }

    /// Serves the computations in `offered` to any number of peers. This party's own computation is
    /// included only if it is listed. If two have the same circuit and role, a run uses the first
    /// one.
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
            permits: Arc::new(Semaphore::new(
                limits.runs_at_once.clamp(1, Semaphore::MAX_PERMITS),
            )),
            admission: Admission::default(),
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
    /// Returns the address at which the server listens.
    #[must_use]
    pub fn local_address(&self) -> String {
        self.listener.local_address()
    }

    /// Returns a handle that stops this server.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Returns an upper bound of the server's memory, in bytes.
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
    /// Returns [`Error::Transport`] if the listening socket fails. Active runs are completed first.
    /// The [`Service`] receives the errors of single peers as events.
    ///
    /// # Cancel safety
    /// Dropping the future cuts all links.
    pub async fn run(self) -> Result<ServeSummary, Error> {
        let Self {
            mut listener,
            shared,
            stop,
        } = self;
        let mut stopped = shared.stopped.clone();
        let mut connections = JoinSet::new();
        let mut rejections = JoinSet::new();
        let mut number = 0;
        let end = loop {
            let link = tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => break Ok(()),
                Some(_) = connections.join_next() => continue,
                Some(_) = rejections.join_next() => continue,
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
            match shared.admission.admit(peer.id(), &shared.limits) {
                Ok(slot) => {
                    connections.spawn(receive(shared.clone(), link, peer, slot));
                }
                Err(why) => {
                    shared.reject(&peer, why);
                    if rejections.len() < MAX_REJECTIONS {
                        let words =
                            SessionConnection::refusal(peer.link.encrypted, AbortReason::Busy);
                        rejections.spawn(send_refusal(link, words));
                    }
                }
            }
        };
        // From here on, connections are refused by the operating system.
        drop(listener);
        stop.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        // At the timeout, dropping the tasks cuts their links.
        let _ = timeout(shared.limits.drain + shared.driver.linger, drained).await;
        drop(connections);
        let summary = shared.admission.counters().summary();
        end?;
        Ok(summary)
    }
}

impl<S: Service> Shared<S> {
    /// Finds the offered computation that a proposal asks for. Returns its index, the computation
    /// and the settings of the run, or the reason to decline.
    fn settle(
        &self,
        role: Role,
        proposal: Option<&Proposal>,
    ) -> Result<(usize, &Offered, Config), Decline> {
        // Without a proposal, the peer has already cancelled the run.
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

    fn reject(&self, peer: &Peer, why: Rejection) {
        add(&self.admission.counters().rejected, 1);
        self.service.on_event(ServerEvent::Rejected(peer, why));
    }
}

/// Waits until an admitted peer opens the protocol, and serves it. Frees its slot at the end.
async fn receive<S: Service>(shared: Arc<Shared<S>>, mut link: Link, peer: Arc<Peer>, slot: Slot) {
    let mut first = [0; OPEN_START];
    let reading = link.reader_mut().read_exact(&mut first);
    let heard = matches!(timeout(shared.limits.opening, reading).await, Ok(Ok(_)));
    if heard && is_open_start(&first) {
        let link = link.unread(first.to_vec());
        connection::attend(&shared, link, &peer).await;
    } else {
        shared.reject(&peer, Rejection::NotTranspute);
    }
    drop(slot);
}

/// Sends the reason of a rejection, the encoded frames `words`. Then it reads until the peer closes
/// the link, because closing a socket with unread data would discard the sent bytes.
async fn send_refusal(link: Link, words: Vec<u8>) {
    let (mut reader, mut writer) = link.into_parts();
    let telling = async {
        writer.write_all(&words).await?;
        writer.shutdown().await?;
        let mut rest = [0; 4096];
        while reader.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // A failure is ignored: the peer is disconnected in any case.
    let _ = timeout(REJECTION_TIMEOUT, telling).await;
}
