//! Estimation of the delivery rate from acknowledgements.
//!
//! After Y. Cheng, N. Cardwell, S. Hassas Yeganeh, V. Jacobson, *Delivery Rate Estimation*,
//! draft-cheng-iccrg-delivery-rate-estimation-02, 2022. In addition, the sending rate over the same
//! packets is computed. Together with their loss it gives the rate of an overflowing bottleneck
//! before the first flight is completely acknowledged.

use std::time::Duration;

use super::{Feedback, rate_of};
use crate::Time;

/// The state to keep with each packet until it is acknowledged or lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SentState {
    /// Bytes delivered before this packet was sent.
    delivered: u64,
    /// The time at which the last of these bytes was acknowledged.
    delivered_at: Time,
    /// The time at which the first packet of the sampled flight was sent.
    first_sent_at: Time,
    /// Bytes sent before the first packet of the sampled flight.
    first_sent: u64,
    /// Bytes sent before this packet.
    sent: u64,
    /// The time at which this packet was sent.
    sent_at: Time,
    app_limited: bool,
}

/// The connection's measurements of the round-trip time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RttView {
    /// The round-trip time that the current acknowledgement shows, if any.
    pub latest: Option<Duration>,
    /// The smoothed value, or zero if it is not known.
    pub smoothed: Duration,
    /// The minimum, or zero if it is not known.
    pub min: Duration,
}

/// The rate at which the path delivered a flight of packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeliverySample {
    /// Bytes acknowledged per second, limited by the slower of sending and acknowledging. Zero if
    /// the sampled time is shorter than the round trip, and so shows no rate.
    pub rate: u64,
    /// Bytes sent per second over the same packets, including lost ones. Zero if they were sent at
    /// one time.
    pub send_rate: u64,
    /// `true` if the application limited the sender during the sample: the path may be faster.
    pub app_limited: bool,
    /// The time over which the rate is computed.
    pub interval: Duration,
    /// Bytes acknowledged in that time.
    pub delivered: u64,
    /// Bytes delivered before the newest acknowledged packet was sent.
    pub prior_delivered: u64,
    /// The time at which the newest acknowledged packet was sent.
    pub sent_at: Time,
    /// Bytes sent before the newest acknowledged packet.
    pub sent: u64,
    /// The time at which the first packet of the sampled flight was sent.
    pub sent_from: Time,
}

/// Computes [`Feedback`] from packets sent, acknowledged and lost.
///
/// Call [`on_sent`](Self::on_sent) for each packet whose bytes count as in flight. Store the
/// returned value with the packet.
/// Call [`on_acked`](Self::on_acked) or [`on_lost`](Self::on_lost) for each packet of an
/// acknowledgement. Then call [`take_feedback`](Self::take_feedback) once.
#[derive(Clone, Debug, Default)]
pub struct DeliverySampler {
    sent: u64,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    first_sent: u64,
    /// The number of delivered bytes until which samples are limited by the application, or zero if
    /// they are not.
    app_limited_until: u64,
    /// The number of delivered bytes that ends the round. The round ends when a packet is
    /// acknowledged that was sent after this number of bytes was delivered.
    round_end: u64,
    /// The newest packet of the current acknowledgement.
    newest: Option<SentState>,
    acked: (u64, u64),
    lost: (u64, u64),
}

impl DeliverySampler {
    /// Creates a sampler without history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that a packet is sent. `in_flight` is the number of bytes in flight before it.
    #[must_use]
    pub fn on_sent(&mut self, now: Time, bytes: u64, in_flight: u64) -> SentState {
        if in_flight == 0 {
            // The sampled time starts now, because it must not include the time without packets in
            // flight.
            self.first_sent_at = now;
            self.first_sent = self.sent;
            self.delivered_at = now;
        }
        let state = SentState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            first_sent: self.first_sent,
            sent: self.sent,
            sent_at: now,
            app_limited: self.app_limited_until != 0,
        };
        self.sent += bytes;
        state
    }

    /// Records that the application has nothing more to send although window and pacing would allow
    /// it. `in_flight` is the number of bytes in flight.
    pub fn set_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Returns whether samples are limited by the application now.
    #[must_use]
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// Returns the bytes delivered so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Records that a packet is acknowledged for the first time.
    pub fn on_acked(&mut self, now: Time, bytes: u64, state: &SentState) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.acked.0 += bytes;
        self.acked.1 += 1;
        let newer =
            |newest: &SentState| (state.sent_at, state.sent) > (newest.sent_at, newest.sent);
        if self.newest.as_ref().is_none_or(newer) {
            self.newest = Some(*state);
        }
    }

    /// Records that packets are lost. `bytes` is the sum of their sizes.
    pub fn on_lost(&mut self, bytes: u64, packets: u64) {
        self.lost.0 += bytes;
        self.lost.1 += packets;
    }

    /// Ends an acknowledgement and returns the feedback. `in_flight` is the number of bytes that
    /// remain in flight.
    ///
    /// The caller fills in [`arrival_rate`](Feedback::arrival_rate) and
    /// [`link_capacity`](Feedback::link_capacity).
    pub fn take_feedback(&mut self, now: Time, rtt: RttView, in_flight: u64) -> Feedback {
        let mut feedback = Feedback {
            now,
            newly_acked_bytes: self.acked.0,
            newly_acked_packets: self.acked.1,
            newly_lost_bytes: self.lost.0,
            newly_lost_packets: self.lost.1,
            rtt: rtt.latest,
            smoothed_rtt: rtt.smoothed,
            min_rtt: rtt.min,
            in_flight,
            ..Feedback::default()
        };
        self.acked = (0, 0);
        self.lost = (0, 0);
        if self.app_limited_until != 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Some(newest) = self.newest.take() else {
            return feedback;
        };
        if newest.delivered >= self.round_end {
            self.round_end = self.delivered;
            feedback.round_start = true;
        }
        let send_time = newest.sent_at.since(newest.first_sent_at);
        let ack_time = self.delivered_at.since(newest.delivered_at);
        let interval = send_time.max(ack_time);
        let delivered = self.delivered - newest.delivered;
        // An interval shorter than a round trip comes from bunched acknowledgements, or from
        // packets declared lost long ago. So its rate is not used.
        let trusted = interval >= rtt.min && !interval.is_zero();
        feedback.delivery = Some(DeliverySample {
            rate: if trusted {
                rate_of(delivered, interval)
            } else {
                0
            },
            send_rate: if send_time.is_zero() {
                0
            } else {
                rate_of(newest.sent - newest.first_sent, send_time)
            },
            app_limited: newest.app_limited,
            interval,
            delivered,
            prior_delivered: newest.delivered,
            sent_at: newest.sent_at,
            sent: newest.sent,
            sent_from: newest.first_sent_at,
        });
        self.first_sent_at = newest.sent_at;
        self.first_sent = newest.sent;
        feedback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rtts() -> RttView {
        RttView {
            latest: Some(100 * MS),
            smoothed: 100 * MS,
            min: 100 * MS,
        }
    }

    /// Sends 500 packets of 1,000 bytes, one per millisecond, over a path with a delay of 100 ms
    /// that takes `service` per packet.
    fn run(service: Duration) -> (DeliverySampler, Vec<Feedback>) {
        let mut sampler = DeliverySampler::new();
        let mut flight = std::collections::VecDeque::new();
        let mut feedbacks = Vec::new();
        let mut free = Time::ZERO;
        for n in 0..500 {
            let now = Time::ZERO + n * MS;
            while let Some(&(at, state)) = flight.front() {
                if at > now {
                    break;
                }
                flight.pop_front();
                sampler.on_acked(at, 1000, &state);
                feedbacks.push(sampler.take_feedback(at, rtts(), flight.len() as u64 * 1000));
            }
            let state = sampler.on_sent(now, 1000, flight.len() as u64 * 1000);
            free = free.max(now) + service;
            flight.push_back((free + 100 * MS, state));
        }
        (sampler, feedbacks)
    }

    #[test]
    fn the_rate_is_limited_by_the_slower_of_sender_and_path() {
        for (service, expected) in [(MS / 2, 1_000_000), (2 * MS, 500_000)] {
            let (_, feedbacks) = run(service);
            let last = feedbacks.last().unwrap().delivery.unwrap();
            assert!(last.rate.abs_diff(expected) < expected / 20, "{last:?}");
            assert!(last.send_rate.abs_diff(1_000_000) < 10_000, "{last:?}");
            assert!(!last.app_limited);
        }
    }

    #[test]
    fn a_round_is_a_round_trip() {
        let (_, feedbacks) = run(MS / 2);
        let starts: Vec<_> = (feedbacks.iter())
            .filter(|feedback| feedback.round_start)
            .map(|feedback| feedback.now.as_nanos() / 1_000_000)
            .collect();
        assert_eq!(starts[0], 100);
        for pair in starts.windows(2) {
            assert!((100..=103).contains(&(pair[1] - pair[0])), "{starts:?}");
        }
    }

    #[test]
    fn samples_are_application_limited_until_the_flight_is_delivered() {
        let mut sampler = DeliverySampler::new();
        let first = sampler.on_sent(Time::ZERO, 1000, 0);
        sampler.set_app_limited(1000);
        let second = sampler.on_sent(Time::ZERO + 10 * MS, 1000, 1000);
        sampler.on_acked(Time::ZERO + 100 * MS, 1000, &first);
        let feedback = sampler.take_feedback(Time::ZERO + 100 * MS, rtts(), 1000);
        assert!(!feedback.delivery.unwrap().app_limited && sampler.is_app_limited());
        sampler.on_acked(Time::ZERO + 110 * MS, 1000, &second);
        let feedback = sampler.take_feedback(Time::ZERO + 110 * MS, rtts(), 0);
        assert!(feedback.delivery.unwrap().app_limited && !sampler.is_app_limited());
    }

    #[test]
    fn losses_are_counted_once_and_give_no_sample_alone() {
        let mut sampler = DeliverySampler::new();
        let _ = sampler.on_sent(Time::ZERO, 1000, 0);
        sampler.on_lost(1000, 1);
        let feedback = sampler.take_feedback(Time::ZERO + MS, rtts(), 0);
        assert_eq!(
            (feedback.newly_lost_packets, feedback.newly_lost_bytes),
            (1, 1000)
        );
        assert_eq!((feedback.delivery, feedback.round_start), (None, false));
        assert_eq!(
            sampler
                .take_feedback(Time::ZERO + MS, rtts(), 0)
                .newly_lost_packets,
            0
        );
    }
}
