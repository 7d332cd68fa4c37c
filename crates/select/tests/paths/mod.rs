//! Test paths with known properties.

use transpute_select::{Bandwidth, KnownDirection, Loss, PathEstimate, UdpStatus};

/// Returns a symmetric path: round-trip time in seconds, bits per second, probability of loss,
/// bytes of queue.
pub(crate) fn path(rtt: f64, rate: f64, loss: f64, queue: Option<f64>) -> PathEstimate {
    let mut path = PathEstimate::of_rtt(rtt).unwrap();
    let direction = KnownDirection {
        rate: Some(Bandwidth::from_bits_per_second(rate)),
        loss: Some(Loss::known(loss).unwrap()),
        queue_bytes: queue.map(|bytes| bytes as u64),
    };
    path.up = direction.into();
    path.down = path.up;
    path.udp = UdpStatus::Passes;
    path
}
