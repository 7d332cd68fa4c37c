//! Paths of known figures.

use transpute_select::{Direction, Loss, PathEstimate, Rate, Udp};

/// A path that is the same both ways: round-trip time in seconds, bits per second, probability of loss, bytes of queue.
pub(crate) fn path(rtt: f64, rate: f64, loss: f64, queue: Option<f64>) -> PathEstimate {
    let mut path = PathEstimate::of_rtt(rtt).unwrap();
    path.up = Direction {
        rate: Some(Rate::known(rate)),
        loss: Some(Loss::known(loss).unwrap()),
        queue_bytes: queue,
    };
    path.down = path.up;
    path.udp = Udp::Passes;
    path
}
