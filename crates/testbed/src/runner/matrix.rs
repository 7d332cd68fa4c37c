//! The cells of a matrix, and the product of sweeps and lists.

use std::{fmt, time::Duration};

use transpute_netem::scenario::{Scenario, ScenarioError};
use transpute_transport::{Registry, TransportError};

/// A matrix of runs, as the product of lists.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The conditions of the paths.
    pub scenarios: Vec<Scenario>,
    /// Circuits, as `transpute run --circuit` takes them.
    pub circuits: Vec<String>,
    /// Garbling schemes, as `transpute run --scheme` takes them.
    pub schemes: Vec<String>,
    /// Transports, as `transpute run --transport` takes them.
    pub transports: Vec<String>,
    /// Numbers of evaluations per run.
    pub batches: Vec<u64>,
    /// True if the parties use encryption and authentication.
    pub encrypted: bool,
    /// Number of runs of each cell.
    pub repetitions: u32,
}

/// One combination of a [`Matrix`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The conditions of the path.
    pub scenario: Scenario,
    /// The circuit.
    pub circuit: String,
    /// The garbling scheme.
    pub scheme: String,
    /// The transport.
    pub transport: String,
    /// Number of evaluations.
    pub batch: u64,
    /// True if the parties use encryption and authentication.
    pub encrypted: bool,
    /// Time after which a run is cut off. A cut-off run is a result, not a failure. Two cells that
    /// differ only in this time have the same results. It is None for the cells of a [`Matrix`].
    pub cut_off: Option<Duration>,
    /// True if a failure is a result, so that the run is not repeated. An example is a transport
    /// over UDP behind a firewall. Two cells that differ only in this flag have the same results.
    pub may_fail: bool,
}

/// The name of a run in messages about progress.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario,
            circuit,
            scheme,
            transport,
            ..
        } = self;
        write!(f, "{} {circuit} {scheme} {transport}", scenario.name)
    }
}

/// The transport name with which the parties choose one of the other transports themselves.
pub const AUTO: &str = "auto";

/// The name for all transports of a registry in a list of transports.
const ALL: &str = "all";

impl Matrix {
    /// Checks a list of transport names with optional settings. Returns all transports of the
    /// registry if one of the names is `all`. With the name `auto`, the parties choose a transport.
    ///
    /// # Errors
    /// Returns the errors of [`Registry::get`] for an invalid name.
    pub fn transports(
        given: &[String],
        registry: &Registry,
    ) -> Result<Vec<String>, TransportError> {
        if given.iter().any(|name| name == ALL) {
            return Ok(registry.names().map(str::to_owned).collect());
        }
        for name in given.iter().filter(|name| *name != AUTO) {
            registry.get(name)?;
        }
        Ok(given.to_vec())
    }

    /// Returns one cell for each combination of the elements of the lists.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for scenario in &self.scenarios {
            for circuit in &self.circuits {
                for scheme in &self.schemes {
                    for transport in &self.transports {
                        for &batch in &self.batches {
                            cells.push(Cell {
                                scenario: scenario.clone(),
                                circuit: circuit.clone(),
                                scheme: scheme.clone(),
                                transport: transport.clone(),
                                batch,
                                encrypted: self.encrypted,
                                cut_off: None,
                                may_fail: false,
                            });
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Lists of values that replace values of scenarios. Each value of a list gives one more scenario.
/// An empty list replaces nothing.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Round-trip times in milliseconds.
    pub rtt_ms: Vec<f64>,
    /// Probabilities of independent loss, in both directions.
    pub loss: Vec<f64>,
    /// Rates in Mbit/s, in both directions.
    pub rate_mbit: Vec<f64>,
    /// Blocks UDP in both directions. `false` leaves scenarios as they are.
    pub block_udp: bool,
    /// TCP congestion controls.
    pub congestion_control: Vec<String>,
    /// Maximum socket buffers in bytes.
    pub socket_buffer: Vec<u64>,
}

impl Sweep {
    /// Returns every scenario with every combination of values, and checks each. The new values are
    /// appended to the name of the scenario, as in `eu-us,rtt=50,loss=0.01`.
    ///
    /// # Errors
    /// Returns [`ScenarioError::File`] for an invalid combination.
    pub fn apply(&self, scenarios: &[Scenario]) -> Result<Vec<Scenario>, ScenarioError> {
        let mut swept = scenarios.to_vec();
        swept = replace(swept, &self.rtt_ms, "rtt", |scenario, &rtt| {
            scenario.with_rtt_ms(rtt)
        });
        swept = replace(swept, &self.loss, "loss", |scenario, &loss| {
            scenario.with_loss(loss)
        });
        swept = replace(swept, &self.rate_mbit, "rate", |scenario, &rate| {
            scenario.with_rate_mbit(rate)
        });
        let block_udp: &[_] = if self.block_udp { &["blocked"] } else { &[] };
        swept = replace(swept, block_udp, "udp", |scenario, _| {
            scenario.with_udp_blocked(true)
        });
        swept = replace(swept, &self.congestion_control, "cc", |scenario, name| {
            Scenario {
                congestion_control: Some(name.clone()),
                ..scenario
            }
        });
        swept = replace(swept, &self.socket_buffer, "buffer", |scenario, &bytes| {
            Scenario {
                socket_buffer: Some(bytes),
                ..scenario
            }
        });
        for scenario in &swept {
            scenario.validate()?;
        }
        Ok(swept)
    }
}

fn replace<T: fmt::Display>(
    scenarios: Vec<Scenario>,
    values: &[T],
    label: &str,
    set: impl Fn(Scenario, &T) -> Scenario,
) -> Vec<Scenario> {
    if values.is_empty() {
        return scenarios;
    }
    let mut replaced = Vec::with_capacity(scenarios.len() * values.len());
    for scenario in scenarios {
        for value in values {
            let name = format!("{},{label}={value}", scenario.name);
            replaced.push(Scenario {
                name,
                ..set(scenario.clone(), value)
            });
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_multiply_and_name_what_they_set() {
        let base = [Scenario::named("eu-us").unwrap()];
        let sweep = Sweep {
            rtt_ms: vec![1.0, 50.0],
            loss: vec![0.0, 0.0005, 0.01],
            congestion_control: vec!["bbr".to_owned()],
            ..Sweep::default()
        };
        let swept = sweep.apply(&base).unwrap();
        assert_eq!(swept.len(), 6);
        assert_eq!(swept[4].name, "eu-us,rtt=50,loss=0.0005,cc=bbr");
        assert_eq!((swept[4].rtt_ms(), swept[4].up.loss), (50.0, 0.0005));
        assert_eq!(swept[4].congestion_control.as_deref(), Some("bbr"));
        assert_eq!(Sweep::default().apply(&base).unwrap(), base);

        let firewall = Sweep {
            block_udp: true,
            ..Sweep::default()
        };
        let behind = firewall.apply(&base).unwrap();
        assert_eq!(behind.len(), 1);
        assert_eq!(behind[0].name, "eu-us,udp=blocked");
        assert!(behind[0].blocks_udp());

        let nonsense = Sweep {
            loss: vec![2.0],
            ..Sweep::default()
        };
        let error = nonsense.apply(&base).unwrap_err().to_string();
        assert_eq!(error, "eu-us,loss=2: up.loss: 2 is not between 0 and 1");
    }

    #[test]
    fn cells_are_all_combinations() {
        let strings = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        let matrix = Matrix {
            scenarios: vec![Scenario::named("lan").unwrap()],
            circuits: strings(&["aes128", "sha256"]),
            schemes: strings(&["half-gates", "prf", "three-halves"]),
            transports: strings(&["tcp"]),
            batches: vec![1, 10],
            encrypted: true,
            repetitions: 3,
        };
        let cells = matrix.cells();
        assert_eq!(cells.len(), 12);
        let different = |a: usize, b: usize| a == b || cells[a] != cells[b];
        assert!((0..12).all(|a| (0..12).all(|b| different(a, b))));
    }
}
