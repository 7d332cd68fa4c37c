//! Tests of the agreement on the garbling scheme, over loopback.

use transpute::{
    Error, Party, Role, Scheme, SchemeSet, SessionError,
    serve::{Limits, Request},
    session::Field,
};

use crate::adder::{adder, number};

/// The settings of a party.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Default,
    Only(Scheme),
    Auto(SchemeSet),
}

const ALL_FREE_XOR: SchemeSet =
    SchemeSet::of(&[Scheme::HalfGates, Scheme::FixedKey, Scheme::ThreeHalves]);

const WISHES: [Wish; 5] = [
    Wish::Default,
    Wish::Only(Scheme::ThreeHalves),
    Wish::Only(Scheme::Prf),
    Wish::Auto(SchemeSet::RECOMMENDED),
    Wish::Auto(ALL_FREE_XOR),
];

impl Wish {
    fn allowed(self) -> SchemeSet {
        match self {
            Self::Default => SchemeSet::of(&[Scheme::HalfGates]),
            Self::Only(scheme) => SchemeSet::of(&[scheme]),
            Self::Auto(set) => set,
        }
    }

    fn party(self, role: Role) -> Party {
        let party = match role {
            Role::Garbler => Party::garbler(&adder()),
            Role::Evaluator => Party::evaluator(&adder()),
        };
        let party = party.plaintext().transport("tcp");
        match self {
            Self::Default => party,
            Self::Only(scheme) => party.scheme(scheme),
            Self::Auto(set) => party.schemes(set),
        }
    }
}

fn is_scheme(error: &Error) -> bool {
    matches!(
        error,
        Error::Session(SessionError::Disagreement {
            field: Field::Scheme,
            ..
        })
    )
}

/// Returns all combinations of listener, garbler and allowed schemes.
fn cases() -> impl Iterator<Item = (Wish, Wish, Role)> {
    (WISHES.into_iter())
        .flat_map(|listener| {
            WISHES
                .into_iter()
                .map(move |connector| (listener, connector))
        })
        .flat_map(|(l, c)| [(l, c, Role::Garbler), (l, c, Role::Evaluator)])
}

fn other(role: Role) -> Role {
    match role {
        Role::Garbler => Role::Evaluator,
        Role::Evaluator => Role::Garbler,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_has_a_scheme_that_both_parties_allow() {
    for (listener, connector, role) in cases() {
        let listening = listener.party(role).listen("127.0.0.1:0").await.unwrap();
        let address = listening.local_address();
        let connecting = connector.party(other(role)).connect(address);
        let (ours, theirs) = tokio::join!(listening.run(number(5)), connecting.run(number(6)));
        let which = format!("{listener:?} listens as {role}, {connector:?} connects");
        let common = listener.allowed().common(connector.allowed());
        if common.is_empty() {
            assert!(is_scheme(&ours.unwrap_err()), "{which}");
            assert!(is_scheme(&theirs.unwrap_err()), "{which}");
            continue;
        }
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        let scheme = ours.report.session.scheme;
        assert_eq!(theirs.report.session.scheme, scheme, "{which}");
        assert!(common.contains(scheme), "{which}: {scheme}");
        let outputs = if role == Role::Evaluator {
            &ours
        } else {
            &theirs
        };
        assert_eq!(outputs.bits(), number(11), "{which}");
        // Only the party that connected reports a choice of the scheme, and only if it could
        // choose.
        assert_eq!(ours.report.scheme, None, "{which}");
        assert_eq!(
            theirs.report.scheme.is_some(),
            matches!(connector, Wish::Auto(_)),
            "{which}"
        );
        if let Some(choice) = &theirs.report.scheme {
            let preferred: Scheme = choice.chosen().name.parse().unwrap();
            assert!(
                scheme == preferred || !common.contains(preferred),
                "{which}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_run_of_a_connection_has_a_scheme_that_both_parties_allow() {
    for (listener, connector, role) in cases() {
        let listening = listener.party(role).listen("127.0.0.1:0").await.unwrap();
        let address = listening.local_address();
        let connecting = connector.party(other(role)).connect(address);
        let (ours, theirs) = tokio::join!(listening.open(), connecting.open());
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        let which = format!("{listener:?} listens as {role}, {connector:?} connects");
        let common = listener.allowed().common(connector.allowed());
        for _ in 0..2 {
            let (a, b) = tokio::join!(ours.run(number(5)), theirs.run(number(6)));
            match common.is_empty() {
                true => {
                    assert!(is_scheme(&a.unwrap_err()), "{which}");
                    assert!(is_scheme(&b.unwrap_err()), "{which}");
                }
                false => {
                    let (a, b) = (a.unwrap(), b.unwrap());
                    assert_eq!(a.report.scheme, b.report.scheme, "{which}");
                    assert!(common.contains(a.report.scheme), "{which}");
                    let outputs = if role == Role::Evaluator { a } else { b };
                    assert_eq!(outputs.bits(), number(11), "{which}");
                }
            }
        }
        let _ = tokio::join!(ours.close(), theirs.close());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_agrees_with_each_peer_on_what_both_allow() {
    for offered in [Wish::Default, Wish::Auto(SchemeSet::RECOMMENDED)] {
        let listening = (offered.party(Role::Garbler).listen("127.0.0.1:0"))
            .await
            .unwrap();
        let input = |_: &Request| Ok(number(5));
        let server = listening.serve(input, Limits::default()).unwrap();
        let (address, stop) = (server.local_address(), server.stopper());
        let serving = tokio::spawn(server.run());
        for peer in WISHES {
            let connection = peer
                .party(Role::Evaluator)
                .connect(&address)
                .open()
                .await
                .unwrap();
            let outcome = connection.run(number(6)).await;
            let common = offered.allowed().common(peer.allowed());
            match outcome {
                Ok(outcome) => {
                    assert_eq!(outcome.bits(), number(11));
                    assert!(common.contains(outcome.report.scheme), "{peer:?}");
                }
                Err(error) => assert!(common.is_empty() && is_scheme(&error), "{peer:?}: {error}"),
            }
            let _ = connection.close().await;
        }
        stop.stop();
        serving.await.unwrap().unwrap();
    }
}
