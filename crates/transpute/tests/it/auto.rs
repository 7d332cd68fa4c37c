//! Tests of the transport `auto` on real sockets. The tests of the race cover failing connections.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use transpute::auto::{Auto, Selection};
use transpute_select::{
    Candidate, Chooser, End, PaperRules, PathEstimate, Prediction, Ranked, Source, UdpStatus,
    Workload,
};
use transpute_transport::{
    Link, Listener, PathSample, Security, TrainResult,
    auto::{AutoListener, Offer},
};

use crate::meeting::{patient, pinned};

/// The timeout of each step. It is far longer than any step takes, so that only a hang exceeds it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// A chooser that always prefers one transport.
#[derive(Debug)]
struct Only(&'static str);

impl Chooser for Only {
    fn name(&self) -> &str {
        "only"
    }

    fn score(&self, _: &PathEstimate, _: &Workload, it: &Candidate, _: &Prediction) -> f64 {
        f64::from(u8::from(it.spec.name() != self.0))
    }

    fn reason(&self, _: &PathEstimate, _: &Workload, _: &[Ranked]) -> String {
        "as the test wants".to_owned()
    }
}

fn auto(bytes: u64) -> Auto {
    let mut auto = Auto::default();
    auto.workload = Workload::transfer(End::Listener, bytes);
    auto.options = patient();
    auto
}

async fn bind(security: &Security, offer: Offer) -> AutoListener {
    (AutoListener::bind("127.0.0.1:0", security, offer).await).unwrap()
}

/// Connects to a listener, sends something in each direction, and returns the choice of the
/// transport.
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
    timeout(HANG_TIMEOUT, talk).await.unwrap()
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
        let among = ["tcp", "rudp", "quic", "tcp-striped"].map(|name| name.parse().unwrap());
        let mut auto = auto(2000);
        auto.candidates = Some(among.to_vec());
        auto.chooser = Arc::new(Only(name));
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
        assert!(selection.decided_after_s > 0.0 && !selection.path.rtt.is_zero());
        assert_eq!(selection.path.source, Source::Measured);
        assert!(selection.path.is_one_host);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trains_that_end_after_the_choice_change_the_prediction_only() {
    let mut listener = bind(&Security::Plaintext, Offer::all()).await;
    let auto = auto(30_000_000);
    let mut selection = meet(&mut listener, &auto, &Security::Plaintext).await;
    let winner = selection.choice.winner().clone();
    // The listener sends 30 MB in this workload, which take 30 s at 1 MB/s.
    let mut train = TrainResult::default();
    train.rate = Some(1_000_000);
    let mut link = PathSample::default();
    link.received_train = Some(train);
    selection.update(&*auto.chooser, &link);
    assert_eq!(*selection.choice.winner(), winner);
    let seconds = selection.choice.prediction().seconds;
    assert!((30.0..40.0).contains(&seconds), "{seconds}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rule_and_the_paper_choose_in_plaintext_too() {
    let mut listener = bind(&Security::Plaintext, Offer::all()).await;
    for bytes in [2000, 30_000_000] {
        let mut auto = auto(bytes);
        let selection = meet(&mut listener, &auto, &Security::Plaintext).await;
        assert_eq!(selection.choice.chooser, "rule");
        auto.chooser = Arc::new(PaperRules);
        let selection = meet(&mut listener, &auto, &Security::Plaintext).await;
        assert_eq!(selection.choice.chooser, "paper");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_measures_and_leaves_the_listener_to_others() {
    let (listening, connecting) = pinned();
    let mut listener = bind(&listening, Offer::all()).await;
    let address = listener.local_address();
    let auto = auto(2000);
    let probing = async {
        tokio::select! {
            probed = auto.probe(&address, &connecting) => probed.unwrap(),
            accepted = listener.next() => panic!("{accepted:?}"),
        }
    };
    let probed = timeout(HANG_TIMEOUT, probing).await.unwrap();
    assert_eq!(probed.path.udp, UdpStatus::Passes);
    let usable = |name: &str| {
        let mut candidates = probed.candidates.iter();
        candidates.any(|it| it.spec.name() == name && it.unavailable.is_none())
    };
    assert!(["tcp", "quic", "tcp-striped"].into_iter().all(usable));
    // After a probe, the listener still waits for a peer.
    meet(&mut listener, &auto, &connecting).await;
}
