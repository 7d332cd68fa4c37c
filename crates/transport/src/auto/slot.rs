//! Where a candidate is kept, and who waits for it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use crate::TransportError;

/// A candidate that will come up or fail: a report that anybody may see, and the connection, which one takes.
pub(super) struct Slot<R, C> {
    state: watch::Sender<State<R>>,
    connection: Mutex<Option<C>>,
    wanted: Notify,
    transport: &'static str,
}

#[derive(Clone, Debug)]
enum State<R> {
    Waiting,
    Up(R),
    Failed(Arc<TransportError>),
}

impl<R: Clone, C> Slot<R, C> {
    pub(super) fn new(transport: &'static str) -> Self {
        Self {
            state: watch::Sender::new(State::Waiting),
            connection: Mutex::new(None),
            wanted: Notify::new(),
            transport,
        }
    }

    /// Says that somebody wants it.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits until somebody does.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Says how it went.
    pub(super) fn settle(&self, result: Result<(R, C), TransportError>) {
        match result {
            Ok((report, connection)) => {
                *self.lock() = Some(connection);
                self.state.send_replace(State::Up(report));
            }
            Err(error) => {
                tracing::debug!(transport = self.transport, %error, "a candidate did not come up");
                self.state.send_replace(State::Failed(Arc::new(error)));
            }
        }
    }

    /// Changes what was reported.
    pub(super) fn amend(&self, change: impl FnOnce(&mut R)) {
        self.state.send_modify(|state| {
            if let State::Up(report) = state {
                change(report);
            }
        });
    }

    /// Waits for the report that `is_enough`. Cancel-safe.
    pub(super) async fn report(&self, is_enough: impl Fn(&R) -> bool) -> Result<R, TransportError> {
        let mut state = self.state.subscribe();
        let settled = state
            .wait_for(|state| match state {
                State::Waiting => false,
                State::Up(report) => is_enough(report),
                State::Failed(_) => true,
            })
            .await;
        match settled.as_deref() {
            Ok(State::Up(report)) => Ok(report.clone()),
            Ok(State::Failed(error)) => Err(self.not_up(error)),
            // The sender lives as long as `self`.
            Ok(State::Waiting) | Err(_) => Err(TransportError::Closed),
        }
    }

    /// Returns whether it has failed already, and like this.
    pub(super) fn has_failed(&self, like: impl Fn(&TransportError) -> bool) -> bool {
        matches!(&*self.state.borrow(), State::Failed(error) if like(error))
    }

    /// Returns whether it has come up already, and nobody has taken it.
    pub(super) fn is_up(&self) -> bool {
        matches!(&*self.state.borrow(), State::Up(_))
    }

    /// Takes the connection; whoever comes later is told that it is gone.
    pub(super) fn take(&self) -> Option<C> {
        let taken = self.lock().take();
        self.forget();
        taken
    }

    /// Says that nothing can come of it any more.
    pub(super) fn forget(&self) {
        let gone = Arc::new(TransportError::Closed);
        self.state.send_replace(State::Failed(gone));
    }

    /// Returns another handle on the connection, where it is one.
    pub(super) fn share(&self) -> Option<C>
    where
        C: Clone,
    {
        self.lock().clone()
    }

    fn not_up(&self, error: &Arc<TransportError>) -> TransportError {
        TransportError::NotUp {
            transport: self.transport,
            source: Arc::clone(error),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<C>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
