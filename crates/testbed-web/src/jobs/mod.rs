//! Jobs that users start. One job runs at a time. The others wait in a queue.

mod events;
mod plan;
mod runner;
mod sampler;

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

pub(super) use events::Log;
pub(super) use plan::{JobRequest, Plan, Work};
pub(super) use runner::probe_environment;

use super::{
    serve_error::ServeError,
    store::{Store, StoreError},
};

/// Maximum number of jobs in the queue.
pub(super) const MAX_QUEUED: usize = 32;

/// Maximum number of ended jobs whose events are kept in memory.
const MAX_ENDED: usize = 16;

/// The state of a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum JobState {
    /// The job waits until earlier jobs have ended.
    Queued,
    Running,
    /// All runs of the job have ended.
    Done,
    /// An error ended the job.
    Failed,
    /// A user cancelled the job.
    Cancelled,
    /// The server ended before the job did.
    Interrupted,
}

impl JobState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    pub(super) fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// A job, as HTTP answers and the history represent it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Job {
    /// The number of the job. It is 0 until the history assigns one.
    #[serde(default)]
    pub(super) id: i64,
    pub(super) kind: String,
    pub(super) state: JobState,
    pub(super) created_unix_ms: u64,
    pub(super) started_unix_ms: Option<u64>,
    pub(super) ended_unix_ms: Option<u64>,
    pub(super) request: JobRequest,
    pub(super) scenario: String,
    pub(super) label: String,
    /// The position in the queue, from 1. It is 0 for a job that is not queued.
    pub(super) position: usize,
    pub(super) done: u64,
    pub(super) total: u64,
    pub(super) failed: u64,
    pub(super) remaining_s: Option<f64>,
    pub(super) current: Option<CurrentRun>,
    pub(super) error: Option<String>,
}

/// The run that is in progress.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct CurrentRun {
    /// The number of the run within the job, from 1.
    pub(super) number: u64,
    pub(super) transport: String,
    pub(super) repetition: u32,
    pub(super) started_unix_ms: u64,
}

/// The reason why a job cannot be started or cancelled.
#[derive(Debug)]
pub(super) enum JobError {
    /// The queue is full.
    Full,
    /// The server is shutting down.
    Stopping,
    /// There is no job with this number.
    Missing,
    /// The job has already ended.
    Over,
    Store(StoreError),
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// All jobs of this server.
#[derive(Debug)]
pub(super) struct Jobs {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state that the job thread shares with the HTTP handlers.
struct Shared {
    store: Arc<Store>,
    /// The `transpute` program, which runs both parties.
    binary: PathBuf,
    queue: Mutex<Queue>,
    /// Wakes the job thread when there is a new job or the server shuts down.
    wake: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<i64>,
    /// Queued and running jobs, and the last [`MAX_ENDED`] jobs that have ended, by number.
    entries: HashMap<i64, Entry>,
    /// The numbers of the ended jobs in `entries`, oldest first.
    over: VecDeque<i64>,
    is_stopping: bool,
}

struct Entry {
    job: Job,
    /// The runs of the job. None after the job has started.
    plan: Option<Plan>,
    log: Log,
    cancel: Arc<AtomicBool>,
}

impl Jobs {
    /// Starts the job thread, which runs all jobs.
    pub(super) fn start(store: Arc<Store>, binary: PathBuf) -> Result<Self, ServeError> {
        let shared = Arc::new(Shared {
            store,
            binary,
            queue: Mutex::default(),
            wake: Condvar::new(),
        });
        let running = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("jobs".to_owned())
            .spawn(move || running.work())
            .map_err(ServeError::Thread)?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Adds a job to the queue.
    pub(super) fn submit(&self, request: JobRequest, plan: Plan) -> Result<Job, JobError> {
        let mut queue = self.shared.lock();
        if queue.is_stopping {
            return Err(JobError::Stopping);
        }
        if queue.waiting.len() >= MAX_QUEUED {
            return Err(JobError::Full);
        }
        let mut job = Job {
            id: 0,
            kind: plan.kind().to_owned(),
            state: JobState::Queued,
            created_unix_ms: unix_ms(),
            started_unix_ms: None,
            ended_unix_ms: None,
            request,
            scenario: plan.scenario.name.clone(),
            label: plan.label(),
            position: queue.waiting.len() + 1,
            done: 0,
            total: plan.total(),
            failed: 0,
            remaining_s: None,
            current: None,
            error: None,
        };
        job.id = self.shared.store.add_job(&job)?;
        let log = Log::new();
        log.push("job", &job);
        queue.waiting.push_back(job.id);
        let entry = Entry {
            job: job.clone(),
            plan: Some(plan),
            log,
            cancel: Arc::new(AtomicBool::new(false)),
        };
        queue.entries.insert(job.id, entry);
        self.shared.wake.notify_all();
        Ok(job)
    }

    /// Returns a job, from memory or from the history.
    pub(super) fn get(&self, id: i64) -> Result<Option<Job>, StoreError> {
        if let Some(entry) = self.shared.lock().entries.get(&id) {
            return Ok(Some(entry.job.clone()));
        }
        self.shared.store.job(id)
    }

    /// Returns a job with its event log. The log is `None` if it is no longer kept.
    pub(super) fn with_events(&self, id: i64) -> Result<Option<(Job, Option<Log>)>, StoreError> {
        if let Some(entry) = self.shared.lock().entries.get(&id) {
            return Ok(Some((entry.job.clone(), Some(entry.log.clone()))));
        }
        let job = self.shared.store.job(id)?;
        Ok(job.map(|job| (job, None)))
    }

    /// Lists at most `limit` jobs whose numbers are below `before`, newest first.
    pub(super) fn list(&self, before: Option<i64>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let mut jobs = self.shared.store.jobs(before, limit)?;
        let queue = self.shared.lock();
        for job in &mut jobs {
            if let Some(entry) = queue.entries.get(&job.id) {
                job.clone_from(&entry.job);
            }
        }
        Ok(jobs)
    }

    /// Returns the numbers of running and of queued jobs.
    pub(super) fn counts(&self) -> (usize, usize) {
        let queue = self.shared.lock();
        let is_running = |entry: &&Entry| entry.job.state == JobState::Running;
        let running = queue.entries.values().filter(is_running).count();
        (running, queue.waiting.len())
    }

    /// Returns whether a queued or running job uses this circuit.
    pub(super) fn needs(&self, circuit: &str) -> bool {
        let queue = self.shared.lock();
        (queue.entries.values()).any(|entry| {
            !entry.job.state.is_over() && entry.job.request.circuit.as_deref() == Some(circuit)
        })
    }

    /// Cancels a job. A running job ends shortly afterwards.
    pub(super) fn cancel(&self, id: i64) -> Result<Job, JobError> {
        let mut queue = self.shared.lock();
        let Some(entry) = queue.entries.get_mut(&id) else {
            drop(queue);
            return match self.shared.store.job(id)? {
                Some(_) => Err(JobError::Over),
                None => Err(JobError::Missing),
            };
        };
        match entry.job.state {
            JobState::Running => {
                entry.cancel.store(true, Ordering::Relaxed);
                Ok(entry.job.clone())
            }
            JobState::Queued => {
                queue.waiting.retain(|&waiting| waiting != id);
                let job = self
                    .shared
                    .finish(&mut queue, id, JobState::Cancelled, None);
                self.shared.number(&mut queue);
                job.ok_or(JobError::Missing)
            }
            _ => Err(JobError::Over),
        }
    }

    /// Shuts down. Accepts no further jobs, marks queued jobs as interrupted, and cancels the
    /// running job. Returns when the job thread has ended.
    pub(super) fn stop(&self) {
        {
            let mut queue = self.shared.lock();
            queue.is_stopping = true;
            for entry in queue.entries.values() {
                if entry.job.state == JobState::Running {
                    entry.cancel.store(true, Ordering::Relaxed);
                }
            }
            for id in std::mem::take(&mut queue.waiting) {
                let error = Some("the server ended".to_owned());
                (self.shared).finish(&mut queue, id, JobState::Interrupted, error);
            }
            self.shared.wake.notify_all();
        }
        let thread = (self.thread.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic of the job thread does not stop the shutdown.
            let _ = thread.join();
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // After a panic of another thread, the queue is consistent, because no code that can panic
        // runs between related changes.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until the server ends.
    fn work(&self) {
        while let Some((id, plan, log, cancel)) = self.next() {
            // A panic in one job must not end the thread, which runs all other jobs too.
            let running = AssertUnwindSafe(|| runner::run(self, id, &plan, &log, &cancel));
            let outcome = catch_unwind(running)
                .unwrap_or_else(|_| Err("the job panicked: this is a bug".to_owned()));
            let mut queue = self.lock();
            let is_stopping = queue.is_stopping;
            let (state, error) = match outcome {
                Ok(()) => (JobState::Done, None),
                Err(_) if cancel.load(Ordering::Relaxed) && is_stopping => {
                    (JobState::Interrupted, Some("the server ended".to_owned()))
                }
                Err(_) if cancel.load(Ordering::Relaxed) => (JobState::Cancelled, None),
                Err(error) => (JobState::Failed, Some(error)),
            };
            self.finish(&mut queue, id, state, error);
        }
    }

    /// Waits for a queued job and marks it as running. Returns `None` at shutdown.
    fn next(&self) -> Option<(i64, Plan, Log, Arc<AtomicBool>)> {
        let mut queue = self.lock();
        let id = loop {
            if queue.is_stopping {
                return None;
            }
            if let Some(id) = queue.waiting.pop_front() {
                break id;
            }
            queue = (self.wake.wait(queue)).unwrap_or_else(PoisonError::into_inner);
        };
        let entry = queue.entries.get_mut(&id)?;
        let plan = entry.plan.take()?;
        entry.job.state = JobState::Running;
        entry.job.position = 0;
        entry.job.started_unix_ms = Some(unix_ms());
        let (log, cancel) = (entry.log.clone(), Arc::clone(&entry.cancel));
        log.push("job", &entry.job);
        // An error is ignored. The job then stays queued in the history. If the server crashes, the
        // next start marks queued and running jobs as interrupted.
        let _ = self.store.update_job(&entry.job);
        self.number(&mut queue);
        Some((id, plan, log, cancel))
    }

    /// Changes the data of a running job and adds the change to its event log.
    fn change(&self, id: i64, change: impl FnOnce(&mut Job)) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            change(&mut entry.job);
            entry.log.push("job", &entry.job);
        }
    }

    /// Records the end of a job in memory and in the history.
    fn finish(
        &self,
        queue: &mut Queue,
        id: i64,
        state: JobState,
        error: Option<String>,
    ) -> Option<Job> {
        let entry = queue.entries.get_mut(&id)?;
        entry.job.state = state;
        entry.job.position = 0;
        entry.job.current = None;
        entry.job.remaining_s = None;
        entry.job.ended_unix_ms = Some(unix_ms());
        entry.job.error = error;
        entry.plan = None;
        let job = entry.job.clone();
        let kept = self.store.update_job(&job);
        entry.log.push("job", &job);
        entry.log.end(&serde_json::json!({ "state": state }));
        queue.over.push_back(id);
        // A job that could not be written to the history stays in memory until the server ends.
        if kept.is_ok()
            && queue.over.len() > MAX_ENDED
            && let Some(oldest) = queue.over.pop_front()
        {
            queue.entries.remove(&oldest);
        }
        Some(job)
    }

    /// Updates the queue positions of the waiting jobs.
    fn number(&self, queue: &mut Queue) {
        let waiting: Vec<i64> = queue.waiting.iter().copied().collect();
        for (index, id) in waiting.into_iter().enumerate() {
            if let Some(entry) = queue.entries.get_mut(&id) {
                entry.job.position = index + 1;
                entry.log.push("job", &entry.job);
            }
        }
    }
}

/// Returns the Unix time in milliseconds.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since: Duration| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
