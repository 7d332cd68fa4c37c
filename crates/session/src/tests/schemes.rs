//! Tests of the agreement on the garbling scheme, by the allowed schemes and the deciding party.

use transpute_garble::Scheme;

use super::{Pair, Setup, chain, random_inputs, tagged};
use crate::{Frame, FrameKind, OtChoice, Output, Role, SchemeSet, SessionError, error::Field};

/// The settings of one party: its preferred scheme, and the others that it allows.
#[derive(Clone, Copy, Debug)]
struct Wish(Scheme, SchemeSet);

const FREE_XOR: [Scheme; 3] = [Scheme::HalfGates, Scheme::FixedKey, Scheme::ThreeHalves];

impl Wish {
    /// Returns the settings with one scheme, and those with several schemes and each preference.
    fn all() -> Vec<Self> {
        let mut all: Vec<Self> = (Scheme::ALL.into_iter())
            .map(|scheme| Self(scheme, SchemeSet::of(&[scheme])))
            .collect();
        for set in [
            SchemeSet::RECOMMENDED,
            SchemeSet::of(&[Scheme::HalfGates, Scheme::FixedKey]),
            SchemeSet::of(&FREE_XOR),
        ] {
            all.extend(set.iter().map(|preferred| Self(preferred, set)));
        }
        all
    }

    fn apply(self, setup: &Setup, decides: bool) -> Setup {
        let mut setup = setup.clone();
        (setup.config.scheme, setup.config.other_schemes) = (self.0, self.1);
        setup.config.decides_scheme = decides;
        setup
    }

    fn name(self) -> String {
        match self.1.len() {
            1 => self.0.to_string(),
            _ => format!("auto:{}", self.1),
        }
    }
}

/// Runs both sides. Returns the scheme that each side has used, and the results.
fn run(garbler: &Setup, evaluator: &Setup) -> (Vec<Scheme>, super::Ends) {
    let mut schemes = Vec::new();
    let pair = Pair::new(garbler, evaluator);
    let ends = pair.run_to(&mut |_, frame| vec![frame], &mut |side| {
        schemes.push(side.single.scheme);
    });
    (schemes, ends)
}

fn check_outputs(setup: &Setup, outputs: &[Output], which: &str) {
    assert_eq!(outputs.len(), setup.inputs.len(), "{which}");
    for (output, input) in outputs.iter().zip(&setup.inputs) {
        let expected = setup.circuit.evaluate(input).unwrap();
        assert_eq!(output.bits, expected, "{which}");
    }
}

#[test]
fn what_both_allow_and_the_connector_prefers_is_done_whoever_garbles() {
    let circuit = chain(40);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 20, 9));
    setup.config.chunk_len = 700;
    for ot in [OtChoice::Direct, OtChoice::Auto] {
        setup.config.ot = ot;
        for (garbler, evaluator) in
            (Wish::all().into_iter()).flat_map(|g| Wish::all().into_iter().map(move |e| (g, e)))
        {
            for connects in [Role::Garbler, Role::Evaluator] {
                let (schemes, ends) = run(
                    &garbler.apply(&setup, connects == Role::Garbler),
                    &evaluator.apply(&setup, connects == Role::Evaluator),
                );
                let which = format!("{garbler:?} and {evaluator:?}, the {connects} connects");
                let common = garbler.1.common(evaluator.1);
                let preferred = match connects {
                    Role::Garbler => garbler.0,
                    Role::Evaluator => evaluator.0,
                };
                if common.is_empty() {
                    for (role, own, peer) in [
                        (Role::Garbler, garbler, evaluator),
                        (Role::Evaluator, evaluator, garbler),
                    ] {
                        let Err(SessionError::Disagreement {
                            field: Field::Scheme,
                            ours,
                            theirs,
                        }) = ends.of(role)
                        else {
                            panic!("{which}: {role} ended with {:?}", ends.of(role));
                        };
                        assert_eq!([ours, theirs], [&own.name(), &peer.name()], "{which}");
                    }
                    continue;
                }
                assert!(ends.garbler.is_ok(), "{which}: {:?}", ends.garbler);
                let outputs = ends.evaluator.unwrap_or_else(|e| panic!("{which}: {e}"));
                check_outputs(&setup, &outputs, &which);
                assert_eq!(schemes[0], schemes[1], "{which}");
                assert!(common.contains(schemes[0]), "{which}: {schemes:?}");
                if common.contains(preferred) {
                    assert_eq!(schemes[0], preferred, "{which}");
                }
            }
        }
    }
}

/// Returns the number of half round trips from the start of both sides to the evaluator's output.
/// In each half round trip, all sent frames arrive, and both sides do all possible work.
pub(super) fn half_round_trips(garbler: &Setup, evaluator: &Setup) -> usize {
    let mut pair = Pair::new(garbler, evaluator);
    let mut sent = [pair.sides[0].step(), pair.sides[1].step()];
    for half in 1..20 {
        let [from_garbler, from_evaluator] = sent;
        pair.sides[0].arriving.extend(from_evaluator);
        pair.sides[1].arriving.extend(from_garbler);
        sent = [pair.sides[0].step(), pair.sides[1].step()];
        if pair.sides[1].outputs.len() == evaluator.inputs.len() {
            return half;
        }
    }
    panic!("no output");
}

#[test]
fn a_choice_of_the_scheme_costs_no_round_trip() {
    let circuit = chain(100);
    let setup = |evaluations| Setup::new(&circuit, random_inputs(&circuit, evaluations, 4));
    let auto = |preferred| Wish(preferred, SchemeSet::RECOMMENDED);
    let only = |scheme| Wish(scheme, SchemeSet::of(&[scheme]));
    for (evaluations, base) in [(10, 2), (100, 3)] {
        let setup = setup(evaluations);
        let halves = |garbler: Wish, evaluator: Wish, connects| {
            half_round_trips(
                &garbler.apply(&setup, connects == Role::Garbler),
                &evaluator.apply(&setup, connects == Role::Evaluator),
            )
        };
        let half_gates = only(Scheme::HalfGates);
        assert_eq!(halves(half_gates, half_gates, Role::Garbler), base);
        for preferred in SchemeSet::RECOMMENDED.iter() {
            for other in SchemeSet::RECOMMENDED.iter() {
                for connects in [Role::Garbler, Role::Evaluator] {
                    assert_eq!(halves(auto(preferred), auto(other), connects), base);
                }
            }
            // The listener allows one scheme. A garbler that connects may have started with another
            // one.
            let evaluator = halves(half_gates, auto(preferred), Role::Evaluator);
            assert_eq!(evaluator, base);
            let garbler = halves(auto(preferred), half_gates, Role::Garbler);
            // With an extension, its base-OT message is sent half a round trip later. Direct
            // transfers have waited for the evaluator anyway.
            let begins_again = preferred != Scheme::HalfGates;
            let more = usize::from(begins_again && base == 3);
            assert_eq!(garbler, base + more, "{preferred}");
        }
    }
}

/// Returns a hello with its preferred and allowed schemes replaced.
fn with_schemes(frame: &Frame, preferred: u8, allowed: u8) -> Frame {
    let mut payload = frame.payload.to_vec();
    (payload[1], payload[2]) = (preferred, allowed);
    Frame {
        payload: payload.into(),
        ..frame.clone()
    }
}

#[test]
fn a_peer_that_prefers_what_it_may_not_gets_nothing() {
    let circuit = chain(60);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 4, 9));
    let allowed = SchemeSet::RECOMMENDED;
    let own = Wish(Scheme::HalfGates, allowed);
    for role in [Role::Garbler, Role::Evaluator] {
        for connects in [Role::Garbler, Role::Evaluator] {
            for (preferred, set) in (0..=5).flat_map(|p| (0..=0x1f).map(move |set| (p, set))) {
                let setup = own.apply(&setup, connects == role);
                let peer = own.apply(&setup, connects != role);
                let (ours, theirs) = match role {
                    Role::Garbler => (&setup, &peer),
                    Role::Evaluator => (&peer, &setup),
                };
                let mut scheme = None;
                let ends = Pair::new(ours, theirs).run_to(
                    &mut |from, frame| {
                        let is_lie = from != role && frame.kind == FrameKind::Hello;
                        vec![match is_lie {
                            true => with_schemes(&frame, preferred, set),
                            false => frame,
                        }]
                    },
                    &mut |side| {
                        if side.single.role == role {
                            scheme = Some(side.single.scheme);
                        }
                    },
                );
                let scheme = scheme.unwrap();
                assert!(allowed.contains(scheme), "{role}: {scheme}");
                let which = format!("{role}, {connects} connects: {preferred} of {set:#x}");
                match ends.of(role) {
                    // The keys depend on both hellos. So a run succeeds only if the changed hello
                    // equals the original one.
                    Ok(_) => assert_eq!((preferred, set), (0, allowed.code()), "{which}"),
                    Err(SessionError::Disagreement { field, .. }) => {
                        assert_eq!(*field, Field::Scheme, "{which}");
                        let known = SchemeSet::from_code(set).unwrap();
                        assert!(known.common(allowed).is_empty(), "{which}");
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

#[test]
fn a_garbler_begins_again_once_and_within_the_lead() {
    let circuit = chain(200);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 1, 9));
    setup.config.chunk_len = 64;
    let garbler = Wish(Scheme::ThreeHalves, SchemeSet::RECOMMENDED).apply(&setup, true);
    let evaluator = Wish(Scheme::HalfGates, SchemeSet::EMPTY).apply(&setup, false);
    // The garbler's second hello is replaced by its first one.
    let mut first = None;
    let ends = Pair::new(&garbler, &evaluator).run(&mut |from, frame| {
        if from == Role::Garbler && frame.kind == FrameKind::Hello {
            return vec![first.get_or_insert(frame).clone()];
        }
        vec![frame]
    });
    assert!(matches!(
        ends.evaluator,
        Err(SessionError::Unexpected {
            kind: FrameKind::Hello,
            ..
        })
    ));
    // The evaluator receives chunks of 1 MiB until it rejects one.
    let mut session = evaluator.start(Role::Evaluator, 2).connection;
    let mut opening = Pair::new(&garbler, &evaluator).sides[0].step();
    let tables = (opening
        .iter()
        .position(|frame| frame.kind == FrameKind::Tables))
    .unwrap();
    opening.truncate(tables);
    for frame in opening {
        session.handle(frame).unwrap();
    }
    let chunk = Frame {
        kind: FrameKind::Tables,
        payload: vec![0; 1 << 20].into(),
    };
    let chunk = tagged(Role::Garbler, chunk);
    let taken = (0..1000).take_while(|_| session.handle(chunk.clone()).is_ok());
    // The run needs less than the 1 MiB that every side accepts.
    assert_eq!(taken.count(), 1 + 2);
}

#[test]
fn schemes_that_a_session_cannot_change_between_are_refused() {
    let circuit = chain(5);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 1, 9));
    setup.config.other_schemes = SchemeSet::of(&[Scheme::Prf]);
    let error = setup.start_error(Role::Garbler).unwrap();
    let expected = "half-gates,prf cannot be left to choose from: all must be with free XOR and a re-key period of 1";
    assert_eq!(error.to_string(), expected);
    setup.config.other_schemes = SchemeSet::RECOMMENDED;
    setup.config.rekey_period = 2;
    assert!(setup.start_error(Role::Evaluator).is_some());
}
