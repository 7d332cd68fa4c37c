//! Sizes of circuits and predictions of run times, with a cache.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use transpute::{
    Circuit, Config, InputSplit, Program, Registry, Scheme,
    auto::Auto,
    circuit::{
        bristol::{self, ParseLimits},
        catalogue,
    },
    workload::Computation,
};
use transpute_netem::scenario::Scenario;
use transpute_select::{
    Candidate, Choice, Chooser, End, PathEstimate, Rule, SelectError, Spec, Workload,
};
use transpute_testbed::{emulated::path_of, record::Environment};

/// Maximum number of cached circuits, and of cached cost figures per circuit, which exist for each
/// scheme and batch.
const MAX_KNOWN: usize = 1000;

/// The origin of a circuit.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Source {
    /// A built-in circuit, by its name in the catalogue.
    BuiltIn(String),
    /// An uploaded circuit, by the path of its file. The file never changes.
    Upload(PathBuf),
}

/// The size of a circuit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct CircuitFacts {
    /// Number of AND gates.
    pub(super) and_gates: u64,
    /// Number of XOR gates.
    pub(super) xor_gates: u64,
    /// Width of each input value in bits. The first input value is the garbler's.
    pub(super) input_widths: Vec<u32>,
    /// Width of each output value in bits.
    pub(super) output_widths: Vec<u32>,
}

/// A transport of the registry, or `auto`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TransportEntry {
    pub(super) name: String,
    /// True if the model can predict the time of the transport.
    pub(super) is_predictable: bool,
    /// True if the transport belongs to the set that is compared by default.
    pub(super) is_usual: bool,
}

/// The parameters of a prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct PredictionQuery<'a> {
    pub(super) source: &'a Source,
    pub(super) scheme: Scheme,
    /// Number of evaluations in a run.
    pub(super) batch: u64,
    pub(super) scenario: &'a Scenario,
    /// The kernel settings of this machine's emulated paths, if known. A congestion control in the
    /// scenario takes precedence.
    pub(super) environment: Option<&'a Environment>,
    /// The transports to rank.
    pub(super) transports: &'a [String],
}

/// The ranked predictions for the transports of a query.
#[derive(Clone, Debug)]
pub(super) struct Predictions {
    pub(super) path: PathEstimate,
    pub(super) workload: Workload,
    /// Number of AND gates in one evaluation.
    pub(super) and_gates: u64,
    /// The ranking of the transports. If no transport is usable, a list of all transports with the
    /// reason why each is not usable.
    pub(super) choice: Result<Choice, Vec<(String, String)>>,
}

/// Predicts run times. Caches the sizes of circuits.
#[derive(Debug)]
pub(super) struct Predictor {
    transports: Vec<TransportEntry>,
    registry: Registry,
    known: Mutex<HashMap<Source, CachedCircuit>>,
}

/// The cached size and cost figures of one circuit.
#[derive(Clone, Debug)]
struct CachedCircuit {
    facts: CircuitFacts,
    computations: HashMap<(Scheme, u64), Computation>,
}

impl Predictor {
    pub(super) fn new(registry: Registry) -> Self {
        let usual = Candidate::all(&registry);
        let usual = usual.iter().map(|candidate| candidate.spec.name());
        // The default transports come first, in the order of the default set.
        let usual: Vec<String> = usual.map(str::to_owned).collect();
        let others = (registry.names()).filter(|name| !usual.iter().any(|usual| usual == name));
        let names = (usual.iter().cloned()).chain(others.map(str::to_owned));
        let transports = (names.chain([Auto::NAME.to_owned()])).map(|name| TransportEntry {
            is_predictable: registry.profile(&name).is_some(),
            is_usual: usual.contains(&name),
            name,
        });
        Self {
            transports: transports.collect(),
            registry,
            known: Mutex::default(),
        }
    }

    /// Returns all transports, the default ones first.
    pub(super) fn transports(&self) -> &[TransportEntry] {
        &self.transports
    }

    /// Returns the size of a circuit, from the cache if possible.
    ///
    /// # Errors
    /// Returns one line that describes why the circuit cannot be loaded.
    pub(super) fn count(&self, source: &Source) -> Result<CircuitFacts, String> {
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(source).map(|figures| figures.facts.clone())
        };
        match known {
            Some(facts) => Ok(facts),
            None => make(source).map(|program| facts(&program)),
        }
    }

    /// Predicts the time of a run over each transport.
    ///
    /// # Errors
    /// Returns one line that describes why the run cannot be predicted.
    pub(super) fn predict(&self, question: PredictionQuery<'_>) -> Result<Predictions, String> {
        let PredictionQuery {
            source,
            scheme,
            batch,
            scenario,
            environment,
            transports,
        } = question;
        let (computation, facts) = self.computation(source, scheme, batch)?;
        let text = |error: SelectError| error.to_string();
        let workload = computation.workload().map_err(text)?;
        let environment = environment.map(|usual| Environment {
            congestion_control: (scenario.congestion_control.clone())
                .unwrap_or_else(|| usual.congestion_control.clone()),
            ..usual.clone()
        });
        let path = path_of(scenario, environment.as_ref()).map_err(text)?;
        let candidates = (transports.iter())
            .map(|name| Spec::in_registry(name, &self.registry).map(Candidate::from))
            .collect::<Result<Vec<_>, _>>()
            .map_err(text)?;
        let choice = match Rule.choose(&path, &workload, &candidates) {
            Ok(choice) => Ok(choice),
            Err(SelectError::NoCandidate { reasons }) => {
                // Each reason starts with the name of its transport.
                let split = |reason: String| match reason.split_once(": ") {
                    Some((name, why)) => (name.to_owned(), why.to_owned()),
                    None => (String::new(), reason),
                };
                Err(reasons.into_iter().map(split).collect())
            }
            Err(error) => return Err(text(error)),
        };
        Ok(Predictions {
            path,
            workload,
            and_gates: facts.and_gates,
            choice,
        })
    }

    /// Returns the cost figures of a run. Compiles the circuit only if the figures are not cached.
    fn computation(
        &self,
        source: &Source,
        scheme: Scheme,
        batch: u64,
    ) -> Result<(Computation, CircuitFacts), String> {
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(figures) = known.get(source)
                && let Some(computation) = figures.computations.get(&(scheme, batch))
            {
                return Ok((*computation, figures.facts.clone()));
            }
        }
        let program = make(source)?;
        let facts = facts(&program);
        let split = InputSplit::first_to_garbler(program.input_widths());
        let of = |scheme, batch| {
            let mut config = Config::default();
            config.scheme = scheme;
            config.batch = batch;
            // The garbler is party A, which listens.
            Computation::new(&program, &split, &config, End::Listener)
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_KNOWN {
            let figures = known
                .entry(source.clone())
                .or_insert_with(|| CachedCircuit {
                    facts: facts.clone(),
                    computations: HashMap::new(),
                });
            if figures.computations.len() < MAX_KNOWN {
                // The cost figures of all schemes are cached together, because users compare
                // schemes.
                for scheme in Scheme::ALL {
                    let computation = of(scheme, batch);
                    figures.computations.insert((scheme, batch), computation);
                }
            }
        }
        Ok((of(scheme, batch), facts))
    }
}

fn make(source: &Source) -> Result<Program, String> {
    let circuit = match source {
        Source::BuiltIn(name) => catalogue::named(name).map_err(|error| error.to_string()),
        Source::Upload(path) => open(path),
    };
    circuit.map(|circuit| Program::compile(&circuit))
}

fn open(path: &Path) -> Result<Circuit, String> {
    match bristol::open(path, &ParseLimits::default()) {
        Ok(parsed) => Ok(parsed.circuit),
        Err(bristol::BristolError::Invalid { position, problem }) => {
            Err(format!("{}:{}: {problem}", position.line, position.column))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn facts(program: &Program) -> CircuitFacts {
    CircuitFacts {
        and_gates: program.and_count(),
        xor_gates: program.xor_count(),
        input_widths: program.input_widths().to_vec(),
        output_widths: program.output_widths().to_vec(),
    }
}
