//! Tests of the labels of the evaluator's inputs: the order in which they are requested, and labels
//! that the transfers themselves produce.

use std::{collections::VecDeque, iter, num::NonZeroUsize};

use transpute_circuit::{InputSplit, catalogue};
use transpute_garble::Scheme;
use transpute_ot::Extension;

use super::{Ends, Pair, Setup, random_inputs};
use crate::{Frame, FrameKind, OtChoice, Role, SessionError, session::Core};

/// Returns a setup whose circuit finds the minimum of 400 values and reads inputs until its last
/// gates. The evaluator has 4,000 input bits for each evaluation.
fn setup(evaluations: usize, seed: u64) -> Setup {
    let circuit = catalogue::named("min-of-candidates:400x20").unwrap();
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, evaluations, seed));
    setup.config.ot = OtChoice::Extension(Extension::SoftSpoken4);
    setup.config.chunk_len = 4096;
    setup
}

fn bytes_of(ends: &Ends, kind: FrameKind) -> usize {
    (ends.delivered.iter())
        .filter(|(_, frame)| frame.kind == kind)
        .map(|(_, frame)| frame.payload.len())
        .sum()
}

fn run(setup: &Setup) -> Ends {
    let ends = Pair::new(setup, setup).run(&mut |_, frame| vec![frame]);
    for (output, input) in ends.evaluator.as_ref().unwrap().iter().zip(&setup.inputs) {
        assert_eq!(output.bits, setup.circuit.evaluate(input).unwrap());
    }
    ends
}

#[test]
fn what_the_garbler_has_not_made_is_not_answered() {
    for scheme in [Scheme::HalfGates, Scheme::FixedKey, Scheme::ThreeHalves] {
        // 19 evaluations are garbled in two groups of eight and three single ones.
        let mut setup = setup(19, 1);
        setup.config.scheme = scheme;
        let transfers = 19 * 4000;
        // With the default window, all tables are garbled before the first transfer, so every
        // transfer needs an answer of 16 bytes or more.
        let whole = run(&setup);
        assert!(bytes_of(&whole, FrameKind::OtReply) > 16 * transfers);
        // Without a window, each table is garbled after the transfers of the labels that it reads.
        // So the answers contain only their 8-byte headers.
        setup.config.table_lead = 0;
        let waiting = run(&setup);
        let answers = bytes_of(&waiting, FrameKind::OtReply);
        let is_answer = |(_, frame): &&(Role, Frame)| frame.kind == FrameKind::OtReply;
        let frames = waiting.delivered.iter().filter(is_answer).count();
        assert_eq!(answers, 8 * frames, "{scheme}");
        let tables = |ends: &Ends| bytes_of(ends, FrameKind::Tables);
        assert_eq!(tables(&waiting), tables(&whole));
    }
}

#[test]
fn any_lead_and_any_chunk_come_to_an_end() {
    for evaluations in [1, 8, 9] {
        for lead in [0, 1, 700, 20_000, 1 << 20] {
            for chunk in [64, 512, 100_000] {
                for scheme in [Scheme::HalfGates, Scheme::ThreeHalves, Scheme::Prf] {
                    let mut setup = setup(evaluations, 2);
                    setup.circuit = catalogue::named("min-of-candidates:40x20").unwrap();
                    setup.inputs = random_inputs(&setup.circuit, evaluations, 3);
                    setup.split = InputSplit::first_to_garbler(&[400, 400]);
                    setup.config.scheme = scheme;
                    setup.config.table_lead = lead;
                    setup.config.chunk_len = chunk;
                    run(&setup);
                }
            }
        }
    }
}

/// The tables of a group use up credit until all labels of the group have arrived. A group has more
/// labels than the evaluator requests ahead.
#[test]
fn a_short_lead_gets_all_labels_of_a_group_that_needs_them() {
    for lead in [0, 1 << 14, 1 << 20] {
        let mut setup = setup(9, 7);
        setup.config.scheme = Scheme::Prf;
        setup.config.table_lead = lead;
        run(&setup);
    }
}

#[test]
fn helpers_do_with_labels_that_are_answered() {
    for (garbling, evaluating) in [(1, 2), (2, 1), (2, 3)] {
        let mut garbler = setup(17, 4);
        garbler.config.table_lead = 1 << 20;
        let mut evaluator = garbler.clone();
        garbler.config.threads = NonZeroUsize::new(garbling).unwrap();
        evaluator.config.threads = NonZeroUsize::new(evaluating).unwrap();
        let ends = Pair::new(&garbler, &evaluator).run(&mut |_, frame| vec![frame]);
        let outputs = ends.evaluator.as_ref().unwrap();
        assert_eq!(outputs.len(), 17);
        for (output, input) in outputs.iter().zip(&garbler.inputs) {
            assert_eq!(output.bits, garbler.circuit.evaluate(input).unwrap());
        }
    }
}

/// The garbler stores a label for each requested transfer. So it rejects requests that are too far
/// ahead of its tables.
#[test]
fn nobody_asks_without_end() {
    let mut setup = setup(200, 5);
    setup.config.table_lead = 1 << 20;
    let [mut garbler, mut evaluator] = Pair::new(&setup, &setup).sides;
    let Core::Evaluator(core) = &mut evaluator.single.session().0 else {
        panic!("the second side evaluates");
    };
    core.asks_without_limit = true;
    let mut questions = VecDeque::new();
    while questions.is_empty() {
        evaluator.arriving.extend(garbler.step());
        for frame in evaluator.step() {
            match frame.kind {
                FrameKind::OtExtend | FrameKind::OtCheck => questions.push_back(frame),
                _ => garbler.arriving.push_back(frame),
            }
        }
    }
    garbler.step();
    // From here on, the evaluator receives no frame, and the garbler garbles no further table.
    questions.extend(iter::repeat_with(|| evaluator.step()).take(1000).flatten());
    // The garbler accepts requests for the labels that it has garbled ahead, for two groups, and
    // for the window.
    let refused = questions
        .into_iter()
        .enumerate()
        .find_map(|(number, frame)| {
            let refused = garbler.single.connection.handle(frame).err();
            refused.map(|error| (number / 2, error))
        });
    let (number, error) = refused.unwrap();
    assert!((30..60).contains(&number), "{number}");
    let is_ahead = matches!(
        error,
        SessionError::Unexpected {
            kind: FrameKind::OtExtend,
            problem
        } if problem.contains("ahead")
    );
    assert!(is_ahead, "{error}");
}

#[test]
fn answers_that_are_too_long_or_cut_a_label_are_refused() {
    let setup = setup(1, 6);
    for change in [16_isize, -1, 1, -15] {
        let ends = Pair::new(&setup, &setup).run(&mut |_, frame| match frame.kind {
            FrameKind::OtReply => {
                let mut payload = frame.payload.to_vec();
                payload.resize(payload.len().saturating_add_signed(change), 0);
                let payload = payload.into();
                vec![Frame { payload, ..frame }]
            }
            _ => vec![frame],
        });
        let wrong = matches!(
            ends.evaluator,
            Err(SessionError::Length {
                kind: FrameKind::OtReply,
                ..
            })
        );
        assert!(wrong, "{change}: {:?}", ends.evaluator);
    }
}
