//! Properties of every prediction, for any fit.

mod paths;

use std::time::Duration;

use proptest::prelude::*;
use transpute_select::{End, Model, PathEstimate, Prediction, Spec, Workload};

const TRANSPORTS: [&str; 8] = [
    "tcp",
    "tcp:cc=bbr",
    "tcp-striped",
    "tcp-striped:cc=bbr,n=4",
    "quic",
    "quic:cc=cubic",
    "rudp",
    "of-somebody-else",
];

#[derive(Clone, Copy, Debug)]
struct Case {
    rtt: f64,
    rate: f64,
    loss: f64,
    queue: Option<f64>,
    bytes: u64,
    back: u64,
    flights: u32,
    garbler: End,
    compute: f64,
}

impl Case {
    fn predict(&self, model: &Model, transport: &str) -> Prediction {
        let path = paths::path(self.rtt, self.rate, self.loss, self.queue);
        let workload = Workload {
            garbler_late_bytes: self.bytes / 9,
            evaluator_bytes: self.back,
            flights: self.flights,
            garble_s: self.compute,
            evaluate_s: self.compute,
            ..Workload::transfer(self.garbler, self.bytes)
        };
        let spec: Spec = transport.parse().unwrap();
        model.predict(&spec, &path, &workload).unwrap()
    }
}

fn log(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low.ln()..high.ln()).prop_map(f64::exp)
}

prop_compose! {
    fn case()(
        rtt in prop_oneof![Just(0.0), log(1e-5, 2.0)],
        rate in log(1e5, 1e11),
        loss in prop_oneof![Just(0.0), log(1e-6, 0.3)],
        queue in prop_oneof![Just(None), log(3e3, 1e8).prop_map(Some)],
        bytes in prop_oneof![Just(0_u64), log(1.0, 1e10).prop_map(|x| x as u64)],
        back in log(1.0, 1e8).prop_map(|x| x as u64),
        flights in 1_u32..4,
        connects in any::<bool>(),
        compute in prop_oneof![Just(0.0), log(1e-6, 1e2)],
    ) -> Case {
        let garbler = if connects { End::Connector } else { End::Listener };
        Case { rtt, rate, loss, queue, bytes, back, flights, garbler, compute }
    }
}

/// Compares two times with a tolerance for rounding and for the resolution of a loss, which is
/// counted per 10^9 packets.
fn no_faster(more: f64, less: f64) -> bool {
    more >= less * (1.0 - 1e-6) - 1e-9
}

fn models() -> [&'static Model; 2] {
    static THEORY: std::sync::LazyLock<Model> = std::sync::LazyLock::new(Model::theory);
    [&THEORY, Model::shipped()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn every_prediction_is_a_time_and_the_sum_of_its_parts(case in case(), which in 0..TRANSPORTS.len()) {
        for model in models() {
            let Prediction { seconds, sigma, parts, .. } = case.predict(model, TRANSPORTS[which]);
            prop_assert!(seconds.is_finite() && seconds >= 0.0 && sigma.is_finite());
            let each = [
                parts.setup_s, parts.rounds_s, parts.growth_s, parts.transfer_s, parts.loss_s, parts.compute_s,
            ];
            prop_assert!(each.iter().all(|part| *part >= -1e-12), "{parts:?}");
            let sum: f64 = each.iter().sum();
            prop_assert!((sum - seconds).abs() <= 1e-9 + 1e-6 * seconds, "{sum} {seconds} {parts:?}");
        }
    }

    #[test]
    fn more_is_never_faster(case in case(), which in 0..TRANSPORTS.len(), factor in 1.001_f64..3.0) {
        let transport = TRANSPORTS[which];
        for model in models() {
            let time = |case: Case| case.predict(model, transport).seconds;
            let now = time(case);
            let bytes = Case { bytes: (case.bytes as f64 * factor) as u64 + 1, ..case };
            prop_assert!(no_faster(time(bytes), now), "bytes {} < {now}", time(bytes));
            let back = Case { back: (case.back as f64 * factor) as u64 + 1, ..case };
            prop_assert!(no_faster(time(back), now), "bytes back {} < {now}", time(back));
            let rtt = Case { rtt: case.rtt * factor + 1e-6, ..case };
            // Only with a known queue, because the assumed queue grows with the round-trip time.
            if case.queue.is_some() {
                prop_assert!(no_faster(time(rtt), now), "rtt {} < {now}", time(rtt));
            }
            let loss = Case { loss: (case.loss * factor + 1e-6).min(0.5), ..case };
            // A window that a loss keeps from doubling is reduced to more than its mean so far, so
            // fewer packets before that take a little less time.
            let slower = time(loss) * 1.001;
            prop_assert!(no_faster(slower, now), "loss {} < {now}", time(loss));
            let compute = Case { compute: case.compute * factor, ..case };
            prop_assert!(no_faster(time(compute), now));
            let rate = Case { rate: case.rate / factor, ..case };
            prop_assert!(no_faster(time(rate), now), "rate {} < {now}", time(rate));
        }
    }

    #[test]
    fn a_little_more_takes_a_little_longer(case in case(), which in 0..TRANSPORTS.len()) {
        // If the predicted time had a jump, it would be as large for any step, so a small step
        // reveals it.
        let transport = TRANSPORTS[which];
        let step = 1.0 + 1e-5;
        for model in models() {
            let time = |case: Case| case.predict(model, transport).seconds;
            let now = time(case);
            let near = |then: f64| (then - now).abs() <= 1e-3 * now + 1e-7;
            let rtt = time(Case { rtt: case.rtt * step, ..case });
            prop_assert!(near(rtt), "rtt {now} {rtt}");
            let rate = time(Case { rate: case.rate * step, ..case });
            prop_assert!(near(rate), "rate {now} {rate}");
            let loss = time(Case { loss: case.loss * step, ..case });
            prop_assert!(near(loss), "loss {now} {loss}");
            if case.bytes > 1_000_000 {
                let bytes = (case.bytes as f64 * step) as u64;
                let more = time(Case { bytes, ..case });
                prop_assert!(near(more), "bytes {now} {more}");
            }
        }
    }
}

const BULK: Case = Case {
    rtt: 0.11,
    rate: 1e9,
    loss: 0.0,
    queue: None,
    bytes: 30_500_000,
    back: 0,
    flights: 1,
    garbler: End::Connector,
    compute: 0.0,
};

#[test]
fn the_laws_are_what_the_literature_says() {
    let model = Model::theory();
    let seconds = |case: Case, transport: &str| case.predict(&model, transport).seconds;
    // A transport that knows the rate takes one round trip, one one-way delay, and the time of the
    // bytes.
    let known = seconds(BULK, "rudp");
    let limit = 0.11 + 0.055 + 30.5e6 * 8.0 / 1e9;
    assert!((known / limit - 1.0).abs() < 0.06, "{known} {limit}");
    let growth =
        |case: Case, transport: &str| case.predict(&model, transport).parts.growth_s / 0.11;
    // Slow start from ten packets to 13.75 MB takes log2(950) round trips more.
    let ten_packets = growth(BULK, "of-somebody-else");
    assert!((3.0..10.0).contains(&ten_packets), "{ten_packets}");
    // Slow start from 256 KiB to 13.75 MB takes log2(52) round trips more.
    let quic = growth(BULK, "quic");
    assert!((4.0..6.0).contains(&quic), "{quic}");
    // Eight connections start with eight times as many bytes, which saves log2(8) round trips.
    let slow = Case { rate: 1e8, ..BULK };
    let saved = growth(slow, "tcp") - growth(slow, "tcp-striped");
    assert!((2.5..3.2).contains(&saved), "{saved}");
    // Mathis et al.: 1.22 packets of 1,448 bytes / sqrt(p) per round trip. docs/results-paper.md
    // measured 231 s for 36 MB.
    let lossy = Case {
        loss: 0.01,
        bytes: 36_000_000,
        ..BULK
    };
    let cubic = seconds(lossy, "tcp");
    assert!((200.0..260.0).contains(&cubic), "{cubic}");
    assert!(seconds(lossy, "tcp:cc=bbr") < 5.0);
}

#[test]
fn numbers_that_are_none_are_refused() {
    let workload = Workload::transfer(End::Connector, 1);
    let spec: Spec = "tcp".parse().unwrap();
    let mut path = PathEstimate::of_rtt(0.1).unwrap();
    path.rtt = Duration::MAX;
    assert!(Model::theory().predict(&spec, &path, &workload).is_err());
    for wrong in [f64::NAN, f64::INFINITY, -1.0, 1e9] {
        assert!(PathEstimate::of_rtt(wrong).is_err());
        let path = PathEstimate::of_rtt(0.1).unwrap();
        let work = Workload {
            serial_s: wrong * 2.0,
            ..workload
        };
        assert!(Model::theory().predict(&spec, &path, &work).is_err());
    }
}
