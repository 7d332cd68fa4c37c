//! Dropping a link of `quic` ends its wait when the end of the connection was sent, and not at the
//! time limit.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use transpute_transport::{Quic, Transport};

use crate::meeting::{link_at, unpinned};

/// Counts the log messages about ends that were not sent in time.
#[derive(Clone, Default)]
struct Late(Arc<AtomicUsize>);

impl Visit for &Late {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        if format!("{value:?}").contains("was not sent in time") {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Subscriber for Late {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut &*self);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn dropping_a_link_waits_only_until_its_end_is_sent() {
    let quic = Quic::default();
    let security = unpinned();
    let mut listener = quic.listen("127.0.0.1:0", &security).await.unwrap();
    let address = listener.local_address();
    let late = Late::default();
    for _ in 0..3 {
        let (accepted, connected) = link_at(&address, &mut *listener, &quic, &security).await;
        tracing::subscriber::with_default(late.clone(), || drop((accepted, connected)));
    }
    assert_eq!(late.0.load(Ordering::Relaxed), 0);
}
