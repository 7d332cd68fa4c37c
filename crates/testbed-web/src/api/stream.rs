//! Handler that streams the events of a job as server-sent events.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, stream};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};
use zeroize::Zeroizing;

use super::{QueryPairs, Shared, number, params};
use crate::{app::App, error::ApiError, guard, jobs::Log};

/// Interval of keep-alive comments, so that proxies do not close an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The state of one event stream.
struct EventStream {
    ready: VecDeque<Event>,
    /// The event log of the job. `None` after the last event, or if the log is no longer kept.
    log: Option<Log>,
    changes: Option<watch::Receiver<u64>>,
    /// The identifier of the last event that was sent.
    after: u64,
    /// The data of the `end` event for a client that reconnects after the end.
    end: String,
    app: Arc<App>,
    /// The credential of the request. If it is a session, the stream ends when the session ends.
    bearer: Option<Zeroizing<String>>,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn events(
    State(app): Shared,
    Path(id): Path<String>,
    pairs: QueryPairs,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let id = number(&id, "job")?;
    let mut params = params(pairs)?;
    let after = params.read::<u64>("after")?;
    params.finish()?;
    // A browser sends the header `Last-Event-ID` when it reconnects.
    let last = (headers.get("last-event-id")).and_then(|id| id.to_str().ok()?.parse().ok());
    let permit = Arc::clone(&app.limits.streams)
        .try_acquire_owned()
        .map_err(|_| {
            ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many event streams are open",
            )
        })?;
    let found = (app.blocking(move |app| Ok(app.jobs.with_events(id)?))).await?;
    let (job, log) = found.ok_or_else(|| ApiError::missing(format!("job {id}")))?;
    let mut ready = VecDeque::new();
    ready.push_back(event(None, "job", &json!(job).to_string()));
    let end = json!({ "state": job.state }).to_string();
    if log.is_none() {
        ready.push_back(event(None, "end", &end));
    }
    let stream = EventStream {
        ready,
        changes: log.as_ref().map(Log::watch),
        log,
        end,
        after: last.or(after).unwrap_or(0),
        app,
        bearer: guard::bearer(&headers).map(|bearer| Zeroizing::new(bearer.to_owned())),
        _permit: permit,
    };
    let events = stream::unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((Ok(event), stream))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)))
}

impl EventStream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if !self.app.allows(self.bearer.as_deref().map(String::as_str)) {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let log = self.log.as_ref()?;
            let changes = self.changes.as_mut()?;
            // The current number is marked as seen before the log is read. So an event that is
            // added after the read wakes this task.
            changes.borrow_and_update();
            let found = log.after(self.after);
            if let Some((from, to)) = found.gap {
                let gap = json!({ "from": from, "to": to });
                self.ready.push_back(event(None, "gap", &gap.to_string()));
            }
            for added in &found.events {
                self.after = added.id;
                (self.ready).push_back(event(Some(added.id), added.name, &added.data));
            }
            if found.is_end {
                self.log = None;
                if self.ready.is_empty() {
                    // The client had received all events and has reconnected.
                    return Some(event(None, "end", &self.end));
                }
                continue;
            }
            if !self.ready.is_empty() {
                continue;
            }
            // An error means that the log was dropped, because the server shuts down.
            changes.changed().await.ok()?;
        }
    }
}

fn event(id: Option<u64>, name: &str, data: &str) -> Event {
    let event = Event::default().event(name).data(data);
    match id {
        Some(id) => event.id(id.to_string()),
        None => event,
    }
}
