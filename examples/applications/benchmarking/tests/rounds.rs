//! Tests of rounds between honest parties.

use std::{sync::Arc, time::Duration};

use transpute::{Fingerprint, Identity, Role, transport::Security};
use transpute_applications::causes;

use super::setup::{LONG, Setup, limits, plan};
use crate::{
    demo,
    failure::Failure,
    round::{Members, RoundId},
    server::{Server, Timeouts},
    simulation::Order,
    statistics::Statistics,
    transports,
    wire::{Message, Refusal, RoundParameters, send},
};

#[tokio::test]
async fn companies_learn_statistics_in_either_order() {
    let figures = [31, 41, 59, 26, 53, 58, 97];
    for (order, transport) in [(Order::Concurrent, "quic"), (Order::Sequential, "tcp")] {
        // `demo::run` returns an error if a company learns wrong results.
        let (simulated, servers) = demo::run(&figures, order, transport).await.unwrap();
        assert_eq!(simulated.statistics, Statistics::of(&figures));
        for server in servers {
            assert!(server.prepared);
            assert_eq!(server.companies, 7);
        }
    }
}

/// Several cases run concurrently, because each waits until its deadline.
#[tokio::test]
async fn rounds_end_at_the_deadline() {
    tokio::join!(
        absent_companies_are_left_out_at_the_deadline(),
        too_few_companies_learn_nothing(),
    );
}

async fn absent_companies_are_left_out_at_the_deadline() {
    let mut setup = Setup::new(6, None, limits(Duration::from_secs(4))).await;
    let figures = [10, 20, 40, 1000];
    let playing: Vec<_> = (figures.iter().enumerate())
        .map(|(number, &figure)| setup.honest(number, figure))
        .collect();
    for company in playing {
        let learnt = company.await.unwrap().unwrap();
        assert_eq!(learnt, Statistics::of(&figures));
    }
    for server in setup.end().await {
        let report = server.unwrap();
        assert_eq!((report.companies, report.prepared), (4, false));
    }
}

async fn too_few_companies_learn_nothing() {
    let mut setup = Setup::new(6, Some(4), limits(Duration::from_secs(4))).await;
    let playing: Vec<_> = (0..3).map(|number| setup.honest(number, 7)).collect();
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
    let [garbler, evaluator] = setup.end().await;
    assert!(matches!(
        garbler,
        Err(Failure::Refused {
            why: Refusal::TooFew,
            ..
        })
    ));
    assert!(matches!(
        evaluator,
        Err(Failure::TooFew {
            got: 3,
            min_companies: 4
        })
    ));
}

#[tokio::test]
async fn servers_with_different_parameters_do_not_compute() {
    let keys = || Arc::new(Identity::generate().unwrap());
    let (garbler, evaluator) = (keys(), keys());
    let print = |byte| Fingerprint::from([byte; 32]);
    let members = |last| Members::new([1, 2, 3, last].map(print)).unwrap();
    type Change = fn(&mut crate::server::ServerConfig);
    let changes: [(Change, &str); 3] = [
        (
            |plan| plan.round = "another".into(),
            "another name of the round",
        ),
        (|plan| plan.min_companies = Some(4), "a minimum"),
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
async fn invalid_configurations_are_refused() {
    let keys = || Arc::new(Identity::generate().unwrap());
    let (own, other) = (keys(), keys());
    let print = |byte| Fingerprint::from([byte; 32]);
    let members = Members::new([1, 2, 3].map(print)).unwrap();
    let known = Members::new([print(1), print(2), other.fingerprint()]).unwrap();
    let limits = Timeouts::of(LONG);
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

/// The evaluator's server chooses the companies. The garbler's server must check the choice.
#[tokio::test]
async fn the_garbler_refuses_too_few_or_unknown_companies() {
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
        let parameters = RoundParameters {
            round: round.unwrap(),
            members: members.digest(),
            companies: 4,
            min_companies: 3,
        };
        for message in [Message::Parameters(parameters), Message::Taken(said)] {
            send(&mut writer, &message).await.unwrap();
        }
        let failure = running.await.unwrap().unwrap_err();
        assert!(causes(&failure).contains(message), "{failure}");
    }
}

#[tokio::test]
async fn a_server_without_its_peer_gives_up_at_the_deadline() {
    let keys = || Arc::new(Identity::generate().unwrap());
    let (own, other) = (keys(), keys());
    let members = Members::new([1, 2, 3].map(|byte| Fingerprint::from([byte; 32]))).unwrap();
    let short = limits(Duration::from_millis(200));
    let plan = plan(&members, None, short)(Role::Garbler, &own, &other);
    let failure = Server::bind(plan).await.unwrap().run().await.unwrap_err();
    assert!(matches!(failure, Failure::TooLate { .. }), "{failure}");
}
