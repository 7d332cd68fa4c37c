//! Orders of transports by their design, for choosers that predict no times.
//!
//! Each function returns a sort key; the transport with the smallest key is the best. The keys
//! compare properties of the [`Profile`], the most important one first. A transport without a
//! profile comes last.

use transpute_transport::Profile;

use crate::Spec;

/// The base of the digits of a sort key. A property is a digit, and all values from this one on are
/// treated as equal.
const BASE: u8 = 4;

/// Orders by processor time: one connection before several, kernel TCP before UDP, and last the
/// transports that probe the path.
pub(crate) fn by_processor_time(spec: &Spec) -> f64 {
    order(spec, |profile| {
        [
            (profile.connections > 1).into(),
            profile.needs_udp.into(),
            (profile.probe_bytes > 0).into(),
        ]
    })
}

/// Orders by the time until the full rate is reached. Transports whose set-up measures the rate
/// come first. The others are ordered by the round trips of their set-up. Among equal ones, several
/// connections come before one if `several_first` is true, and after it otherwise.
pub(crate) fn by_start(spec: &Spec, several_first: bool) -> f64 {
    order(spec, |profile| {
        [
            (profile.probe_bytes == 0).into(),
            profile.setup_round_trips,
            ((profile.connections > 1) != several_first).into(),
        ]
    })
}

/// Orders transports that do not repair losses before all others. The others are ordered by
/// [`by_start`], with several connections after one.
pub(crate) fn without_repair_first(spec: &Spec) -> f64 {
    match spec.profile() {
        Some(profile) if !profile.repairs_losses => -1.0,
        _ => by_start(spec, false),
    }
}

/// Orders TCP before UDP, and one connection before several.
pub(crate) fn tcp_first(spec: &Spec) -> f64 {
    order(spec, |profile| {
        [
            profile.needs_udp.into(),
            (profile.probe_bytes > 0).into(),
            (profile.connections > 1).into(),
        ]
    })
}

/// Combines the properties to one sort key, the first property as the most significant digit.
/// Unknown transports, and those that do not repair losses, come last.
fn order<const N: usize>(spec: &Spec, properties: impl Fn(&Profile) -> [u8; N]) -> f64 {
    let profile = spec.profile().filter(|profile| profile.repairs_losses);
    let digits = profile.map_or([BASE; N], properties);
    let all = digits.into_iter().fold(0.0, |number, digit| {
        number * f64::from(BASE) + f64::from(digit.min(BASE))
    });
    // The key of unknown transports is larger than all keys of known ones.
    match profile {
        Some(_) => all,
        None => all + 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(score: impl Fn(&Spec) -> f64) -> Vec<String> {
        let names = ["smoke", "tcp-striped", "udp", "rudp", "tcp", "quic"];
        let mut specs: Vec<Spec> = names.map(|name| name.parse().unwrap()).to_vec();
        specs.sort_by(|a, b| score(a).total_cmp(&score(b)));
        let known = specs.into_iter().map(|spec| spec.to_string());
        known.filter(|name| name != "smoke").collect()
    }

    #[test]
    fn the_built_in_transports_come_in_the_documented_orders() {
        let near = ["tcp", "quic", "rudp", "tcp-striped", "udp"];
        assert_eq!(sorted(by_processor_time), near);
        let metropolitan = ["rudp", "quic", "tcp", "tcp-striped", "udp"];
        assert_eq!(sorted(|it| by_start(it, false)), metropolitan);
        let far = ["rudp", "quic", "tcp-striped", "tcp", "udp"];
        assert_eq!(sorted(|it| by_start(it, true)), far);
        let clean = ["udp", "rudp", "quic", "tcp", "tcp-striped"];
        assert_eq!(sorted(without_repair_first), clean);
        let kernel = ["tcp", "tcp-striped", "quic", "rudp", "udp"];
        assert_eq!(sorted(tcp_first), kernel);
    }
}
