//! Stores jobs in the history.

use super::{Store, StoreError};
use crate::jobs::{Job, JobState};

impl Store {
    /// Adds a job and returns its number.
    pub(crate) fn add_job(&self, job: &Job) -> Result<i64, StoreError> {
        let text = serde_json::to_string(job).map_err(StoreError::Entry)?;
        let values = vec![job.state.name().to_owned().into(), text.into()];
        let (_, id) = self.execute("INSERT INTO jobs (state, job) VALUES (?, ?)", values)?;
        Ok(id)
    }

    /// Writes the current state of a job.
    pub(crate) fn update_job(&self, job: &Job) -> Result<(), StoreError> {
        let text = serde_json::to_string(job).map_err(StoreError::Entry)?;
        let values = vec![
            job.state.name().to_owned().into(),
            text.into(),
            job.id.into(),
        ];
        (self.execute("UPDATE jobs SET state = ?, job = ? WHERE id = ?", values)).map(drop)
    }

    /// Returns the job with this number.
    pub(crate) fn job(&self, id: i64) -> Result<Option<Job>, StoreError> {
        let query = "SELECT id, job FROM jobs WHERE id = ?";
        let found = self.query_one(query, vec![id.into()], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?))
        })?;
        found.map(|(id, text)| read(id, &text)).transpose()
    }

    /// Lists at most `limit` jobs whose numbers are below `before`, newest first.
    pub(crate) fn jobs(&self, before: Option<i64>, limit: usize) -> Result<Vec<Job>, StoreError> {
        let values = vec![
            before.unwrap_or(i64::MAX).into(),
            super::sql_integer(limit as u64).into(),
        ];
        let query = "SELECT id, job FROM jobs WHERE id < ? ORDER BY id DESC LIMIT ?";
        let found = self.query(query, values, |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        found.iter().map(|(id, text)| read(*id, text)).collect()
    }

    /// Marks the jobs that an earlier server process left unfinished as interrupted.
    pub(super) fn interrupt_jobs(&self) -> Result<(), StoreError> {
        let query = "SELECT id, job FROM jobs WHERE state IN ('queued', 'running')";
        let found = self.query(query, Vec::new(), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        for (id, text) in found {
            let mut job = read(id, &text)?;
            job.state = JobState::Interrupted;
            job.error = Some("the server ended".to_owned());
            job.current = None;
            job.position = 0;
            self.update_job(&job)?;
        }
        Ok(())
    }
}

fn read(id: i64, text: &str) -> Result<Job, StoreError> {
    let job: Job = serde_json::from_str(text).map_err(StoreError::Entry)?;
    Ok(Job { id, ..job })
}
