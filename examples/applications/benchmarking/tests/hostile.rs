//! Companies that do wrong, beside honest ones.

use std::{sync::Arc, time::Duration};

use tokio::io::AsyncWriteExt;
use transpute::{Bits, Identity, Role, TransportError, transport::{Security, HandshakeError}};

use super::stage::{LONG, Stage, limits};
use crate::{
    failure::Failure,
    pieces::unpack,
    statistics::{Layout, Statistics},
    wire::{Message, Refusal, Upload, receive},
};

/// A deadline that tests reach, and by which honest companies have uploaded on a busy machine too.
const SHORT: Duration = Duration::from_secs(4);

const BOTH: [Role; 2] = [Role::Garbler, Role::Evaluator];

/// Has companies 0 to 3 take part, and checks that they learn what they should with these figures of others.
async fn honest_companies_learn(stage: &mut Stage, others: &[u32]) {
    let mut figures = vec![400, 300, 200, 100];
    let playing: Vec<_> = (figures.iter().enumerate())
        .map(|(number, &figure)| stage.honest(number, figure))
        .collect();
    figures.extend(others);
    for company in playing {
        assert_eq!(company.await.unwrap().unwrap(), Statistics::of(&figures));
    }
}

/// Checks that both servers did their part with so many companies.
async fn servers_are_content(stage: Stage, companies: usize) {
    refusals_are(stage, companies, [0, 0]).await;
}

/// Checks that, and how many uploads the garbler's and the evaluator's server refused.
async fn refusals_are(stage: Stage, companies: usize, refused: [u64; 2]) {
    let reports = stage.end().await.map(Result::unwrap);
    assert!(reports.iter().all(|report| report.companies == companies));
    assert_eq!(reports.map(|report| report.refused), refused);
}

/// These wait for their deadlines at the same time.
#[tokio::test]
async fn who_does_not_upload_well_holds_up_nobody_beyond_the_deadline() {
    tokio::join!(
        one_that_says_nothing_holds_up_nobody(),
        one_that_stops_in_the_middle_of_its_upload_holds_up_nobody(),
        one_that_reaches_one_server_only_is_left_out(),
        shares_of_different_uploads_do_not_meet(),
        uploads_that_lie_are_refused(),
    );
}

async fn one_that_says_nothing_holds_up_nobody() {
    let mut stage = Stage::new(5, None, limits(SHORT)).await;
    let key = Arc::new(stage.key(4));
    let mut links = Vec::new();
    for role in BOTH {
        links.push(stage.link(&key, role).await);
    }
    honest_companies_learn(&mut stage, &[]).await;
    // It was there to the end.
    drop(links);
    servers_are_content(stage, 4).await;
}

async fn one_that_stops_in_the_middle_of_its_upload_holds_up_nobody() {
    let mut stage = Stage::new(5, None, limits(SHORT)).await;
    let key = Arc::new(stage.key(4));
    let mut halves = Vec::new();
    for role in BOTH {
        let (reader, mut writer) = stage.link(&key, role).await.into_parts();
        writer.write_all(&[0, 53, 1, 7, 7]).await.unwrap();
        writer.flush().await.unwrap();
        halves.push((reader, writer));
    }
    honest_companies_learn(&mut stage, &[]).await;
    drop(halves);
    servers_are_content(stage, 4).await;
}

async fn one_that_reaches_one_server_only_is_left_out() {
    let mut stage = Stage::new(5, None, limits(SHORT)).await;
    let key = Arc::new(stage.key(4));
    let upload = Message::Upload(stage.upload([1; 16], 7));
    let (answer, mut link) = stage.say(&key, Role::Garbler, upload).await;
    assert_eq!(answer, Message::Accepted);
    honest_companies_learn(&mut stage, &[]).await;
    let verdict = receive(link.reader_mut(), "a verdict").await.unwrap();
    assert_eq!(verdict, Message::Refused(Refusal::LeftOut));
    drop(link);
    servers_are_content(stage, 4).await;
}

async fn shares_of_different_uploads_do_not_meet() {
    let mut stage = Stage::new(5, None, limits(SHORT)).await;
    let key = Arc::new(stage.key(4));
    let mut links = Vec::new();
    for (role, id) in [(Role::Garbler, [1; 16]), (Role::Evaluator, [2; 16])] {
        let upload = Message::Upload(stage.upload(id, 7));
        let (answer, link) = stage.say(&key, role, upload).await;
        assert_eq!(answer, Message::Accepted);
        links.push(link);
    }
    honest_companies_learn(&mut stage, &[]).await;
    for mut link in links {
        let verdict = receive(link.reader_mut(), "a verdict").await.unwrap();
        assert_eq!(verdict, Message::Refused(Refusal::LeftOut));
    }
    servers_are_content(stage, 4).await;
}

#[tokio::test]
async fn one_that_leaves_after_its_upload_takes_part_and_breaks_nothing() {
    let mut stage = Stage::new(5, None, limits(LONG)).await;
    let key = Arc::new(stage.key(4));
    for (role, share) in [(Role::Garbler, 1000), (Role::Evaluator, 24)] {
        let upload = Message::Upload(stage.upload([1; 16], share));
        let (answer, link) = stage.say(&key, role, upload).await;
        assert_eq!(answer, Message::Accepted);
        drop(link);
    }
    // All have uploaded: nobody waits for the deadline, which this test would not survive.
    honest_companies_learn(&mut stage, &[1000 ^ 24]).await;
    servers_are_content(stage, 5).await;
}

#[tokio::test]
async fn one_that_comes_again_gets_its_results() {
    let mut stage = Stage::new(5, None, limits(LONG)).await;
    let key = Arc::new(stage.key(4));
    let mut links = Vec::new();
    for (role, share) in [(Role::Garbler, 1000), (Role::Evaluator, 24)] {
        let upload = Message::Upload(stage.upload([1; 16], share));
        let (answer, first) = stage.say(&key, role, upload.clone()).await;
        assert_eq!(answer, Message::Accepted);
        let (answer, second) = stage.say(&key, role, upload).await;
        assert_eq!(answer, Message::Accepted);
        // The new link takes the place of the old one.
        drop(first);
        links.push(second);
    }
    honest_companies_learn(&mut stage, &[1000 ^ 24]).await;
    let mut results = Bits::zeros(Layout::new(5).width());
    for mut link in links {
        let message = receive(link.reader_mut(), "results").await.unwrap();
        let Message::Results {
            companies: 5,
            piece,
        } = message
        else {
            panic!("{message:?}");
        };
        let piece = unpack(&piece, results.len()).unwrap();
        // One part alone is masked.
        assert_ne!(Statistics::from_bits(5, &piece), Some(expected()));
        results = results
            .iter()
            .zip(piece.iter())
            .map(|(a, b)| a ^ b)
            .collect();
    }
    assert_eq!(Statistics::from_bits(5, &results), Some(expected()));
    servers_are_content(stage, 5).await;
}

fn expected() -> Statistics {
    Statistics::of(&[400, 300, 200, 100, 1000 ^ 24])
}

#[tokio::test]
async fn a_second_upload_is_refused_and_the_first_stays() {
    let mut stage = Stage::new(5, None, limits(LONG)).await;
    let key = Arc::new(stage.key(4));
    for role in BOTH {
        let first = Message::Upload(stage.upload([1; 16], 55));
        let (answer, _first) = stage.say(&key, role, first).await;
        assert_eq!(answer, Message::Accepted);
        let second = Message::Upload(stage.upload([2; 16], 66));
        let (answer, _second) = stage.say(&key, role, second).await;
        assert_eq!(answer, Message::Refused(Refusal::Twice));
    }
    honest_companies_learn(&mut stage, &[0]).await;
    refusals_are(stage, 5, [1, 1]).await;
}

async fn uploads_that_lie_are_refused() {
    let mut stage = Stage::new(5, None, limits(SHORT)).await;
    let key = Arc::new(stage.key(4));
    let good = stage.upload([1; 16], 7);
    let mut other_round = good.clone();
    other_round.round.0[0] ^= 1;
    for (message, why) in [
        (
            Message::Upload(Upload {
                bits: 33,
                ..good.clone()
            }),
            Refusal::Width,
        ),
        (Message::Upload(Upload { bits: 0, ..good }), Refusal::Width),
        (Message::Upload(other_round), Refusal::OtherRound),
        (Message::Accepted, Refusal::Malformed),
        (Message::Taken(vec![0xff]), Refusal::Malformed),
    ] {
        for role in BOTH {
            let (answer, _link) = stage.say(&key, role, message.clone()).await;
            assert_eq!(answer, Message::Refused(why), "{message:?}");
        }
    }
    for bytes in [&[0xff, 0xff, 1][..], &[0, 1, 1, 0], &[0, 0, 0x77]] {
        let (mut reader, mut writer) = stage.link(&key, Role::Evaluator).await.into_parts();
        writer.write_all(bytes).await.unwrap();
        writer.flush().await.unwrap();
        let answer = receive(&mut reader, "an answer").await.unwrap();
        assert_eq!(answer, Message::Refused(Refusal::Malformed), "{bytes:?}");
    }
    honest_companies_learn(&mut stage, &[]).await;
    refusals_are(stage, 4, [5, 8]).await;
}

#[tokio::test]
async fn one_that_goes_on_talking_is_cut_off_and_its_upload_stays() {
    let mut stage = Stage::new(5, None, limits(LONG)).await;
    let key = Arc::new(stage.key(4));
    for role in BOTH {
        let upload = Message::Upload(stage.upload([1; 16], 9));
        let (answer, link) = stage.say(&key, role, upload).await;
        assert_eq!(answer, Message::Accepted);
        let (mut reader, mut writer) = link.into_parts();
        writer.write_all(&[0; 4096]).await.unwrap();
        // The server may have cut the link before all of it was sent.
        let _ = writer.flush().await;
        assert!(receive(&mut reader, "the end").await.is_err());
    }
    honest_companies_learn(&mut stage, &[0]).await;
    servers_are_content(stage, 5).await;
}

#[tokio::test]
async fn strangers_and_the_wrong_server_are_refused() {
    let mut stage = Stage::new(4, None, limits(LONG)).await;
    let stranger = Arc::new(Identity::generate().unwrap());
    for place in [&stage.venue.garbler, &stage.venue.evaluator] {
        let security = Security::tls(stranger.clone(), [place.fingerprint]);
        let link = (stage.venue.transport)
            .connect(&place.address, &security)
            .await;
        let (mut reader, _writer) = link.unwrap().into_parts();
        let error = receive(&mut reader, "a word").await.unwrap_err();
        let failure = Failure::of_wire("the server", error);
        let is_refused = matches!(
            &failure,
            Failure::Link {
                source: TransportError::Handshake(HandshakeError::PeerRefusedUs { .. }),
                ..
            }
        );
        assert!(is_refused, "{failure}");
    }
    // A company that takes one server for the other uploads nothing.
    let key = Arc::new(stage.key(3));
    let security = Security::tls(key.clone(), [stage.venue.garbler.fingerprint]);
    let address = &stage.venue.evaluator.address;
    let wrong = stage.venue.transport.connect(address, &security).await;
    assert!(matches!(wrong, Err(TransportError::Handshake(HandshakeError::WrongPeer { .. }))));
    for (role, share) in [(Role::Garbler, 3), (Role::Evaluator, 4)] {
        let upload = Message::Upload(stage.upload([1; 16], share));
        drop(stage.say(&key, role, upload).await);
    }
    let figures = [5, 6, 7, 3 ^ 4];
    let playing: Vec<_> = (0..3)
        .map(|number| stage.honest(number, figures[number]))
        .collect();
    for company in playing {
        assert_eq!(company.await.unwrap().unwrap(), Statistics::of(&figures));
    }
    servers_are_content(stage, 4).await;
}
