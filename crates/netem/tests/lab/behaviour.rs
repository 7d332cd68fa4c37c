//! Isolation of a lab, and its conformance with the scenario.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::net::sockopt::tcp_congestion;
use transpute_netem::lab::{Lab, LabError, Side};

use super::{Bench, bench, scenario, turn};

/// Returns connected UDP sockets on the two sides. A read on B's socket times out after a second.
fn pair(lab: &Lab) -> (UdpSocket, UdpSocket) {
    let (a, b) = (lab.udp(Side::A, 0).unwrap(), lab.udp(Side::B, 0).unwrap());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    b.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    (a, b)
}

/// Sends numbered packets and returns the numbers that arrive, in order of arrival.
///
/// Waits until each packet of a burst is lost or delivered, so that only the buffer of the path can
/// overflow.
fn send_bursts(lab: &Lab, packets: u32) -> Vec<u32> {
    let (a, b) = pair(lab);
    let mut arrived = Vec::new();
    let mut sent = 0;
    while sent < packets {
        let burst = 64.min(packets - sent);
        for number in sent..sent + burst {
            a.send(&number.to_be_bytes()).unwrap();
        }
        sent += burst;
        loop {
            let up = lab.counters()[0];
            while (arrived.len() as u64) < up.packets_out {
                let mut number = [0; 4];
                b.recv(&mut number).unwrap();
                arrived.push(u32::from_be_bytes(number));
            }
            if up.packets_out + up.lost_packets == u64::from(sent) {
                break;
            }
            std::thread::yield_now();
        }
    }
    arrived
}

#[test]
fn loss_is_binomial_over_a_hundred_thousand_packets() {
    let loss = 0.01;
    let Some(Bench { mut lab, _turn }) = bench(&scenario("rtt_ms = 0.0\nloss = 0.01\nseed = 3"))
    else {
        return;
    };
    let packets = 120_000;
    let arrived = send_bursts(&lab, packets);
    let [up, down] = lab.counters();
    assert_eq!(up.packets_in, u64::from(packets));
    assert_eq!(up.packets_out, arrived.len() as u64);
    assert_eq!((up.bytes_in, down.packets_in), (u64::from(packets) * 32, 0));
    assert!(arrived.is_sorted());
    let mean = f64::from(packets) * loss;
    let deviation = (mean * (1.0 - loss)).sqrt();
    let lost = f64::from(packets) - arrived.len() as f64;
    println!(
        "lost {lost} of {packets} at {loss}: {:+.2} standard deviations",
        (lost - mean) / deviation
    );
    assert!((lost - mean).abs() < 4.0 * deviation);
    assert_eq!(lab.overruns().unwrap(), [0, 0]);
}

#[test]
fn the_same_seed_drops_the_same_packets() {
    let run = |seed: u32| {
        let Bench { lab, _turn } = bench(&scenario(&format!(
            "rtt_ms = 0.0\nloss = 0.05\nseed = {seed}"
        )))?;
        Some(send_bursts(&lab, 20_000))
    };
    let Some(first) = run(1) else { return };
    assert_eq!(run(1).unwrap(), first);
    assert_ne!(run(2).unwrap(), first);
}

#[test]
fn the_queue_limit_is_exact_to_the_packet() {
    // 1,028 bytes take 82 ms, so the whole burst is sent long before the first packet leaves the
    // queue.
    for (limit, room) in [(15 * 1028, 15), (16 * 1028 - 1, 15), (16 * 1028, 16)] {
        let text = format!("rtt_ms = 0.0\nrate_mbit = 0.1\nqueue_bytes = {limit}");
        let Some(Bench { lab, _turn }) = bench(&scenario(&text)) else {
            return;
        };
        let (a, b) = pair(&lab);
        for number in 0..40 {
            a.send(&[number; 1000]).unwrap();
        }
        let mut buffer = [0; 1000];
        for number in 0..room {
            assert_eq!(b.recv(&mut buffer).unwrap(), 1000);
            assert_eq!(buffer[0], number);
        }
        assert!(b.recv(&mut buffer).is_err());
        let [up, _] = lab.counters();
        assert_eq!(up.overflowed_packets, 40 - u64::from(room));
        assert_eq!(up.queue_peak_bytes, u64::from(room) * 1028);
    }
}

#[test]
fn programs_run_inside_and_do_not_see_the_host() {
    let Some(Bench { lab, _turn }) = bench(&scenario(
        "rtt_ms = 2.0\nmtu = 1280\nsocket_buffer = 7000000",
    )) else {
        return;
    };
    let inside = |side, program: &str, arguments: &[&str]| {
        let output = lab.command(side, program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for side in [Side::A, Side::B] {
        let devices = inside(side, "cat", &["/proc/net/dev"]);
        let mut names: Vec<_> = devices
            .lines()
            .skip(2)
            .filter_map(|line| line.split(':').next())
            .collect();
        names.retain(|name| !name.contains("tunl") && !name.contains("sit"));
        assert_eq!(
            names.iter().map(|name| name.trim()).collect::<Vec<_>>(),
            ["lo", "wan0"]
        );
        let buffers = inside(
            side,
            "cat",
            &["/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"],
        );
        assert!(
            buffers.lines().all(|line| line.ends_with("7000000")),
            "{buffers}"
        );
    }
    let host = std::fs::read_to_string("/proc/net/dev").unwrap();
    assert!(!host.contains("wan0"));
    assert_ne!(
        inside(Side::A, "readlink", &["/proc/self/ns/net"]),
        inside(Side::B, "readlink", &["/proc/self/ns/net"])
    );
}

#[test]
fn tcp_connects_with_the_congestion_control_of_the_scenario() {
    for name in ["reno", "cubic", "bbr"] {
        let available =
            std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
        if !available.contains(name) {
            continue;
        }
        let text = format!("rtt_ms = 2.0\ncongestion_control = \"{name}\"");
        let Some(Bench { lab, _turn }) = bench(&scenario(&text)) else {
            return;
        };
        let listener = lab.listen(Side::B, 0).unwrap();
        let mut here = lab
            .connect(Side::A, listener.local_addr().unwrap())
            .unwrap();
        let (mut there, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), lab.address(Side::A));
        assert_eq!(tcp_congestion(&here).unwrap(), name);
        assert_eq!(tcp_congestion(&there).unwrap(), name);
        here.write_all(b"over the wire").unwrap();
        let mut text = [0; 13];
        there.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"over the wire");
        assert!(lab.counters()[0].bytes_in > 13 + 40);
        assert!(lab.first_packet().is_some());
        assert!(lab.timeline().up.iter().sum::<u64>() > 13);
    }
}

/// Sends half a megabyte over TCP to B. Returns the number of bytes that arrived before a second of
/// silence.
fn bulk(lab: &Lab) -> usize {
    const BYTES: usize = 500_000;
    let listener = lab.listen(Side::B, 0).unwrap();
    let mut here = lab
        .connect(Side::A, listener.local_addr().unwrap())
        .unwrap();
    let (mut there, _) = listener.accept().unwrap();
    there
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            here.set_write_timeout(Some(Duration::from_secs(2)))
                .unwrap();
            let _ = here.write_all(&vec![1; BYTES]);
        });
        let (mut buffer, mut arrived) = (vec![0; BYTES], 0);
        while arrived < BYTES
            && let Ok(read @ 1..) = there.read(&mut buffer)
        {
            arrived += read;
        }
        arrived
    })
}

/// TCP adapts to a smaller path MTU if ICMP reports it. Otherwise no segment of full size arrives.
#[test]
fn a_path_may_be_narrower_than_the_interfaces() {
    let text = "rtt_ms = 4.0\nup.path_mtu = 1300";
    let Some(Bench { lab, _turn }) = bench(&scenario(text)) else {
        return;
    };
    assert_eq!(bulk(&lab), 0);
    assert!(lab.counters()[0].oversized_packets > 0);
    drop((lab, _turn));

    let Some(Bench { lab, _turn }) = bench(&scenario(&format!("{text}\nup.icmp = true"))) else {
        return;
    };
    assert_eq!(bulk(&lab), 500_000);
    let [up, down] = lab.counters();
    assert!(
        up.oversized_packets > 0,
        "no packet was reported as oversized"
    );
    assert_eq!(down.oversized_packets, 0);
}

#[test]
fn a_blackout_starts_with_the_first_packet_and_ends_in_time() {
    let text = "rtt_ms = 0.0\nup.loss = 1.0\nup.changes = [{ at_s = 0.2, loss = 0.0 }]";
    let Some(Bench { lab, _turn }) = bench(&scenario(text)) else {
        return;
    };
    // The clock of the changes does not start before the first packet.
    std::thread::sleep(Duration::from_millis(300));
    let (a, b) = pair(&lab);
    a.send(b"lost").unwrap();
    std::thread::sleep(Duration::from_millis(250));
    a.send(b"through").unwrap();
    let mut buffer = [0; 16];
    assert_eq!(b.recv(&mut buffer).unwrap(), 7);
}

#[test]
fn an_error_of_a_scenario_is_one_line() {
    let error = {
        let _turn = turn();
        Lab::start(&scenario("rtt_ms = 2.0\ncongestion_control = \"nosuch\"")).unwrap_err()
    };
    if !matches!(error, LabError::Privileges { .. } | LabError::NoTun { .. }) {
        let text = error.to_string();
        assert!(
            text.contains("\"nosuch\"") && text.contains("reno") && !text.contains('\n'),
            "{text}"
        );
    }
    let mut impossible = scenario("rtt_ms = 2.0");
    impossible.up.loss = 1.5;
    let error = Lab::start(&impossible).unwrap_err();
    assert!(error.to_string().contains("up.loss"), "{error}");
}

#[test]
fn a_dropped_lab_carries_no_packets() {
    let Some(Bench { lab, _turn }) = bench(&scenario("rtt_ms = 0.0")) else {
        return;
    };
    let (a, b) = pair(&lab);
    let to: SocketAddr = b.local_addr().unwrap();
    a.send(b"x").unwrap();
    assert_eq!(b.recv(&mut [0; 8]).unwrap(), 1);
    drop(lab);
    // The device has been removed, and the route with it.
    assert!(a.send_to(b"x", to).is_err());
}
