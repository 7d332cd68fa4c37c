//! Tests of the driver over in-memory streams.

#[path = "../../../session/src/tests/chain.rs"]
mod chain;
mod many;
mod single;

use std::sync::Arc;

use rand::{Rng, SeedableRng, rngs::StdRng};
use transpute_circuit::{Bits, Circuit, InputSplit, Program};
use transpute_session::{Call, Config, FrameKind, HEADER_LEN, Role};

use self::chain::chain;

/// Returns an encoded frame whose payload is `len` bytes of value 7.
pub(crate) fn frame(kind: FrameKind, len: usize) -> Vec<u8> {
    let mut frame = vec![kind as u8];
    frame.extend_from_slice(&(len as u32).to_le_bytes());
    frame.resize(HEADER_LEN + len, 7);
    frame
}

/// A computation, with the inputs of both sides.
#[derive(Clone)]
struct Setup {
    circuit: Circuit,
    config: Config,
    /// The input bits of each evaluation: eight of the garbler, then eight of the evaluator.
    inputs: Vec<Bits>,
}

impl Setup {
    /// Returns a setup with random inputs for a chain of AND and XOR gates.
    fn chain(ands: u32, evaluations: usize) -> Self {
        let circuit = chain(ands);
        let mut rng = StdRng::seed_from_u64(3);
        let inputs = circuit.input_bits();
        let bits = |_| (0..inputs).map(|_| rng.next_u32() & 1 == 1).collect();
        let mut config = Config::default();
        config.batch = evaluations as u64;
        Self {
            circuit,
            config,
            inputs: (0..evaluations).map(bits).collect(),
        }
    }

    fn split(&self) -> InputSplit {
        InputSplit::first_to_garbler(self.circuit.input_widths())
    }

    fn program(&self) -> Arc<Program> {
        Arc::new(Program::compile(&self.circuit))
    }

    fn own_inputs(&self, role: Role) -> Vec<Bits> {
        let own = match role {
            Role::Garbler => 0..8,
            Role::Evaluator => 8..16,
        };
        (self.inputs.iter())
            .map(|all| own.clone().map(|wire| all.get(wire)).collect())
            .collect()
    }

    fn call(&self, role: Role) -> Call {
        Call {
            program: self.program(),
            split: self.split(),
            config: self.config.clone(),
            inputs: Some(Box::new(self.own_inputs(role))),
        }
    }

    fn expected(&self) -> Vec<Bits> {
        (self.inputs.iter())
            .map(|input| self.circuit.evaluate(input).unwrap())
            .collect()
    }
}
