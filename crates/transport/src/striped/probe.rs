//! The path measurements of a link, combined from those of its connections.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{PathProbe, PathSample, SendTimes};

/// The probes of the stripes that have joined.
#[derive(Default)]
pub(super) struct StripedProbe {
    parts: Mutex<Vec<Arc<dyn PathProbe>>>,
}

impl StripedProbe {
    /// Adds the probe of another stripe.
    pub(super) fn add(&self, part: Arc<dyn PathProbe>) {
        self.lock().push(part);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn PathProbe>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PathProbe for StripedProbe {
    fn sample(&self) -> PathSample {
        let parts: Vec<_> = self.lock().iter().map(|part| part.sample()).collect();
        combine(&parts)
    }
}

/// Combines the measurements: adds counts and rates, averages times, and takes the smallest of the
/// minima.
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
    let delivery_rate = sum(|part| part.delivery_rate);
    // The summed rate reaches the path's limit only if no connection is limited by the application.
    let is_app_limited = |part: &PathSample| part.delivery_rate_app_limited != Some(false);
    PathSample {
        rtt: mean(|part| part.rtt),
        rtt_variation: mean(|part| part.rtt_variation),
        min_rtt: parts.iter().filter_map(|part| part.min_rtt).min(),
        delivery_rate,
        delivery_rate_app_limited: delivery_rate.map(|_| parts.iter().any(is_app_limited)),
        congestion_window: sum(|part| part.congestion_window),
        retransmits: sum(|part| part.retransmits),
        wire_bytes_sent: sum(|part| part.wire_bytes_sent),
        wire_bytes_received: sum(|part| part.wire_bytes_received),
        wire_bytes_retransmitted: sum(|part| part.wire_bytes_retransmitted),
        packets_sent: sum(|part| part.packets_sent),
        congestion_control: parts
            .first()
            .and_then(|part| part.congestion_control.clone()),
        send_times,
        ..PathSample::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_what_one_does_not_know_is_unknown() {
        let part = |millis: u64, sent: u64| PathSample {
            rtt: Some(Duration::from_millis(millis)),
            min_rtt: Some(Duration::from_millis(millis)),
            wire_bytes_sent: Some(sent),
            delivery_rate: Some(sent),
            delivery_rate_app_limited: Some(sent > 5),
            retransmits: (sent > 5).then_some(1),
            congestion_control: Some("reno".into()),
            send_times: Some(SendTimes {
                elapsed: Duration::from_secs(millis),
                busy: Duration::from_secs(4),
                ..SendTimes::default()
            }),
            ..PathSample::default()
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
