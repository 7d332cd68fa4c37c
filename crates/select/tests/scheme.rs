//! The choice of a garbling scheme.

use std::time::Duration;

use transpute_select::{
    ASSUMED_RATE, SchemeChoice, SchemeCost, SchemeLimit, SchemeQuestion, SchemeRate, choose_scheme,
};

/// The schemes that `--scheme auto` allows.
fn allowed() -> [SchemeCost; 2] {
    ["half-gates", "three-halves"].map(|name| SchemeCost::typical(name).unwrap())
}

fn choose(mbit: Option<f64>, rtt_us: u64) -> SchemeChoice {
    choose_scheme(&SchemeQuestion {
        costs: &allowed(),
        and_gates: 1_000_000,
        rate: mbit.map(|mbit| mbit * 1e6 / 8.0),
        rtt: Some(Duration::from_micros(rtt_us)),
    })
    .unwrap()
}

#[test]
fn bytes_decide_on_slow_paths_and_computing_on_fast_ones() {
    for (mbit, scheme, limit) in [
        (10.0, "three-halves", SchemeLimit::Bytes),
        (100.0, "three-halves", SchemeLimit::Bytes),
        (1_000.0, "three-halves", SchemeLimit::Bytes),
        (20_000.0, "half-gates", SchemeLimit::Computing),
        (100_000.0, "half-gates", SchemeLimit::Computing),
    ] {
        let choice = choose(Some(mbit), 1_000);
        assert_eq!(choice.chosen().name, scheme, "{mbit}");
        assert_eq!(choice.chosen().limit, limit, "{mbit}");
    }
}

/// Notices a change of the typical figures.
#[test]
fn both_are_as_fast_where_half_gates_bytes_take_as_long_as_three_halves_gates() {
    // 32 bytes in 23.8 ns.
    let equal = 32.0 / 23.8e-9 * 8e-6;
    assert!((10_700.0..10_800.0).contains(&equal));
    assert_eq!(
        choose(Some(equal * 0.99), 500).chosen().name,
        "three-halves"
    );
    assert_eq!(choose(Some(equal * 1.01), 500).chosen().name, "half-gates");
    let costs: Vec<_> = SchemeCost::TYPICAL
        .iter()
        .map(|c| (c.and_bytes, c.and_s))
        .collect();
    assert_eq!(costs, [(32.0, 14.5e-9), (32.0, 11.9e-9), (24.625, 23.8e-9)]);
}

#[test]
fn the_time_is_that_of_bytes_or_gates_whichever_is_longer() {
    let choice = choose(Some(100.0), 20_000);
    let [first, second] = &choice.ranking[..] else {
        panic!("{choice:?}");
    };
    assert!((first.seconds - 24.625e6 / 12.5e6).abs() < 1e-9);
    assert!((second.seconds - 32e6 / 12.5e6).abs() < 1e-9);
    assert_eq!(
        choice.to_string(),
        "bytes limit at 100 Mbit/s: tables take 1970.0 ms by three-halves, 2560.0 ms by half-gates"
    );
    let local = choose(None, 50);
    assert_eq!(
        local.to_string(),
        "computing limits on a path within one host: tables take 14.5 ms by half-gates, 23.8 ms by three-halves"
    );
}

#[test]
fn an_unknown_rate_is_assumed_and_said_to_be() {
    assert_eq!(ASSUMED_RATE * 8.0, 100e6);
    for (rtt_us, rate, scheme) in [
        (50, SchemeRate::Unlimited, "half-gates"),
        (500, SchemeRate::Assumed, "three-halves"),
        (20_000, SchemeRate::Assumed, "three-halves"),
    ] {
        let choice = choose(None, rtt_us);
        assert_eq!((choice.rate, choice.chosen().name), (rate, scheme));
    }
    let text = choose(None, 20_000).to_string();
    assert!(
        text.contains("an assumed 100 Mbit/s, since the rate is not known"),
        "{text}"
    );
    // A rate that is none is not known.
    for mbit in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(choose(Some(mbit), 20_000).rate, SchemeRate::Assumed);
    }
    let unknown = SchemeQuestion {
        costs: &allowed(),
        and_gates: 1,
        rate: None,
        rtt: None,
    };
    assert_eq!(choose_scheme(&unknown).unwrap().rate, SchemeRate::Assumed);
}

#[test]
fn only_allowed_schemes_are_chosen() {
    fn question(costs: &[SchemeCost]) -> SchemeQuestion<'_> {
        SchemeQuestion {
            costs,
            and_gates: u64::MAX,
            rate: Some(1e3),
            rtt: None,
        }
    }
    assert_eq!(choose_scheme(&question(&[])), None);
    for cost in SchemeCost::TYPICAL {
        let choice = choose_scheme(&question(&[cost])).unwrap();
        assert_eq!(choice.chosen().name, cost.name);
    }
    // Without gates nothing takes time: the first one.
    let none = SchemeQuestion {
        and_gates: 0,
        ..question(&SchemeCost::TYPICAL)
    };
    assert_eq!(choose_scheme(&none).unwrap().chosen().name, "half-gates");
    assert_eq!(SchemeCost::typical("prf"), None);
}
