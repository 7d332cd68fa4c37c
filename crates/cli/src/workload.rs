//! What a run of a circuit asks of a path.

use transpute::{Config, InputSplit, OtPlan, OutputPolicy, Program, Role, Scheme};
use transpute_select::{End, Machine, ProtocolRun, Transfers, Workload};

use crate::{failure::Failure, source};

/// How a circuit is to be run, as far as it decides what is sent.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// Garbling scheme
    #[arg(long, value_name = "SCHEME", default_value = "half-gates")]
    scheme: Scheme,
    /// Evaluations in a run
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    batch: u64,
    /// Who learns the outputs: evaluator, garbler or both
    #[arg(long, value_name = "WHO", default_value = "evaluator")]
    output_to: OutputPolicy,
    /// The garbler connects and the evaluator listens
    #[arg(long)]
    garbler_connects: bool,
}

impl Asked {
    /// Returns the end that garbles.
    pub(crate) fn garbler(&self) -> End {
        match self.garbler_connects {
            true => End::Connector,
            false => End::Listener,
        }
    }
}

/// Describes a run of the circuit that `text` names, input value 0 being the garbler's. `flag` is for messages.
pub(crate) fn of(flag: &str, text: &str, asked: &Asked) -> Result<Workload, Failure> {
    let circuit = source::load(flag, text)?.circuit;
    let program = Program::compile(&circuit);
    let split = InputSplit::first_to_garbler(program.input_widths());
    let config = Config::default();
    let transfers = (split.evaluator_bits() as u64).saturating_mul(asked.batch);
    let plan = OtPlan::new(config.ot, transfers)
        .map_err(|error| Failure::usage(format!("--batch: {error}")))?;
    let (scheme, and, xor) = (asked.scheme, program.and_count(), program.xor_count());
    let machine = match scheme.is_free_xor() {
        true => Machine::TYPICAL,
        false => Machine::TYPICAL_WITHOUT_FREE_XOR,
    };
    ProtocolRun {
        and_gates: and,
        xor_gates: xor,
        table_bytes: and * scheme.and_bytes() as u64
            + (and * scheme.and_bits() as u64).div_ceil(8)
            + xor * scheme.xor_bytes() as u64,
        is_free_xor: scheme.is_free_xor(),
        garbler_bits: split.garbler_bits() as u64,
        evaluator_bits: split.evaluator_bits() as u64,
        output_bits: program.outputs().len() as u64,
        batch: asked.batch,
        chunk_len: u64::from(config.chunk_len),
        is_checked: config.output_check,
        transfers: match plan {
            OtPlan::None => Transfers::None,
            OtPlan::Direct => Transfers::Direct,
            OtPlan::Extension(extension) => Transfers::Extension {
                k: extension.code(),
                // At most 3,584.
                setup_len: extension.setup_len() as u32,
            },
        },
        to_garbler: asked.output_to.reaches(Role::Garbler),
    }
    .workload(asked.garbler(), &machine, &machine)
    .map_err(|error| Failure::usage(format!("{flag} {text}: {error}")))
}
