//! How close the emulator comes to what it is told, and how much it can carry.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use transpute_testbed::lab::{Lab, Side};

use super::{Bench, bench, scenario};

/// Measures round trips of single packets, in milliseconds, sorted.
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

/// Measures round trips at the delays that matter; hands each delay its sorted times, in milliseconds.
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
            "RTT {rtt} ms: least {:.3}, median {:.3}, most {:.3}",
            times[0],
            times[count / 2],
            times[count - 1]
        );
        check(rtt, &times);
    }
}

/// How late a packet of a round trip of so many milliseconds may be.
fn tolerance(rtt: f64) -> f64 {
    0.3 + 0.02 * rtt
}

/// No packet is early, and where other work does not hold them up they are on time.
#[test]
fn round_trips_take_what_the_scenario_says() {
    at_each_delay(|rtt, times| {
        let least = times[0];
        assert!(least >= rtt, "{least} is less than possible");
        assert!(least - rtt <= tolerance(rtt), "{least} instead of {rtt}");
    });
}

#[test]
#[ignore = "needs a quiet machine"]
fn most_round_trips_take_what_the_scenario_says() {
    at_each_delay(|rtt, times| {
        let median = times[times.len() / 2];
        assert!(median - rtt <= tolerance(rtt), "{median} instead of {rtt}");
    });
}

/// Sends as fast as it goes from A to B; returns Mbit/s of payload in each of `windows` of 2 s after `warm_up`.
fn bulk(lab: &Lab, warm_up: Duration, windows: usize) -> Vec<f64> {
    let listener = lab.listen(Side::B, 0).unwrap();
    let mut sender = lab
        .connect(Side::A, listener.local_addr().unwrap())
        .unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let read = |receiver: &mut TcpStream, time: Duration, buffer: &mut [u8]| {
        let start = Instant::now();
        let mut bytes = 0;
        while start.elapsed() < time {
            bytes += receiver.read(buffer).unwrap();
        }
        bytes as f64 * 8e-6 / start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        scope.spawn(move || while sender.write_all(&[0; 1 << 16]).is_ok() {});
        let mut buffer = vec![0; 1 << 18];
        read(&mut receiver, warm_up, &mut buffer);
        let rates = (0..windows)
            .map(|_| read(&mut receiver, Duration::from_secs(2), &mut buffer).round())
            .collect();
        // Ends the sender.
        drop(receiver);
        rates
    })
}

/// Other work on the machine takes from some windows, and a full socket adds to one: neither says what is sustained.
fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[test]
#[ignore = "takes 30 s and a quiet machine"]
fn one_tcp_flow_fills_a_gigabit() {
    for (rtt, warm_up) in [(0.5, 1), (100.0, 5)] {
        let text = format!(
            "rtt_ms = {rtt:?}\nrate_mbit = 1000.0\ncongestion_control = \"bbr\"\nsocket_buffer = 100000000"
        );
        let Some(Bench { mut lab, _turn }) = bench(&scenario(&text)) else {
            return;
        };
        let rates = bulk(&lab, Duration::from_secs(warm_up), 5);
        let [up, down] = lab.counters();
        println!(
            "bbr at {rtt} ms: {rates:?} Mbit/s of payload in windows of 2 s\n{up:?}\n{down:?}"
        );
        println!("not read in time: {:?}", lab.overruns().unwrap());
        assert!(median(rates) >= 930.0, "at {rtt} ms");
    }
}

#[test]
#[ignore = "takes 11 s and a quiet machine"]
fn the_emulator_carries_more_than_a_gigabit() {
    let text = "rtt_ms = 0.5\ncongestion_control = \"bbr\"\nsocket_buffer = 100000000";
    let Some(Bench { mut lab, _turn }) = bench(&scenario(text)) else {
        return;
    };
    let rates = bulk(&lab, Duration::from_secs(1), 5);
    let [up, down] = lab.counters();
    let overruns = lab.overruns().unwrap();
    println!(
        "sustained maximum: {rates:?} Mbit/s of payload in windows of 2 s; {} packets of {} bytes up, {} down, {overruns:?} not read",
        up.packets_out,
        up.bytes_out / up.packets_out,
        down.packets_out
    );
    assert!(median(rates) >= 1000.0);
}
