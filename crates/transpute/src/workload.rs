//! What a run asks of a path and of two machines.

use transpute_circuit::{InputSplit, Program};
use transpute_garble::Scheme;
use transpute_select::{End, Machine, SelectError, Workload};
use transpute_session::{Config, OtPlan, Role};

use crate::protocol::{ProtocolRun, Transfers};

/// Returns the processor time that a typical machine takes for each step of the protocol with this scheme.
#[must_use]
pub fn typical_machine(scheme: Scheme) -> Machine {
    match scheme {
        Scheme::ThreeHalves => Machine::THREE_HALVES,
        scheme if scheme.is_free_xor() => Machine::HALF_GATES,
        _ => Machine::WITHOUT_FREE_XOR,
    }
}

/// A run, or several on one connection, as far as choosing a transport depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Computation {
    run: ProtocolRun,
    scheme: Scheme,
    garbler: End,
    runs: u64,
    at_once: u64,
}

impl Computation {
    /// Describes a run. `garbler` is the end that garbles.
    #[must_use]
    pub fn new(program: &Program, split: &InputSplit, config: &Config, garbler: End) -> Self {
        let scheme = config.scheme;
        let (and, xor) = (program.and_count(), program.xor_count());
        let transfers = (split.evaluator_bits() as u64).saturating_mul(config.batch);
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
            transfers: match OtPlan::new(config.ot, config.base_ot, transfers) {
                Ok(OtPlan::None | OtPlan::Stock) | Err(_) => Transfers::None,
                Ok(OtPlan::Direct) => Transfers::Direct,
                Ok(OtPlan::Extension(extension)) => Transfers::Extension {
                    k: extension.code(),
                    // At most 3,584.
                    setup_len: extension.setup_len() as u32,
                },
            },
            to_garbler: config.output.reaches(Role::Garbler),
        };
        Self {
            run,
            scheme,
            garbler,
            runs: 1,
            at_once: 1,
        }
    }

    /// Describes so many of these runs on one connection, `at_once` of them under way at a time.
    #[must_use]
    pub fn repeated(self, runs: u64, at_once: u64) -> Self {
        Self {
            runs,
            at_once,
            ..self
        }
    }

    /// Returns the garbling scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns what the run sends, waits for and computes, on two typical machines.
    ///
    /// # Errors
    /// [`SelectError::Number`] for figures that no run has.
    pub fn workload(&self) -> Result<Workload, SelectError> {
        let machine = typical_machine(self.scheme);
        let one = self.run.workload(self.garbler, &machine, &machine)?;
        let all = one.repeated(self.runs, self.at_once);
        all.validate()?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computation(scheme: Scheme) -> Computation {
        let circuit = transpute_circuit::generators::aes128();
        let program = Program::compile(&circuit);
        let split = InputSplit::first_to_garbler(program.input_widths());
        let config = Config {
            scheme,
            ..Config::default()
        };
        Computation::new(&program, &split, &config, End::Listener)
    }

    #[test]
    fn runs_on_one_connection_count_as_many() {
        let one = computation(Scheme::HalfGates).workload().unwrap();
        let many = computation(Scheme::HalfGates).repeated(1000, 100);
        let many = many.workload().unwrap();
        assert_eq!(many.bytes_down(), 1000 * one.bytes_down());
        assert_eq!(many.round_trips(), one.round_trips() + 9.0);
    }

    #[test]
    fn schemes_differ_in_bytes_and_processor_time() {
        let parts = |scheme| computation(scheme).workload().unwrap();
        let (half, three) = (parts(Scheme::HalfGates), parts(Scheme::ThreeHalves));
        let prf = parts(Scheme::Prf);
        assert!(three.garbler_bytes < half.garbler_bytes && half.garbler_bytes < prf.garbler_bytes);
        assert!(half.garble_s < three.garble_s && three.garble_s < prf.garble_s);
    }
}
