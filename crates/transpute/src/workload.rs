//! What a run asks of a path, and of two machines.

use transpute_circuit::{InputSplit, Program};
use transpute_garble::Scheme;
use transpute_select::{End, Machine, ProtocolRun, SelectError, Transfers, Workload};
use transpute_session::{Config, OtPlan, Role};

use crate::machine::{typical, words};

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
    Computation::new(program, split, config, garbler).between(None, None)
}

/// A run, or several on one connection, as far as choosing a transport depends on it: a [`Workload`] as soon as it is known how
/// fast both machines are.
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

    /// Returns what the run asks of a path, given how fast the machines of both ends compute; `None` is a typical one.
    ///
    /// # Errors
    /// [`SelectError::Number`] for figures that no run has.
    pub fn between(
        &self,
        connector: Option<&Machine>,
        listener: Option<&Machine>,
    ) -> Result<Workload, SelectError> {
        let typical = typical(self.scheme);
        let connector = connector.unwrap_or(&typical);
        let listener = listener.unwrap_or(&typical);
        let (garbling, evaluating) = match self.garbler {
            End::Connector => (connector, listener),
            End::Listener => (listener, connector),
        };
        let one = self.run.workload(self.garbler, garbling, evaluating)?;
        one.repeated(self.runs, self.at_once)
    }

    /// Writes how fast the listening party's machine computes in its part of this run: the message of its
    /// [offer](transpute_transport::auto::Offer::saying).
    #[must_use]
    pub fn words(&self, listener: &Machine) -> Vec<u8> {
        words::encode(self.listener(), self.scheme, listener)
    }

    /// Reads such a message; `None` for any other one, such as one about another scheme or another role, and if it says what no
    /// machine can do. What the listening party's part does not need is that of a typical machine.
    #[must_use]
    pub fn said(&self, words: &[u8]) -> Option<Machine> {
        words::decode(words, self.listener(), self.scheme)
    }

    fn listener(&self) -> Role {
        match self.garbler {
            End::Connector => Role::Evaluator,
            End::Listener => Role::Garbler,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computation(garbler: End) -> Computation {
        let circuit = transpute_circuit::generators::aes128();
        let program = Program::compile(&circuit);
        let split = InputSplit::first_to_garbler(program.input_widths());
        Computation::new(&program, &split, &Config::default(), garbler)
    }

    const SLOW: Machine = Machine {
        garble_and_s: 1e-3,
        evaluate_and_s: 1e-2,
        xor_s: 1e-12,
        transfer_s: 1e-12,
        base_transfer_s: 1e-12,
    };

    #[test]
    fn each_machine_counts_at_its_end() {
        let parts = |garbler, connector, listener| {
            *(computation(garbler).between(connector, listener).unwrap()).parts()
        };
        let typical = parts(End::Listener, None, None);
        let slow = parts(End::Listener, None, Some(&SLOW));
        assert!((6.4..6.5).contains(&slow.garble_s), "{}", slow.garble_s);
        assert_eq!(slow.evaluate_s, typical.evaluate_s);
        // Base transfers wait for both.
        assert_eq!(slow.serial_s, typical.serial_s);
        let slow = parts(End::Listener, Some(&SLOW), None);
        assert!((64.0..64.1).contains(&slow.evaluate_s));
        assert_eq!(slow.garble_s, typical.garble_s);
        let slow = parts(End::Connector, Some(&SLOW), None);
        assert!((6.4..6.5).contains(&slow.garble_s));
    }

    #[test]
    fn runs_on_one_connection_count_as_many() {
        let one = computation(End::Listener).between(None, None).unwrap();
        let many = computation(End::Listener).repeated(1000, 100);
        let many = many.between(None, None).unwrap();
        assert_eq!(many.bytes_down(), 1000 * one.bytes_down());
        assert_eq!(many.round_trips(), one.round_trips() + 9.0);
    }

    #[test]
    fn what_the_listener_says_is_about_its_part() {
        let (garbling, evaluating) = (computation(End::Listener), computation(End::Connector));
        let said = garbling.said(&garbling.words(&SLOW)).unwrap();
        assert_eq!(said.garble_and_s, SLOW.garble_and_s);
        assert_eq!(evaluating.said(&garbling.words(&SLOW)), None);
        assert_eq!(garbling.said(b"fast"), None);
        // The worst lie has a workload.
        let mut worst = SLOW;
        worst.garble_and_s = 1.0;
        let said = garbling.said(&garbling.words(&worst)).unwrap();
        let workload = garbling.between(None, Some(&said)).unwrap();
        assert!((6400.0..6500.0).contains(&workload.parts().garble_s));
    }
}
