//! Tests of misbehaving companies alongside honest ones.

use std::{sync::Arc, time::Duration};

use tokio::io::AsyncWriteExt;
use transpute::{
    Bits, Identity, Role, TransportError,
    transport::{HandshakeError, Security},
};

use super::setup::{LONG, Setup, limits};
use crate::{
    failure::Failure,
    packing::unpack,
    statistics::{Layout, Statistics},
    wire::{Message, Refusal, Upload, receive},
};

/// The deadline of tests that wait until it passes. It is long enough for honest uploads on a busy
/// machine.
const SHORT: Duration = Duration::from_secs(4);

const BOTH: [Role; 2] = [Role::Garbler, Role::Evaluator];

/// Runs companies 0 to 3 with fixed figures, and checks their results. `others` has the figures of
/// the other companies that take part.
async fn honest_companies_learn(setup: &mut Setup, others: &[u32]) {
    let mut figures = vec![400, 300, 200, 100];
    let playing: Vec<_> = (figures.iter().enumerate())
        .map(|(number, &figure)| setup.honest(number, figure))
        .collect();
    figures.extend(others);
    for company in playing {
        assert_eq!(company.await.unwrap().unwrap(), Statistics::of(&figures));
    }
}

/// Checks that both servers completed with this number of companies and refused no upload.
async fn servers_succeed_with(setup: Setup, companies: usize) {
    servers_refused(setup, companies, [0, 0]).await;
}

/// Checks that both servers completed with this number of companies, and their numbers of refused
/// uploads.
async fn servers_refused(setup: Setup, companies: usize, refused: [u64; 2]) {
    let reports = setup.end().await.map(Result::unwrap);
    assert!(reports.iter().all(|report| report.companies == companies));
    assert_eq!(reports.map(|report| report.refused), refused);
}

/// Several cases run concurrently, because each waits until its deadline.
#[tokio::test]
async fn incomplete_uploads_delay_the_round_to_the_deadline_only() {
    tokio::join!(
        a_silent_company_is_left_out(),
        a_company_that_stops_during_its_upload_is_left_out(),
        a_company_that_reaches_one_server_only_is_left_out(),
        shares_of_different_uploads_are_not_combined(),
        invalid_uploads_are_refused(),
    );
}

async fn a_silent_company_is_left_out() {
    let mut setup = Setup::new(5, None, limits(SHORT)).await;
    let key = Arc::new(setup.key(4));
    let mut links = Vec::new();
    for role in BOTH {
        links.push(setup.link(&key, role).await);
    }
    honest_companies_learn(&mut setup, &[]).await;
    // The connections stay open to the end.
    drop(links);
    servers_succeed_with(setup, 4).await;
}

async fn a_company_that_stops_during_its_upload_is_left_out() {
    let mut setup = Setup::new(5, None, limits(SHORT)).await;
    let key = Arc::new(setup.key(4));
    let mut halves = Vec::new();
    for role in BOTH {
        let (reader, mut writer) = setup.link(&key, role).await.into_parts();
        writer.write_all(&[0, 53, 1, 7, 7]).await.unwrap();
        writer.flush().await.unwrap();
        halves.push((reader, writer));
    }
    honest_companies_learn(&mut setup, &[]).await;
    drop(halves);
    servers_succeed_with(setup, 4).await;
}

async fn a_company_that_reaches_one_server_only_is_left_out() {
    let mut setup = Setup::new(5, None, limits(SHORT)).await;
    let key = Arc::new(setup.key(4));
    let upload = Message::Upload(setup.upload([1; 16], 7));
    let (answer, mut link) = setup.send(&key, Role::Garbler, upload).await;
    assert_eq!(answer, Message::Accepted);
    honest_companies_learn(&mut setup, &[]).await;
    let verdict = receive(link.reader_mut(), "a verdict").await.unwrap();
    assert_eq!(verdict, Message::Refused(Refusal::LeftOut));
    drop(link);
    servers_succeed_with(setup, 4).await;
}

async fn shares_of_different_uploads_are_not_combined() {
    let mut setup = Setup::new(5, None, limits(SHORT)).await;
    let key = Arc::new(setup.key(4));
    let mut links = Vec::new();
    for (role, id) in [(Role::Garbler, [1; 16]), (Role::Evaluator, [2; 16])] {
        let upload = Message::Upload(setup.upload(id, 7));
        let (answer, link) = setup.send(&key, role, upload).await;
        assert_eq!(answer, Message::Accepted);
        links.push(link);
    }
    honest_companies_learn(&mut setup, &[]).await;
    for mut link in links {
        let verdict = receive(link.reader_mut(), "a verdict").await.unwrap();
        assert_eq!(verdict, Message::Refused(Refusal::LeftOut));
    }
    servers_succeed_with(setup, 4).await;
}

#[tokio::test]
async fn a_company_that_disconnects_after_its_upload_takes_part() {
    let mut setup = Setup::new(5, None, limits(LONG)).await;
    let key = Arc::new(setup.key(4));
    for (role, share) in [(Role::Garbler, 1000), (Role::Evaluator, 24)] {
        let upload = Message::Upload(setup.upload([1; 16], share));
        let (answer, link) = setup.send(&key, role, upload).await;
        assert_eq!(answer, Message::Accepted);
        drop(link);
    }
    // All companies have uploaded, so the round does not wait for the deadline, which exceeds the
    // time limit of the test.
    honest_companies_learn(&mut setup, &[1000 ^ 24]).await;
    servers_succeed_with(setup, 5).await;
}

#[tokio::test]
async fn a_company_that_reconnects_gets_its_results() {
    let mut setup = Setup::new(5, None, limits(LONG)).await;
    let key = Arc::new(setup.key(4));
    let mut links = Vec::new();
    for (role, share) in [(Role::Garbler, 1000), (Role::Evaluator, 24)] {
        let upload = Message::Upload(setup.upload([1; 16], share));
        let (answer, first) = setup.send(&key, role, upload.clone()).await;
        assert_eq!(answer, Message::Accepted);
        let (answer, second) = setup.send(&key, role, upload).await;
        assert_eq!(answer, Message::Accepted);
        // The new connection replaces the old one.
        drop(first);
        links.push(second);
    }
    honest_companies_learn(&mut setup, &[1000 ^ 24]).await;
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
        // One server's share alone does not give the results, because they are masked.
        assert_ne!(Statistics::from_bits(5, &piece), Some(expected()));
        results = results
            .iter()
            .zip(piece.iter())
            .map(|(a, b)| a ^ b)
            .collect();
    }
    assert_eq!(Statistics::from_bits(5, &results), Some(expected()));
    servers_succeed_with(setup, 5).await;
}

fn expected() -> Statistics {
    Statistics::of(&[400, 300, 200, 100, 1000 ^ 24])
}

#[tokio::test]
async fn a_second_upload_is_refused_and_the_first_is_kept() {
    let mut setup = Setup::new(5, None, limits(LONG)).await;
    let key = Arc::new(setup.key(4));
    for role in BOTH {
        let first = Message::Upload(setup.upload([1; 16], 55));
        let (answer, _first) = setup.send(&key, role, first).await;
        assert_eq!(answer, Message::Accepted);
        let second = Message::Upload(setup.upload([2; 16], 66));
        let (answer, _second) = setup.send(&key, role, second).await;
        assert_eq!(answer, Message::Refused(Refusal::Twice));
    }
    honest_companies_learn(&mut setup, &[0]).await;
    servers_refused(setup, 5, [1, 1]).await;
}

async fn invalid_uploads_are_refused() {
    let mut setup = Setup::new(5, None, limits(SHORT)).await;
    let key = Arc::new(setup.key(4));
    let good = setup.upload([1; 16], 7);
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
            let (answer, _link) = setup.send(&key, role, message.clone()).await;
            assert_eq!(answer, Message::Refused(why), "{message:?}");
        }
    }
    for bytes in [&[0xff, 0xff, 1][..], &[0, 1, 1, 0], &[0, 0, 0x77]] {
        let (mut reader, mut writer) = setup.link(&key, Role::Evaluator).await.into_parts();
        writer.write_all(bytes).await.unwrap();
        writer.flush().await.unwrap();
        let answer = receive(&mut reader, "an answer").await.unwrap();
        assert_eq!(answer, Message::Refused(Refusal::Malformed), "{bytes:?}");
    }
    honest_companies_learn(&mut setup, &[]).await;
    servers_refused(setup, 4, [5, 8]).await;
}

#[tokio::test]
async fn a_company_that_sends_too_much_is_disconnected_and_takes_part() {
    let mut setup = Setup::new(5, None, limits(LONG)).await;
    let key = Arc::new(setup.key(4));
    for role in BOTH {
        let upload = Message::Upload(setup.upload([1; 16], 9));
        let (answer, link) = setup.send(&key, role, upload).await;
        assert_eq!(answer, Message::Accepted);
        let (mut reader, mut writer) = link.into_parts();
        writer.write_all(&[0; 4096]).await.unwrap();
        // An error is ignored: the server may have closed the connection before all bytes were
        // sent.
        let _ = writer.flush().await;
        assert!(receive(&mut reader, "the end").await.is_err());
    }
    honest_companies_learn(&mut setup, &[0]).await;
    servers_succeed_with(setup, 5).await;
}

#[tokio::test]
async fn unknown_companies_and_the_wrong_server_are_refused() {
    let mut setup = Setup::new(4, None, limits(LONG)).await;
    let stranger = Arc::new(Identity::generate().unwrap());
    for place in [&setup.round_config.garbler, &setup.round_config.evaluator] {
        let security = Security::tls(stranger.clone(), [place.fingerprint]);
        let link = (setup.round_config.transport)
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
    // A company that connects to the wrong server uploads nothing.
    let key = Arc::new(setup.key(3));
    let security = Security::tls(key.clone(), [setup.round_config.garbler.fingerprint]);
    let address = &setup.round_config.evaluator.address;
    let wrong = setup
        .round_config
        .transport
        .connect(address, &security)
        .await;
    assert!(matches!(
        wrong,
        Err(TransportError::Handshake(HandshakeError::WrongPeer { .. }))
    ));
    for (role, share) in [(Role::Garbler, 3), (Role::Evaluator, 4)] {
        let upload = Message::Upload(setup.upload([1; 16], share));
        drop(setup.send(&key, role, upload).await);
    }
    let figures = [5, 6, 7, 3 ^ 4];
    let playing: Vec<_> = (0..3)
        .map(|number| setup.honest(number, figures[number]))
        .collect();
    for company in playing {
        assert_eq!(company.await.unwrap().unwrap(), Statistics::of(&figures));
    }
    servers_succeed_with(setup, 4).await;
}
