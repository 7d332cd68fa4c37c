//! Generates inputs of a circuit, and computes the expected outputs.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicBool,
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Deserialize;

use super::error::RunError;
use crate::measure::{Deadline, Process};

/// Time limit for generating a circuit, or for its plain evaluation.
const LIMIT: Duration = Duration::from_secs(300);

/// The seed of all inputs. Every run of a circuit has the same inputs.
const INPUT_SEED: u64 = 0x7472_616e_7370;

/// The inputs of both parties for one circuit, in files, and the expected outputs.
#[derive(Clone, Debug)]
pub(super) struct CircuitInputs {
    /// The `--input` arguments of the garbler, in the form `N=@FILE`.
    pub(super) garbler: Vec<String>,
    /// The `--input` arguments of the evaluator, in the form `N=@FILE`.
    pub(super) evaluator: Vec<String>,
    /// The expected output values in hexadecimal digits.
    pub(super) outputs: Vec<String>,
}

/// Generates the inputs of circuits on demand.
pub(super) struct InputMaker<'a> {
    binary: &'a Path,
    folder: PathBuf,
    made: HashMap<String, CircuitInputs>,
}

#[derive(Deserialize)]
struct CircuitInfo {
    /// Widths of the input values, in bits.
    inputs: Vec<usize>,
}

#[derive(Deserialize)]
struct Evaluated {
    outputs: Vec<OutputValue>,
}

#[derive(Deserialize)]
pub(super) struct OutputValue {
    pub(super) hex: String,
}

impl<'a> InputMaker<'a> {
    /// Creates a generator that runs the program `binary` and writes input files to `folder`.
    pub(super) fn new(binary: &'a Path, folder: &Path) -> Self {
        Self {
            binary,
            folder: folder.to_owned(),
            made: HashMap::new(),
        }
    }

    /// Returns the inputs of a circuit. The first input value belongs to the garbler and all others
    /// to the evaluator, as is the default of `transpute run`.
    pub(super) fn inputs(
        &mut self,
        circuit: &str,
        cancel: &AtomicBool,
    ) -> Result<CircuitInputs, RunError> {
        if let Some(inputs) = self.made.get(circuit) {
            return Ok(inputs.clone());
        }
        let info: CircuitInfo = self.ask(circuit, &["info", "--json"], &[], cancel)?;
        let number = self.made.len();
        let mut rng = StdRng::seed_from_u64(INPUT_SEED);
        let mut values = Vec::new();
        for (index, &width) in info.inputs.iter().enumerate() {
            let path = self.folder.join(format!("circuit-{number}-input-{index}"));
            let bits: String = (0..width)
                .map(|_| if rng.next_u32() & 1 == 1 { '1' } else { '0' })
                .collect();
            fs::write(&path, bits).map_err(RunError::Prepare)?;
            values.push(format!("{index}=@{}", path.display()));
        }
        let evaluated: Evaluated = self.ask(circuit, &["eval", "--json"], &values, cancel)?;
        let evaluators = values.split_off(values.len().min(1));
        let inputs = CircuitInputs {
            garbler: values,
            evaluator: evaluators,
            outputs: evaluated
                .outputs
                .into_iter()
                .map(|value| value.hex)
                .collect(),
        };
        self.made.insert(circuit.to_owned(), inputs.clone());
        Ok(inputs)
    }

    /// Runs a subcommand of `transpute circuit` and parses its JSON output.
    fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        circuit: &str,
        args: &[&str],
        inputs: &[String],
        cancel: &AtomicBool,
    ) -> Result<T, RunError> {
        let mut command = Command::new(self.binary);
        command.arg("circuit").args(args).arg(circuit);
        for input in inputs {
            command.args(["--input", input]);
        }
        let fail = |reason: String| RunError::Circuit {
            circuit: circuit.to_owned(),
            reason,
        };
        let finished = Process::start(command)
            .and_then(|process| process.finish(Deadline::new(LIMIT, cancel)))
            .map_err(|error| RunError::from_measure(error, |error| fail(error.to_string())))?;
        if !finished.status.success() {
            return Err(fail(finished.complaint().to_owned()));
        }
        serde_json::from_str(&finished.stdout).map_err(|error| fail(error.to_string()))
    }
}
