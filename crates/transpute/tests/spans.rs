//! Tests that a subscriber of `tracing` sees the phases of a run.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Id, Subscriber,
    field::{Field, Visit},
    span::Attributes,
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};
use transpute::{Bits, Builder, Party, UInt};

/// The paths of the spans, and the phases whose end was reported.
#[derive(Clone, Default)]
struct Seen {
    spans: Arc<Mutex<BTreeSet<String>>>,
    phases: Arc<Mutex<BTreeSet<String>>>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let scope = context.span_scope(id).unwrap().from_root();
        let names: Vec<_> = scope.map(|span| span.name()).collect();
        self.spans.lock().unwrap().insert(names.join("/"));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut phase = Phase(None);
        event.record(&mut phase);
        self.phases.lock().unwrap().extend(phase.0);
    }
}

struct Phase(Option<String>);

impl Visit for Phase {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "phase" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

#[tokio::test]
async fn a_subscriber_sees_connections_runs_and_phases() {
    let seen = Seen::default();
    // For all threads, because a connection computes on its own thread.
    tracing_subscriber::registry().with(seen.clone()).init();
    let circuit = Builder::build(|b| {
        let (x, y) = (b.input::<UInt<16>>(), b.input::<UInt<16>>());
        b.output(x + y);
    })
    .unwrap();
    let listening = Party::garbler(&circuit).plaintext().transport("tcp");
    let listening = listening.listen("127.0.0.1:0").await.unwrap();
    let evaluator = Party::evaluator(&circuit)
        .plaintext()
        .transport("tcp")
        .connect(listening.local_address());
    let (garbler, evaluator) = tokio::join!(
        listening.run(Bits::from_u128(1, 16)),
        evaluator.run(Bits::from_u128(2, 16))
    );
    garbler.unwrap();
    assert_eq!(evaluator.unwrap().bits(), Bits::from_u128(3, 16));
    let spans = seen.spans.lock().unwrap();
    for phase in ["", "/ot", "/garble", "/evaluate", "/transfer"] {
        let path = format!("conn/run{phase}");
        assert!(spans.contains(&path), "{path} is missing in {spans:?}");
    }
    let phases = seen.phases.lock().unwrap();
    let expected = ["evaluate", "garble", "ot", "transfer"].map(String::from);
    assert_eq!(*phases, expected.into());
}
