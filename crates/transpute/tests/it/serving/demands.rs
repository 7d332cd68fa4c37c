//! Tests of the agreement of a server and its peers on oblivious transfers.

use transpute::{
    ot::Extension,
    session::{ConfigError, OtChoice, OtPlan},
};

use super::*;

const IKNP: OtChoice = OtChoice::Extension(Extension::Iknp);

fn garbler(ot: OtChoice, batch: u64) -> Party {
    let mut config = transpute::Config::default();
    config.ot = ot;
    config.batch = batch;
    (Party::garbler(&adder()).plaintext().transport("tcp")).config(config)
}

#[tokio::test]
async fn the_transfers_of_a_run_are_those_that_either_party_demands() {
    for operator in [OtChoice::Auto, OtChoice::Direct] {
        let serving = Serving::of(garbler(operator, 1), Limits::default()).await;
        for peer in [OtChoice::Auto, OtChoice::Direct] {
            let party = Party::evaluator(&adder()).plaintext().transport("tcp");
            let connecting = party.oblivious_transfer(peer).connect(&serving.address);
            let connection = connecting.open().await.unwrap();
            // In total, these runs transfer more bits than may be direct transfers unless a party
            // demands them.
            for run in 0..20 {
                let outcome = connection.run(number(run)).await.unwrap();
                assert_eq!(outcome.bits(), number(OURS + run));
                let is_demanded = [operator, peer].contains(&OtChoice::Direct);
                let plan = outcome.report.ot;
                match is_demanded {
                    true => assert_eq!(plan, OtPlan::Direct, "{operator:?}, {peer:?}"),
                    // In the first runs, the pool of random OTs may not exist yet.
                    false if run < 19 => assert_ne!(plan, OtPlan::None),
                    false => assert_eq!(plan, OtPlan::Pool),
                }
            }
            connection.close().await.unwrap();
        }
        assert_eq!(serving.stop().await.runs, 40);
    }
}

#[tokio::test]
async fn an_operator_that_demands_direct_transfers_declines_all_others() {
    let serving = Serving::of(garbler(OtChoice::Direct, 600), Limits::default()).await;
    let connection = serving.connect().await;
    let call = |batch, ot| {
        let program = Arc::new(Program::compile(&adder()));
        let split = InputSplit::first_to_garbler(program.input_widths());
        let mut config = transpute::Config::default();
        config.batch = batch;
        config.ot = ot;
        let inputs = Box::new(Repeat(number(1)));
        (connection.handle()).run(Role::Evaluator, program, split, config, inputs)
    };
    // 513 evaluations need 8,208 transfers, too many for direct transfers. 16 evaluations need 256,
    // which are allowed.
    let error = call(513, OtChoice::Auto).await.unwrap_err();
    assert!(
        matches!(error, SessionError::RefusedByPeer(Field::Ot)),
        "{error}"
    );
    let outcome = call(16, OtChoice::Auto).await.unwrap();
    assert_eq!(outcome.report.ot, OtPlan::Direct);
    // The server declines a run if the peer demands another OT plan.
    let error = call(1, IKNP).await.unwrap_err();
    assert!(
        matches!(error, SessionError::RefusedByPeer(Field::Ot)),
        "{error}"
    );
    connection.close().await.unwrap();
    let summary = serving.stop().await;
    assert_eq!((summary.runs, summary.failed), (1, 0), "{summary:?}");
}

#[tokio::test]
async fn demands_that_no_peer_could_meet_are_refused_at_the_start() {
    let wide = Builder::build(|b| {
        let x = b.input::<UInt<16>>();
        let y: Vec<_> = (0..513).map(|_| b.input::<UInt<16>>()).collect();
        b.output(y.into_iter().fold(x, |sum, y| sum + y));
    })
    .unwrap();
    // The evaluator has 8,208 input bits, too many for direct transfers.
    let party = Party::garbler(&wide).oblivious_transfer(OtChoice::Direct);
    let party = party.plaintext().transport("tcp");
    let listening = party.listen("127.0.0.1:0").await.unwrap();
    let served = listening.serve(|_: &Request| Ok(number(OURS)), Limits::default());
    assert!(matches!(
        served.map(drop),
        Err(Error::Session(SessionError::Config(
            ConfigError::TooManyForDirect { .. }
        )))
    ));
}
