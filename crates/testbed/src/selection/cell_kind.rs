//! Kinds of cells. Regrets by kind show under which conditions a chooser is wrong.

use transpute_units::Bandwidth;

use super::Conditions;

/// A kind of cells: all cells whose value of one dimension is in one range, such as no loss.
#[derive(Clone, Copy)]
pub struct CellKind {
    /// The property by which cells are divided into kinds, such as the loss.
    pub dimension: &'static str,
    /// The name of the kind in tables.
    pub name: &'static str,
    holds: fn(&Conditions<'_>) -> bool,
}

impl std::fmt::Debug for CellKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.dimension, self.name)
    }
}

impl CellKind {
    /// Returns whether a cell is of this kind.
    #[must_use]
    pub fn holds(&self, conditions: &Conditions<'_>) -> bool {
        (self.holds)(conditions)
    }
}

/// Returns all kinds. Every cell belongs to exactly one kind in each dimension.
#[must_use]
pub fn cell_kinds() -> &'static [CellKind] {
    macro_rules! cell_kinds {
        ($($dimension:literal: $($name:literal $holds:expr),+;)+) => {
            &[$($(CellKind { dimension: $dimension, name: $name, holds: $holds }),+),+]
        };
    }
    cell_kinds! {
        "round-trip time":
            "RTT below 5 ms" |cell| rtt(cell) < 5.0,
            "RTT 5 to 40 ms" |cell| (5.0..40.0).contains(&rtt(cell)),
            "RTT 40 to 150 ms" |cell| (40.0..150.0).contains(&rtt(cell)),
            "RTT from 150 ms" |cell| rtt(cell) >= 150.0;
        "loss":
            "no loss" |cell| loss(cell) == 0.0,
            "loss below 0.1 %" |cell| loss(cell) > 0.0 && loss(cell) < 1e-3,
            "loss 0.1 to 1 %" |cell| (1e-3..1e-2).contains(&loss(cell)),
            "loss from 1 %" |cell| loss(cell) >= 1e-2;
        "size":
            "AND below 10^4" |cell| cell.and_gates < 10_000,
            "AND 10^4 to 10^5" |cell| (10_000..100_000).contains(&cell.and_gates),
            "AND 10^5 to 10^6" |cell| (100_000..1_000_000).contains(&cell.and_gates),
            "AND from 10^6" |cell| cell.and_gates >= 1_000_000;
        "rate":
            "below 50 Mbit/s" |cell| rate(cell) < 50.0,
            "50 to 200 Mbit/s" |cell| (50.0..200.0).contains(&rate(cell)),
            "from 200 Mbit/s" |cell| rate(cell) >= 200.0;
        "queue":
            "queue below half a product" |cell| queue(cell) < 0.5,
            "queue from half a product" |cell| queue(cell) >= 0.5;
        "firewall":
            "UDP passes" |cell| !cell.scenario.blocks_udp(),
            "UDP blocked" |cell| cell.scenario.blocks_udp();
        "other traffic":
            "alone" |cell| cell.scenario.cross_traffic.is_none(),
            "beside other flows" |cell| cell.scenario.cross_traffic.is_some();
    }
}

fn rtt(cell: &Conditions<'_>) -> f64 {
    cell.scenario.rtt_ms()
}

fn loss(cell: &Conditions<'_>) -> f64 {
    cell.scenario.up.loss
}

fn rate(cell: &Conditions<'_>) -> f64 {
    cell.scenario.up.rate_mbit.unwrap_or(f64::INFINITY)
}

/// Returns the queue limit from garbler to evaluator as a multiple of the bandwidth-delay product.
pub(super) fn queue(cell: &Conditions<'_>) -> f64 {
    let rate = (cell.scenario.up.rate_mbit).map_or(f64::INFINITY, |rate| {
        Bandwidth::from_megabits_per_second(rate).bytes_per_second()
    });
    let product = rate * rtt(cell) / 1e3;
    match cell.scenario.up.queue_limit_bytes() {
        Some(bytes) if product > 0.0 => bytes as f64 / product,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::draw;
    use super::*;

    #[test]
    fn every_cell_is_of_one_kind_in_each_dimension() {
        let environment = crate::record::Environment::default();
        for case in draw(200, 3) {
            let conditions = Conditions {
                scenario: &case.scenario,
                environment: &environment,
                circuit: &case.circuit,
                scheme: "half-gates",
                batch: case.batch,
                and_gates: case.and_gates,
                payload_up_bytes: 0,
                payload_down_bytes: 0,
                round_trips: 1.0,
            };
            let mut kinds: HashMap<&str, usize> = HashMap::new();
            for kind in cell_kinds() {
                *kinds.entry(kind.dimension).or_default() += usize::from(kind.holds(&conditions));
            }
            assert!(kinds.values().all(|&kinds| kinds == 1), "{conditions:?}");
            assert_eq!(kinds.len(), 7);
        }
    }
}
