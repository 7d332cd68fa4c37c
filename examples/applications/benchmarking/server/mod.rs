//! One of the two servers. It accepts a share of each company's figure, computes with the other
//! server, and sends its share of the results. It learns neither figures nor results.

mod acceptor;
mod computation;
mod peer;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::Serialize;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use transpute::{
    Bits, Fingerprint, Identity, Role, TransportChoice, TransportError,
    transport::{ConnectError, Link, Listener, Security, Transport},
};

use self::{
    acceptor::{Acceptor, RoundOutcome},
    computation::{ComputationResult, Unconnected},
    peer::{PEER_SERVER, PeerServer, UploadNotices},
};
use crate::{
    failure::Failure,
    packing::{pack, random_bits},
    round::{MIN_COMPANIES, Members, RoundId},
    statistics::{FIGURE_BITS, Layout},
    transports,
    wire::{RoundParameters, WireError},
};

/// Pause before the next attempt after a connection has failed.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Time that the garbler's server waits in addition to the deadline. At the deadline, the
/// evaluator's server sends the chosen companies, and this message needs time to arrive.
const DEADLINE_SLACK: Duration = Duration::from_secs(10);

/// Time limit of the computation after the companies are chosen.
const COMPUTATION_TIMEOUT: Duration = Duration::from_secs(300);

/// The configuration of a server.
pub(crate) struct ServerConfig {
    /// The role of this server.
    pub(crate) role: Role,
    /// The name of the round.
    pub(crate) round: String,
    /// The companies that may take part.
    pub(crate) members: Members,
    /// Minimum number of companies. Default: half of the list, but at least three.
    pub(crate) min_companies: Option<usize>,
    /// The key of this server.
    pub(crate) identity: Arc<Identity>,
    /// The fingerprint of the other server.
    pub(crate) other: Fingerprint,
    /// The address on which this server accepts companies.
    pub(crate) listen: String,
    /// The address of the connection for the computation. The garbler's server listens on it, and
    /// the evaluator's server connects to it.
    pub(crate) between: String,
    /// The address on which the garbler's server accepts companies. Required for the evaluator's
    /// server.
    pub(crate) garbler: Option<String>,
    /// The transport of the companies' connections.
    pub(crate) transport: String,
    /// The transport of the computation.
    pub(crate) computation: TransportChoice,
    /// The time limits of this server.
    pub(crate) limits: Timeouts,
}

/// Time limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Maximum time to wait for the other server. After the servers are connected, also the maximum
    /// time to wait for the companies' uploads.
    pub(crate) deadline: Duration,
    /// Maximum time from a company's connection to its upload.
    pub(crate) upload: Duration,
    /// Maximum time until a company has received its results and closed the connection.
    pub(crate) results: Duration,
}

impl Timeouts {
    /// Returns time limits with this deadline and default values for the others.
    pub(crate) fn of(deadline: Duration) -> Self {
        Self {
            deadline,
            upload: Duration::from_secs(10),
            results: Duration::from_secs(10),
        }
    }
}

/// The summary of a round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    role: String,
    /// Number of companies on the list.
    listed: usize,
    /// Number of companies that took part.
    pub(crate) companies: usize,
    and_gates: u64,
    /// Whether the tables were sent before the figures arrived.
    pub(crate) prepared: bool,
    /// The transport of the computation.
    transport: &'static str,
    /// Number of refused uploads.
    pub(crate) refused: u64,
    /// Time from this server's start until it learned which companies take part.
    collecting_ms: f64,
    /// Time from the start of the computation with the inputs to the output.
    computing_ms: f64,
    /// Number of bytes that the servers exchanged for the computation, in both directions.
    computing_bytes: u64,
}

/// A server that listens for companies and has not started the round.
pub(crate) struct Server {
    plan: ServerConfig,
    parameters: RoundParameters,
    transport: Arc<dyn Transport>,
    listener: Box<dyn Listener>,
    end: Unconnected,
}

impl Server {
    /// Checks the configuration, compiles the circuit and listens.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] if the configuration is invalid. Returns errors of addresses and
    /// transports.
    pub(crate) async fn bind(plan: ServerConfig) -> Result<Self, Failure> {
        let own = plan.identity.fingerprint();
        let (garbler, evaluator) = match plan.role {
            Role::Garbler => (own, plan.other),
            Role::Evaluator => (plan.other, own),
        };
        let parameters = RoundParameters {
            round: RoundId::new(&plan.round, &garbler, &evaluator)?,
            members: plan.members.digest(),
            companies: plan.members.len() as u16,
            min_companies: min_companies(plan.min_companies, plan.members.len())?,
        };
        let servers = BTreeSet::from([own, plan.other]);
        if servers.len() < 2 {
            let problem = "the two servers have the same key; expected two different parties";
            return Err(Failure::Usage(problem.into()));
        }
        if plan.members.iter().any(|member| servers.contains(&member)) {
            let problem = "a server's key is on the list of companies";
            return Err(Failure::Usage(problem.into()));
        }
        if plan.role == Role::Evaluator && plan.garbler.is_none() {
            let problem = "the evaluator's server requires the address of the garbler's";
            return Err(Failure::Usage(problem.into()));
        }
        let here = |source| Failure::Link {
            peer: "this server",
            source,
        };
        let transport = transports::named(&plan.transport).map_err(here)?;
        let end = Unconnected::new(computation::ComputationConfig {
            role: plan.role,
            identity: plan.identity.clone(),
            other: plan.other,
            address: plan.between.clone(),
            transport: plan.computation.clone(),
            companies: plan.members.len(),
            patience: plan.limits.deadline,
        })
        .await?;
        let peers: Vec<_> = plan.members.iter().chain([plan.other]).collect();
        let security = Security::tls(plan.identity.clone(), peers);
        let listener = (transport.listen(&plan.listen, &security).await).map_err(here)?;
        Ok(Self {
            plan,
            parameters,
            transport,
            listener,
            end,
        })
    }

    /// Returns the address on which this server accepts companies.
    pub(crate) fn address(&self) -> String {
        self.listener.local_address()
    }

    /// Returns the address of the computation, if this server listens on it.
    pub(crate) fn between(&self) -> Option<String> {
        self.end.address()
    }

    /// Runs the round. Returns after the companies have received their results.
    ///
    /// # Errors
    /// Returns the failure of the round, after the connected companies were informed of it.
    pub(crate) async fn run(self) -> Result<Report, Failure> {
        let Self {
            plan,
            parameters,
            transport,
            listener,
            end,
        } = self;
        let (acceptor, notices) = Acceptor::new(
            parameters.round,
            plan.members.clone(),
            plan.other,
            plan.limits,
        );
        let acceptor = Arc::new(acceptor);
        let (peer_links, peer_link) = mpsc::channel(1);
        let mut serving = AbortOnDrop(tokio::spawn(acceptor.clone().serve(listener, peer_links)));
        let round = Round {
            acceptor: &acceptor,
            plan: &plan,
            parameters: &parameters,
            transport: &*transport,
        };
        let outcome = tokio::select! {
            outcome = round.run(end, notices, peer_link) => outcome,
            broken = &mut serving.0 => Err(match broken {
                Ok(Err(source)) => Failure::Link { peer: "this server", source },
                _ => Failure::Broken,
            }),
        };
        match outcome {
            Ok((taken, report)) => {
                acceptor.wait_for_companies(&taken).await;
                Ok(report)
            }
            Err(failure) => {
                acceptor.decide(RoundOutcome::Cancelled(failure.refusal()));
                acceptor.wait_for_companies(&[]).await;
                Err(failure)
            }
        }
    }
}

/// Returns the minimum number of companies: `given`, or half of the list and at least
/// [`MIN_COMPANIES`].
fn min_companies(given: Option<usize>, listed: usize) -> Result<u16, Failure> {
    let min_companies = given.unwrap_or_else(|| listed.div_ceil(2).max(MIN_COMPANIES));
    if !(MIN_COMPANIES..=listed).contains(&min_companies) {
        return Err(Failure::Usage(format!(
            "the minimum number of {listed} companies must be from {MIN_COMPANIES} to {listed}, not {min_companies}"
        )));
    }
    Ok(min_companies as u16)
}

/// A task that is aborted on drop.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The result of collecting uploads: the companies that take part.
struct Collected {
    taken: Vec<u16>,
    /// The time at which this server learned which companies take part.
    at: Instant,
    other: PeerServer,
}

/// A round in progress.
struct Round<'a> {
    acceptor: &'a Acceptor,
    plan: &'a ServerConfig,
    parameters: &'a RoundParameters,
    transport: &'a dyn Transport,
}

impl Round<'_> {
    /// Runs the round. Returns the companies with results and the summary.
    async fn run(
        &self,
        end: Unconnected,
        notices: UploadNotices,
        peer_link: mpsc::Receiver<Link>,
    ) -> Result<(Vec<u16>, Report), Failure> {
        let started = Instant::now();
        // `deadline` counts twice: for the start of the other server, and then for the uploads. The
        // tables are garbled and sent during this time.
        let ready_until = started + 2 * self.plan.limits.deadline + DEADLINE_SLACK;
        let preparing = async {
            (timeout_at(ready_until, end.prepare()).await)
                .map_err(|_| self.too_late("connecting for the computation", 2))?
        };
        let (collected, computing) = tokio::try_join!(self.collect(notices, peer_link), preparing)?;
        let Collected { taken, at, other } = collected;
        let shares = {
            let mut uploads = self.acceptor.uploads();
            uploads.close();
            uploads.shares(&taken)
        };
        let shares = shares.ok_or(Failure::Broken)?;
        let mut input = Bits::with_capacity(taken.len() * FIGURE_BITS);
        for &share in shares.iter() {
            input.extend([Bits::from_u128(share.into(), FIGURE_BITS)]);
        }
        if self.plan.role == Role::Garbler {
            // The garbler's share of the results is the mask, which does not depend on the
            // computation. So it is sent to the companies before the computation.
            let mask = random_bits(Layout::new(taken.len()).width())?;
            self.publish(&taken, &mask);
            input.extend([mask]);
        }
        let computed = timeout(COMPUTATION_TIMEOUT, computing.compute(taken.len(), input)).await;
        let computed = computed.map_err(|_| Failure::TooLate {
            what: "the computation",
            limit: COMPUTATION_TIMEOUT,
        })??;
        if self.plan.role == Role::Evaluator {
            self.publish(&taken, &computed.bits);
        }
        let ComputationResult {
            and_gates,
            was_prepared,
            elapsed,
            bytes,
            connection,
            ..
        } = computed;
        let report = Report {
            role: self.plan.role.to_string(),
            listed: self.plan.members.len(),
            companies: taken.len(),
            and_gates,
            prepared: was_prepared,
            transport: connection.link().transport,
            refused: self.acceptor.refused(),
            collecting_ms: millis(at - started),
            computing_ms: millis(elapsed),
            computing_bytes: bytes,
        };
        // Dropping a connection may lose the last message sent on it. Here, this message has
        // arrived, because the other server has completed the computation.
        drop(other);
        // An error is ignored, because the computation is complete.
        let _ = connection.close().await;
        Ok((taken, report))
    }

    /// Connects to the other server, and collects uploads until the servers have agreed on the
    /// companies that take part.
    async fn collect(
        &self,
        notices: UploadNotices,
        mut peer_link: mpsc::Receiver<Link>,
    ) -> Result<Collected, Failure> {
        let deadline = self.plan.limits.deadline;
        let meeting = async {
            let link = match &self.plan.garbler {
                Some(address) if self.plan.role == Role::Evaluator => self.connect(address).await?,
                _ => peer_link.recv().await.ok_or(Failure::Broken)?,
            };
            PeerServer::exchange_parameters(link, self.parameters).await
        };
        let mut other = (timeout(deadline, meeting).await)
            .map_err(|_| self.too_late("waiting for the other server", 1))??;
        let until = Instant::now() + deadline;
        let taken = match self.plan.role {
            Role::Evaluator => {
                other
                    .announce_companies(self.parameters, notices, until)
                    .await?
            }
            Role::Garbler => (other
                .await_companies(self.parameters, notices, until + DEADLINE_SLACK)
                .await?)
                .ok_or_else(|| self.too_late("waiting for the companies", 1))?,
        };
        if self.acceptor.uploads().shares(&taken).is_none() {
            return Err(Failure::of_wire(PEER_SERVER, WireError::Absent));
        }
        Ok(Collected {
            taken,
            at: Instant::now(),
            other,
        })
    }

    /// Connects to the garbler's server. Retries until that server has started.
    async fn connect(&self, address: &str) -> Result<Link, Failure> {
        let security = Security::tls(self.plan.identity.clone(), [self.plan.other]);
        loop {
            match self.transport.connect(address, &security).await {
                Err(error)
                    if matches!(
                        error.root(),
                        TransportError::Connect(ConnectError::Connect { .. })
                    ) =>
                {
                    sleep(RETRY_PAUSE).await;
                }
                other => {
                    return other.map_err(|source| Failure::Link {
                        peer: PEER_SERVER,
                        source,
                    });
                }
            }
        }
    }

    fn publish(&self, taken: &[u16], piece: &Bits) {
        self.acceptor.decide(RoundOutcome::Results {
            taken: taken.to_vec(),
            piece: pack(piece),
        });
    }

    fn too_late(&self, what: &'static str, times: u32) -> Failure {
        Failure::TooLate {
            what,
            limit: times * self.plan.limits.deadline,
        }
    }
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e5).round() / 100.0
}
