//! The proposed runs of a connection, in the order in which the server must answer them.

use std::{
    collections::{BTreeMap, VecDeque},
    task::{Context, Poll},
};

use tokio::{sync::OwnedSemaphorePermit, task::JoinHandle};
use transpute_session::{Decline, Inputs, Proposal, Role};

use super::{Request, service::LOCAL_FAILURE};

/// The proposed runs of one role that this side has not answered yet.
///
/// The calls of both sides pair by their number. So this side answers the runs in order, although
/// it may wait for the inputs of several runs at the same time.
pub(super) struct RunQueue {
    pub(super) role: Role,
    /// The number of the next run that [`Self::next`] returns.
    next: u32,
    /// Proposals that arrived before one with a lower number.
    early: BTreeMap<u32, Option<Proposal>>,
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Declined(Decline),
    /// The run waits for a permit.
    Permit,
    /// The run waits for its inputs from the application.
    Inputs(Admitted, JoinHandle<Result<Box<dyn Inputs>, Decline>>),
}

/// A proposed run with a permit to run.
pub(super) struct Admitted {
    pub(super) request: Box<Request>,
    pub(super) permit: OwnedSemaphorePermit,
}

/// The answer to a proposed run.
pub(super) enum Reply {
    Decline(Decline),
    Call(Admitted, Box<dyn Inputs>),
}

impl RunQueue {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            next: 1,
            early: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Adds the peer's proposal of a run. `None` if the peer has already cancelled the run.
    pub(super) fn add(&mut self, number: u32, proposal: Option<Proposal>) {
        self.early.insert(number, proposal);
    }

    /// Returns the next proposal in order, if it has arrived.
    pub(super) fn next(&mut self) -> Option<(u32, Option<Proposal>)> {
        let number = self.next;
        let proposal = self.early.remove(&number)?;
        self.next += 1;
        Some((number, proposal))
    }

    /// Declines the run that [`Self::next`] returned last.
    pub(super) fn decline(&mut self, why: Decline) {
        self.waiting.push_back(Waiting::Declined(why));
    }

    /// Lets the run that [`Self::next`] returned last wait for a permit.
    pub(super) fn wait(&mut self) {
        self.waiting.push_back(Waiting::Permit);
    }

    /// Gives the permit to the first run that waits for one.
    pub(super) fn start(
        &mut self,
        asked: Admitted,
        inputs: JoinHandle<Result<Box<dyn Inputs>, Decline>>,
    ) {
        let first = (self.waiting.iter_mut()).find(|one| matches!(one, Waiting::Permit));
        if let Some(first) = first {
            *first = Waiting::Inputs(asked, inputs);
        }
    }

    /// Returns the number of runs that wait for their inputs.
    pub(super) fn started(&self) -> usize {
        (self.waiting.iter())
            .filter(|one| matches!(one, Waiting::Inputs(..)))
            .count()
    }

    /// Returns whether every proposed run has been answered.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.early.is_empty()
    }

    /// Waits for the answer to the oldest run that is not answered, and removes the run.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Reply> {
        match self.waiting.front_mut() {
            None | Some(Waiting::Permit) => Poll::Pending,
            Some(Waiting::Declined(why)) => {
                let why = *why;
                self.waiting.pop_front();
                Poll::Ready(Reply::Decline(why))
            }
            Some(Waiting::Inputs(_, inputs)) => {
                let inputs = std::task::ready!(std::pin::Pin::new(inputs).poll(context));
                let Some(Waiting::Inputs(asked, _)) = self.waiting.pop_front() else {
                    return Poll::Pending;
                };
                Poll::Ready(match inputs {
                    Ok(Ok(inputs)) => Reply::Call(asked, inputs),
                    Ok(Err(why)) => Reply::Decline(why),
                    Err(_) => Reply::Decline(LOCAL_FAILURE),
                })
            }
        }
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        for waiting in &self.waiting {
            if let Waiting::Inputs(_, inputs) = waiting {
                inputs.abort();
            }
        }
    }
}
