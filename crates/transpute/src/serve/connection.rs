//! One connection of a serving party.

use std::{
    collections::VecDeque,
    fmt,
    future::{pending, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit},
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};
use transpute_driver::{ConnectionHandle, attend as drive};
use transpute_session::{Connection, Event, Role, RunId, SessionError};
use transpute_transport::Link;

use super::{
    News, Peer, Request, Service, Shared,
    line::{Answer, Asked, Line},
    rooms::add,
    service::OWN_FAULT,
    watchdog::{Seen, Sight, Watchdog},
};
use crate::{Error, Outcome};

/// How a connection ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Departure {
    /// In good order: closed by the peer, or because this party stops serving.
    Closed,
    /// In good order, after [`Limits::idle`](super::Limits::idle) without a run.
    Idle,
    /// It was cut: the peer did not go on.
    Stalled,
    /// It was lost, or the peer broke the protocol.
    Failed(Error),
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Idle => f.write_str("closed, as nothing was asked for"),
            Self::Stalled => f.write_str("cut, as the peer did not go on"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

type Permit = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// Serves one connection to its end.
pub(super) async fn attend<S: Service>(shared: &Arc<Shared<S>>, link: Link, peer: &Arc<Peer>) {
    let counters = shared.rooms.counters();
    add(&counters.connections, 1);
    shared.service.hear(News::Joined(peer));
    let departure = run(shared, link, peer).await;
    if matches!(departure, Departure::Stalled | Departure::Failed(_)) {
        add(&counters.broken, 1);
    }
    shared.service.hear(News::Left(peer, &departure));
}

async fn run<S: Service>(shared: &Arc<Shared<S>>, link: Link, peer: &Arc<Peer>) -> Departure {
    let connection = Connection::new(shared.connection.clone(), link.info().encrypted);
    let stats = link.stats();
    let mut watchdog = Watchdog::new(&shared.limits);
    let (handle, driven, mut events) = drive(connection, link, shared.driver);
    let mut over = Box::pin(driven.wait());
    let mut hall = Hall {
        shared,
        peer,
        handle,
        lines: [Line::new(Role::Garbler), Line::new(Role::Evaluator)],
        turns: VecDeque::new(),
        permit: None,
        runs: JoinSet::new(),
    };
    let mut stopped = shared.stopped.clone();
    let mut ticks = interval(watchdog.step());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_heard = true;
    let departure = loop {
        hall.look_for_turn();
        tokio::select! {
            biased;
            ended = &mut over => break watchdog.departure(ended),
            _ = stopped.wait_for(|stopped| *stopped), if !watchdog.is_closing() => {
                hall.handle.close();
                watchdog.close(shared.limits.drain, Departure::Closed);
            }
            event = events.recv(), if is_heard => match event {
                Some(Event::Called(run, proposal)) => {
                    hall.line(run).add(run.number(), proposal);
                    hall.sort(run.role());
                }
                Some(_) => {}
                None => is_heard = false,
            },
            (role, answer) = answer(&mut hall.lines) => hall.obey(role, answer),
            permit = turn(&mut hall.permit) => hall.begin(permit),
            Some(_) = hall.runs.join_next() => {}
            _ = ticks.tick() => match watchdog.look(hall.seen(stats.bytes_received())) {
                Sight::Fine => {}
                Sight::Idle => {
                    hall.handle.close();
                    watchdog.close(shared.limits.first_words, Departure::Idle);
                }
                Sight::Stalled => break Departure::Stalled,
            },
        }
    };
    // If it is not over, this cuts the link: then all runs fail at once.
    drop(over);
    let ending = async { while hall.runs.join_next().await.is_some() {} };
    let _ = timeout(shared.limits.first_words, ending).await;
    departure
}

/// The runs of a connection.
struct Hall<'a, S> {
    shared: &'a Arc<Shared<S>>,
    peer: &'a Arc<Peer>,
    handle: ConnectionHandle,
    lines: [Line; 2],
    /// Runs that wait for their turn among those of all connections.
    turns: VecDeque<Request>,
    /// That of the first of them.
    permit: Option<Permit>,
    runs: JoinSet<()>,
}

impl<S: Service> Hall<'_, S> {
    fn line(&mut self, run: RunId) -> &mut Line {
        &mut self.lines[run.role() as usize]
    }

    /// Returns what the watchdog looks at.
    fn seen(&self, received: u64) -> Seen {
        let has_runs = !self.runs.is_empty();
        Seen {
            received,
            carried: self.handle.carried_bytes(),
            has_waited: self.handle.has_waited(),
            has_runs,
            is_idle: !has_runs && self.lines.iter().all(Line::is_empty),
        }
    }

    /// Sorts what the peer has asked for.
    fn sort(&mut self, role: Role) {
        while let Some((number, proposal)) = self.lines[role as usize].next() {
            let settled = self.shared.settle(role, proposal.as_ref());
            match settled {
                Ok((offered, one, config)) => {
                    self.turns.push_back(Request {
                        peer: self.peer.clone(),
                        number,
                        offered,
                        role,
                        program: one.program.clone(),
                        batch: config.batch,
                        config,
                    });
                    self.lines[role as usize].wait();
                }
                Err(why) => self.lines[role as usize].decline(why),
            }
        }
    }

    /// Takes a place in the queue of all connections for the next run, if this connection may have another.
    fn look_for_turn(&mut self) {
        let under_way = self.runs.len() + self.lines.iter().map(Line::started).sum::<usize>();
        let most = self.shared.limits.runs_per_connection.max(1);
        // One at a time: a run that waits for an earlier one must not hold what that one waits for.
        if self.permit.is_none() && !self.turns.is_empty() && under_way < most {
            self.permit = Some(Box::pin(self.shared.places.clone().acquire_owned()));
        }
    }

    /// Asks for the inputs of a run whose turn it is.
    fn begin(&mut self, permit: Option<OwnedSemaphorePermit>) {
        self.permit = None;
        let (Some(permit), Some(request)) = (permit, self.turns.pop_front()) else {
            return;
        };
        let (shared, asked) = (self.shared.clone(), request.clone());
        let inputs = tokio::spawn(async move {
            let input = shared.service.input(&asked);
            (timeout(shared.limits.run_time, input).await).unwrap_or(Err(OWN_FAULT))
        });
        self.lines[request.role as usize].start(Asked { request, permit }, inputs);
    }

    fn obey(&mut self, role: Role, answer: Answer) {
        match answer {
            Answer::Decline(why) => {
                self.handle.decline(role, why);
                add(&self.shared.rooms.counters().declined, 1);
                self.shared.service.hear(News::Declined(self.peer, why));
            }
            Answer::Call(Asked { request, permit }, inputs) => {
                let split = self.shared.offered[request.offered].split.clone();
                let (program, config) = (request.program.clone(), request.config.clone());
                // Called now, so that it is the next one.
                let running = self.handle.run(role, program, split, config, inputs);
                let shared = self.shared.clone();
                self.runs.spawn(async move {
                    // Dropping it cancels it.
                    let ended = timeout(shared.limits.run_time, running).await;
                    let outcome = ended
                        .unwrap_or(Err(SessionError::Cancelled))
                        .map(|outcome| Outcome::new(&request.program, outcome))
                        .map_err(Error::from);
                    drop(permit);
                    let counters = shared.rooms.counters();
                    match &outcome {
                        Ok(_) => {
                            add(&counters.runs, 1);
                            add(&counters.evaluations, request.batch);
                        }
                        Err(_) => add(&counters.failed, 1),
                    }
                    shared.service.hear(News::Ended(&request, &outcome));
                });
            }
        }
    }
}

/// Waits for the turn that is queued for.
async fn turn(permit: &mut Option<Permit>) -> Option<OwnedSemaphorePermit> {
    match permit {
        Some(permit) => permit.await.ok(),
        None => pending().await,
    }
}

/// Waits for the first run in either line to be ready.
async fn answer(lines: &mut [Line; 2]) -> (Role, Answer) {
    poll_fn(|context| {
        for line in &mut *lines {
            if let Poll::Ready(answer) = line.poll(context) {
                return Poll::Ready((line.role, answer));
            }
        }
        Poll::Pending
    })
    .await
}
