//! The default chooser. docs/selection.md describes its rule and compares it with the model.

use transpute_units::PathClass;

use crate::{
    Candidate, Chooser, PathEstimate, Prediction, Ranked, Spec, Workload, order, path::Seconds,
};

/// Maximum number of bytes in both directions together for which TCP is chosen within a LAN.
///
/// Measured: of 0.05, 0.2, 0.5, 1.5 and 4 MB, this value gives the best choices in the `fit` cells
/// of docs/results/selection with a round-trip time below 5 ms.
const MAX_LAN_TCP_BYTES: u64 = 1_500_000;

/// A chooser by the class of the path, UDP, and the number of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule;

/// Returns a sort key of a transport; the smallest key is the best.
type Order = fn(&Spec) -> f64;

impl Rule {
    /// Returns the order of the transports for this path and workload, and the reason for it.
    fn order(path: &PathEstimate, work: &Workload) -> (Order, &'static str) {
        let is_little = work.bytes_up().saturating_add(work.bytes_down()) <= MAX_LAN_TCP_BYTES;
        match PathClass::of(path.rtt) {
            PathClass::SameHost => (
                order::by_processor_time,
                "nothing is lost, and TCP takes the least processor time",
            ),
            PathClass::SameLan if is_little => (
                order::by_processor_time,
                "little to send, and TCP is up first",
            ),
            PathClass::WideArea => (
                |spec| order::by_start(spec, true),
                "a rate that is known from the start matters most",
            ),
            _ => (
                |spec| order::by_start(spec, false),
                "it tolerates losses, and is up after one round trip",
            ),
        }
    }
}

impl Chooser for Rule {
    fn name(&self) -> &str {
        "rule"
    }

    fn score(&self, path: &PathEstimate, work: &Workload, it: &Candidate, _: &Prediction) -> f64 {
        let (order, _) = Self::order(path, work);
        let control = path.kernel.congestion_control.as_deref();
        let slows = it.spec.slows_at_losses(control);
        2.0 * order(&it.spec) + f64::from(u8::from(slows))
    }

    fn reason(&self, path: &PathEstimate, workload: &Workload, _: &[Ranked]) -> String {
        let (_, why) = Self::order(path, workload);
        let class = PathClass::of(path.rtt).describe();
        format!(
            "{class} (round trip {}): {why}",
            Seconds(path.rtt.as_secs_f64())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, UdpStatus};

    fn choose(rtt_s: f64, udp: UdpStatus, bytes: u64) -> String {
        let mut path = PathEstimate::of_rtt(rtt_s).unwrap();
        path.udp = udp;
        let candidates = [
            "tcp",
            "tcp:cc=bbr",
            "tcp-striped",
            "tcp-striped:cc=bbr",
            "quic",
            "rudp",
        ];
        let candidates = candidates.map(|name| Candidate::new(name).unwrap());
        let work = Workload::transfer(End::Listener, bytes);
        let choice = Rule.choose(&path, &work, &candidates).unwrap();
        choice.winner().to_string()
    }

    const SAME_HOST: f64 = 20e-6;
    const LAN: f64 = 0.5e-3;
    const METROPOLITAN: f64 = 3e-3;
    const WIDE_AREA: f64 = 0.11;

    #[test]
    fn one_host_and_little_within_a_lan_mean_tcp() {
        for bytes in [1000, 36_000_000] {
            assert_eq!(choose(SAME_HOST, UdpStatus::Passes, bytes), "tcp:cc=bbr");
        }
        assert_eq!(
            choose(LAN, UdpStatus::Unknown, MAX_LAN_TCP_BYTES),
            "tcp:cc=bbr"
        );
    }

    #[test]
    fn rudp_carries_the_rest() {
        assert_eq!(
            choose(LAN, UdpStatus::Passes, MAX_LAN_TCP_BYTES + 1),
            "rudp"
        );
        for rtt in [METROPOLITAN, WIDE_AREA] {
            for bytes in [1000, 36_000_000] {
                assert_eq!(choose(rtt, UdpStatus::Unknown, bytes), "rudp");
            }
        }
    }

    #[test]
    fn the_distance_decides_where_udp_is_blocked() {
        for bytes in [1000, 36_000_000] {
            let choose = |rtt| choose(rtt, UdpStatus::Blocked, bytes);
            assert_eq!([LAN, METROPOLITAN].map(choose), ["tcp:cc=bbr"; 2]);
            assert_eq!(choose(WIDE_AREA), "tcp-striped:cc=bbr");
        }
    }
}
