//! Tests of many runs on one link, over loopback.

use std::sync::Arc;

use transpute::{
    Builder, Connection, Identity, InputSplit, OutputPolicy, Party, Program, Role, UInt,
};

use crate::adder::{adder, number};

/// Connects a garbler and an evaluator that authenticate each other.
async fn connect(transport: &str) -> (Connection, Connection) {
    let circuit = adder();
    let (alice, bob) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (alice_is, bob_is) = (alice.fingerprint(), bob.fingerprint());
    let listening = Party::garbler(&circuit)
        .identity(alice)
        .peer(bob_is)
        .transport(transport)
        .output_to(OutputPolicy::Both)
        .listen("127.0.0.1:0")
        .await
        .unwrap();
    let connecting = Party::evaluator(&circuit)
        .identity(bob)
        .peer(alice_is)
        .transport(transport)
        .output_to(OutputPolicy::Both)
        .connect(listening.local_address());
    let (garbler, evaluator) = tokio::join!(listening.open(), connecting.open());
    (garbler.unwrap(), evaluator.unwrap())
}

#[tokio::test]
async fn runs_pass_over_encrypted_links_in_both_roles() {
    for transport in ["tcp", "quic"] {
        let (garbler, evaluator) = connect(transport).await;
        assert!(garbler.link().encrypted);
        for value in 0..5 {
            let (ours, theirs) = tokio::join!(
                garbler.run(number(value)),
                evaluator.run(number(30_000 + value))
            );
            for outcome in [ours.unwrap(), theirs.unwrap()] {
                assert_eq!(outcome.bits(), number(30_000 + 2 * value), "{transport}");
            }
        }
        // The next run has another circuit, and the roles of the parties are swapped.
        let circuit = Builder::build(|b| {
            let x = b.input::<UInt<16>>();
            let y = b.input::<UInt<16>>();
            b.output(x.gt(&y));
        })
        .unwrap();
        let program = Arc::new(Program::compile(&circuit));
        let split = InputSplit::first_to_garbler(program.input_widths());
        let (ours, theirs) = tokio::join!(
            garbler.handle().run(
                Role::Evaluator,
                program.clone(),
                split.clone(),
                Default::default(),
                Box::new(vec![number(7)])
            ),
            evaluator.handle().run(
                Role::Garbler,
                program.clone(),
                split,
                Default::default(),
                Box::new(vec![number(8)])
            ),
        );
        assert_eq!(ours.unwrap().outputs[0].to_string(), "1");
        assert!(theirs.unwrap().outputs.is_empty());
        let (ours, theirs) = tokio::join!(garbler.close(), evaluator.close());
        ours.unwrap();
        theirs.unwrap();
    }
}

#[tokio::test]
async fn a_hundred_runs_are_under_way_at_once() {
    let (garbler, evaluator) = connect("tcp").await;
    let program = Arc::new(Program::compile(&adder()));
    let split = InputSplit::first_to_garbler(program.input_widths());
    let config = transpute::Config::default();
    let mut runs = Vec::new();
    for value in 0..100 {
        let (ours, theirs) = (garbler.handle(), evaluator.handle());
        let bits = || Box::new(vec![number(value)]);
        runs.push((
            value,
            ours.run(
                Role::Garbler,
                program.clone(),
                split.clone(),
                config.clone(),
                bits(),
            ),
            theirs.run(
                Role::Evaluator,
                program.clone(),
                split.clone(),
                config.clone(),
                bits(),
            ),
        ));
    }
    for (value, ours, theirs) in runs {
        let (ours, theirs) = tokio::join!(ours, theirs);
        ours.unwrap();
        assert_eq!(theirs.unwrap().outputs[0], number(2 * value));
    }
    let (ours, theirs) = tokio::join!(garbler.close(), evaluator.close());
    ours.unwrap();
    theirs.unwrap();
}
