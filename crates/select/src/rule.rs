//! The default chooser: three lines.
//!
//! 1. On one host, `tcp`.
//! 2. Where UDP passes, `rudp`; for little work on a path that is not wide-area, whichever of `quic`, `rudp` and `tcp` is up first.
//! 3. Where UDP is blocked, `tcp`, and `tcp-striped` on a wide-area path.
//!
//! Of several kinds of TCP, the one with a congestion control that ignores random losses. docs/selection.md compares this with
//! the model.

use std::time::Duration;

use transpute_transport::PathClass;

use crate::{
    Candidate, Choice, Chooser, Family, Model, PathEstimate, SelectError, Workload, path::Seconds,
};

/// Bytes of both directions up to which work is little.
///
/// Measured: found on the `fit` cells of docs/results/selection among 0.05, 0.2, 0.5, 1.5 and 4 MB. Sending so much takes a few
/// round trips of slow start on such a path, about as long as the set-up.
const LITTLE_BYTES: u64 = 1_500_000;

/// Chooses by the class of the path, whether UDP passes, and the number of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule;

impl Rule {
    /// Returns the transports from the best to the worst, whether the first that is up will do, and why.
    fn order(
        path: &PathEstimate,
        workload: &Workload,
    ) -> (&'static [&'static str], bool, &'static str) {
        let class = PathClass::of(Duration::from_secs_f64(path.rtt_s()));
        let bytes = workload.bytes_up().saturating_add(workload.bytes_down());
        match class {
            PathClass::SameHost => (
                &["tcp", "quic", "rudp", "tcp-striped"],
                false,
                "nothing is lost, and TCP takes the least processor time",
            ),
            PathClass::WideArea => (
                &["rudp", "quic", "tcp-striped", "tcp"],
                false,
                "a rate that is known from the start matters most",
            ),
            _ if bytes <= LITTLE_BYTES => (
                &["quic", "rudp", "tcp", "tcp-striped"],
                true,
                "little to send, so the first connection that is up",
            ),
            _ => (
                &["rudp", "quic", "tcp", "tcp-striped"],
                false,
                "much to send, so the transport that tolerates losses",
            ),
        }
    }
}

impl Chooser for Rule {
    fn name(&self) -> &str {
        "rule"
    }

    fn choose(
        &self,
        path: &PathEstimate,
        workload: &Workload,
        candidates: &[Candidate],
    ) -> Result<Choice, SelectError> {
        path.validate()?;
        let (order, is_first_up, why) = Self::order(path, workload);
        let control = path.kernel.congestion_control.as_deref();
        let place = |candidate: &Candidate| {
            let spec = &candidate.spec;
            let place = order.iter().position(|&name| name == spec.name());
            let waits = is_first_up && !candidate.is_up;
            let slows = spec.law(control).family == Family::Window;
            // In this order: what is up, the name, the congestion control.
            let waits = if waits { 100.0 } else { 0.0 };
            waits + 2.0 * place.unwrap_or(order.len()) as f64 + f64::from(u8::from(slows))
        };
        let rtt = path.rtt_s();
        let class = PathClass::of(Duration::from_secs_f64(rtt)).describe();
        Choice::of(
            self.name(),
            Model::shipped(),
            path,
            workload,
            candidates,
            |candidate, _| place(candidate),
            |ranking| match ranking {
                [_] => "the only one that can be used".to_owned(),
                _ => format!("{class} (round trip {}): {why}", Seconds(rtt)),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Udp};

    fn choose(rtt_s: f64, udp: Udp, bytes: u64, up: &[&str]) -> String {
        let mut path = PathEstimate::of_rtt(rtt_s).unwrap();
        path.udp = udp;
        let names = [
            "tcp",
            "tcp:cc=bbr",
            "tcp-striped",
            "tcp-striped:cc=bbr",
            "quic",
            "rudp",
        ];
        let candidates = names.map(|name| Candidate {
            is_up: up.contains(&name),
            ..Candidate::new(name).unwrap()
        });
        let work = Workload::transfer(End::Listener, bytes).unwrap();
        Rule.choose(&path, &work, &candidates)
            .unwrap()
            .winner()
            .to_string()
    }

    const SAME_HOST: f64 = 20e-6;
    const LAN: f64 = 0.5e-3;
    const METROPOLITAN: f64 = 3e-3;
    const WIDE_AREA: f64 = 0.11;

    #[test]
    fn one_host_means_tcp() {
        for bytes in [1000, 36_000_000] {
            assert_eq!(choose(SAME_HOST, Udp::Passes, bytes, &[]), "tcp:cc=bbr");
        }
    }

    #[test]
    fn rudp_carries_what_is_much_or_goes_far() {
        for rtt in [LAN, METROPOLITAN, WIDE_AREA] {
            assert_eq!(
                choose(rtt, Udp::Passes, LITTLE_BYTES + 1, &["quic"]),
                "rudp"
            );
        }
        assert_eq!(choose(WIDE_AREA, Udp::Passes, 1000, &["quic"]), "rudp");
    }

    #[test]
    fn little_work_takes_what_is_up() {
        for rtt in [LAN, METROPOLITAN] {
            let choose = |up: &[&str]| choose(rtt, Udp::Unknown, LITTLE_BYTES, up);
            assert_eq!(choose(&[]), "quic");
            assert_eq!(choose(&["rudp"]), "rudp");
            assert_eq!(choose(&["tcp"]), "tcp");
            assert_eq!(choose(&["tcp", "rudp", "quic"]), "quic");
        }
    }

    #[test]
    fn the_distance_decides_where_udp_is_blocked() {
        for bytes in [1000, 36_000_000] {
            let choose = |rtt| choose(rtt, Udp::Blocked, bytes, &[]);
            assert_eq!([LAN, METROPOLITAN].map(choose), ["tcp:cc=bbr"; 2]);
            assert_eq!(choose(WIDE_AREA), "tcp-striped:cc=bbr");
        }
    }
}
