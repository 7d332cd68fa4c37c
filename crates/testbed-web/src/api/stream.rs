//! What happens in a job, as it happens.

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

use super::{Pairs, Shared, number, params};
use crate::{app::App, error::ApiError, guard, jobs::Log};

/// How long nothing may be said.
const SILENCE: Duration = Duration::from_secs(15);

/// A client that listens.
struct Listener {
    ready: VecDeque<Event>,
    /// Nothing for a job that was over before anybody could listen.
    log: Option<Log>,
    news: Option<watch::Receiver<u64>>,
    /// The last event that was sent.
    after: u64,
    /// What is said to one who comes back after the end.
    end: String,
    app: Arc<App>,
    /// The credential of the request: no event is sent after its session has ended.
    bearer: Option<Zeroizing<String>>,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn events(
    State(app): Shared,
    Path(id): Path<String>,
    pairs: Pairs,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let id = number(&id, "job")?;
    let mut params = params(pairs)?;
    let after = params.read::<u64>("after")?;
    params.finish()?;
    // What a browser sends when it comes back.
    let last = (headers.get("last-event-id")).and_then(|id| id.to_str().ok()?.parse().ok());
    let place = Arc::clone(&app.places.streams)
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
    let listener = Listener {
        ready,
        news: log.as_ref().map(Log::watch),
        log,
        end,
        after: last.or(after).unwrap_or(0),
        app,
        bearer: guard::bearer(&headers).map(|bearer| Zeroizing::new(bearer.to_owned())),
        _place: place,
    };
    let events = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(SILENCE)))
}

impl Listener {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if !self.app.allows(self.bearer.as_deref().map(String::as_str)) {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let log = self.log.as_ref()?;
            let news = self.news.as_mut()?;
            // Marked as seen before looking: what comes after the look is seen the next time.
            news.borrow_and_update();
            let found = log.after(self.after);
            if let Some((from, to)) = found.gap {
                let gap = json!({ "from": from, "to": to });
                self.ready.push_back(event(None, "gap", &gap.to_string()));
            }
            for told in &found.events {
                self.after = told.id;
                (self.ready).push_back(event(Some(told.id), told.name, &told.data));
            }
            if found.is_end {
                self.log = None;
                if self.ready.is_empty() {
                    // All had been sent to this client before: it comes back for nothing.
                    return Some(event(None, "end", &self.end));
                }
                continue;
            }
            if !self.ready.is_empty() {
                continue;
            }
            // When the server ends, so do all jobs, and their events with them.
            news.changed().await.ok()?;
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
