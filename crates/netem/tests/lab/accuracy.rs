//! Round-trip times of the emulator.

use std::time::Instant;

use transpute_netem::lab::{Lab, Side};

use super::{Bench, bench, scenario};

/// Measures round trips of single packets. Returns their times in milliseconds, sorted.
fn round_trips(lab: &Lab, count: usize) -> Vec<f64> {
    let (a, b) = (lab.udp(Side::A, 0).unwrap(), lab.udp(Side::B, 0).unwrap());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..count {
                let mut number = [0; 8];
                b.recv(&mut number).unwrap();
                b.send(&number).unwrap();
            }
        });
        let mut times: Vec<f64> = (0..count)
            .map(|_| {
                let start = Instant::now();
                a.send(&[0; 8]).unwrap();
                a.recv(&mut [0; 8]).unwrap();
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times
    })
}

/// Measures round trips at several delays. Calls `check` with each delay and its sorted times, in
/// milliseconds.
fn at_each_delay(check: impl Fn(f64, &[f64])) {
    for (rtt, count) in [
        (0.0, 200),
        (0.5, 200),
        (10.0, 60),
        (50.0, 20),
        (110.0, 10),
        (300.0, 5),
    ] {
        let Some(Bench { lab, _turn }) = bench(&scenario(&format!("rtt_ms = {rtt:?}"))) else {
            return;
        };
        let times = round_trips(&lab, count);
        println!(
            "RTT {rtt} ms: min {:.3}, median {:.3}, max {:.3}",
            times[0],
            times[count / 2],
            times[count - 1]
        );
        check(rtt, &times);
    }
}

/// The maximum delay of a packet beyond the configured round-trip time, in milliseconds.
fn tolerance(rtt: f64) -> f64 {
    0.3 + 0.02 * rtt
}

/// No packet is early, and the fastest packet is on time.
#[test]
fn round_trips_take_the_time_of_the_scenario() {
    at_each_delay(|rtt, times| {
        let min = times[0];
        assert!(min >= rtt, "{min} ms is less than the delay of {rtt} ms");
        assert!(min - rtt <= tolerance(rtt), "{min} ms instead of {rtt} ms");
    });
}
