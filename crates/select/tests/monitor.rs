//! Tests of the monitor of a path, with scripted samples.

use std::time::Duration;

use transpute_select::{Bandwidth, KnownDirection, KnownPath, Loss, PathMonitor};
use transpute_transport::PathSample;

/// Returns a count of sent and lost packets.
fn loss(sent: u64, lost: u64) -> Loss {
    Loss::new(lost, sent).unwrap()
}

fn bytes_per_second(rate: f64) -> Option<Bandwidth> {
    Some(Bandwidth::from_bytes_per_second(rate))
}

/// Returns a sample of a link: a rate in bytes per second, whether the application limits it, and
/// the total numbers of sent and lost packets.
fn sample(rate: u64, is_app_limited: bool, sent: u64, lost: u64) -> PathSample {
    let mut sample = PathSample::default();
    sample.min_rtt = Some(Duration::from_millis(20));
    sample.delivery_rate = Some(rate);
    sample.delivery_rate_app_limited = Some(is_app_limited);
    sample.packets_sent = Some(sent);
    sample.packets_lost = Some(lost);
    sample
}

/// Returns a path of 100 Mbit/s that loses one packet in a thousand.
fn chosen_by() -> KnownPath {
    KnownPath {
        to_peer: KnownDirection {
            rate: bytes_per_second(12.5e6),
            loss: Some(loss(10_000, 10)),
            queue_bytes: None,
        },
        ..KnownPath::of_rtt(Duration::from_millis(20))
    }
}

/// Passes a sample to the monitor at the end of a run that took one second.
fn look(monitor: &mut PathMonitor, sample: &PathSample) {
    monitor.look(sample, Duration::from_secs(1));
}

fn watched(samples: &[PathSample]) -> PathMonitor {
    let mut monitor = PathMonitor::new(chosen_by());
    for sample in samples {
        look(&mut monitor, sample);
    }
    monitor
}

#[test]
fn a_rate_is_worse_from_half_on_if_the_path_limited_it() {
    for (rate, is_app_limited, is_worse) in [
        (12_000_000, false, false),
        (6_250_001, false, false),
        (6_250_000, false, true),
        (6_250_000, true, false),
        (1_000, true, false),
    ] {
        let monitor = watched(&[sample(rate, is_app_limited, 1000, 1)]);
        let worse = monitor.worse().is_some_and(|worse| worse.contains("rate"));
        assert_eq!(worse, is_worse, "{rate} {is_app_limited}");
        let expected = if is_app_limited { 12.5e6 } else { rate as f64 };
        assert_eq!(monitor.estimate().to_peer.rate, bytes_per_second(expected));
    }
}

/// The limits of "worse" come from the requirement. If a constant changes, this test fails.
#[test]
fn noise_is_three_standard_deviations() {
    let before = loss(10_000, 100);
    // For 100 and 200 lost packets of the same number sent, the pooled standard deviation is
    // 0.00172. The difference of 0.0100 is 5.8 times as much.
    let now = loss;
    assert!(now(10_000, 200).is_worse_than(before));
    assert!(!now(10_000, 199).is_worse_than(before), "not twice as much");
    // 18 losses of 900 packets are 2.8 standard deviations above the earlier loss. 22 of 1,100 are
    // 3.1.
    assert!(!now(900, 18).is_worse_than(before));
    assert!(now(1_100, 22).is_worse_than(before));
    let clean = loss(10_000, 0);
    assert!(!clean.is_worse_than(before) && !clean.is_worse_than(clean));
    assert!(!now(0, 0).is_worse_than(before) && !now(10, 10).is_worse_than(now(0, 0)));
    // A loss of 0.3 % after 0.1 % may be chance if it was counted in 1,000 packets. In 1,000,000
    // packets it is not.
    let little = loss(10_000, 10);
    assert!(!now(1_000, 3).is_worse_than(little) && now(1_000_000, 3_000).is_worse_than(little));
}

#[test]
fn packets_count_since_the_last_look() {
    let mut monitor = watched(&[sample(12_500_000, false, 100_000, 100)]);
    assert_eq!(monitor.worse(), None);
    // Of the last 1,000 packets, 50 were lost. The sample has totals since the start.
    look(&mut monitor, &sample(12_500_000, false, 101_000, 150));
    let now = loss(1_000, 50);
    let expected = Some("loss 5.00 %, was 0.10 %".to_owned());
    assert_eq!(monitor.worse(), expected);
    assert_eq!(monitor.estimate().to_peer.loss, Some(now));
    // A sample during a run does not change the estimate before the end of the run.
    monitor.look_at_rate(&sample(12_000_000, false, 101_900, 151));
    assert_eq!(monitor.estimate().to_peer.loss, Some(now));
    assert_eq!(monitor.estimate().to_peer.rate, bytes_per_second(12.5e6));
    // Nothing was sent since the last run, so the last measurement stays.
    look(&mut monitor, &sample(12_500_000, true, 101_000, 150));
    assert_eq!(monitor.worse(), expected);
    // The path recovers.
    look(&mut monitor, &sample(12_500_000, false, 111_000, 160));
    assert_eq!(monitor.worse(), None);
}

#[test]
fn what_was_not_known_is_what_is_measured_first() {
    let mut monitor = PathMonitor::new(KnownPath::default());
    assert_eq!(monitor.estimate(), KnownPath::default());
    look(&mut monitor, &sample(10_000_000, true, 0, 0));
    assert_eq!(monitor.chosen_by().to_peer.rate, None);
    look(&mut monitor, &sample(10_000_000, false, 5_000, 5));
    assert_eq!(monitor.chosen_by().to_peer.rate, bytes_per_second(1e7));
    assert_eq!(monitor.worse(), None);
    look(&mut monitor, &sample(4_000_000, false, 10_000, 1_005));
    assert_eq!(
        monitor.worse().unwrap(),
        "rate 32.0 Mbit/s, was 80.0; loss 20.00 %, was 0.10 %"
    );
    // The next samples are from a transport that counts only retransmissions.
    let mut monitor = PathMonitor::default();
    let mut tcp = PathSample::default();
    (tcp.packets_sent, tcp.retransmits) = (Some(1000), Some(30));
    look(&mut monitor, &tcp);
    let expected = loss(1000, 30);
    assert_eq!(monitor.estimate().to_peer.loss, Some(expected));
}

#[test]
fn the_rate_of_a_run_is_its_highest_and_at_least_what_was_carried() {
    let mut monitor = PathMonitor::new(chosen_by());
    monitor.look_at_rate(&sample(9_000_000, false, 0, 0));
    monitor.look_at_rate(&sample(10_000_000, false, 0, 0));
    assert_eq!(
        monitor.estimate().to_peer.rate,
        bytes_per_second(12.5e6),
        "the run is under way"
    );
    // The first sample is that of a retransmission. In the second, the application limits the rate.
    monitor.look_at_rate(&sample(1_000, false, 0, 0));
    look(&mut monitor, &sample(50_000_000, true, 0, 0));
    assert_eq!(monitor.estimate().to_peer.rate, bytes_per_second(1e7));
    // The only sample is that of a retransmission. The run transferred 3.5 MB in half a second, of
    // which 0.5 MB were sent twice.
    let mut retransmission = sample(1_000, false, 3_500, 500);
    retransmission.wire_bytes_sent = Some(4_000_000);
    retransmission.wire_bytes_retransmitted = Some(500_000);
    monitor.look(&retransmission, Duration::from_millis(500));
    assert_eq!(monitor.estimate().to_peer.rate, bytes_per_second(7e6));
    // The application limited the rate, so the last measurement stays.
    look(&mut monitor, &sample(1_000, true, 3_500, 500));
    assert_eq!(monitor.estimate().to_peer.rate, bytes_per_second(7e6));
    monitor.look(&sample(1_000, false, 3_500, 500), Duration::ZERO);
    assert_eq!(monitor.estimate().to_peer.rate, bytes_per_second(1e3));
}
