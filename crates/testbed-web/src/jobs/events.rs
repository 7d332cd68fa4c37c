//! What is told of a job while it runs, kept for those who come later or come back.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use tokio::sync::watch;

/// How many events are kept.
const MOST: usize = 4000;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Its place among those of the job, from 1.
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    /// JSON on one line.
    pub(crate) data: Arc<str>,
}

/// The events of a job. Clones are of the same.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kept: Mutex<Kept>,
    /// The number of the last event.
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    last: u64,
    has_ended: bool,
}

/// What comes after an event.
#[derive(Debug, PartialEq)]
pub(crate) struct News {
    pub(crate) events: Vec<Event>,
    /// The first and the last number of those that are no longer kept.
    pub(crate) gap: Option<(u64, u64)>,
    /// Nothing comes after these.
    pub(crate) is_end: bool,
}

impl Log {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            kept: Mutex::default(),
            last: watch::Sender::new(0),
        }))
    }

    /// Adds an event.
    pub(super) fn tell(&self, name: &'static str, data: &impl Serialize) {
        self.add(name, data, false);
    }

    /// Adds the last event.
    pub(super) fn end(&self, data: &impl Serialize) {
        self.add("end", data, true);
    }

    fn add(&self, name: &'static str, data: &impl Serialize, is_end: bool) {
        // All of them are plain structures, which become JSON.
        let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
        let mut kept = self.lock();
        if kept.has_ended {
            return;
        }
        // At once with the event: whoever is woken by it looks for the end.
        kept.has_ended = is_end;
        kept.last += 1;
        let event = Event {
            id: kept.last,
            name,
            data: data.into(),
        };
        kept.events.push_back(event);
        if kept.events.len() > MOST {
            kept.events.pop_front();
        }
        self.0.last.send_replace(kept.last);
    }

    /// Returns what came after the event with this number, as far as it is kept.
    pub(crate) fn after(&self, id: u64) -> News {
        let kept = self.lock();
        let first = kept.events.front().map_or(kept.last + 1, |event| event.id);
        // Who claims to have seen the future has seen another job, or an earlier start of the server.
        let id = if id > kept.last { 0 } else { id };
        News {
            events: (kept.events.iter())
                .filter(|event| event.id > id)
                .cloned()
                .collect(),
            gap: (id + 1 < first).then(|| (id + 1, first - 1)),
            is_end: kept.has_ended,
        }
    }

    /// Returns what tells of new events.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.0.last.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comes_back_to_where_one_was() {
        let log = Log::new();
        for number in 0..3 {
            log.tell("sample", &number);
        }
        let ids = |news: &News| news.events.iter().map(|event| event.id).collect::<Vec<_>>();
        assert_eq!(ids(&log.after(0)), [1, 2, 3]);
        let news = log.after(2);
        assert_eq!((ids(&news), news.gap, news.is_end), (vec![3], None, false));
        assert_eq!(&*news.events[0].data, "2");
        assert_eq!(ids(&log.after(99)), [1, 2, 3]);
        log.end(&"over");
        log.tell("sample", &4);
        let news = log.after(3);
        assert_eq!((ids(&news), news.is_end), (vec![4], true));
        assert_eq!(news.events[0].name, "end");
    }

    #[test]
    fn what_is_gone_is_said() {
        let log = Log::new();
        for number in 0..MOST + 10 {
            log.tell("sample", &number);
        }
        let news = log.after(4);
        assert_eq!(news.gap, Some((5, 10)));
        assert_eq!(news.events.len(), MOST);
        assert_eq!(log.after(10).gap, None);
    }
}
