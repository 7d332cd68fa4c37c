//! The baseline of the choosers: a rule with two thresholds that measures nothing.

use super::{Choice, Chooser, Conditions};

/// Protocol bytes of both directions from which `rudp` is chosen instead of `quic`, where UDP passes.
///
/// Chosen on the `fit` cells; 0.5 to 3 MB score nearly the same on the others.
const LARGE_BYTES: u64 = 1_500_000;

/// Round-trip time in milliseconds from which several connections are chosen instead of one, where UDP is blocked.
const LONG_RTT_MS: f64 = 20.0;

/// Chooses by the number of bytes, the round-trip time, and whether UDP passes.
#[derive(Clone, Copy, Debug)]
pub struct SizeRule;

impl Chooser for SizeRule {
    fn name(&self) -> String {
        "size rule".to_owned()
    }

    fn choose(&self, conditions: &Conditions<'_>, candidates: &[&str]) -> Option<Choice> {
        let bytes = conditions.payload_up_bytes + conditions.payload_down_bytes;
        let scenario = conditions.scenario;
        let transport = if scenario.blocks_udp() {
            match scenario.rtt_ms() < LONG_RTT_MS {
                true => "tcp:cc=bbr",
                false => "tcp-striped:cc=bbr",
            }
        } else if bytes < LARGE_BYTES {
            "quic"
        } else {
            "rudp"
        };
        candidates.contains(&transport).then(|| Choice {
            transport: transport.to_owned(),
            extra_ms: 0.0,
            predicted_ms: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{row::Environment, scenario::Scenario};

    const CANDIDATES: [&str; 4] = ["quic", "rudp", "tcp-striped:cc=bbr", "tcp:cc=bbr"];

    fn choose(
        rtt_ms: f64,
        is_blocked: bool,
        bytes: [u64; 2],
        candidates: &[&str],
    ) -> Option<String> {
        let scenario = (Scenario::named("eu-us").unwrap())
            .with_rtt_ms(rtt_ms)
            .with_udp_blocked(is_blocked);
        let [payload_up_bytes, payload_down_bytes] = bytes;
        let conditions = Conditions {
            scenario: &scenario,
            environment: &Environment::default(),
            circuit: "aes128",
            scheme: "half-gates",
            batch: 1,
            and_gates: 6400,
            payload_up_bytes,
            payload_down_bytes,
            round_trips: 1.0,
        };
        let choice = SizeRule.choose(&conditions, candidates)?;
        assert_eq!((choice.extra_ms, choice.predicted_ms), (0.0, None));
        Some(choice.transport)
    }

    #[test]
    fn bytes_decide_where_udp_passes() {
        let choose = |rtt, bytes| choose(rtt, false, bytes, &CANDIDATES).unwrap();
        for rtt in [0.5, 300.0] {
            assert_eq!(choose(rtt, [200_000, 10_000]), "quic");
            assert_eq!(choose(rtt, [1_400_000, 99_999]), "quic");
            assert_eq!(choose(rtt, [1_400_000, 100_000]), "rudp");
            assert_eq!(choose(rtt, [0, 36_000_000]), "rudp");
        }
    }

    #[test]
    fn the_round_trip_time_decides_where_udp_is_blocked() {
        let choose = |rtt, bytes| choose(rtt, true, bytes, &CANDIDATES).unwrap();
        for bytes in [[200_000, 10_000], [36_000_000, 0]] {
            assert_eq!(choose(19.9, bytes), "tcp:cc=bbr");
            assert_eq!(choose(20.0, bytes), "tcp-striped:cc=bbr");
        }
    }

    #[test]
    fn a_transport_that_was_not_run_is_not_chosen() {
        assert_eq!(choose(100.0, false, [1, 1], &["rudp", "tcp:cc=bbr"]), None);
    }
}
