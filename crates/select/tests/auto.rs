//! The transport `auto` on real sockets. What races do when connections fail is tested with the race itself.

#![cfg(unix)]

// Those of the crate whose transports are chosen from.
#[path = "../../transport/tests/meeting/mod.rs"]
mod meeting;

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use transpute_select::{
    Auto, Candidate, Choice, Chooser, End, Model, PaperRules, PathEstimate, SelectError, Selection,
    Source, Spec, Udp, Workload,
};
use transpute_transport::{
    Link, Listener, Security, TransportError,
    auto::{AutoListener, Offer},
};

use self::meeting::{patient, pinned};

/// Far beyond what any of this takes: a hang, not a slow machine.
const FOREVER: Duration = Duration::from_secs(60);

/// Wants one transport, whatever the path.
struct Only(&'static str);

impl Chooser for Only {
    fn name(&self) -> &str {
        "only"
    }

    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError> {
        let score = |candidate: &Candidate| f64::from(u8::from(candidate.spec.name() != self.0));
        Choice::of(
            self.name(),
            Model::shipped(),
            path,
            workload,
            candidates,
            |candidate, _| score(candidate),
            |_| "as the test wants".to_owned(),
        )
    }
}

fn work(bytes: u64) -> Workload {
    Workload::transfer(End::Listener, bytes).unwrap()
}

fn specs(names: &[&str]) -> Vec<Spec> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn auto(workload: Workload) -> Auto {
    Auto::new(workload).with_options(patient())
}

async fn bind(security: &Security, offer: Offer) -> AutoListener {
    (AutoListener::bind("127.0.0.1:0", security, offer, patient()).await).unwrap()
}

/// Connects to a listener, says something each way, and returns how the transport was chosen.
async fn meet(listener: &mut AutoListener, auto: &Auto, security: &Security) -> Selection {
    let address = listener.local_address();
    let talk = async {
        let (accepted, selected) = tokio::join!(listener.next(), auto.select(&address, security));
        let (accepted, (link, selection)) = (accepted.unwrap(), selected.unwrap());
        let winner = selection.choice.winner();
        assert_eq!(link.info().transport, winner.name());
        assert_eq!(accepted.pick.transport(), winner.name());
        greet(link, accepted.link).await;
        selection
    };
    timeout(FOREVER, talk).await.unwrap()
}

async fn greet(near: Link, far: Link) {
    let ((mut from_far, mut to_far), (mut from_near, mut to_near)) =
        (near.into_parts(), far.into_parts());
    to_far.write_all(b"hello").await.unwrap();
    to_far.flush().await.unwrap();
    let mut got = [0; 5];
    from_near.read_exact(&mut got).await.unwrap();
    to_near.write_all(&got).await.unwrap();
    to_near.flush().await.unwrap();
    from_far.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_transport_can_be_chosen_and_every_candidate_is_judged() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    for name in ["tcp", "quic", "rudp", "tcp-striped"] {
        let among = specs(&["tcp", "rudp", "quic", "tcp-striped"]);
        let auto = (auto(work(2000)).among(among)).with_chooser(Arc::new(Only(name)));
        let selection = meet(&mut listener, &auto, &connecting).await;
        let choice = &selection.choice;
        assert_eq!(
            choice.winner().name(),
            name,
            "{:?} {:?}",
            choice.excluded,
            selection.failed
        );
        assert_eq!(choice.ranking().len() + choice.excluded.len(), 4);
        assert!(selection.failed.is_empty() && selection.path.validate().is_ok());
        assert!(selection.decided_after_s > 0.0 && selection.path.rtt.min_s > 0.0);
        assert_eq!(selection.path.source, Source::Measured);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rule_and_the_paper_choose_in_plaintext_too() {
    let mut listener = bind(&Security::Plaintext, Offer::all()).await;
    for bytes in [2000, 30_000_000] {
        let auto = auto(work(bytes));
        let selection = meet(&mut listener, &auto, &Security::Plaintext).await;
        assert_eq!(selection.choice.chooser, "rule");
        let auto = auto.with_chooser(Arc::new(PaperRules));
        let selection = meet(&mut listener, &auto, &Security::Plaintext).await;
        assert_eq!(selection.choice.chooser, "paper");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_listener_does_not_offer_is_not_chosen() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::of(["quic"]).unwrap()).await;
    let auto = auto(work(2000)).among(specs(&["tcp", "rudp", "quic"]));
    let selection = meet(&mut listener, &auto, &connecting).await;
    assert_eq!(selection.choice.winner().as_str(), "quic");
    for (spec, why) in &selection.choice.excluded {
        assert_eq!(why, "the listener does not offer it", "{spec}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_measures_and_leaves_the_listener_to_others() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    let auto = auto(work(2000));
    let probing = async {
        tokio::select! {
            probed = auto.probe(&address, &connecting) => probed.unwrap(),
            accepted = listener.next() => panic!("{accepted:?}"),
        }
    };
    let probed = timeout(FOREVER, probing).await.unwrap();
    assert_eq!(probed.path.udp, Udp::Passes);
    assert!(probed.candidates.iter().all(|candidate| !candidate.is_up));
    let usable = |name: &str| {
        let mut candidates = probed.candidates.iter();
        candidates.any(|it| it.spec.name() == name && it.unavailable.is_none())
    };
    assert!(["tcp", "quic", "tcp-striped"].into_iter().all(usable));
    // The listener still waits for a peer.
    meet(&mut listener, &auto, &connecting).await;
}

#[tokio::test]
async fn without_a_listener_the_connection_is_refused() {
    let (_, connecting) = pinned();
    let error = Auto::default().select("127.0.0.1:1", &connecting).await;
    let error = error.err().unwrap();
    assert!(
        matches!(error.root(), TransportError::Connect { .. }),
        "{error:?}"
    );
}
