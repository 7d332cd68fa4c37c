//! What is concluded from what came up, and from what did not.

use super::*;

fn train(received: u32, rate: u64) -> TrainReport {
    let mut train = TrainReport::default();
    train.sent = 128;
    train.received = received;
    (train.clear, train.clear_received) = (train.sent, received);
    train.rate = Some(rate);
    train.error = 0.1;
    train
}

#[test]
fn what_the_system_does_not_do_by_itself_is_a_candidate_too_if_it_can_be_had() {
    let names = |default: &str, available: &[&str]| {
        let kernel = Kernel {
            congestion_control: Some(default.to_owned()),
            available: available.iter().map(|&name| name.to_owned()).collect(),
            ..Kernel::default()
        };
        let specs = usual(&kernel);
        specs.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let plain = ["tcp", "rudp", "quic", "tcp-striped"];
    assert_eq!(names("cubic", &["reno", "cubic"]), plain);
    assert_eq!(names("bbr", &[]), plain);
    let with = |control: &str| {
        let [tcp, rudp, quic, striped] = plain;
        let [more, more_striped] = [tcp, striped].map(|name| format!("{name}:cc={control}"));
        [tcp, rudp, quic, &more, striped, &more_striped].map(str::to_owned)
    };
    assert_eq!(names("cubic", &["bbr", "cubic"]), with("bbr"));
    assert_eq!(names("bbr", &["reno", "bbr", "cubic"]), with("cubic"));
}

#[test]
fn a_train_tells_rate_and_loss_and_lies_are_not_believed() {
    let mut direction = Direction::default();
    learn(&mut direction, Some(train(126, 125_000_000)));
    assert_eq!(direction.rate.unwrap().bits_per_second, 1e9);
    assert_eq!(direction.loss.unwrap().lost(), 2);
    learn(&mut direction, Some(train(128, 125_000_000)));
    assert_eq!(direction.loss.unwrap().sent(), 256);
    for rate in [0, 1, u64::MAX] {
        let mut direction = Direction::default();
        learn(&mut direction, Some(train(400, rate)));
        assert_eq!(direction.rate, None);
        assert_eq!(direction.loss.unwrap().lost(), 0);
    }
    learn(&mut direction, None);
    assert_eq!(direction.loss.unwrap().sent(), 256);
    assert_eq!(direction.queue_bytes, None);
}

#[test]
fn what_overflowed_a_queue_tells_how_long_it_is_and_nothing_of_losses() {
    let mut direction = Direction::default();
    let mut overflowing = train(31, 30_000_000);
    (overflowing.clear, overflowing.clear_received) = (23, 22);
    overflowing.queue = Some(34_500);
    learn(&mut direction, Some(overflowing));
    let loss = direction.loss.unwrap();
    assert_eq!((loss.lost(), loss.sent()), (1, 23));
    assert_eq!(direction.queue_bytes, Some(34_500.0));
    // As long as it is not over, a train says nothing of either.
    let mut early = train(31, 30_000_000);
    (early.clear, early.clear_received) = (0, 0);
    learn(&mut direction, Some(early));
    assert_eq!(direction.loss.unwrap().sent(), 23);
    assert_eq!(direction.queue_bytes, Some(34_500.0));
}

#[test]
fn handshakes_that_lost_a_packet_tell_so() {
    let seen = |again, rtt_us, after_ms| {
        let mut path = PathSample::default();
        path.retransmits = Some(again);
        let after = Duration::from_millis(after_ms);
        let loss = handshake_loss(&path, Duration::from_micros(rtt_us), after);
        loss.map(|loss| (loss.lost(), loss.sent()))
    };
    assert_eq!(seen(0, 200, 2), None);
    assert_eq!(seen(1, 200, 2), None, "next door");
    assert_eq!(seen(0, 200, 60), None, "a busy machine");
    assert_eq!(seen(0, 200, 203), Some((1, 4)));
    // A round trip twice, and the timer after the one or the other.
    for (rtt_ms, well, ill) in [(10, 30, 80), (80, 200, 370), (400, 1000, 1650)] {
        assert_eq!(seen(0, 1000 * rtt_ms, well), None, "{rtt_ms} ms");
        assert_eq!(seen(0, 1000 * rtt_ms, ill), Some((1, 4)), "{rtt_ms} ms");
    }
    assert_eq!(seen(1, 20_000, 70), Some((1, 4)));
    assert_eq!(seen(9, 20_000, 70), Some((9, 9)));
}

#[test]
fn only_an_answer_that_should_have_come_speaks_against_udp() {
    let mut known = Known::new(None);
    assert!(known.quic_hears_nothing());
    known.quic = Stage::Failed(TransportError::UdpBlocked {
        address: "192.0.2.1:7700".into(),
        after: Duration::from_millis(50),
    });
    assert!(known.quic_hears_nothing());
    known.quic = Stage::Failed(TransportError::NoPlaintext {
        transport: "quic",
        instead: "tcp",
    });
    assert!(!known.quic_hears_nothing());
}

#[test]
fn nothing_is_left_of_what_is_up() {
    let specs = ["tcp", "tcp-striped", "quic", "rudp"];
    let mut known = Known::new(Some(specs.map(|name| name.parse().unwrap()).to_vec()));
    known.quic_begun = Some(Duration::ZERO);
    let candidates = known.candidates(Duration::from_millis(80), Duration::from_millis(100));
    let setups: Vec<Setup> = candidates.iter().map(|one| one.setup).collect();
    let begun = Setup::Begun(0.1);
    assert_eq!(setups[0], begun);
    assert!(matches!(setups[1], Setup::In(left) if (left - 0.06).abs() < 1e-9));
    assert_eq!(setups[2..], [begun, begun]);
    assert!(candidates.iter().all(|one| known.is_coming(&one.spec)));
}

#[test]
fn further_connections_are_begun_when_quic_is_late() {
    let ms = Duration::from_millis;
    let with = |names: &[&str]| {
        Known::new(Some(
            names.iter().map(|name| name.parse().unwrap()).collect(),
        ))
    };
    let mut known = with(&["tcp", "tcp-striped", "quic", "rudp"]);
    assert_eq!(known.further_due(ms(80)), None, "QUIC was not begun");
    known.quic_begun = Some(ms(3));
    assert_eq!(known.further_due(ms(80)), Some(ms(94)));
    assert_eq!(known.further_due(ms(1)), None, "next door");
    known.further_begun = Some(ms(105));
    assert_eq!(known.further_due(ms(80)), None, "once");

    known = with(&["tcp", "quic"]);
    known.quic_begun = Some(ms(3));
    assert_eq!(known.further_due(ms(80)), None, "it is no candidate");
    known = with(&["tcp", "tcp-striped", "rudp"]);
    assert_eq!(known.further_due(ms(80)), None, "UDP may pass");
    known = with(&["tcp", "tcp-striped"]);
    assert_eq!(known.further_due(ms(80)), Some(ms(80)));
    known.control = Stage::Failed(TransportError::ClosedDuringHandshake);
    assert_eq!(known.further_due(ms(80)), None, "TCP has failed");
}

#[test]
fn what_was_begun_early_has_less_left() {
    let ms = Duration::from_millis;
    let mut known = Known::new(Some(vec!["tcp-striped".parse().unwrap()]));
    let left = |known: &Known, elapsed| match known.candidates(ms(80), ms(elapsed))[0].setup {
        Setup::Left(left) => Some(((left - HANDSHAKE_S) * 1e3).round()),
        _ => None,
    };
    assert_eq!(left(&known, 110), None);
    known.further_begun = Some(ms(105));
    // Until 345 ms after the start.
    assert_eq!(left(&known, 110), Some(235.0));
    assert_eq!(left(&known, 165), Some(180.0));
    // The control connection, which is late, counts too.
    assert_eq!(left(&known, 400), Some(120.0));
}

#[test]
fn nothing_known_and_everything_failed_are_told_apart() {
    let mut known = Known::new(None);
    assert!(known.rtt().is_none() && !known.is_complete() && known.wants("tcp"));
    known.control = Stage::Failed(TransportError::ClosedDuringHandshake);
    known.quic = Stage::Failed(TransportError::ClosedDuringHandshake);
    known.rudp = Stage::Failed(TransportError::ClosedDuringHandshake);
    known.is_measured = true;
    assert!(known.is_complete());
    let candidates = known.candidates(Duration::from_millis(1), Duration::ZERO);
    assert!(
        candidates
            .iter()
            .all(|candidate| candidate.unavailable.is_some())
    );
    assert!(matches!(
        known.take_failure(),
        Some(TransportError::ClosedDuringHandshake)
    ));
}
