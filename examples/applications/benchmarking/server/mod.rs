//! One of the two servers: it takes a share of each company's figure, computes with the other server, and hands out its part
//! of the results. It learns neither figures nor results.

mod computing;
mod desk;
mod other;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::Serialize;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use transpute::{
    Bits, Choice, Fingerprint, Identity, Role, TransportError,
    transport::{Link, Listener, Security, Transport, ConnectError},
};

use self::{
    computing::{Computed, End},
    desk::{Desk, Verdict},
    other::{News, OTHER, Other},
};
use crate::{
    failure::Failure,
    pieces::{pack, random_bits},
    round::{FEWEST, Members, RoundId},
    statistics::{FIGURE_BITS, Layout},
    transports,
    wire::{Terms, WireError},
};

/// Pause before a connection that was refused is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How much longer than the evaluator's server the garbler's waits: what was said at the deadline takes its time.
const GRACE: Duration = Duration::from_secs(10);

/// How long the computation itself may take.
const COMPUTATION: Duration = Duration::from_secs(300);

/// What a server is told.
pub(crate) struct Plan {
    /// Which of the two it is.
    pub(crate) role: Role,
    /// The name of the round.
    pub(crate) round: String,
    /// Who may take part.
    pub(crate) members: Members,
    /// How many must take part at least; half of them, and three, unless given.
    pub(crate) least: Option<usize>,
    /// Its key.
    pub(crate) identity: Arc<Identity>,
    /// The other server's key.
    pub(crate) other: Fingerprint,
    /// Where companies find it.
    pub(crate) listen: String,
    /// Where the garbler's server listens for the computation.
    pub(crate) between: String,
    /// Where the evaluator's server finds the garbler's for the rest: where companies do.
    pub(crate) garbler: Option<String>,
    /// Transport of links of companies.
    pub(crate) transport: String,
    /// Transport of the computation.
    pub(crate) computation: Choice,
    /// How long it waits for whom.
    pub(crate) limits: Limits,
}

/// How long a server waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For the other server; then, from when the two have met, for companies.
    pub(crate) deadline: Duration,
    /// For a company's upload once it is connected.
    pub(crate) first_words: Duration,
    /// For companies to take their results.
    pub(crate) linger: Duration,
}

impl Limits {
    /// The usual limits with another deadline.
    pub(crate) fn of(deadline: Duration) -> Self {
        Self {
            deadline,
            first_words: Duration::from_secs(10),
            linger: Duration::from_secs(10),
        }
    }
}

/// What a server knows of a round when it is over.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    role: String,
    /// Companies on the list.
    listed: usize,
    /// Companies that took part.
    pub(crate) companies: usize,
    and_gates: u64,
    /// Whether the tables were there before the figures.
    pub(crate) prepared: bool,
    /// Transport of the computation.
    transport: &'static str,
    /// Uploads that were refused.
    pub(crate) refused: u64,
    /// From this server's start until it was known who takes part.
    collecting_ms: f64,
    /// From the inputs to the output.
    computing_ms: f64,
    /// Bytes between the servers for it, both ways.
    computing_bytes: u64,
}

/// A server that listens.
pub(crate) struct Server {
    plan: Plan,
    terms: Terms,
    transport: Arc<dyn Transport>,
    listener: Box<dyn Listener>,
    end: End,
}

impl Server {
    /// Checks what it is told, makes the circuit, and listens.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a plan that makes no sense; those of addresses and transports.
    pub(crate) async fn bind(plan: Plan) -> Result<Self, Failure> {
        let own = plan.identity.fingerprint();
        let (garbler, evaluator) = match plan.role {
            Role::Garbler => (own, plan.other),
            Role::Evaluator => (plan.other, own),
        };
        let terms = Terms {
            round: RoundId::new(&plan.round, &garbler, &evaluator)?,
            members: plan.members.digest(),
            companies: plan.members.len() as u16,
            least: least(plan.least, plan.members.len())?,
        };
        let servers = BTreeSet::from([own, plan.other]);
        if servers.len() < 2 {
            let problem = "the two servers have the same key: they must be two parties";
            return Err(Failure::Usage(problem.into()));
        }
        if plan.members.iter().any(|member| servers.contains(&member)) {
            let problem = "a server's key is on the list of companies";
            return Err(Failure::Usage(problem.into()));
        }
        if plan.role == Role::Evaluator && plan.garbler.is_none() {
            let problem = "the evaluator's server needs the address of the garbler's";
            return Err(Failure::Usage(problem.into()));
        }
        let here = |source| Failure::Link {
            whom: "this server",
            source,
        };
        let transport = transports::named(&plan.transport).map_err(here)?;
        let end = End::new(computing::Terms {
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
            terms,
            transport,
            listener,
            end,
        })
    }

    /// Returns the address where companies find it.
    pub(crate) fn address(&self) -> String {
        self.listener.local_address()
    }

    /// Returns the address where the other server finds it for the computation, if it listens there.
    pub(crate) fn between(&self) -> Option<String> {
        self.end.address()
    }

    /// Holds the round, and returns when companies have their results.
    ///
    /// # Errors
    /// Any [`Failure`]; companies that are there are told before.
    pub(crate) async fn run(self) -> Result<Report, Failure> {
        let Self {
            plan,
            terms,
            transport,
            listener,
            end,
        } = self;
        let (desk, news) = Desk::new(terms.round, plan.members.clone(), plan.other, plan.limits);
        let desk = Arc::new(desk);
        let (visits, visitor) = mpsc::channel(1);
        let mut serving = Task(tokio::spawn(desk.clone().serve(listener, visits)));
        let round = Round {
            desk: &desk,
            plan: &plan,
            terms: &terms,
            transport: &*transport,
        };
        let outcome = tokio::select! {
            outcome = round.hold(end, news, visitor) => outcome,
            broken = &mut serving.0 => Err(match broken {
                Ok(Err(source)) => Failure::Link { whom: "this server", source },
                _ => Failure::Broken,
            }),
        };
        match outcome {
            Ok((taken, report)) => {
                desk.see_off(&taken).await;
                Ok(report)
            }
            Err(failure) => {
                desk.decide(Verdict::Cancelled(failure.told()));
                desk.see_off(&[]).await;
                Err(failure)
            }
        }
    }
}

/// Returns how many companies must take part.
fn least(given: Option<usize>, listed: usize) -> Result<u16, Failure> {
    let least = given.unwrap_or_else(|| listed.div_ceil(2).max(FEWEST));
    if !(FEWEST..=listed).contains(&least) {
        return Err(Failure::Usage(format!(
            "of {listed} companies, from {FEWEST} to {listed} can be wanted at least, not {least}"
        )));
    }
    Ok(least as u16)
}

/// A task that ends with what holds it.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Who takes part.
struct Collected {
    taken: Vec<u16>,
    /// When that was known.
    at: Instant,
    other: Other,
}

/// A round under way.
struct Round<'a> {
    desk: &'a Desk,
    plan: &'a Plan,
    terms: &'a Terms,
    transport: &'a dyn Transport,
}

impl Round<'_> {
    /// Holds it, and returns who has results.
    async fn hold(
        &self,
        end: End,
        news: News,
        visitor: mpsc::Receiver<Link>,
    ) -> Result<(Vec<u16>, Report), Failure> {
        let started = Instant::now();
        // Both servers are up and have until the deadline to collect, and the tables are made and sent meanwhile.
        let ready_until = started + 2 * self.plan.limits.deadline + GRACE;
        let preparing = async {
            (timeout_at(ready_until, end.prepare()).await)
                .map_err(|_| self.too_late("connecting for the computation", 2))?
        };
        let (collected, computing) = tokio::try_join!(self.collect(news, visitor), preparing)?;
        let Collected { taken, at, other } = collected;
        let shares = {
            let mut ledger = self.desk.ledger();
            ledger.close();
            ledger.shares(&taken)
        };
        let shares = shares.ok_or(Failure::Broken)?;
        let mut input = Bits::with_capacity(taken.len() * FIGURE_BITS);
        for &share in shares.iter() {
            input.extend([Bits::from_u128(share.into(), FIGURE_BITS)]);
        }
        if self.plan.role == Role::Garbler {
            // The mask does not depend on what is computed, so companies need not wait for that.
            let mask = random_bits(Layout::new(taken.len()).width())?;
            self.publish(&taken, &mask);
            input.extend([mask]);
        }
        let computed = timeout(COMPUTATION, computing.compute(taken.len(), input)).await;
        let computed = computed.map_err(|_| Failure::TooLate {
            what: "the computation",
            limit: COMPUTATION,
        })??;
        if self.plan.role == Role::Evaluator {
            self.publish(&taken, &computed.bits);
        }
        let Computed {
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
            refused: self.desk.refused(),
            collecting_ms: millis(at - started),
            computing_ms: millis(elapsed),
            computing_bytes: bytes,
        };
        // A link that is dropped may lose what was said last. By now it was heard, or the other server would not have computed.
        drop(other);
        // Whatever happens to it now, the results are there.
        let _ = connection.close().await;
        Ok((taken, report))
    }

    /// Meets the other server, and collects uploads until it is known who takes part.
    async fn collect(
        &self,
        news: News,
        mut visitor: mpsc::Receiver<Link>,
    ) -> Result<Collected, Failure> {
        let deadline = self.plan.limits.deadline;
        let meeting = async {
            let link = match &self.plan.garbler {
                Some(address) if self.plan.role == Role::Evaluator => self.reach(address).await?,
                _ => visitor.recv().await.ok_or(Failure::Broken)?,
            };
            Other::greet(link, self.terms).await
        };
        let mut other = (timeout(deadline, meeting).await)
            .map_err(|_| self.too_late("waiting for the other server", 1))??;
        let until = Instant::now() + deadline;
        let taken = match self.plan.role {
            Role::Evaluator => other.choose(self.terms, news, until).await?,
            Role::Garbler => (other.be_told(self.terms, news, until + GRACE).await?)
                .ok_or_else(|| self.too_late("waiting for the companies", 1))?,
        };
        if self.desk.ledger().shares(&taken).is_none() {
            return Err(Failure::of_wire(OTHER, WireError::Absent));
        }
        Ok(Collected {
            taken,
            at: Instant::now(),
            other,
        })
    }

    /// Connects to the garbler's server, again and again while it is not up.
    async fn reach(&self, address: &str) -> Result<Link, Failure> {
        let security = Security::tls(self.plan.identity.clone(), [self.plan.other]);
        loop {
            match self.transport.connect(address, &security).await {
                Err(error) if matches!(error.root(), TransportError::Connect(ConnectError::Connect { .. })) => {
                    sleep(RETRY_PAUSE).await;
                }
                other => {
                    return other.map_err(|source| Failure::Link {
                        whom: OTHER,
                        source,
                    });
                }
            }
        }
    }

    fn publish(&self, taken: &[u16], piece: &Bits) {
        self.desk.decide(Verdict::Results {
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
