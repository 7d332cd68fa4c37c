//! Tests of the agreement on the oblivious transfers of runs, by the settings of both sides.

use transpute_ot::{BaseOt, Extension};

use super::Pair;
use crate::{
    AbortReason, ConfigError, ConnectionConfig, FrameKind, OtChoice, OtPlan, SessionError,
    tests::{Setup, chain, random_inputs},
};

const IKNP: OtChoice = OtChoice::Extension(Extension::Iknp);

fn setup(evaluations: usize, ot: OtChoice) -> Setup {
    let circuit = chain(40);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, evaluations, 3));
    setup.config.ot = ot;
    setup
}

fn pair(seed: u64, base_ot: BaseOt) -> Pair {
    let config = ConnectionConfig {
        base_ot,
        ..ConnectionConfig::default()
    };
    Pair::with(seed, &config)
}

#[test]
fn both_settings_decide_the_transfers_of_a_run() {
    let (auto, direct) = (OtChoice::Auto, OtChoice::Direct);
    // The expected plan. `None`: the run may use direct transfers or the pool, because the
    // connection is cold.
    for (garbler, evaluator, is_warm, expected) in [
        (auto, auto, false, None),
        (auto, auto, true, Some(OtPlan::Pool)),
        (auto, direct, false, Some(OtPlan::Direct)),
        (auto, direct, true, Some(OtPlan::Direct)),
        (direct, auto, false, Some(OtPlan::Direct)),
        (direct, auto, true, Some(OtPlan::Direct)),
        (direct, direct, false, Some(OtPlan::Direct)),
        (direct, direct, true, Some(OtPlan::Direct)),
    ] {
        let mut asked_in_vain = 0;
        for &base_ot in BaseOt::ALL {
            for seed in 0..4 {
                let mut pair = pair(seed, base_ot);
                if is_warm {
                    pair.rest();
                }
                let (ours, theirs) = (setup(20, garbler), setup(20, evaluator));
                // Together, the three runs have more transfers than may be direct without a demand.
                let runs: Vec<_> = (0..3)
                    .map(|_| {
                        [
                            pair.call(0, crate::Role::Garbler, &ours),
                            pair.call(1, crate::Role::Evaluator, &theirs),
                        ]
                    })
                    .collect();
                // The evaluator sends its request before or after it learns of the garbler's
                // demand.
                if seed % 2 == 0 {
                    pair.exhaust(1);
                } else {
                    pair.exhaust(0);
                    pair.arrive(1);
                }
                pair.rest();
                pair.assert_alive();
                for run in runs {
                    for end in [0, 1] {
                        pair.check(end, run[end], &ours);
                        let Some(Ok(report)) = &pair.done(end, run[end]).end else {
                            unreachable!()
                        };
                        let which = format!("{garbler:?}, {evaluator:?}, seed {seed}, {base_ot}");
                        match expected {
                            Some(plan) => assert_eq!(report.ot, plan, "{which}"),
                            None => assert_ne!(report.ot, OtPlan::None, "{which}"),
                        }
                    }
                }
                let corrections =
                    |(_, frame): &&(usize, crate::Frame)| frame.kind == FrameKind::OtCorrect;
                asked_in_vain += pair.sent.iter().filter(corrections).count();
            }
        }
        // Evaluators that sent requests before they knew of the garbler's demand had to start
        // again.
        if (garbler, evaluator, is_warm) == (direct, auto, true) {
            assert!(asked_in_vain > 0);
        }
    }
}

#[test]
fn demands_are_met_by_transfers_of_the_run() {
    let auto = OtChoice::Auto;
    let iknp = OtPlan::Extension(Extension::Iknp);
    // 33 evaluations have 264 transfers, more than may be direct without a demand. 1,100
    // evaluations have 8,800 transfers, which need two request messages.
    for (garbler, evaluator, count, expected) in [
        (IKNP, auto, 20, iknp),
        (auto, IKNP, 20, iknp),
        (IKNP, auto, 1100, iknp),
        (auto, IKNP, 1100, iknp),
        (OtChoice::Direct, auto, 33, OtPlan::Direct),
        (auto, OtChoice::Direct, 33, OtPlan::Direct),
    ] {
        for &base_ot in BaseOt::ALL {
            for seed in 0..4 {
                let mut pair = pair(seed, base_ot);
                if seed % 2 == 0 {
                    pair.rest();
                }
                let (ours, theirs) = (setup(count, garbler), setup(count, evaluator));
                let runs = [
                    pair.call(0, crate::Role::Garbler, &ours),
                    pair.call(1, crate::Role::Evaluator, &theirs),
                ];
                let next = pair.call_both(0, &setup(20, auto));
                // The evaluator sends its request before it learns of the garbler's demand.
                pair.exhaust(1);
                pair.rest();
                pair.assert_alive();
                for end in [0, 1] {
                    pair.check(end, runs[end], &ours);
                    let Some(Ok(report)) = &pair.done(end, runs[end]).end else {
                        unreachable!()
                    };
                    assert_eq!(report.ot, expected, "{garbler:?}, {evaluator:?}, {count}");
                    pair.check(end, next[end], &setup(20, auto));
                }
            }
        }
    }
}

#[test]
fn a_prepared_run_with_a_demand_ends_and_no_other() {
    for ot in [IKNP, OtChoice::Direct] {
        let mut pair = pair(1, BaseOt::Ristretto255);
        let runs = [
            pair.prepare(0, crate::Role::Garbler, &setup(20, ot)),
            pair.prepare(1, crate::Role::Evaluator, &setup(20, OtChoice::Auto)),
        ];
        let next = pair.call_both(0, &setup(20, OtChoice::Auto));
        pair.rest();
        pair.assert_alive();
        assert!(matches!(
            pair.done(0, runs[0]).end,
            Some(Err(SessionError::Config(ConfigError::OtOfPrepared)))
        ));
        assert!(matches!(
            pair.done(1, runs[1]).end,
            Some(Err(SessionError::PeerAborted(AbortReason::Local)))
        ));
        for end in [0, 1] {
            pair.check(end, next[end], &setup(20, OtChoice::Auto));
        }
    }
}
