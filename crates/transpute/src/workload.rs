//! What a run asks of a path.

use transpute_circuit::{InputSplit, Program};
use transpute_select::{End, Machine, ProtocolRun, SelectError, Transfers, Workload};
use transpute_session::{Config, OtPlan, Role};

/// Describes a run for choosing a transport: what it sends, waits for and computes. `garbler` is the end that garbles.
///
/// Both machines are taken to be typical ones ([`Machine::TYPICAL`]).
///
/// # Errors
/// [`SelectError::Number`] for figures that no run has.
pub fn workload(
    program: &Program,
    split: &InputSplit,
    config: &Config,
    garbler: End,
) -> Result<Workload, SelectError> {
    let scheme = config.scheme;
    let (and, xor) = (program.and_count(), program.xor_count());
    let transfers = (split.evaluator_bits() as u64).saturating_mul(config.batch);
    let machine = match scheme.is_free_xor() {
        true => Machine::TYPICAL,
        false => Machine::TYPICAL_WITHOUT_FREE_XOR,
    };
    let run = ProtocolRun {
        and_gates: and,
        xor_gates: xor,
        table_bytes: and * scheme.and_bytes() as u64
            + (and * scheme.and_bits() as u64).div_ceil(8)
            + xor * scheme.xor_bytes() as u64,
        is_free_xor: scheme.is_free_xor(),
        garbler_bits: split.garbler_bits() as u64,
        evaluator_bits: split.evaluator_bits() as u64,
        output_bits: program.outputs().len() as u64,
        batch: config.batch,
        chunk_len: u64::from(config.chunk_len),
        is_checked: config.output_check,
        // Of more transfers than the protocol can do, the session says so in time.
        transfers: match OtPlan::new(config.ot, transfers) {
            Ok(OtPlan::None) | Err(_) => Transfers::None,
            Ok(OtPlan::Direct) => Transfers::Direct,
            Ok(OtPlan::Extension(extension)) => Transfers::Extension {
                k: extension.code(),
                // At most 3,584.
                setup_len: extension.setup_len() as u32,
            },
        },
        to_garbler: config.output.reaches(Role::Garbler),
    };
    run.workload(garbler, &machine, &machine)
}
