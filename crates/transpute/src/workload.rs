//! The workload of one or several runs: their bytes, flights and processor time.

use transpute_circuit::{InputSplit, Program};
use transpute_garble::Scheme;
use transpute_select::{End, Machine, SelectError, Workload};
use transpute_session::{Config, ExpectedTraffic};

/// Returns the processor time that a typical machine needs for each step of the protocol with this
/// garbling scheme.
#[must_use]
pub fn typical_machine(scheme: Scheme) -> Machine {
    match scheme {
        Scheme::ThreeHalves => Machine::THREE_HALVES,
        scheme if scheme.is_free_xor() => Machine::HALF_GATES,
        _ => Machine::WITHOUT_FREE_XOR,
    }
}

/// The properties of one or several runs on which the choice of a transport depends.
#[derive(Clone, Copy, Debug)]
pub struct Computation {
    traffic: ExpectedTraffic,
    /// AND gates of one evaluation.
    and_gates: u64,
    xor_gates: u64,
    batch: u64,
    scheme: Scheme,
    garbler: End,
    runs: u64,
    at_once: u64,
    is_encrypted: bool,
}

impl Computation {
    /// Returns the properties of one run over an encrypted link. `garbler` is the garbler's end of
    /// the link.
    #[must_use]
    pub fn new(program: &Program, split: &InputSplit, config: &Config, garbler: End) -> Self {
        Self {
            traffic: ExpectedTraffic::new(program, split, config),
            and_gates: program.and_count(),
            xor_gates: program.xor_count(),
            batch: config.batch,
            scheme: config.scheme,
            garbler,
            runs: 1,
            at_once: 1,
            is_encrypted: true,
        }
    }

    /// Returns the properties of the same runs over a link with or without encryption.
    #[must_use]
    pub fn encrypted(self, is_encrypted: bool) -> Self {
        Self {
            is_encrypted,
            ..self
        }
    }

    /// Returns the properties of `runs` equal runs on one connection, of which `at_once` are active
    /// at a time.
    #[must_use]
    pub fn repeated(self, runs: u64, at_once: u64) -> Self {
        Self {
            runs,
            at_once,
            ..self
        }
    }

    /// Returns the expected bytes and flights of one run.
    #[must_use]
    pub fn traffic(&self) -> &ExpectedTraffic {
        &self.traffic
    }

    /// Returns the garbling scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the workload of the runs, with the processor time of two typical machines.
    ///
    /// # Errors
    /// Returns [`SelectError::Number`] if a figure of the workload is out of range.
    pub fn workload(&self) -> Result<Workload, SelectError> {
        let machine = typical_machine(self.scheme);
        let traffic = &self.traffic;
        let gates = |and_s: f64| {
            let one = self.and_gates as f64 * and_s + self.xor_gates as f64 * machine.xor_s;
            self.batch as f64 * one
        };
        let bytes = traffic
            .garbler_bytes
            .saturating_add(traffic.evaluator_bytes);
        let encrypt_s = match self.is_encrypted {
            true => bytes as f64 * machine.encrypt_byte_s,
            false => 0.0,
        };
        let extension_s = traffic.extended_transfers as f64 * machine.transfer_s;
        // No computing overlaps with the transfers of the first evaluation. Those of the others
        // overlap with garbling and evaluating.
        let first_s = extension_s / self.batch as f64;
        let one = Workload {
            garbler: self.garbler,
            garbler_bytes: traffic.garbler_bytes,
            garbler_late_bytes: traffic.garbler_late_bytes,
            evaluator_bytes: traffic.evaluator_bytes,
            flights: traffic.flights,
            serial_s: traffic.base_transfers as f64 * machine.base_transfer_s + first_s,
            garble_s: gates(machine.garble_and_s) + extension_s + encrypt_s,
            evaluate_s: gates(machine.evaluate_and_s) + extension_s + encrypt_s,
        };
        one.validate()?;
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
        let mut config = Config::default();
        config.scheme = scheme;
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

    #[test]
    fn impossible_numbers_are_refused() {
        let circuit = transpute_circuit::generators::aes128();
        let program = Program::compile(&circuit);
        let split = InputSplit::first_to_garbler(program.input_widths());
        let mut config = Config::default();
        config.batch = u64::MAX;
        let computation = Computation::new(&program, &split, &config, End::Connector);
        assert!(matches!(
            computation.workload(),
            Err(SelectError::Number { .. })
        ));
    }
}
