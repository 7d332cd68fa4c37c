//! Tests of the garbling schemes of runs of a connection.

use transpute_garble::Scheme;

use super::{End, Pair};
use crate::{
    ConnectionConfig, FrameKind, Role, SchemeSet, SessionError,
    error::Field,
    tests::{Setup, chain, random_inputs},
};

/// The allowed schemes of a side: one scheme, or the recommended ones with a preference.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Only(Scheme),
    Auto(Scheme),
}

const WISHES: [Wish; 5] = [
    Wish::Only(Scheme::HalfGates),
    Wish::Only(Scheme::ThreeHalves),
    Wish::Only(Scheme::Prf),
    Wish::Auto(Scheme::HalfGates),
    Wish::Auto(Scheme::ThreeHalves),
];

impl Wish {
    fn apply(self, setup: &Setup, decides: bool) -> Setup {
        let mut setup = setup.clone();
        (setup.config.scheme, setup.config.other_schemes) = match self {
            Self::Only(scheme) => (scheme, SchemeSet::EMPTY),
            Self::Auto(preferred) => (preferred, SchemeSet::RECOMMENDED),
        };
        setup.config.decides_scheme = decides;
        setup
    }

    fn preferred(self) -> Scheme {
        let (Self::Only(scheme) | Self::Auto(scheme)) = self;
        scheme
    }
}

/// Returns pairs of settings of garbler and evaluator, and the side that connects. Side 0 garbles.
fn cases() -> impl Iterator<Item = (Wish, Wish, End)> {
    (WISHES.into_iter())
        .flat_map(|ours| WISHES.into_iter().map(move |theirs| (ours, theirs)))
        .flat_map(|(ours, theirs)| [(ours, theirs, 0), (ours, theirs, 1)])
}

fn is_scheme(error: Option<&SessionError>) -> bool {
    matches!(
        error,
        Some(
            SessionError::Disagreement {
                field: Field::Scheme,
                ..
            } | SessionError::RefusedByPeer(Field::Scheme)
        )
    )
}

#[test]
fn each_run_has_a_scheme_that_both_sides_allow() {
    let circuit = chain(60);
    for (seed, is_prepared) in [(1, false), (2, true), (3, false)] {
        let mut pair = Pair::new(seed);
        let mut runs = Vec::new();
        for (index, (garbler, evaluator, connects)) in cases().enumerate() {
            let setup = Setup::new(&circuit, random_inputs(&circuit, 1 + index % 10, 9));
            let setups = [
                garbler.apply(&setup, connects == 0),
                evaluator.apply(&setup, connects == 1),
            ];
            let mut call = |end: End, role| match is_prepared {
                true => pair.prepare(end, role, &setups[end]),
                false => pair.call(end, role, &setups[end]),
            };
            // Either side calls first.
            let run = match index % 3 {
                0 => [call(0, Role::Garbler), call(1, Role::Evaluator)],
                _ => {
                    let evaluator = call(1, Role::Evaluator);
                    [call(0, Role::Garbler), evaluator]
                }
            };
            runs.push((run, setups, (garbler, evaluator, connects)));
            pair.wander(index * 7 % 50);
        }
        pair.rest();
        if is_prepared {
            for ([garbler, evaluator], setups, _) in &runs {
                if pair.done(0, *garbler).is_prepared {
                    pair.provide(0, *garbler, &setups[0]);
                    pair.provide(1, *evaluator, &setups[1]);
                }
            }
            pair.rest();
        }
        pair.assert_alive();
        for ([garbler, evaluator], setups, which) in runs {
            let [ours, theirs] = [0, 1].map(|end: End| setups[end].config.allowed_schemes());
            let common = ours.common(theirs);
            let ends = [(0, garbler), (1, evaluator)].map(|(end, run)| &pair.done(end, run).end);
            if common.is_empty() {
                for end in ends {
                    let error = end.as_ref().and_then(|end| end.as_ref().err());
                    assert!(is_scheme(error), "{which:?}: {error:?}");
                }
                continue;
            }
            pair.check(1, evaluator, &setups[1]);
            let schemes = ends.map(|end| match end {
                Some(Ok(report)) => report.scheme,
                other => panic!("{which:?}: {other:?}"),
            });
            assert_eq!(schemes[0], schemes[1], "{which:?}");
            assert!(common.contains(schemes[0]), "{which:?}");
            let decider = [which.0, which.1][which.2].preferred();
            if common.contains(decider) {
                assert_eq!(schemes[0], decider, "{which:?}");
            }
        }
    }
}

#[test]
fn a_warm_run_with_a_choice_is_one_round_trip() {
    let circuit = chain(60);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 3, 9));
    for preferred in SchemeSet::RECOMMENDED.iter() {
        for connects in [0, 1] {
            let mut pair = Pair::new(4);
            pair.rest();
            let garbler = Wish::Auto(preferred).apply(&setup, connects == 0);
            let other = Wish::Auto(preferred).apply(&setup, connects == 1);
            pair.call(0, Role::Garbler, &garbler);
            let evaluator = pair.call(1, Role::Evaluator, &other);
            pair.exhaust(1);
            pair.arrive(0);
            pair.exhaust(0);
            while pair.deliver(1) || pair.poll(1) {}
            pair.check(1, evaluator, &setup);
        }
    }
}

#[test]
fn a_run_that_begins_again_leaves_the_window_to_others() {
    let circuit = chain(3000);
    let config = ConnectionConfig {
        window: 1 << 20,
        ..ConnectionConfig::default()
    };
    let mut pair = Pair::with(5, &config);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 16, 9));
    let garbler = Wish::Auto(Scheme::ThreeHalves).apply(&setup, true);
    let evaluator = Wish::Only(Scheme::HalfGates).apply(&setup, false);
    let runs: Vec<_> = (0..6)
        .map(|_| {
            [
                pair.call(0, Role::Garbler, &garbler),
                pair.call(1, Role::Evaluator, &evaluator),
            ]
        })
        .collect();
    pair.rest();
    pair.assert_alive();
    for [garbler, evaluator] in runs {
        pair.check(0, garbler, &setup);
        pair.check(1, evaluator, &setup);
    }
    let hellos = (pair.sent.iter())
        .filter(|(end, frame)| *end == 0 && frame.kind == FrameKind::Hello)
        .count();
    assert!(hellos > 6, "none of six runs has begun again");
}

#[test]
fn a_side_that_calls_later_and_disagrees_tells_what_it_allows() {
    let circuit = chain(60);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 3, 9));
    let auto = Wish::Auto(Scheme::ThreeHalves).apply(&setup, true);
    let prf = Wish::Only(Scheme::Prf).apply(&setup, false);
    let mut pair = Pair::new(6);
    pair.rest();
    let evaluator = pair.call(1, Role::Evaluator, &auto);
    pair.rest();
    let garbler = pair.call(0, Role::Garbler, &prf);
    pair.rest();
    pair.assert_alive();
    let names = ["prf", "auto:half-gates,three-halves"];
    for (end, run) in [(0, garbler), (1, evaluator)] {
        let Some(Err(SessionError::Disagreement {
            field: Field::Scheme,
            ours,
            theirs,
        })) = &pair.done(end, run).end
        else {
            panic!("{:?}", pair.done(end, run));
        };
        assert_eq!([ours, theirs], [names[end], names[1 - end]]);
    }
    let next = pair.call_both(0, &setup);
    pair.rest();
    pair.check(1, next[1], &setup);
}
