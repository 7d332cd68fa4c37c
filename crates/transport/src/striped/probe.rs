//! The figures of a link, put together from those of its connections.

use std::{sync::Arc, time::Duration};

use crate::{PathProbe, PathSample, SendTimes};

pub(super) struct StripedProbe {
    parts: Vec<Arc<dyn PathProbe>>,
}

impl StripedProbe {
    pub(super) fn new(parts: impl Iterator<Item = Arc<dyn PathProbe>>) -> Self {
        Self {
            parts: parts.collect(),
        }
    }
}

impl PathProbe for StripedProbe {
    fn sample(&self) -> PathSample {
        let parts: Vec<_> = self.parts.iter().map(|part| part.sample()).collect();
        combine(&parts)
    }
}

/// Counts and rates add up; of times there is a mean, and the smallest of the smallest.
fn combine(parts: &[PathSample]) -> PathSample {
    let sum = |figure: fn(&PathSample) -> Option<u64>| {
        (parts.iter().map(figure)).try_fold(0u64, |sum, part| Some(sum.saturating_add(part?)))
    };
    let mean = |figure: fn(&PathSample) -> Option<Duration>| {
        let known: Vec<_> = parts.iter().filter_map(figure).collect();
        let count = u32::try_from(known.len()).ok().filter(|&count| count > 0)?;
        Some(known.iter().sum::<Duration>() / count)
    };
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX).max(1);
    let send_times =
        parts
            .iter()
            .map(|part| part.send_times)
            .try_fold(SendTimes::default(), |sum, part| {
                let part = part?;
                Some(SendTimes {
                    elapsed: sum.elapsed.max(part.elapsed),
                    busy: sum.busy + part.busy / count,
                    by_receiver: sum.by_receiver + part.by_receiver / count,
                    by_send_buffer: sum.by_send_buffer + part.by_send_buffer / count,
                })
            });
    let mut path = PathSample::default();
    path.rtt = mean(|part| part.rtt);
    path.rtt_variation = mean(|part| part.rtt_variation);
    path.min_rtt = parts.iter().filter_map(|part| part.min_rtt).min();
    path.delivery_rate = sum(|part| part.delivery_rate);
    // The sum is the path's limit only if every part is.
    path.delivery_rate_app_limited = path
        .delivery_rate
        .map(|_| (parts.iter()).any(|part| part.delivery_rate_app_limited != Some(false)));
    path.congestion_window = sum(|part| part.congestion_window);
    path.retransmits = sum(|part| part.retransmits);
    path.wire_bytes_sent = sum(|part| part.wire_bytes_sent);
    path.wire_bytes_received = sum(|part| part.wire_bytes_received);
    path.wire_bytes_retransmitted = sum(|part| part.wire_bytes_retransmitted);
    path.packets_sent = sum(|part| part.packets_sent);
    path.congestion_control = parts
        .first()
        .and_then(|part| part.congestion_control.clone());
    path.send_times = send_times;
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_what_one_does_not_know_is_unknown() {
        let part = |millis: u64, sent: u64| {
            let mut part = PathSample::default();
            part.rtt = Some(Duration::from_millis(millis));
            part.min_rtt = part.rtt;
            part.wire_bytes_sent = Some(sent);
            part.delivery_rate = Some(sent);
            part.delivery_rate_app_limited = Some(sent > 5);
            part.retransmits = (sent > 5).then_some(1);
            part.congestion_control = Some("reno".into());
            part.send_times = Some(SendTimes {
                elapsed: Duration::from_secs(millis),
                busy: Duration::from_secs(4),
                ..SendTimes::default()
            });
            part
        };
        let path = combine(&[part(10, 3), part(20, 9)]);
        assert_eq!(path.rtt, Some(Duration::from_millis(15)));
        assert_eq!(path.min_rtt, Some(Duration::from_millis(10)));
        assert_eq!(path.wire_bytes_sent, Some(12));
        assert_eq!(path.delivery_rate_app_limited, Some(true));
        assert_eq!(path.retransmits, None);
        assert_eq!(path.congestion_control.as_deref(), Some("reno"));
        let times = path.send_times.unwrap();
        assert_eq!(times.elapsed, Duration::from_secs(20));
        assert_eq!(times.busy, Duration::from_secs(4));
        assert_eq!(combine(&[]).rtt, None);
    }
}
