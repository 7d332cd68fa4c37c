//! The workload of a circuit that the user names: the bytes, flights and computing time of a run.

use transpute::{Config, InputSplit, OutputPolicy, Program, Scheme, workload::Computation};
use transpute_select::{End, Workload};

use crate::{failure::Failure, flags::parse_scheme, source};

/// The options that determine the traffic of a run.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// Garbling scheme
    #[arg(long, value_name = "SCHEME", default_value = "half-gates", value_parser = parse_scheme)]
    scheme: Scheme,
    /// Evaluations in a run
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    batch: u64,
    /// Who learns the outputs: evaluator, garbler or both
    #[arg(long, value_name = "WHO", default_value = "evaluator")]
    output_to: OutputPolicy,
    /// The garbler connects, and the evaluator listens
    #[arg(long)]
    garbler_connects: bool,
}

impl Asked {
    /// Returns whether the garbler is the connector or the listener.
    pub(crate) fn garbler(&self) -> End {
        match self.garbler_connects {
            true => End::Connector,
            false => End::Listener,
        }
    }
}

/// Returns the workload of one run of the circuit `text`, a name or a file. Input value 0 is the
/// garbler's, all others are the evaluator's. Error messages name `flag` as the option with `text`.
pub(crate) fn of(flag: &str, text: &str, asked: &Asked) -> Result<Workload, Failure> {
    let circuit = source::load(flag, text)?.circuit;
    let program = Program::compile(&circuit);
    let split = InputSplit::first_to_garbler(program.input_widths());
    let mut config = Config::default();
    config.scheme = asked.scheme;
    config.batch = asked.batch;
    config.output = asked.output_to;
    (Computation::new(&program, &split, &config, asked.garbler()).workload())
        .map_err(|error| Failure::usage(format!("{flag} {text}: {error}")))
}
