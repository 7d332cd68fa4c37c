//! Circuit sizes and predicted times, which the page shows before anything runs.

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
        bristol::{self, Limits},
        catalogue,
    },
    workload::Computation,
};
use transpute_netem::scenario::Scenario;
use transpute_select::{
    Candidate, Choice, Chooser, End, PathEstimate, Rule, SelectError, Spec, Workload,
};
use transpute_testbed::{emulated::path_of, row::Environment};

/// The maximum number of circuits, and of computations of a circuit, that are remembered.
const MAX_KNOWN: usize = 1000;

/// Where a circuit comes from.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Source {
    /// The catalogue, by this name.
    BuiltIn(String),
    /// An upload: a file in the server's folder, which never changes.
    Upload(PathBuf),
}

/// The size of a circuit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct CircuitFacts {
    /// AND gates.
    pub(super) and_gates: u64,
    /// XOR gates.
    pub(super) xor_gates: u64,
    /// Bits of each input value; the first one is the garbler's.
    pub(super) input_widths: Vec<u32>,
    /// Bits of each output value.
    pub(super) output_widths: Vec<u32>,
}

/// A transport that can be run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TransportEntry {
    pub(super) name: String,
    /// Whether the model predicts it.
    pub(super) is_predictable: bool,
    /// Whether it is compared unless the user says otherwise.
    pub(super) is_usual: bool,
}

/// A run that is to be predicted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) source: &'a Source,
    pub(super) scheme: Scheme,
    /// Evaluations in a run.
    pub(super) batch: u64,
    pub(super) scenario: &'a Scenario,
    /// The kernel settings of paths of this machine, if they are known. A scenario may have its own congestion control.
    pub(super) environment: Option<&'a Environment>,
    /// Transports to compare.
    pub(super) transports: &'a [String],
}

/// The prediction for each transport that can be used.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) path: PathEstimate,
    pub(super) workload: Workload,
    /// AND gates of one evaluation.
    pub(super) and_gates: u64,
    /// The choice; for each transport the reason why it cannot be used if none can.
    pub(super) choice: Result<Choice, Vec<(String, String)>>,
}

/// Circuits that were made, and the transports of this program.
#[derive(Debug)]
pub(super) struct Knowledge {
    transports: Vec<TransportEntry>,
    registry: Registry,
    known: Mutex<HashMap<Source, CircuitFigures>>,
}

/// The cached figures of one circuit.
#[derive(Clone, Debug)]
struct CircuitFigures {
    facts: CircuitFacts,
    computations: HashMap<(Scheme, u64), Computation>,
}

impl Knowledge {
    pub(super) fn new(registry: Registry) -> Self {
        let usual = Candidate::all(&registry);
        let usual = usual.iter().map(|candidate| candidate.spec.name());
        // Those that are compared usually come first, in their order.
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

    /// Returns the transports, those that are compared usually first.
    pub(super) fn transports(&self) -> &[TransportEntry] {
        &self.transports
    }

    /// Counts a circuit, unless it is known.
    ///
    /// # Errors
    /// Why it cannot be made, in one line.
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
    /// Why that cannot be predicted, in one line.
    pub(super) fn predict(&self, question: Question<'_>) -> Result<Answer, String> {
        let Question {
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
                // Each starts with its transport.
                let split = |reason: String| match reason.split_once(": ") {
                    Some((name, why)) => (name.to_owned(), why.to_owned()),
                    None => (String::new(), reason),
                };
                Err(reasons.into_iter().map(split).collect())
            }
            Err(error) => return Err(text(error)),
        };
        Ok(Answer {
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
            let config = Config {
                scheme,
                batch,
                ..Config::default()
            };
            // The garbler is party A, which listens.
            Computation::new(&program, &split, &config, End::Listener)
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_KNOWN {
            let figures = known
                .entry(source.clone())
                .or_insert_with(|| CircuitFigures {
                    facts: facts.clone(),
                    computations: HashMap::new(),
                });
            if figures.computations.len() < MAX_KNOWN {
                // All schemes at once: a user goes through them.
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
    match bristol::open(path, &Limits::default()) {
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
