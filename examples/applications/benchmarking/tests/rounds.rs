//! Rounds of honest parties.

use std::{sync::Arc, time::Duration};

use transpute::{Fingerprint, Identity, Role, transport::Security};
use transpute_applications::causes;

use super::stage::{LONG, Stage, limits, plan};
use crate::{
    crowd::Order,
    demo,
    failure::Failure,
    round::{Members, RoundId},
    server::{Limits, Server},
    statistics::Statistics,
    transports,
    wire::{Message, Refusal, Terms, send},
};

#[tokio::test]
async fn companies_learn_statistics_concurrently_and_in_turn() {
    let figures = [31, 41, 59, 26, 53, 58, 97];
    for (order, transport) in [(Order::Concurrent, "quic"), (Order::Sequential, "tcp")] {
        // Every company's results are compared within.
        let (played, servers) = demo::run(&figures, order, transport).await.unwrap();
        assert_eq!(played.statistics, Statistics::of(&figures));
        for server in servers {
            assert!(server.prepared);
            assert_eq!(server.companies, 7);
        }
    }
}

/// These wait for their deadlines at the same time.
#[tokio::test]
async fn rounds_end_at_the_deadline() {
    tokio::join!(
        who_does_not_come_is_left_out_at_the_deadline(),
        a_handful_that_is_too_small_learns_nothing(),
    );
}

async fn who_does_not_come_is_left_out_at_the_deadline() {
    let mut stage = Stage::new(6, None, limits(Duration::from_secs(4))).await;
    let figures = [10, 20, 40, 1000];
    let playing: Vec<_> = (figures.iter().enumerate())
        .map(|(number, &figure)| stage.honest(number, figure))
        .collect();
    for company in playing {
        let learnt = company.await.unwrap().unwrap();
        assert_eq!(learnt, Statistics::of(&figures));
    }
    for server in stage.end().await {
        let report = server.unwrap();
        assert_eq!((report.companies, report.prepared), (4, false));
    }
}

async fn a_handful_that_is_too_small_learns_nothing() {
    let mut stage = Stage::new(6, Some(4), limits(Duration::from_secs(4))).await;
    let playing: Vec<_> = (0..3).map(|number| stage.honest(number, 7)).collect();
    for company in playing {
        let failure = company.await.unwrap().unwrap_err();
        assert!(
            matches!(
                failure,
                Failure::Refused {
                    why: Refusal::TooFew,
                    ..
                }
            ),
            "{failure}"
        );
    }
    let [garbler, evaluator] = stage.end().await;
    assert!(matches!(
        garbler,
        Err(Failure::Refused {
            why: Refusal::TooFew,
            ..
        })
    ));
    assert!(matches!(
        evaluator,
        Err(Failure::TooFew { got: 3, least: 4 })
    ));
}

#[tokio::test]
async fn servers_that_were_told_different_things_do_not_compute() {
    let keys = || Arc::new(Identity::generate().unwrap());
    let (garbler, evaluator) = (keys(), keys());
    let print = |byte| Fingerprint::from([byte; 32]);
    let members = |last| Members::new([1, 2, 3, last].map(print)).unwrap();
    type Change = fn(&mut crate::server::Plan);
    let changes: [(Change, &str); 3] = [
        (
            |plan| plan.round = "another".into(),
            "another name of the round",
        ),
        (|plan| plan.least = Some(4), "at least"),
        (|_| {}, "another list"),
    ];
    for (change, message) in changes {
        let is_list = message.contains("list");
        let limits = limits(LONG);
        let lists = [members(4), members(if is_list { 5 } else { 4 })];
        let [first, second] = lists.each_ref().map(|list| plan(list, Some(3), limits));
        let first = Server::bind(first(Role::Garbler, &garbler, &evaluator));
        let first = first.await.unwrap();
        let mut told = second(Role::Evaluator, &evaluator, &garbler);
        told.garbler = Some(first.address());
        told.between = first.between().unwrap();
        change(&mut told);
        let second = Server::bind(told).await.unwrap();
        let (first, second) = tokio::join!(first.run(), second.run());
        let texts = [first, second].map(|outcome| outcome.unwrap_err().to_string());
        assert!(texts.iter().any(|text| text.contains(message)), "{texts:?}");
    }
}

#[tokio::test]
async fn plans_that_make_no_sense_are_refused() {
    let keys = || Arc::new(Identity::generate().unwrap());
    let (own, other) = (keys(), keys());
    let print = |byte| Fingerprint::from([byte; 32]);
    let members = Members::new([1, 2, 3].map(print)).unwrap();
    let known = Members::new([print(1), print(2), other.fingerprint()]).unwrap();
    let limits = Limits::of(LONG);
    for (plan, message) in [
        (
            plan(&members, Some(2), limits)(Role::Garbler, &own, &other),
            "not 2",
        ),
        (
            plan(&members, Some(4), limits)(Role::Garbler, &own, &other),
            "not 4",
        ),
        (
            plan(&members, None, limits)(Role::Garbler, &own, &own),
            "the same key",
        ),
        (
            plan(&members, None, limits)(Role::Evaluator, &own, &other),
            "address of the garbler",
        ),
        (
            plan(&known, None, limits)(Role::Garbler, &own, &other),
            "on the list",
        ),
    ] {
        let failure = Server::bind(plan).await.err().unwrap();
        assert!(failure.to_string().contains(message), "{failure}");
    }
}

/// The evaluator's server says who takes part, but not whatever it likes.
#[tokio::test]
async fn the_garblers_server_refuses_companies_that_are_too_few_or_unknown() {
    for (said, message) in [
        (vec![0b0011], "2 companies reached both servers"),
        (vec![0b0111], "have not uploaded here"),
        (vec![0b1_0111], "0 companies reached both servers"),
        (vec![0b0111, 0], "0 companies reached both servers"),
    ] {
        let keys = || Arc::new(Identity::generate().unwrap());
        let (garbler, evaluator) = (keys(), keys());
        let members = Members::new([1, 2, 3, 4].map(|byte| Fingerprint::from([byte; 32]))).unwrap();
        let plan = plan(&members, Some(3), limits(LONG))(Role::Garbler, &garbler, &evaluator);
        let round = RoundId::new(
            &plan.round,
            &garbler.fingerprint(),
            &evaluator.fingerprint(),
        );
        let server = Server::bind(plan).await.unwrap();
        let security = Security::tls(evaluator.clone(), [garbler.fingerprint()]);
        let address = server.address();
        let running = tokio::spawn(server.run());
        let transport = transports::named("tcp").unwrap();
        let link = transport.connect(&address, &security).await.unwrap();
        let (_reader, mut writer) = link.into_parts();
        let terms = Terms {
            round: round.unwrap(),
            members: members.digest(),
            companies: 4,
            least: 3,
        };
        for message in [Message::Terms(terms), Message::Taken(said)] {
            send(&mut writer, &message).await.unwrap();
        }
        let failure = running.await.unwrap().unwrap_err();
        assert!(causes(&failure).contains(message), "{failure}");
    }
}

#[tokio::test]
async fn a_server_that_stays_alone_gives_up_at_the_deadline() {
    let keys = || Arc::new(Identity::generate().unwrap());
    let (own, other) = (keys(), keys());
    let members = Members::new([1, 2, 3].map(|byte| Fingerprint::from([byte; 32]))).unwrap();
    let short = limits(Duration::from_millis(200));
    let plan = plan(&members, None, short)(Role::Garbler, &own, &other);
    let failure = Server::bind(plan).await.unwrap().run().await.unwrap_err();
    assert!(matches!(failure, Failure::TooLate { .. }), "{failure}");
}
