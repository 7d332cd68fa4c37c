//! The state that all handlers share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::{Semaphore, watch};
use transpute_testbed::row::Environment;

use super::{
    error::ApiError,
    jobs::Jobs,
    predictor::{CircuitFacts, Predictor, Source},
    sessions::Sessions,
    store::Store,
    token::Token,
};

/// Maximum number of open event streams.
pub(super) const MAX_STREAMS: usize = 32;

/// Maximum number of uploads received at the same time. Each holds its circuit in memory.
const MAX_UPLOADS: usize = 4;

/// Maximum number of requests that count circuits, predict or draw at the same time.
const MAX_HEAVY: usize = 2;

/// The state that all handlers share.
pub(super) struct App {
    pub(super) store: Arc<Store>,
    pub(super) predictor: Predictor,
    pub(super) jobs: Jobs,
    pub(super) token: Option<Token>,
    pub(super) sessions: Sessions,
    pub(super) allow_programs: bool,
    /// The reason why this machine cannot emulate paths, if it cannot.
    pub(super) cannot_run: Option<String>,
    /// The kernel settings of emulated paths, if this machine can emulate them.
    pub(super) environment: Option<Environment>,
    /// Becomes true when the server shuts down.
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) limits: ConcurrencyLimits,
    /// The sizes of circuits that were counted.
    pub(super) counted: Mutex<HashMap<Source, CircuitFacts>>,
}

/// Limits on work that goes on at the same time.
pub(super) struct ConcurrencyLimits {
    /// Event streams.
    pub(super) streams: Arc<Semaphore>,
    /// Uploads that are being received.
    pub(super) uploads: Semaphore,
    /// Requests that count circuits, predict or draw.
    heavy: Semaphore,
}

impl Default for ConcurrencyLimits {
    fn default() -> Self {
        Self {
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            uploads: Semaphore::new(MAX_UPLOADS),
            heavy: Semaphore::new(MAX_HEAVY),
        }
    }
}

impl App {
    /// Returns whether a request with this credential may use the interface. Accepted are the token
    /// and an open session. A server without a token accepts every request.
    pub(super) fn allows(&self, bearer: Option<&str>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        bearer.is_some_and(|given| token.is(given) || self.sessions.is_open(given, Instant::now()))
    }

    /// Runs work that waits for the disk on a thread where that is allowed.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let app = Arc::clone(self);
        match tokio::task::spawn_blocking(move || work(&app)).await {
            Ok(result) => result,
            Err(error) => Err(ApiError::internal(&error)),
        }
    }

    /// Runs work that takes processor time, at most [`MAX_HEAVY`] requests at once.
    pub(super) async fn heavy<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        // The semaphore is never closed, so this cannot fail.
        let _permit = self.limits.heavy.acquire().await;
        self.blocking(work).await
    }

    /// Returns the size of a circuit if it was counted before.
    pub(super) fn known(&self, source: &Source) -> Option<CircuitFacts> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.get(source).cloned()
    }

    /// Counts the gates of a circuit and remembers the result.
    pub(super) fn count(&self, source: &Source) -> Result<CircuitFacts, ApiError> {
        /// Maximum number of remembered circuits, which bounds memory.
        const MAX_COUNTED: usize = 1000;

        if let Some(facts) = self.known(source) {
            return Ok(facts);
        }
        let facts = self.predictor.count(source).map_err(ApiError::bad)?;
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.len() < MAX_COUNTED {
            counted.insert(source.clone(), facts.clone());
        }
        Ok(facts)
    }
}
