//! Tests of the choice of a garbling scheme.

use std::time::Duration;

use transpute_select::{Bandwidth, SchemeChoice, SchemeCost, choose_scheme};

/// Chooses among the schemes that `--scheme auto` allows.
fn choose(mbit: Option<f64>, rtt_us: Option<u64>) -> SchemeChoice {
    let allowed = ["half-gates", "three-halves"].map(|name| SchemeCost::typical(name).unwrap());
    let rate = mbit.map(Bandwidth::from_megabits_per_second);
    choose_scheme(&allowed, 1_000_000, rate, rtt_us.map(Duration::from_micros)).unwrap()
}

/// This test fails if the typical figures change.
#[test]
fn bytes_decide_on_slow_paths_and_computing_on_fast_ones() {
    // Both schemes take equal time if 32 bytes take 23.8 ns, the time of a three-halves gate:
    // 10,756 Mbit/s.
    for (mbit, scheme, is_limited_by_bytes) in [
        (10.0, "three-halves", true),
        (1_000.0, "three-halves", true),
        (10_700.0, "three-halves", false),
        (10_800.0, "half-gates", true),
        (20_000.0, "half-gates", false),
    ] {
        let choice = choose(Some(mbit), Some(500));
        let chosen = choice.chosen();
        assert_eq!(
            (chosen.name, chosen.is_limited_by_bytes),
            (scheme, is_limited_by_bytes),
            "{mbit}"
        );
    }
    let costs = SchemeCost::TYPICAL.map(|cost| (cost.and_bytes, cost.and_s));
    assert_eq!(costs, [(32.0, 14.5e-9), (32.0, 11.9e-9), (24.625, 23.8e-9)]);
}

#[test]
fn the_time_is_that_of_bytes_or_gates_whichever_is_longer() {
    assert_eq!(
        choose(Some(100.0), Some(20_000)).to_string(),
        "bytes limit at 100 Mbit/s: tables take 1970.0 ms by three-halves, 2560.0 ms by half-gates"
    );
    assert_eq!(
        choose(None, Some(50)).to_string(),
        "computing limits on a path within one host: tables take 14.5 ms by half-gates, 23.8 ms by three-halves"
    );
}

#[test]
fn an_unknown_rate_is_assumed_and_said_to_be() {
    for rtt_us in [None, Some(500), Some(20_000)] {
        // An invalid rate is treated as unknown.
        for mbit in [
            None,
            Some(0.0),
            Some(-1.0),
            Some(f64::NAN),
            Some(f64::INFINITY),
        ] {
            let choice = choose(mbit, rtt_us);
            assert_eq!(
                (choice.rate, choice.is_rate_known),
                (Some(Bandwidth::ASSUMED), false)
            );
            let assumed = "at an assumed 100 Mbit/s, since the rate is not known";
            assert!(choice.to_string().contains(assumed), "{choice}");
        }
    }
    let local = choose(None, Some(50));
    assert_eq!((local.rate, local.chosen().name), (None, "half-gates"));
}

#[test]
fn only_allowed_schemes_are_chosen() {
    assert_eq!(choose_scheme(&[], 1, None, None), None);
    for cost in SchemeCost::TYPICAL {
        let choice = choose_scheme(
            &[cost],
            u64::MAX,
            Some(Bandwidth::from_bytes_per_second(1e3)),
            None,
        )
        .unwrap();
        assert_eq!(choice.chosen().name, cost.name);
    }
    // Without gates, all schemes take no time, and the first one is chosen.
    let none = choose_scheme(&SchemeCost::TYPICAL, 0, None, None).unwrap();
    assert_eq!(none.chosen().name, "half-gates");
    assert_eq!(SchemeCost::typical("prf"), None);
}
