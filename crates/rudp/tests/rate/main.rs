//! Tests of rate controllers on an emulated bottleneck, in virtual time.

mod cubic;
mod sim;
mod snapshots;

use std::time::Duration;

use cubic::Cubic;
use sim::{Flow, Sim};
use transpute_netem::scenario::{Change, PathConfig};
use transpute_rudp::rate::{ControllerKind, ControllerSettings, RateController};

const MBIT: u64 = 125_000;

fn path(rate_mbit: f64, rtt_ms: f64, loss: f64, queue_bdp: f64) -> PathConfig {
    let mut path = PathConfig::default();
    path.delay_ms = rtt_ms / 2.0;
    path.rate_mbit = Some(rate_mbit);
    path.loss = loss;
    path.queue_bdp = Some(queue_bdp);
    path
}

fn unknown(kind: ControllerKind) -> Box<dyn RateController> {
    kind.controller(&ControllerSettings::default())
}

fn seeded(kind: ControllerKind, mbit: f64, rtt_ms: f64) -> Box<dyn RateController> {
    let mut controller = unknown(kind);
    controller.seed(
        (mbit * MBIT as f64) as u64,
        Duration::from_secs_f64(rtt_ms / 1e3),
    );
    controller
}

fn flow(controller: Box<dyn RateController>) -> Flow {
    Flow::new(controller, Duration::ZERO)
}

/// Runs a simulation and prints its table, so that a failure shows it.
fn run(name: &str, config: &PathConfig, flows: Vec<Flow>, seconds: f64) -> Sim {
    let mut sim = Sim::new(config, 7, flows);
    sim.run(seconds);
    println!("--- {name}");
    print!("{}", sim.curves(((seconds * 10.0) as usize / 30).max(1)));
    for flow in &sim.flows {
        println!(
            "sent {:.1} MB, lost {:.2} %, overflowed {:.2} MB, {:?}",
            flow.sent as f64 / 1e6,
            flow.lost as f64 * 150_000.0 / flow.sent as f64,
            sim.overflowed() as f64 / 1e6,
            flow.controller.snapshot()
        );
    }
    sim
}

#[test]
fn bbr_fills_a_long_fat_path_despite_random_loss() {
    for rtt in [110.0, 300.0] {
        for loss in [0.0, 0.0005, 0.01] {
            for queue in [1.0, 0.1] {
                let config = path(1000.0, rtt, loss, queue);
                let flow = flow(seeded(ControllerKind::Bbr, 1000.0, rtt));
                let sim = run(
                    &format!("{rtt} ms, {loss}, queue {queue}"),
                    &config,
                    vec![flow],
                    4.0,
                );
                let used = sim.flows[0].mbit(rtt / 1e3, 4.0) / 1000.0;
                assert!(used >= 0.9, "{rtt} {loss} {queue}: {used}");
                let lost = sim.flows[0].lost as f64 * 1500.0 / sim.flows[0].sent as f64;
                assert!(
                    lost < loss * 1.2 + 0.01,
                    "{rtt} {loss} {queue}: lost {lost}"
                );
            }
        }
    }
}

#[test]
fn bbr_finds_the_rate_of_an_unknown_path() {
    for (rtt, loss) in [(110.0, 0.0), (110.0, 0.01), (20.0, 0.0)] {
        let config = path(1000.0, rtt, loss, 1.0);
        let sim = run(
            &format!("unknown {rtt} {loss}"),
            &config,
            vec![flow(unknown(ControllerKind::Bbr))],
            4.0,
        );
        let used = sim.flows[0].mbit(1.5, 4.0) / 1000.0;
        assert!(used >= 0.9, "{rtt} {loss}: {used}");
    }
}

#[test]
fn bbr_recovers_from_a_seed_that_is_too_high() {
    for queue in [1.0, 0.1] {
        for factor in [1.3, 2.0, 5.0] {
            let config = path(200.0, 100.0, 0.0, queue);
            let flow = flow(seeded(ControllerKind::Bbr, 200.0 * factor, 100.0));
            let sim = run(
                &format!("seed {factor} x, queue {queue}"),
                &config,
                vec![flow],
                4.0,
            );
            let flow = &sim.flows[0];
            // Two and a half round trips after the first packet, the pacing rate is at most that of
            // the path.
            let (pacing, _) = flow.states[3];
            assert!(pacing < 220 * MBIT, "{pacing}");
            let used = flow.mbit(0.5, 4.0);
            assert!(used >= 180.0, "{factor} {queue}: {used}");
        }
    }
}

#[test]
fn bbr_grows_to_the_rate_from_a_seed_that_is_too_low() {
    for factor in [0.9, 0.5, 0.1] {
        let config = path(200.0, 100.0, 0.0005, 1.0);
        let flow = flow(seeded(ControllerKind::Bbr, 200.0 * factor, 100.0));
        let sim = run(&format!("seed {factor} x"), &config, vec![flow], 4.0);
        let used = sim.flows[0].mbit(1.5, 4.0);
        assert!(used >= 180.0, "{factor}: {used}");
    }
}

#[test]
fn a_start_up_that_overflows_a_short_queue_finds_the_rate() {
    // The controller must not attribute the losses to the sending rate over the whole flight. A
    // flight that began before the start-up was sent more slowly than the lost packets.
    for factor in [0.5, 0.65, 0.75] {
        for queue in [0.05, 0.17] {
            let config = path(770.0, 170.0, 0.00005, queue);
            let controller = seeded(ControllerKind::Bbr, 770.0 * factor, 170.0);
            let name = format!("seed {factor} x, queue {queue}");
            let sim = run(&name, &config, vec![flow(controller)], 4.0);
            let used = sim.flows[0].mbit(2.0, 4.0) / 770.0;
            assert!(used >= 0.8, "{factor} {queue}: {used}");
        }
    }
}

#[test]
fn bbr_keeps_a_seed_while_little_is_sent() {
    // One packet is sent long after the seed, and many more before it is acknowledged.
    let config = path(33.0, 500.0, 0.0, 1.0);
    let controller = seeded(ControllerKind::Bbr, 33.0, 500.0);
    let flow =
        Flow::new(controller, Duration::from_millis(2200)).source(1, Duration::from_millis(20));
    let sim = run("a packet, then many", &config, vec![flow], 5.2);
    let used = sim.flows[0].mbit(2.7, 5.2) / 33.0;
    assert!(used >= 0.9, "{used}");
}

#[test]
fn bbr_follows_a_path_that_becomes_slower_and_faster() {
    let mut config = path(200.0, 50.0, 0.0005, 1.0);
    config.changes = vec![
        Change {
            at_s: 2.0,
            rate_mbit: Some(20.0),
            ..Change::default()
        },
        Change {
            at_s: 6.0,
            rate_mbit: Some(200.0),
            ..Change::default()
        },
    ];
    let sim = run(
        "drop",
        &config,
        vec![flow(seeded(ControllerKind::Bbr, 200.0, 50.0))],
        10.0,
    );
    let flow = &sim.flows[0];
    assert!(flow.states[25].0 < 30 * MBIT, "{:?}", flow.states[25]);
    assert!(flow.mbit(3.0, 6.0) >= 18.0);
    assert!(flow.mbit(8.0, 10.0) >= 170.0);
}

#[test]
fn bbr_and_cubic_share_a_bottleneck() {
    for (rate_mbit, rtt_ms) in [(100.0, 10.0), (100.0, 40.0), (20.0, 40.0), (20.0, 110.0)] {
        let mut shares = Vec::new();
        for (known, first) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
            let config = path(rate_mbit, rtt_ms, 0.0, 1.0);
            let ours = match known {
                true => seeded(ControllerKind::Bbr, rate_mbit, rtt_ms),
                false => unknown(ControllerKind::Bbr),
            };
            let at = |n: u64| Duration::from_secs(if n == first { 0 } else { 3 });
            let flows = vec![
                Flow::new(ours, at(0)),
                Flow::new(Box::new(Cubic::new()), at(1)),
            ];
            let name =
                format!("cubic, {rate_mbit} Mbit/s, {rtt_ms} ms, known {known}, first {first}");
            let sim = run(&name, &config, flows, 68.0);
            let [ours, theirs] = [0, 1].map(|flow: usize| sim.flows[flow].mbit(8.0, 68.0));
            assert!(ours + theirs >= 0.95 * rate_mbit, "{name}");
            shares.push(ours / (ours + theirs));
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let all = format!("{rate_mbit} Mbit/s, {rtt_ms} ms: {shares:.2?}");
        assert!((0.4..=0.6).contains(&mean), "{all}");
        assert!(
            shares.iter().all(|share| (0.3..=0.7).contains(share)),
            "{all}"
        );
    }
}

#[test]
fn two_bbr_flows_share_evenly() {
    for (known, queue, later) in [
        (true, 1.0, 0),
        (true, 1.0, 5),
        (false, 1.0, 5),
        (true, 0.2, 5),
    ] {
        let config = path(100.0, 50.0, 0.0, queue);
        let make = || {
            if known {
                seeded(ControllerKind::Bbr, 100.0, 50.0)
            } else {
                unknown(ControllerKind::Bbr)
            }
        };
        let flows = vec![
            Flow::new(make(), Duration::ZERO),
            Flow::new(make(), Duration::from_secs(later)),
        ];
        let sim = run(
            &format!("two, known {known}, queue {queue}, later {later}"),
            &config,
            flows,
            65.0,
        );
        let (one, two) = (sim.flows[0].mbit(5.0, 65.0), sim.flows[1].mbit(5.0, 65.0));
        assert!(
            one >= 0.4 * (one + two) && two >= 0.4 * (one + two),
            "{one} {two}"
        );
        assert!(one + two >= 90.0);
    }
}

#[test]
fn bbr_survives_silence_and_heavy_loss() {
    let mut config = path(100.0, 50.0, 0.0, 1.0);
    config.changes = vec![
        Change {
            at_s: 2.0,
            loss: Some(1.0),
            ..Change::default()
        },
        Change {
            at_s: 7.0,
            loss: Some(0.0),
            ..Change::default()
        },
        Change {
            at_s: 10.0,
            loss: Some(0.3),
            ..Change::default()
        },
    ];
    let sim = run(
        "blackout",
        &config,
        vec![flow(seeded(ControllerKind::Bbr, 100.0, 50.0))],
        16.0,
    );
    let flow = &sim.flows[0];
    assert!(flow.mbit(8.5, 10.0) >= 85.0, "{}", flow.mbit(8.5, 10.0));
    assert!(flow.mbit(12.0, 16.0) >= 55.0, "{}", flow.mbit(12.0, 16.0));
}

#[test]
fn unexpected_random_loss_does_not_lower_the_rate() {
    for loss in [0.05, 0.2] {
        for controller in [
            seeded(ControllerKind::Bbr, 200.0, 100.0),
            unknown(ControllerKind::Bbr),
        ] {
            let config = path(200.0, 100.0, loss, 1.0);
            let sim = run(
                &format!("loss {loss}"),
                &config,
                vec![flow(controller)],
                6.0,
            );
            let used = sim.flows[0].mbit(3.0, 6.0);
            assert!(used >= 170.0, "{loss}: {used}");
        }
    }
}

#[test]
fn bbr_tolerates_jitter() {
    for (mbit, rtt, jitter, loss) in [
        (200.0, 100.0, 1.0, 0.001),
        (200.0, 100.0, 5.0, 0.001),
        (20.0, 60.0, 10.0, 0.0),
        (20.0, 60.0, 10.0, 0.01),
        (60.0, 20.0, 2.0, 0.0001),
    ] {
        let mut config = path(mbit, rtt, loss, 1.0);
        config.jitter_ms = jitter;
        for seed in [1.0, 0.7] {
            let controller = seeded(ControllerKind::Bbr, mbit * seed, rtt);
            let name =
                format!("{mbit} Mbit/s, {rtt} ms, jitter {jitter} ms, loss {loss}, seed {seed} x");
            let sim = run(&name, &config, vec![flow(controller)], 10.0);
            let used = sim.flows[0].mbit(1.0, 10.0);
            assert!(used >= 0.9 * mbit, "{name}: {used}");
            assert!(sim.flows[0].lost * 1500 < sim.flows[0].sent / 50 + sim.flows[0].sent / 100);
        }
    }
}

#[test]
fn transfers_with_a_seed_that_is_a_little_off_stay_near_the_limit() {
    for rtt in [110.0, 300.0] {
        for queue in [1.0, 0.1] {
            for factor in [0.9, 1.0, 1.1] {
                for megabytes in [2.77, 30.5, 69.0] {
                    let config = path(1000.0, rtt, 0.0, queue);
                    let bytes = (megabytes * 1e6) as u64;
                    let flow = flow(seeded(ControllerKind::Bbr, 1000.0 * factor, rtt)).bytes(bytes);
                    let mut sim = Sim::new(&config, 7, vec![flow]);
                    sim.run(10.0);
                    let flow = &sim.flows[0];
                    // The last acknowledgement arrives half a round trip after the last byte.
                    let took = flow.finished.unwrap().as_nanos() as f64 * 1e-9 - rtt / 2e3;
                    let ratio = took / (rtt / 2e3 + megabytes * 8e-3);
                    let lost = flow.lost as f64 * 1500.0 / flow.sent as f64;
                    println!(
                        "{rtt} ms, queue {queue}, seed {factor} x, {megabytes} MB: {ratio:.3} x, lost {:.2} %",
                        lost * 100.0
                    );
                    if ratio > 1.15 {
                        println!("{} {:?}", sim.curves(1), flow.controller.snapshot());
                    }
                    assert!(ratio < 1.15, "{ratio}");
                    assert!(lost < 0.02, "{lost}");
                }
            }
        }
    }
}

#[test]
fn an_application_that_sends_little_does_not_shrink_the_model() {
    let mut config = path(200.0, 50.0, 0.001, 1.0);
    config.changes = vec![Change {
        at_s: 6.0,
        loss: Some(0.05),
        ..Change::default()
    }];
    let flow =
        flow(seeded(ControllerKind::Bbr, 200.0, 50.0)).source(20 * MBIT, Duration::from_secs(12));
    let sim = run("application-limited", &config, vec![flow], 15.0);
    let flow = &sim.flows[0];
    assert!((17.0..21.0).contains(&flow.mbit(3.0, 12.0)));
    assert!(flow.states.iter().all(|(pacing, _)| *pacing > 130 * MBIT));
    assert!(flow.mbit(12.2, 15.0) > 180.0, "{}", flow.mbit(12.2, 15.0));
}

#[cfg(feature = "sabul")]
#[test]
fn sabul_is_slowed_by_random_loss() {
    let config = path(100.0, 100.0, 0.01, 1.0);
    let mut sim = Sim::new(&config, 7, vec![flow(unknown(ControllerKind::Sabul))]);
    sim.link_capacity = Some(100 * MBIT);
    sim.run(60.0);
    println!("{}", sim.curves(20));
    let used = sim.flows[0].mbit(20.0, 60.0);
    // The expected rate is about 11 Mbit/s once every round trip has a loss.
    assert!((5.0..18.0).contains(&used), "{used}");
}
