//! Tests of a single-run connection whose peer has a connection for many runs.

use std::sync::Arc;

use transpute_circuit::Program;
use transpute_garble::Scheme;
use transpute_ot::{BaseOt, Extension};

use super::{Setup, Single, chain, random_inputs};
use crate::{
    Call, ConnectionConfig, Frame, OtChoice, OtPlan, OutputPolicy, Progressed, Role, RunReport,
    SessionConnection, SessionEvent,
};

/// Executes a run between a single-run connection and a connection for many runs. If `serves` is
/// set, the side for many runs starts the run only after the peer's call has arrived. Returns the
/// reports of both sides.
fn run(setup: &Setup, role: Role, config: ConnectionConfig, serves: bool) -> [RunReport; 2] {
    let other = match role {
        Role::Garbler => Role::Evaluator,
        Role::Evaluator => Role::Garbler,
    };
    let Single { connection, .. } = setup.start(role, 1);
    let config = ConnectionConfig {
        base_ot: setup.config.base_ot,
        ..config
    };
    let mut sides = [connection, SessionConnection::new(config, false)];
    let mut due = Some(Call {
        program: Arc::new(Program::compile(&setup.circuit)),
        split: setup.split.clone(),
        config: setup.config.clone(),
        inputs: Some(Box::new(setup.own_inputs(other))),
    });
    if !serves {
        sides[1].call(other, due.take().unwrap()).unwrap();
    }
    let mut arriving: [Vec<Frame>; 2] = Default::default();
    let mut reports = [None, None];
    let mut outputs = [Vec::new(), Vec::new()];
    let mut finished = [false; 2];
    while finished != [true; 2] {
        let mut worked = false;
        for end in [0, 1] {
            let mut out = Vec::new();
            loop {
                match sides[end].poll(&mut out, true).unwrap() {
                    Progressed::Worked => worked = true,
                    Progressed::Idle => break,
                    Progressed::Finished => {
                        finished[end] = true;
                        break;
                    }
                }
            }
            arriving[1 - end].extend(super::frames(&out));
            for frame in std::mem::take(&mut arriving[end]) {
                worked = true;
                sides[end].handle(frame).unwrap();
            }
            while let Some(event) = sides[end].next_event() {
                match event {
                    SessionEvent::Called(run, Some(_)) if end == 1 => {
                        assert_eq!(run.role(), other);
                        sides[1].call(other, due.take().unwrap()).unwrap();
                        worked = true;
                    }
                    SessionEvent::Output(_, output) => outputs[end].push(output.bits),
                    SessionEvent::Ended(_, result) => reports[end] = Some(result.unwrap()),
                    _ => {}
                }
            }
        }
        assert!(worked || finished == [true; 2], "nothing goes on");
    }
    for outputs in outputs {
        assert_eq!(outputs.len(), setup.inputs.len());
        for (output, input) in outputs.iter().zip(&setup.inputs) {
            assert_eq!(*output, setup.circuit.evaluate(input).unwrap());
        }
    }
    reports.map(Option::unwrap)
}

#[test]
fn a_single_run_meets_a_connection_for_many_and_does_its_own_transfers() {
    // With 2 evaluations, the transfers are direct. With 100, the plan is an extension.
    for evaluations in [2, 100] {
        for &base_ot in BaseOt::ALL {
            for ot in [OtChoice::Auto, OtChoice::Extension(Extension::SoftSpoken4)] {
                for role in [Role::Garbler, Role::Evaluator] {
                    for serves in [false, true] {
                        for garbles in [false, true] {
                            let circuit = chain(40);
                            let inputs = random_inputs(&circuit, evaluations, 5);
                            let mut setup = Setup::new(&circuit, inputs);
                            setup.config.base_ot = base_ot;
                            setup.config.ot = ot;
                            setup.config.output = OutputPolicy::Both;
                            let config = ConnectionConfig {
                                garbles,
                                ..ConnectionConfig::default()
                            };
                            let reports = run(&setup, role, config, serves);
                            assert_eq!(reports[0].ot, reports[1].ot);
                            assert_ne!(reports[0].ot, OtPlan::Pool);
                            let (plan, _) = setup.config.plan(8 * evaluations as u64).unwrap();
                            // If the peer of a garbler calls first, it may have started direct
                            // transfers.
                            assert!(
                                reports[0].ot == plan || (!serves && role == Role::Garbler),
                                "{}",
                                reports[0].ot
                            );
                        }
                    }
                }
            }
        }
    }
}

/// The garbler has already sent more bytes of tables than the evaluator's window allows when it
/// learns of this window. It starts the run again.
#[test]
fn a_garbler_that_has_run_too_far_ahead_begins_again() {
    let circuit = chain(6000);
    for (scheme, evaluations) in [(Scheme::HalfGates, 20), (Scheme::Prf, 11)] {
        let mut setup = Setup::new(&circuit, random_inputs(&circuit, evaluations, 5));
        setup.config.scheme = scheme;
        setup.config.output = OutputPolicy::Both;
        for serves in [false, true] {
            let config = ConnectionConfig {
                window: 1 << 20,
                ..ConnectionConfig::default()
            };
            run(&setup, Role::Garbler, config, serves);
        }
    }
}
