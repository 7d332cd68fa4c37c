//! The state that all handlers share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::{Semaphore, watch};
use transpute_testbed::record::Environment;

use super::{
    error::ApiError,
    jobs::Jobs,
    predictor::{CircuitFacts, Predictor, Source},
    sessions::Sessions,
    store::Store,
    token::Token,
};

/// Maximum number of open event streams. Each is an HTTP response that sends the events of a job to
/// a browser.
pub(super) const MAX_STREAMS: usize = 32;

/// Maximum number of uploads received at the same time. It bounds memory, because each upload is
/// held in memory.
const MAX_UPLOADS: usize = 4;

/// Maximum number of concurrent requests that count gates of circuits, predict times or draw
/// charts.
const MAX_HEAVY: usize = 2;

/// The state that all handlers share.
pub(super) struct App {
    pub(super) store: Arc<Store>,
    pub(super) predictor: Predictor,
    pub(super) jobs: Jobs,
    pub(super) token: Option<Token>,
    pub(super) sessions: Sessions,
    pub(super) allow_programs: bool,
    /// The reason why this machine cannot emulate paths. None if it can.
    pub(super) cannot_run: Option<String>,
    /// The kernel settings of emulated paths. None if this machine cannot emulate paths.
    pub(super) environment: Option<Environment>,
    /// Becomes true when the server shuts down.
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) limits: ConcurrencyLimits,
    /// The sizes of the circuits whose gates were counted.
    pub(super) counted: Mutex<HashMap<Source, CircuitFacts>>,
}

/// Semaphores that limit concurrent work.
pub(super) struct ConcurrencyLimits {
    /// Limits the number of open event streams.
    pub(super) streams: Arc<Semaphore>,
    /// Limits the number of uploads that are being received.
    pub(super) uploads: Semaphore,
    /// Limits the number of requests that take much processor time.
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

    /// Runs work that waits for the disk on a thread that may block.
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

    /// Runs work that takes much processor time on a thread that may block. At most [`MAX_HEAVY`]
    /// calls work at the same time; further calls wait.
    pub(super) async fn heavy<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        // Acquiring cannot fail, because the semaphore is never closed.
        let _permit = self.limits.heavy.acquire().await;
        self.blocking(work).await
    }

    /// Returns the size of a circuit if its gates were counted before.
    pub(super) fn known(&self, source: &Source) -> Option<CircuitFacts> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.get(source).cloned()
    }

    /// Counts the gates of a circuit and caches the result.
    pub(super) fn count(&self, source: &Source) -> Result<CircuitFacts, ApiError> {
        /// Maximum number of cached circuits. It bounds memory.
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
