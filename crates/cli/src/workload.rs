//! The workload of a circuit that the user names: the bytes, flights and computing time of a run.

use transpute::{Config, InputSplit, OutputPolicy, Program, Scheme, workload::Computation};
use transpute_select::{End, PathEstimate, Workload};

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

/// A circuit that the user names, and the settings of its run.
pub(crate) struct Named {
    /// The option and its value, for error messages.
    origin: String,
    program: Program,
    config: Config,
    garbler: End,
    is_encrypted: bool,
}

impl Named {
    /// Loads the circuit `text`, a name or a file. Error messages name `flag` as the option with
    /// `text`. `is_encrypted` states whether the link is.
    pub(crate) fn load(
        flag: &str,
        text: &str,
        asked: &Asked,
        is_encrypted: bool,
    ) -> Result<Self, Failure> {
        let circuit = source::load(flag, text)?.circuit;
        let mut config = Config::default();
        config.scheme = asked.scheme;
        config.batch = asked.batch;
        config.output = asked.output_to;
        Ok(Self {
            origin: format!("{flag} {text}"),
            program: Program::compile(&circuit),
            config,
            garbler: asked.garbler(),
            is_encrypted,
        })
    }

    /// Returns the workload of one run over this path, which decides how transfers are done. Input
    /// value 0 is the garbler's, all others are the evaluator's.
    pub(crate) fn workload(&self, path: &PathEstimate) -> Result<Workload, Failure> {
        let split = InputSplit::first_to_garbler(self.program.input_widths());
        let mut config = self.config.clone();
        config.path = Some(match self.garbler {
            End::Connector => path.known().reversed(),
            End::Listener => path.known(),
        });
        let computation = Computation::new(&self.program, &split, &config, self.garbler);
        (computation.encrypted(self.is_encrypted).workload())
            .map_err(|error| Failure::usage(format!("{}: {error}", self.origin)))
    }
}
