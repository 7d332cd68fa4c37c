//! What the server asks of the rest of this program: circuits and predictions.

use std::{
    collections::HashMap,
    path::Path,
    str::FromStr,
    sync::{Mutex, PoisonError},
};

use transpute::{
    Circuit, Computation, Config, InputSplit, Program, Registry, Scheme,
    circuit::{
        bristol::{self, Limits},
        catalogue,
    },
};
use transpute_select::{Auto, Bound, Candidate, Chooser, End, Rule, SelectError, TimeParts};
use transpute_testbed::{
    row::Environment,
    web::oracle::{
        Answer, BuiltIn, CircuitFacts, Estimate, Oracle, Question, Source, TransportEntry,
    },
};

use crate::model::{DEFAULT_TRANSPORTS, rows::path_of};

/// Circuits whose figures are remembered, at most.
const MOST_KNOWN: usize = 1000;

/// Circuits and the model that comes with this program.
pub(super) struct Knowledge {
    transports: Vec<String>,
    known: Mutex<HashMap<Source, CircuitFigures>>,
}

/// What of a circuit does not depend on how it is run.
#[derive(Clone)]
struct CircuitFigures {
    facts: CircuitFacts,
    /// By scheme and batch.
    computations: HashMap<(Scheme, u64), Computation>,
}

impl Knowledge {
    pub(super) fn new() -> Self {
        let registry = Registry::with_builtins();
        let mut transports: Vec<String> = registry.names().map(str::to_owned).collect();
        // Those that are compared usually come first, in their order.
        let place = |name: &String| {
            usual()
                .position(|usual| usual == name)
                .unwrap_or(usize::MAX)
        };
        transports.sort_by_key(place);
        transports.push(Auto::NAME.to_owned());
        Self {
            transports,
            known: Mutex::default(),
        }
    }

    /// Describes a run of a circuit; makes the circuit only if such a run was not asked for before.
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
        if known.len() < MOST_KNOWN {
            let figures = known
                .entry(source.clone())
                .or_insert_with(|| CircuitFigures {
                    facts: facts.clone(),
                    computations: HashMap::new(),
                });
            if figures.computations.len() < MOST_KNOWN {
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

fn usual() -> impl Iterator<Item = &'static str> {
    DEFAULT_TRANSPORTS.split(',')
}

impl Oracle for Knowledge {
    fn program(&self) -> String {
        concat!("transpute ", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn circuits(&self) -> Vec<BuiltIn> {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        (catalogue::entries().iter())
            .map(|entry| BuiltIn {
                name: entry.name.to_owned(),
                parameters: entry.parameters.to_owned(),
                summary: entry.summary.to_owned(),
                example: entry.example.spec.to_owned(),
                inputs: words(entry.inputs),
                outputs: words(entry.outputs),
            })
            .collect()
    }

    fn schemes(&self) -> Vec<String> {
        let usual = Scheme::HalfGates;
        let others = Scheme::ALL.into_iter().filter(|&scheme| scheme != usual);
        let all = std::iter::once(usual).chain(others);
        all.map(|scheme| scheme.to_string()).collect()
    }

    fn transports(&self) -> Vec<TransportEntry> {
        (self.transports.iter())
            .map(|name| {
                let is_known = Candidate::new(name)
                    .is_ok_and(|candidate| !candidate.spec.law(None).is_generic);
                TransportEntry {
                    name: name.clone(),
                    is_predictable: is_known && name != Auto::NAME,
                    is_usual: usual().any(|usual| usual == name),
                }
            })
            .collect()
    }

    fn count(&self, source: &Source) -> Result<CircuitFacts, String> {
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(source).map(|figures| figures.facts.clone())
        };
        match known {
            Some(facts) => Ok(facts),
            None => make(source).map(|program| facts(&program)),
        }
    }

    fn predict(&self, question: Question<'_>) -> Result<Answer, String> {
        let Question {
            source,
            scheme,
            batch,
            scenario,
            environment,
            transports,
        } = question;
        let scheme = Scheme::from_str(scheme).map_err(|error| error.to_string())?;
        let (computation, facts) = self.computation(source, scheme, batch)?;
        let text = |error: SelectError| error.to_string();
        let workload = computation.workload().map_err(text)?;
        // A scenario's own congestion control is in force on its paths, whatever is usual on this machine.
        let environment = environment.map(|usual| Environment {
            congestion_control: (scenario.congestion_control.clone())
                .unwrap_or_else(|| usual.congestion_control.clone()),
            ..usual.clone()
        });
        let path = path_of(scenario, environment.as_ref()).map_err(text)?;
        let candidates = (transports.iter())
            .map(|name| Candidate::new(name))
            .collect::<Result<Vec<_>, _>>()
            .map_err(text)?;
        let nothing = Answer {
            path: path.to_string(),
            pick: None,
            reason: "no transport can be used here".to_owned(),
            confidence: 0.0,
            ranking: Vec::new(),
            excluded: Vec::new(),
            garbler_bytes: workload.garbler_bytes,
            evaluator_bytes: workload.evaluator_bytes,
            round_trips: f64::from(workload.flights) / 2.0,
            and_gates: facts.and_gates,
        };
        let choice = match Rule.choose(&path, &workload, &candidates) {
            Ok(choice) => choice,
            Err(SelectError::NoCandidate { reasons }) => {
                // Each starts with its transport.
                let split = |reason: String| match reason.split_once(": ") {
                    Some((name, why)) => (name.to_owned(), why.to_owned()),
                    None => (String::new(), reason),
                };
                let excluded = reasons.into_iter().map(split).collect();
                return Ok(Answer {
                    excluded,
                    ..nothing
                });
            }
            Err(error) => return Err(text(error)),
        };
        let ranking = choice.ranking().iter().map(|ranked| {
            let prediction = &ranked.prediction;
            let TimeParts {
                setup_s,
                rounds_s,
                growth_s,
                transfer_s,
                loss_s,
                compute_s,
            } = prediction.parts;
            Estimate {
                transport: ranked.transport.to_string(),
                seconds: prediction.seconds,
                interval: prediction.interval(),
                bound: match prediction.bound {
                    Bound::Path => "the bottleneck of the path",
                    Bound::KernelWindow => "the buffers of the kernel",
                    Bound::Loss => "losses, which keep the window small",
                    Bound::Processor => "the processors",
                }
                .to_owned(),
                parts: vec![
                    ("setup_s", setup_s),
                    ("rounds_s", rounds_s),
                    ("growth_s", growth_s),
                    ("transfer_s", transfer_s),
                    ("loss_s", loss_s),
                    ("compute_s", compute_s),
                ],
            }
        });
        Ok(Answer {
            pick: Some(choice.winner().to_string()),
            reason: choice.reason.clone(),
            confidence: choice.confidence,
            ranking: ranking.collect(),
            excluded: (choice.excluded.iter())
                .map(|(spec, why)| (spec.to_string(), why.clone()))
                .collect(),
            ..nothing
        })
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
