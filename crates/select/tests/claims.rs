//! Choosers with anything that a peer, a file or a machine may claim: an error of its type or a choice, and every number of the
//! choice is one.

use proptest::{num::f64 as any_f64, prelude::*};
use transpute_select::{
    Bias, Candidate, Choice, Chooser, Direction, End, Kernel, Loss, Machine, ModelChooser, Named,
    PaperRules, Parts, PathEstimate, ProtocolRun, Rate, Rtt, SelectError, Setup, Source, Transfers,
    Udp, Workload,
};

const TRANSPORTS: [&str; 7] = [
    "tcp",
    "tcp:cc=bbr",
    "tcp-striped",
    "tcp-striped:cc=bbr,n=255",
    "quic",
    "rudp",
    "of-somebody-else",
];

/// Any number, and more often the ends of what is believed.
fn number(low: f64, high: f64) -> BoxedStrategy<f64> {
    prop_oneof![
        1 => any_f64::ANY,
        1 => prop_oneof![
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            Just(-0.0),
            Just(f64::MIN_POSITIVE),
            Just(f64::MAX),
        ],
        4 => prop_oneof![Just(low), Just(high)],
        12 => (low.max(1e-9).ln()..high.ln()).prop_map(f64::exp),
    ]
    .boxed()
}

/// A number that is believed.
fn believed(low: f64, high: f64) -> BoxedStrategy<f64> {
    prop_oneof![
        1 => Just(low),
        1 => Just(high),
        4 => (low.max(1e-9).ln()..high.ln()).prop_map(f64::exp),
    ]
    .boxed()
}

type Numbers = fn(f64, f64) -> BoxedStrategy<f64>;

fn direction(number: Numbers) -> impl Strategy<Value = Direction> {
    let rate = (number(1e2, 1e13), number(0.0, 10.0), any::<bool>());
    let rate = rate.prop_map(|(bits_per_second, relative_error, is_lower_bound)| Rate {
        bits_per_second,
        relative_error,
        is_lower_bound,
    });
    let count = prop_oneof![Just(0), Just(u64::MAX), 0..400_u64, any::<u64>()];
    let loss = (count.clone(), count).prop_map(|(lost, sent)| Loss::new(lost, sent).ok());
    (
        prop::option::of(rate),
        prop::option::of(loss),
        prop::option::of(number(0.0, 1e15)),
    )
        .prop_map(|(rate, loss, queue_bytes)| Direction {
            rate,
            loss: loss.flatten(),
            queue_bytes,
        })
}

fn kernel(number: Numbers) -> impl Strategy<Value = Kernel> {
    let optional = |low, high| prop::option::of(number(low, high));
    (
        optional(0.0, 120.0),
        optional(0.0, 1e13),
        optional(1.0, 1e15),
        optional(1.0, 1e15),
        prop::option::of(".{0,10}"),
        prop::collection::vec("[a-z]{0,6}|bbr", 0..4),
    )
        .prop_map(
            |(
                min_rtt_s,
                delivery_rate,
                send_ceiling,
                receive_ceiling,
                congestion_control,
                available,
            )| {
                Kernel {
                    min_rtt_s,
                    delivery_rate,
                    send_ceiling,
                    receive_ceiling,
                    congestion_control,
                    available,
                }
            },
        )
}

fn path(number: Numbers) -> impl Strategy<Value = PathEstimate> {
    let rtt = (
        number(0.0, 120.0),
        prop::option::of(number(0.0, 120.0)),
        prop::option::of(number(0.0, 120.0)),
    );
    let udp = prop_oneof![Just(Udp::Passes), Just(Udp::Blocked), Just(Udp::Unknown)];
    let rest = (
        udp,
        prop::option::of(any::<u32>()),
        kernel(number),
        prop::option::of(any::<u64>()),
    );
    (rtt, direction(number), direction(number), rest).prop_map(
        |((min_s, median_s, jitter_s), up, down, (udp, mtu, kernel, when_unix_ms))| PathEstimate {
            rtt: Rtt {
                min_s,
                median_s,
                jitter_s,
            },
            up,
            down,
            udp,
            mtu,
            kernel,
            source: Source::Measured,
            when_unix_ms,
        },
    )
}

fn workload() -> impl Strategy<Value = Workload> {
    let bytes = || prop_oneof![Just(0), Just(10_u64.pow(18)), 0..10_u64.pow(9)];
    let end = prop_oneof![Just(End::Connector), Just(End::Listener)];
    let times = (believed(0.0, 1e9), believed(0.0, 1e9), believed(0.0, 1e9));
    (end, bytes(), bytes(), 0.0..=1.0, 1..=1_000_000_u32, times).prop_map(
        |(garbler, garbler_bytes, evaluator_bytes, late, flights, times)| {
            Workload::new(Parts {
                garbler,
                garbler_bytes,
                garbler_late_bytes: (garbler_bytes as f64 * late * 0.99) as u64,
                evaluator_bytes,
                flights,
                serial_s: times.0,
                garble_s: times.1,
                evaluate_s: times.2,
            })
            .unwrap()
        },
    )
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let setup = prop_oneof![
        Just(Setup::Whole),
        Just(Setup::Done),
        number(0.0, 1e9).prop_map(Setup::Begun),
        number(0.0, 1e9).prop_map(Setup::In),
        number(0.0, 1e9).prop_map(Setup::Left),
    ];
    let doubt = prop_oneof![Just(0.0), number(0.0, 1.0)];
    let one = (0..TRANSPORTS.len(), setup, doubt, 0..5);
    let one = one.prop_map(|(index, setup, doubt, luck)| Candidate {
        setup,
        doubt,
        unavailable: (luck == 0).then(|| "it failed".into()),
        ..Candidate::new(TRANSPORTS[index]).unwrap()
    });
    prop::collection::vec(one, 0..10)
}

fn choosers() -> Vec<Box<dyn Chooser>> {
    let biased = ModelChooser::default()
        .with_bias(Bias {
            transport: "rudp".into(),
            factor: 0.01,
        })
        .unwrap();
    vec![
        Box::new(ModelChooser::default()),
        Box::new(biased),
        Box::new(PaperRules),
        Box::new(Named::new("rudp").unwrap()),
    ]
}

/// Fails unless every number of a choice is one, and the order is that of the scores.
fn check(choice: &Choice, candidates: &[Candidate]) -> Result<(), TestCaseError> {
    let judged = choice.ranking().len() + choice.excluded.len();
    // One that was asked for by name is looked at alone.
    prop_assert!(judged == candidates.len() || choice.chooser == "named");
    prop_assert!(
        (0.0..=1.0).contains(&choice.confidence),
        "{}",
        choice.confidence
    );
    prop_assert!(choice.ranking().is_sorted_by(|a, b| a.score <= b.score));
    for ranked in choice.ranking() {
        let prediction = &ranked.prediction;
        let parts = &prediction.parts;
        for number in [
            ranked.score,
            prediction.seconds,
            prediction.sigma_model,
            prediction.sigma_path,
            prediction.sigma(),
            parts.setup_s,
            parts.rounds_s,
            parts.growth_s,
            parts.transfer_s,
            parts.loss_s,
            parts.compute_s,
        ] {
            prop_assert!(number.is_finite() && number >= 0.0, "{:?}", ranked);
        }
        let (low, high) = prediction.interval();
        prop_assert!(
            low <= prediction.seconds && prediction.seconds <= high,
            "{low} {high}"
        );
    }
    Ok(())
}

/// Asks every chooser. What a path claims that is no number must be an error.
fn ask(
    path: &PathEstimate,
    workload: &Workload,
    candidates: &[Candidate],
) -> Result<(), TestCaseError> {
    let is_valid = path.validate().is_ok();
    // Whatever is shown of it.
    let _ = (path.to_string(), serde_json::to_string(path));
    for chooser in choosers() {
        match chooser.choose(path, workload, candidates) {
            Ok(choice) => {
                prop_assert!(is_valid, "{path:?}");
                check(&choice, candidates)?;
            }
            Err(SelectError::NoCandidate { .. }) => prop_assert!(is_valid),
            Err(SelectError::Number { .. }) => prop_assert!(!is_valid),
            // Asked for by name.
            Err(SelectError::NotACandidate { .. }) => prop_assert_eq!(chooser.name(), "named"),
            Err(error) => prop_assert!(false, "{error}"),
        }
        match chooser.settlement(path, workload, candidates) {
            Ok(settlement) => {
                prop_assert!(settlement.worst_regret >= 0.0 && settlement.worst_regret.is_finite());
                let gain = settlement.expected_gain_s;
                prop_assert!(gain >= 0.0 && gain.is_finite(), "{}", gain);
            }
            Err(error) => prop_assert!(matches!(error, SelectError::Number { .. }), "{error}"),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_path_is_an_error_or_a_choice(
        path in path(number),
        workload in workload(),
        candidates in candidates(),
    ) {
        ask(&path, &workload, &candidates)?;
    }

    /// All within what is believed, and at the ends of it.
    #[test]
    fn any_path_that_is_believed_is_chosen_for(
        path in path(believed),
        workload in workload(),
        candidates in candidates(),
    ) {
        prop_assert!(path.validate().is_ok(), "{path:?}");
        ask(&path, &workload, &candidates)?;
    }

    #[test]
    fn any_text_is_an_error_or_a_path(path in path(believed), at in 0..2000_usize, byte in any::<u8>()) {
        let mut text = serde_json::to_string(&path).unwrap().into_bytes();
        let at = at % text.len();
        text[at] = byte;
        if let Ok(path) = PathEstimate::from_json(&String::from_utf8_lossy(&text), "a peer") {
            prop_assert!(path.validate().is_ok());
        }
    }

    #[test]
    fn any_machine_is_an_error_or_a_workload(
        counts in prop::array::uniform8(prop_oneof![0..1000_u64, Just(4_000_000_000), any::<u64>()]),
        times in prop::array::uniform10(number(0.0, 1.0)),
        shape in (any::<bool>(), any::<bool>(), any::<bool>(), 0..3_usize, any::<u8>(), any::<u32>()),
    ) {
        let (is_free_xor, is_checked, to_garbler, how, k, setup_len) = shape;
        let run = ProtocolRun {
            and_gates: counts[0],
            xor_gates: counts[1],
            table_bytes: counts[2],
            is_free_xor,
            garbler_bits: counts[3],
            evaluator_bits: counts[4],
            output_bits: counts[5],
            batch: counts[6],
            chunk_len: counts[7],
            is_checked,
            transfers: [Transfers::None, Transfers::Direct, Transfers::Extension { k, setup_len }][how],
            to_garbler,
        };
        let machine = |t: &[f64]| Machine {
            garble_and_s: t[0],
            evaluate_and_s: t[1],
            xor_s: t[2],
            transfer_s: t[3],
            base_transfer_s: t[4],
        };
        let made = run.workload(End::Listener, &machine(&times[..5]), &machine(&times[5..]));
        match made {
            Ok(workload) => {
                let parts = workload.parts();
                for time in [parts.serial_s, parts.garble_s, parts.evaluate_s] {
                    prop_assert!((0.0..=1e9).contains(&time));
                }
                prop_assert!(workload.round_trips().is_finite());
            }
            Err(error) => prop_assert!(matches!(error, SelectError::Number { .. }), "{error}"),
        }
    }
}
