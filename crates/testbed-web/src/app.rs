//! What all answers are made from.

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
    knowledge::{CircuitFacts, Knowledge, Source},
    sessions::Sessions,
    store::Store,
    token::Token,
};

/// How many event streams there may be.
pub(super) const MOST_STREAMS: usize = 32;

/// The maximum number of uploads that are received at the same time: each holds its circuit in memory.
const MAX_UPLOADS: usize = 4;

/// How many requests may count circuits, predict or draw at the same time.
const MOST_HEAVY: usize = 2;

/// Everything there is.
pub(super) struct App {
    pub(super) store: Arc<Store>,
    pub(super) knowledge: Knowledge,
    pub(super) jobs: Jobs,
    pub(super) token: Option<Token>,
    pub(super) sessions: Sessions,
    pub(super) allow_programs: bool,
    /// Why nothing can be run on this machine, if so.
    pub(super) cannot_run: Option<String>,
    /// What is in force on its paths, if it can.
    pub(super) environment: Option<Environment>,
    /// Becomes true when the server ends.
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) places: Places,
    /// Circuits that were counted.
    pub(super) counted: Mutex<HashMap<Source, CircuitFacts>>,
}

/// How much may go on at the same time.
pub(super) struct Places {
    /// Event streams.
    pub(super) streams: Arc<Semaphore>,
    /// Uploads that are being received.
    pub(super) uploads: Semaphore,
    /// Requests that count circuits, predict or draw.
    heavy: Semaphore,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            uploads: Semaphore::new(MAX_UPLOADS),
            heavy: Semaphore::new(MOST_HEAVY),
        }
    }
}

impl App {
    /// Returns whether a request with this credential may use the interface: the token, an open session, or anything if the
    /// server has no token.
    pub(super) fn allows(&self, bearer: Option<&str>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        bearer.is_some_and(|given| token.is(given) || self.sessions.is_open(given, Instant::now()))
    }

    /// Does what waits for the disk.
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

    /// Does what takes processor time; not much of it at once.
    pub(super) async fn heavy<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        // Nobody closes it.
        let _permit = self.places.heavy.acquire().await;
        self.blocking(work).await
    }

    /// Returns what is known of a circuit without counting it.
    pub(super) fn known(&self, source: &Source) -> Option<CircuitFacts> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.get(source).cloned()
    }

    /// Counts a circuit that comes with the program, once.
    pub(super) fn count(&self, source: &Source) -> Result<CircuitFacts, ApiError> {
        /// More than anybody looks at.
        const MOST_COUNTED: usize = 1000;

        if let Some(facts) = self.known(source) {
            return Ok(facts);
        }
        let facts = self.knowledge.count(source).map_err(ApiError::bad)?;
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.len() < MOST_COUNTED {
            counted.insert(source.clone(), facts.clone());
        }
        Ok(facts)
    }
}
