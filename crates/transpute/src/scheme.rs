//! The choice of the garbling scheme of a run by the path, on the side that connected.

use transpute_garble::Scheme;
use transpute_select::{SchemeChoice, SchemeCost, choose_scheme};
use transpute_session::Config;
use transpute_units::KnownPath;

/// Chooses one of the schemes that `config` allows, and sets it as the preferred one. Returns the
/// choice with its reason. Returns `None` and changes nothing if the peer decides, if `config`
/// allows only one scheme, or if [`choose_scheme`] returns none.
pub(crate) fn prefer(
    config: &mut Config,
    and_gates: u64,
    path: &KnownPath,
) -> Option<SchemeChoice> {
    let allowed = config.allowed_schemes();
    if !config.decides_scheme || allowed.len() < 2 {
        return None;
    }
    let costs: Vec<_> = (allowed.iter())
        .filter_map(|scheme| SchemeCost::typical(&scheme.to_string()))
        .collect();
    let and_gates = and_gates.saturating_mul(config.batch);
    let choice = choose_scheme(&costs, and_gates, path.from_peer.rate, path.rtt)?;
    let chosen: Option<Scheme> = choice.chosen().name.parse().ok();
    config.prefer_scheme(chosen?);
    Some(choice)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use transpute_session::SchemeSet;
    use transpute_units::{Bandwidth, KnownDirection};

    use super::*;

    #[test]
    fn typical_costs_have_the_bytes_of_the_schemes() {
        for scheme in Scheme::ALL
            .into_iter()
            .filter(|scheme| scheme.is_free_xor())
        {
            let cost = SchemeCost::typical(&scheme.to_string()).unwrap();
            let bytes = scheme.and_bytes() as f64 + scheme.and_bits() as f64 / 8.0;
            assert_eq!(cost.and_bytes, bytes, "{scheme}");
        }
    }

    #[test]
    fn the_party_that_connected_prefers_what_it_allows_and_is_fastest() {
        let slow = KnownPath {
            from_peer: KnownDirection::of_rate(Bandwidth::from_megabits_per_second(100.0)),
            ..KnownPath::of_rtt(Duration::from_millis(20))
        };
        let mut config = Config::default();
        config.decides_scheme = true;
        config.other_schemes = SchemeSet::RECOMMENDED;
        let choice = prefer(&mut config, 1_000_000, &slow).unwrap();
        assert_eq!(choice.chosen().name, "three-halves");
        assert_eq!(config.scheme, Scheme::ThreeHalves);
        assert_eq!(config.allowed_schemes(), SchemeSet::RECOMMENDED);
        let local = KnownPath::of_rtt(Duration::from_micros(20));
        prefer(&mut config, 1_000_000, &local).unwrap();
        assert_eq!(config.scheme, Scheme::HalfGates);

        let mut listener = config.clone();
        listener.decides_scheme = false;
        assert_eq!(prefer(&mut listener, 1_000_000, &slow), None);
        let mut single = Config::default();
        single.decides_scheme = true;
        assert_eq!(prefer(&mut single, 1_000_000, &slow), None);
        for unchanged in [listener, single] {
            assert_eq!(unchanged.scheme, Scheme::HalfGates);
        }
    }
}
