//! Tests that a run sends the number of bytes that [`ExpectedTraffic`] predicts.

use proptest::prelude::*;
use transpute_circuit::{InputSplit, Program};
use transpute_garble::Scheme;
use transpute_ot::{BaseOt, Extension};

use super::{Pair, Setup, chain, circuits, random_inputs, runs::OT_CHOICES};
use crate::{ExpectedTraffic, OtChoice, OtPlan, OutputPolicy, Role};

/// Runs both sides. Returns the expected traffic, the plan, and the bytes that each side sent.
fn measure(setup: &Setup) -> (ExpectedTraffic, OtPlan, [u64; 2]) {
    let program = Program::compile(&setup.circuit);
    let expected = ExpectedTraffic::new(&program, &setup.split, &setup.config);
    let (mut sent, mut plan) = ([0; 2], OtPlan::None);
    let ends = Pair::new(setup, setup).run_to(&mut |_, frame| vec![frame], &mut |side| {
        sent[usize::from(side.single.role == Role::Evaluator)] = side.sent;
        plan = side.single.plan;
    });
    ends.garbler.unwrap();
    ends.evaluator.unwrap();
    (expected, plan, sent)
}

/// Compares the expected traffic with the sent bytes. The evaluator's bytes must be equal. The
/// garbler's bytes must be within the expected bounds. The bounds may differ by 16 bytes for each
/// transfer that may need no answer, and by 18 bytes for each chunk.
fn check(setup: &Setup) {
    let (expected, plan, [garbler, evaluator]) = measure(setup);
    let context = format!("{:?}", setup.config);
    assert_eq!(expected.evaluator_bytes, evaluator, "{context}");
    assert_eq!(expected.flights, plan.flights(), "{context}");
    let [least, most] = [expected.min_garbler_bytes, expected.max_garbler_bytes];
    assert!(
        (least..=most).contains(&garbler),
        "{least} to {most} expected, {garbler} sent, {context}"
    );
    assert!(
        (least..=most).contains(&expected.garbler_bytes),
        "{expected:?}"
    );
    let transfers = setup.config.batch * setup.split.evaluator_bits() as u64;
    let avoidable = match plan {
        OtPlan::Extension(_) if setup.config.scheme.is_free_xor() => 16 * transfers,
        _ => 0,
    };
    let chunks =
        2 * setup.config.batch + expected.garbler_bytes / u64::from(setup.config.chunk_len);
    assert!(
        most - least <= avoidable + 18 * chunks,
        "{expected:?}, {context}"
    );
}

#[test]
fn every_scheme_policy_and_transfer_sends_what_is_expected() {
    let circuit = chain(300);
    for scheme in Scheme::ALL {
        for output in [
            OutputPolicy::Evaluator,
            OutputPolicy::Garbler,
            OutputPolicy::Both,
        ] {
            for ot in OT_CHOICES {
                for output_check in [false, true] {
                    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 3, 7));
                    setup.config.scheme = scheme;
                    setup.config.output = output;
                    setup.config.ot = ot;
                    setup.config.output_check = output_check;
                    setup.config.chunk_len = 1000;
                    check(&setup);
                }
            }
        }
    }
}

#[test]
fn transfers_with_large_keys_are_counted() {
    let circuit = chain(40);
    for ot in [
        OtChoice::Direct,
        OtChoice::Extension(Extension::SoftSpoken4),
    ] {
        let mut setup = Setup::new(&circuit, random_inputs(&circuit, 2, 7));
        setup.config.base_ot = BaseOt::MlKem768;
        setup.config.ot = ot;
        check(&setup);
    }
}

/// Evaluations that are garbled in one group share the last, partly filled byte of their table
/// bits.
#[test]
fn bits_of_grouped_tables_are_counted() {
    for gates in 1..9 {
        let circuit = chain(gates);
        for scheme in Scheme::ALL {
            let mut setup = Setup::new(&circuit, random_inputs(&circuit, 39, 7));
            setup.config.scheme = scheme;
            check(&setup);
        }
    }
}

#[test]
fn parties_without_inputs_are_counted() {
    let circuit = chain(40);
    for garbler_values in [vec![], vec![0, 1], vec![1]] {
        for scheme in Scheme::ALL {
            let mut setup = Setup::new(&circuit, random_inputs(&circuit, 2, 3));
            setup.split = InputSplit::new(circuit.input_widths(), &garbler_values).unwrap();
            setup.config.scheme = scheme;
            check(&setup);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn random_runs_send_what_is_expected(
        circuit in circuits(300),
        batch in 1..40usize,
        ot in 0..OT_CHOICES.len(),
        scheme in 0..Scheme::ALL.len(),
    ) {
        let mut setup = Setup::new(&circuit, random_inputs(&circuit, batch, 5));
        setup.config.ot = OT_CHOICES[ot];
        setup.config.scheme = Scheme::ALL[scheme];
        check(&setup);
    }
}
