//! One connection of a server: its proposed and active runs, and its end.

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
use transpute_driver::{ConnectionHandle, serve as drive};
use transpute_session::{Role, RunId, SessionConnection, SessionError, SessionEvent};
use transpute_transport::Link;

use super::{
    Peer, Request, ServerEvent, Service, Shared,
    admission::add,
    run_queue::{Admitted, Reply, RunQueue},
    service::LOCAL_FAILURE,
    watchdog::{Activity, Verdict, Watchdog},
};
use crate::{Error, Outcome};

/// The reason for which a connection to a server ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Disconnection {
    /// The peer closed the connection, or the server stopped.
    Closed,
    /// The server closed the connection after [`Limits::idle`](super::Limits::idle) without a run.
    Idle,
    /// The server cut the connection, because the peer did not open the protocol, made too little
    /// progress within [`Limits::stall`](super::Limits::stall), or did not answer the closing.
    Stalled,
    /// The link failed, or the peer violated the protocol.
    Failed(Error),
}

impl fmt::Display for Disconnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Idle => f.write_str("closed after an idle timeout"),
            Self::Stalled => f.write_str("cut: the peer made no progress"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

type Permit = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// Serves one connection to its end.
pub(super) async fn attend<S: Service>(shared: &Arc<Shared<S>>, link: Link, peer: &Arc<Peer>) {
    let counters = shared.admission.counters();
    add(&counters.connections, 1);
    shared.service.on_event(ServerEvent::Connected(peer));
    let departure = run(shared, link, peer).await;
    if matches!(departure, Disconnection::Stalled | Disconnection::Failed(_)) {
        add(&counters.broken, 1);
    }
    shared
        .service
        .on_event(ServerEvent::Disconnected(peer, &departure));
}

async fn run<S: Service>(shared: &Arc<Shared<S>>, link: Link, peer: &Arc<Peer>) -> Disconnection {
    let connection = SessionConnection::new(shared.connection.clone(), link.info().encrypted);
    let stats = link.stats();
    let mut watchdog = Watchdog::new(&shared.limits);
    let (handle, task, mut events) = drive(connection, link, shared.driver);
    let mut over = Box::pin(task.wait());
    let mut served = PeerConnection {
        shared,
        peer,
        handle,
        queues: [RunQueue::new(Role::Garbler), RunQueue::new(Role::Evaluator)],
        ready: VecDeque::new(),
        permit: None,
        runs: JoinSet::new(),
    };
    let mut stopped = shared.stopped.clone();
    let mut ticks = interval(watchdog.step());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_events = true;
    let departure = loop {
        served.request_permit();
        tokio::select! {
            biased;
            ended = &mut over => break watchdog.departure(ended),
            _ = stopped.wait_for(|stopped| *stopped), if !watchdog.is_closing() => {
                served.handle.close();
                watchdog.close(shared.limits.drain, Disconnection::Closed);
            }
            event = events.recv(), if has_events => match event {
                Some(SessionEvent::Called(run, proposal)) => {
                    served.queue(run).add(run.number(), proposal);
                    served.sort(run.role());
                }
                Some(_) => {}
                None => has_events = false,
            },
            (role, answer) = next_reply(&mut served.queues) => served.reply(role, answer),
            permit = acquired(&mut served.permit) => served.begin(permit),
            Some(_) = served.runs.join_next() => {}
            _ = ticks.tick() => match watchdog.check(served.activity(stats.bytes_received())) {
                Verdict::Ok => {}
                Verdict::Idle => {
                    served.handle.close();
                    watchdog.close(shared.limits.opening, Disconnection::Idle);
                }
                Verdict::Stalled => break Disconnection::Stalled,
            },
        }
    };
    // If the connection has not ended, this cuts the link, and all runs fail at once.
    drop(over);
    let ending = async { while served.runs.join_next().await.is_some() {} };
    let _ = timeout(shared.limits.opening, ending).await;
    departure
}

/// The runs of a connection.
struct PeerConnection<'a, S> {
    shared: &'a Arc<Shared<S>>,
    peer: &'a Arc<Peer>,
    handle: ConnectionHandle,
    queues: [RunQueue; 2],
    /// Runs that wait for a permit.
    ready: VecDeque<Request>,
    /// The request for the permit of the first run in `ready`.
    permit: Option<Permit>,
    runs: JoinSet<()>,
}

impl<S: Service> PeerConnection<'_, S> {
    fn queue(&mut self, run: RunId) -> &mut RunQueue {
        &mut self.queues[run.role() as usize]
    }

    /// Returns the activity that the watchdog checks.
    fn activity(&self, received: u64) -> Activity {
        let has_runs = !self.runs.is_empty();
        Activity {
            received,
            carried: self.handle.carried_bytes(),
            has_waited: self.handle.has_waited(),
            has_runs,
            is_idle: !has_runs && self.queues.iter().all(RunQueue::is_empty),
        }
    }

    /// Compares the new proposals of a role with the offered computations. Each run then waits for
    /// a permit, or is declined.
    fn sort(&mut self, role: Role) {
        while let Some((number, proposal)) = self.queues[role as usize].next() {
            let settled = self.shared.settle(role, proposal.as_ref());
            match settled {
                Ok((offered, one, config)) => {
                    self.ready.push_back(Request {
                        peer: self.peer.clone(),
                        number,
                        offered,
                        role,
                        program: one.program.clone(),
                        batch: config.batch,
                        config,
                    });
                    self.queues[role as usize].wait();
                }
                Err(why) => self.queues[role as usize].decline(why),
            }
        }
    }

    /// Requests a permit for the next run, if the connection has fewer than
    /// [`Limits::runs_per_connection`](super::Limits::runs_per_connection) runs.
    fn request_permit(&mut self) {
        let under_way = self.runs.len() + self.queues.iter().map(RunQueue::started).sum::<usize>();
        let most = self.shared.limits.runs_per_connection.max(1);
        // A connection requests one permit at a time. Otherwise a run that waits for an earlier run
        // could hold the permit that the earlier run needs.
        if self.permit.is_none() && !self.ready.is_empty() && under_way < most {
            self.permit = Some(Box::pin(self.shared.permits.clone().acquire_owned()));
        }
    }

    /// Gives a permit to the first run in `ready`, and asks the application for its inputs.
    fn begin(&mut self, permit: Option<OwnedSemaphorePermit>) {
        self.permit = None;
        let (Some(permit), Some(request)) = (permit, self.ready.pop_front()) else {
            return;
        };
        let (shared, asked) = (self.shared.clone(), request.clone());
        let inputs = tokio::spawn(async move {
            let input = shared.service.input(&asked);
            (timeout(shared.limits.run_time, input).await).unwrap_or(Err(LOCAL_FAILURE))
        });
        let role = request.role;
        let request = Box::new(request);
        self.queues[role as usize].start(Admitted { request, permit }, inputs);
    }

    fn reply(&mut self, role: Role, answer: Reply) {
        match answer {
            Reply::Decline(why) => {
                self.handle.decline(role, why);
                add(&self.shared.admission.counters().declined, 1);
                self.shared
                    .service
                    .on_event(ServerEvent::Declined(self.peer, why));
            }
            Reply::Call(Admitted { request, permit }, inputs) => {
                let split = self.shared.offered[request.offered].split.clone();
                let (program, config) = (request.program.clone(), request.config.clone());
                // `run` is called here and not in the new task. So the calls have the same order,
                // and the same numbers, as those of the peer.
                let running = self.handle.run(role, program, split, config, inputs);
                let shared = self.shared.clone();
                self.runs.spawn(async move {
                    // At the timeout, dropping the future cancels the run.
                    let ended = timeout(shared.limits.run_time, running).await;
                    let outcome = ended
                        .unwrap_or(Err(SessionError::Cancelled))
                        .map(|outcome| Outcome::new(&request.program, outcome))
                        .map_err(Error::from);
                    drop(permit);
                    let counters = shared.admission.counters();
                    match &outcome {
                        Ok(_) => {
                            add(&counters.runs, 1);
                            add(&counters.evaluations, request.batch);
                        }
                        Err(_) => add(&counters.failed, 1),
                    }
                    shared
                        .service
                        .on_event(ServerEvent::RunEnded(&request, &outcome));
                });
            }
        }
    }
}

/// Waits for the requested permit, or forever if none was requested.
async fn acquired(permit: &mut Option<Permit>) -> Option<OwnedSemaphorePermit> {
    match permit {
        Some(permit) => permit.await.ok(),
        None => pending().await,
    }
}

/// Waits for the next answer to a proposal, in either role.
async fn next_reply(queues: &mut [RunQueue; 2]) -> (Role, Reply) {
    poll_fn(|context| {
        for queue in &mut *queues {
            if let Poll::Ready(answer) = queue.poll(context) {
                return Poll::Ready((queue.role, answer));
            }
        }
        Poll::Pending
    })
    .await
}
