//! Choosing the garbling scheme of a run by the path, on the side that connected.

use std::time::Duration;

use transpute_garble::Scheme;
use transpute_select::{Rate, SchemeChoice, SchemeCost, choose_scheme};
use transpute_session::{Config, KnownPath, Role};

use crate::auto::Selection;

/// What is known of a path for choosing a scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PathToEvaluator {
    /// Round-trip time.
    pub(crate) rtt: Option<Duration>,
    /// Bytes per second from the garbler to the evaluator.
    pub(crate) rate: Option<f64>,
}

impl PathToEvaluator {
    /// Returns what is known on the side that connected with this role, when the link is there.
    pub(crate) fn of(path: Option<&KnownPath>, selection: Option<&Selection>, role: Role) -> Self {
        let rate = selection.and_then(|selection| match role {
            Role::Garbler => selection.path.up.rate,
            Role::Evaluator => selection.path.down.rate,
        });
        Self {
            rtt: path.map(|path| path.rtt),
            rate: rate.and_then(exact),
        }
    }
}

/// Returns a rate in bytes per second, unless the path may be faster than it.
pub(crate) fn exact(rate: Rate) -> Option<f64> {
    (!rate.is_lower_bound).then_some(rate.bits_per_second / 8.0)
}

/// Chooses among the schemes that `config` allows and makes it prefer that one; returns why. Returns `None`, and changes nothing,
/// if the peer decides or there is but one.
pub(crate) fn prefer(
    config: &mut Config,
    and_gates: u64,
    path: PathToEvaluator,
) -> Option<SchemeChoice> {
    let allowed = config.allowed_schemes();
    if !config.decides_scheme || allowed.len() < 2 {
        return None;
    }
    let costs: Vec<_> = (allowed.iter())
        .filter_map(|scheme| SchemeCost::typical(&scheme.to_string()))
        .collect();
    let and_gates = and_gates.saturating_mul(config.batch);
    let choice = choose_scheme(&costs, and_gates, path.rate, path.rtt)?;
    let chosen: Option<Scheme> = choice.chosen().name.parse().ok();
    config.prefer_scheme(chosen?);
    Some(choice)
}

#[cfg(test)]
mod tests {
    use transpute_session::SchemeSet;

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
        let slow = PathToEvaluator {
            rtt: Some(Duration::from_millis(20)),
            rate: Some(12.5e6),
        };
        let mut config = Config {
            decides_scheme: true,
            other_schemes: SchemeSet::RECOMMENDED,
            ..Config::default()
        };
        let choice = prefer(&mut config, 1_000_000, slow).unwrap();
        assert_eq!(choice.chosen().name, "three-halves");
        assert_eq!(config.scheme, Scheme::ThreeHalves);
        assert_eq!(config.allowed_schemes(), SchemeSet::RECOMMENDED);
        let local = PathToEvaluator {
            rtt: Some(Duration::from_micros(20)),
            rate: None,
        };
        prefer(&mut config, 1_000_000, local).unwrap();
        assert_eq!(config.scheme, Scheme::HalfGates);

        let mut listener = Config {
            decides_scheme: false,
            ..config.clone()
        };
        assert_eq!(prefer(&mut listener, 1_000_000, slow), None);
        let mut single = Config {
            decides_scheme: true,
            ..Config::default()
        };
        assert_eq!(prefer(&mut single, 1_000_000, slow), None);
        for unchanged in [listener, single] {
            assert_eq!(unchanged.scheme, Scheme::HalfGates);
        }
    }
}
