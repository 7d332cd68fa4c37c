//! The runs that a peer asks for, in the order in which they must be answered.

use std::{
    collections::{BTreeMap, VecDeque},
    task::{Context, Poll},
};

use tokio::{sync::OwnedSemaphorePermit, task::JoinHandle};
use transpute_session::{Decline, Inputs, Proposal, Role};

use super::{Request, service::OWN_FAULT};

/// The runs of one role that are not called for here yet.
///
/// Calls of both sides pair by their number, so a run is answered when all before it are, although inputs of several are
/// waited for at the same time.
pub(super) struct Line {
    pub(super) role: Role,
    /// The number that is looked at next.
    next: u32,
    /// Runs that came before one with a lower number.
    early: BTreeMap<u32, Option<Proposal>>,
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Declined(Decline),
    /// For its turn.
    Turn,
    /// For its inputs.
    Inputs(Asked, JoinHandle<Result<Box<dyn Inputs>, Decline>>),
}

/// A run whose turn it is.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) permit: OwnedSemaphorePermit,
}

/// What the next run in line came to.
pub(super) enum Answer {
    Decline(Decline),
    Call(Asked, Box<dyn Inputs>),
}

impl Line {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            next: 1,
            early: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes note of a run.
    pub(super) fn add(&mut self, number: u32, proposal: Option<Proposal>) {
        self.early.insert(number, proposal);
    }

    /// Returns the next run in order, if it is there.
    pub(super) fn next(&mut self) -> Option<(u32, Option<Proposal>)> {
        let number = self.next;
        let proposal = self.early.remove(&number)?;
        self.next += 1;
        Some((number, proposal))
    }

    /// Lines the run up that was returned last, to be declined.
    pub(super) fn decline(&mut self, why: Decline) {
        self.waiting.push_back(Waiting::Declined(why));
    }

    /// Lines it up to wait for its turn.
    pub(super) fn wait(&mut self) {
        self.waiting.push_back(Waiting::Turn);
    }

    /// Notes that it is the turn of the first that waits for it.
    pub(super) fn start(
        &mut self,
        asked: Asked,
        inputs: JoinHandle<Result<Box<dyn Inputs>, Decline>>,
    ) {
        let first = (self.waiting.iter_mut()).find(|one| matches!(one, Waiting::Turn));
        if let Some(first) = first {
            *first = Waiting::Inputs(asked, inputs);
        }
    }

    /// Returns how many wait for their inputs.
    pub(super) fn started(&self) -> usize {
        (self.waiting.iter())
            .filter(|one| matches!(one, Waiting::Inputs(..)))
            .count()
    }

    /// Says whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.early.is_empty()
    }

    /// Waits for the first in line.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        match self.waiting.front_mut() {
            None | Some(Waiting::Turn) => Poll::Pending,
            Some(Waiting::Declined(why)) => {
                let why = *why;
                self.waiting.pop_front();
                Poll::Ready(Answer::Decline(why))
            }
            Some(Waiting::Inputs(_, inputs)) => {
                let inputs = std::task::ready!(std::pin::Pin::new(inputs).poll(context));
                let Some(Waiting::Inputs(asked, _)) = self.waiting.pop_front() else {
                    return Poll::Pending;
                };
                Poll::Ready(match inputs {
                    Ok(Ok(inputs)) => Answer::Call(asked, inputs),
                    Ok(Err(why)) => Answer::Decline(why),
                    Err(_) => Answer::Decline(OWN_FAULT),
                })
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for waiting in &self.waiting {
            if let Waiting::Inputs(_, inputs) = waiting {
                inputs.abort();
            }
        }
    }
}
