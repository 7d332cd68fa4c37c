//! Tests of the driver over in-memory streams.

mod many;
mod single;

use std::sync::Arc;

use rand::{Rng, SeedableRng, rngs::StdRng};
use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program};
use transpute_session::{Call, Config, FrameKind, HEADER_LEN, Role};

/// Returns a frame with a payload of bytes of value 7.
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
    /// Returns a chain of AND and XOR gates.
    fn chain(ands: u32, evaluations: usize) -> Self {
        let inputs = 16;
        let mut gates = Vec::new();
        for step in 0..ands {
            let previous = match step {
                0 => 3,
                _ => inputs + 2 * step - 1,
            };
            gates.push(Gate {
                op: Op::And,
                a: previous,
                b: step * 7 % inputs,
            });
            gates.push(Gate {
                op: Op::Xor,
                a: inputs + 2 * step,
                b: step * 5 % inputs,
            });
        }
        let wires = inputs + gates.len() as u32;
        let outputs = vec![wires - 1, wires - 2, 0];
        let mut rng = StdRng::seed_from_u64(3);
        let bits = |_| (0..inputs).map(|_| rng.next_u32() & 1 == 1).collect();
        Self {
            circuit: Circuit::new(vec![8, 8], vec![2, 1], gates, outputs).unwrap(),
            config: Config {
                batch: evaluations as u64,
                ..Config::default()
            },
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
