//! The event log of a job. It stores events for clients that connect later or reconnect.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use tokio::sync::watch;

/// Maximum number of stored events per job. Older events are discarded. A client that has not
/// received a discarded event gets a gap event.
const MAX_EVENTS: usize = 4000;

/// An event of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Sequence number within the job, from 1.
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    /// The data of the event, as JSON without line breaks.
    pub(crate) data: Arc<str>,
}

/// The event log of a job. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<LogState>,
    /// The sequence number of the last event, which readers watch.
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct LogState {
    events: VecDeque<Event>,
    last: u64,
    has_ended: bool,
}

/// The stored events after a sequence number.
#[derive(Debug, PartialEq)]
pub(crate) struct NewEvents {
    pub(crate) events: Vec<Event>,
    /// The first and last sequence numbers of the discarded events between this number and the
    /// stored events. None if there are none.
    pub(crate) gap: Option<(u64, u64)>,
    /// True if the job has ended, so no further events follow.
    pub(crate) is_end: bool,
}

impl Log {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            state: Mutex::default(),
            last: watch::Sender::new(0),
        }))
    }

    /// Adds an event.
    pub(super) fn push(&self, name: &'static str, data: &impl Serialize) {
        self.add(name, data, false);
    }

    /// Adds the last event of the job. Later events are ignored.
    pub(super) fn end(&self, data: &impl Serialize) {
        self.add("end", data, true);
    }

    fn add(&self, name: &'static str, data: &impl Serialize, is_end: bool) {
        // Serialization does not fail, because the data are plain structures.
        let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
        let mut state = self.lock();
        if state.has_ended {
            return;
        }
        // The flag is set while the lock is held for adding the event. A reader that this event
        // wakes checks the flag.
        state.has_ended = is_end;
        state.last += 1;
        let event = Event {
            id: state.last,
            name,
            data: data.into(),
        };
        state.events.push_back(event);
        if state.events.len() > MAX_EVENTS {
            state.events.pop_front();
        }
        self.0.last.send_replace(state.last);
    }

    /// Returns the stored events after the sequence number `id`.
    pub(crate) fn after(&self, id: u64) -> NewEvents {
        let state = self.lock();
        let first = state
            .events
            .front()
            .map_or(state.last + 1, |event| event.id);
        // A number above the last one belongs to another job or to an earlier server process. The
        // reader then gets all events.
        let id = if id > state.last { 0 } else { id };
        NewEvents {
            events: (state.events.iter())
                .filter(|event| event.id > id)
                .cloned()
                .collect(),
            gap: (id + 1 < first).then(|| (id + 1, first - 1)),
            is_end: state.has_ended,
        }
    }

    /// Returns a receiver of the last sequence number. It changes with each new event.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.0.last.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_reconnects_gets_the_events_it_missed() {
        let log = Log::new();
        for number in 0..3 {
            log.push("sample", &number);
        }
        let ids = |new: &NewEvents| new.events.iter().map(|event| event.id).collect::<Vec<_>>();
        assert_eq!(ids(&log.after(0)), [1, 2, 3]);
        let new = log.after(2);
        assert_eq!((ids(&new), new.gap, new.is_end), (vec![3], None, false));
        assert_eq!(&*new.events[0].data, "2");
        assert_eq!(ids(&log.after(99)), [1, 2, 3]);
        log.end(&"over");
        log.push("sample", &4);
        let new = log.after(3);
        assert_eq!((ids(&new), new.is_end), (vec![4], true));
        assert_eq!(new.events[0].name, "end");
    }

    #[test]
    fn discarded_events_are_reported_as_a_gap() {
        let log = Log::new();
        for number in 0..MAX_EVENTS + 10 {
            log.push("sample", &number);
        }
        let new = log.after(4);
        assert_eq!(new.gap, Some((5, 10)));
        assert_eq!(new.events.len(), MAX_EVENTS);
        assert_eq!(log.after(10).gap, None);
    }
}
