//! From what a race of transports has learnt to an estimate of the path.

use std::time::Duration;

use transpute_transport::{
    TransportError,
    auto::{ControlReport, Progress, Stage, TrainReport},
};

use crate::{
    Direction, Kernel, Loss, MAX_RATE, MAX_RTT_S, MIN_RATE, PathEstimate, Rate, Source, Udp,
};

/// Bytes of the headers of IPv4 and UDP.
const UDP_HEADERS: u32 = 28;

/// Returns what is known of the path; `None` until there was a round trip.
pub(crate) fn path(progress: &Progress, kernel: &Kernel) -> Option<PathEstimate> {
    let control = progress.tcp.up();
    let rudp = progress.rudp.up();
    let quic = (progress.quic.up()).and_then(|up| up.path.min_rtt.or(up.path.rtt));
    let rtt = [
        progress.tcp_rtt,
        control.map(ControlReport::rtt),
        quic,
        rudp.and_then(|up| up.rtt),
    ];
    let seconds = |time: Duration| time.as_secs_f64().min(MAX_RTT_S);
    let rtt_s = seconds(rtt.into_iter().flatten().min()?);
    // Within its bounds.
    let mut path = PathEstimate::of_rtt(rtt_s).ok()?;
    path.source = Source::Measured;
    path.kernel = kernel.clone();
    path.rtt.jitter_s = (control.and_then(|up| up.path.rtt_variation)).map(seconds);
    path.udp = udp(progress);
    if let Some(report) = rudp {
        path.up = direction(report.up);
        path.down = direction(report.down);
        path.mtu = Some(u32::from(report.datagram) + UDP_HEADERS);
    }
    Some(path)
}

fn udp(progress: &Progress) -> Udp {
    let is_blocked = |error: Option<&TransportError>| {
        error.is_some_and(|error| matches!(error.root(), TransportError::UdpBlocked { .. }))
    };
    let Progress { quic, rudp, .. } = progress;
    if quic.up().is_some() || rudp.up().is_some() {
        Udp::Passes
    } else if quic.is_pending() || rudp.is_pending() {
        Udp::Unknown
    } else if is_blocked(failure(rudp)) || is_blocked(failure(quic)) {
        Udp::Blocked
    } else {
        Udp::Unknown
    }
}

/// Returns why a connection failed.
pub(crate) fn failure<R>(stage: &Stage<R>) -> Option<&TransportError> {
    match stage {
        Stage::Failed(error) => Some(error),
        _ => None,
    }
}

/// Returns what a train told. A peer may report anything: figures that no path has are ignored.
fn direction(train: Option<TrainReport>) -> Direction {
    let Some(train) = train else {
        return Direction::default();
    };
    let rate = (train.rate)
        .map(|rate| 8.0 * rate as f64)
        .filter(|rate| (MIN_RATE..=MAX_RATE).contains(rate) && train.error.is_finite());
    let lost = train.clear.saturating_sub(train.clear_received);
    Direction {
        rate: rate.map(|bits_per_second| Rate {
            bits_per_second,
            // Half the width of the band that holds it is two standard errors.
            relative_error: train.error.clamp(0.0, 1.0) / 2.0,
            is_lower_bound: train.at_least,
        }),
        loss: match train.clear {
            0 => None,
            sent => Loss::new(lost.into(), sent.into()).ok(),
        },
        queue_bytes: train.queue.map(|bytes| bytes as f64),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn train(rate: Option<u64>, error: f64, clear: (u32, u32)) -> Option<TrainReport> {
        let mut train = TrainReport::default();
        (train.sent, train.received) = (32, 30);
        (train.rate, train.error) = (rate, error);
        (train.clear, train.clear_received) = clear;
        Some(train)
    }

    #[test]
    fn a_train_tells_rate_and_loss() {
        let known = direction(train(Some(12_500_000), 0.1, (32, 30)));
        let rate = known.rate.unwrap();
        assert_eq!((rate.bits_per_second, rate.relative_error), (1e8, 0.05));
        assert_eq!(known.loss, Some(Loss::new(2, 32).unwrap()));
        assert_eq!(direction(train(None, 0.0, (0, 0))), Direction::default());
        assert_eq!(direction(None), Direction::default());
    }

    #[test]
    fn reports_that_no_path_fulfils_are_ignored() {
        for (rate, error) in [(0, 0.1), (u64::MAX, 0.1), (1_000_000, f64::NAN)] {
            assert_eq!(direction(train(Some(rate), error, (32, 32))).rate, None);
        }
        let wide = direction(train(Some(1_000_000), 1e300, (32, 40)));
        assert_eq!(wide.rate.unwrap().relative_error, 0.5);
        assert_eq!(wide.loss, Some(Loss::new(0, 32).unwrap()));
    }

    #[test]
    fn the_path_is_known_from_the_first_round_trip_on() {
        let mut progress = Progress::default();
        assert!(path(&progress, &Kernel::default()).is_none());
        progress.tcp_rtt = Some(Duration::from_millis(30));
        let known = path(&progress, &Kernel::default()).unwrap();
        assert_eq!((known.rtt.min_s, known.udp), (0.03, Udp::Unknown));
        let blocked = || {
            Stage::Failed(Arc::new(TransportError::UdpBlocked {
                address: "a:1".to_owned(),
                after: Duration::from_secs(1),
            }))
        };
        (progress.quic, progress.rudp) = (Stage::Pending, blocked());
        let udp = |progress: &Progress| path(progress, &Kernel::default()).unwrap().udp;
        // The other one may still come up.
        assert_eq!(udp(&progress), Udp::Unknown);
        progress.quic = Stage::Absent;
        assert_eq!(udp(&progress), Udp::Blocked);
        progress.tcp_rtt = Some(Duration::MAX);
        let known = path(&progress, &Kernel::default()).unwrap();
        assert_eq!(known.rtt.min_s, MAX_RTT_S);
    }
}
