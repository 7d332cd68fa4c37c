//! Two sessions joined in memory, frame by frame.

mod agreement;
mod deviations;
mod document;
mod driver;
mod hostile;
mod negotiation;
mod reads;
mod runs;
mod schemes;
mod standing;
mod traffic;
mod transfers;

use std::{collections::VecDeque, sync::Arc};

use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};
use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program};

use crate::{Config, Frame, FrameDecoder, Output, Progressed, Role, Session, SessionError};

/// Compiles only if values of the type are wiped when they are dropped.
const fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() {}

// Generators have the key of all that they draw, hashes a block of what they read.
const _: () = {
    wiped_on_drop::<crate::SecretRng>();
    wiped_on_drop::<sha2::Sha256>();
};

/// What one side needs to start.
#[derive(Clone)]
struct Setup {
    circuit: Circuit,
    split: InputSplit,
    config: Config,
    /// All input bits of each evaluation.
    inputs: Vec<Bits>,
    encrypted: bool,
}

impl Setup {
    fn new(circuit: &Circuit, inputs: Vec<Bits>) -> Self {
        let config = Config {
            batch: inputs.len() as u64,
            ..Config::default()
        };
        Self {
            split: InputSplit::first_to_garbler(circuit.input_widths()),
            circuit: circuit.clone(),
            config,
            inputs,
            encrypted: false,
        }
    }

    /// Returns the input bits of one party.
    fn own_inputs(&self, role: Role) -> Vec<Bits> {
        (self.inputs.iter())
            .map(|all| {
                let mut bits = Bits::new();
                for range in self.split.ranges(role == Role::Garbler) {
                    bits.extend(range.map(|wire| all.get(wire as usize)));
                }
                bits
            })
            .collect()
    }

    /// Starts one side. A seed makes its randomness reproducible.
    fn start(&self, role: Role, seed: u64) -> Result<Session, SessionError> {
        let own = self.own_inputs(role);
        Session::with_rng(
            role,
            Arc::new(Program::compile(&self.circuit)),
            self.split.clone(),
            self.config.clone(),
            Box::new(own),
            self.encrypted,
            &mut StdRng::seed_from_u64(seed),
        )
    }

    /// Runs both sides with nothing in between and checks all outputs.
    fn check(&self) {
        let ends = Pair::new(self, self).run(&mut |_, frame| vec![frame]);
        for role in [Role::Garbler, Role::Evaluator] {
            let outputs = ends.of(role).as_ref().unwrap();
            if !self.config.output.reaches(role) {
                assert!(outputs.is_empty(), "{role} learned {outputs:?}");
                continue;
            }
            assert_eq!(outputs.len(), self.inputs.len());
            for (instance, (output, input)) in outputs.iter().zip(&self.inputs).enumerate() {
                assert_eq!(output.instance, instance as u64);
                let expected = self.circuit.evaluate(input).unwrap();
                assert_eq!(output.bits.to_string(), expected.to_string(), "{role}");
            }
        }
    }
}

/// How each side ended.
struct Ends {
    garbler: Result<Vec<Output>, SessionError>,
    evaluator: Result<Vec<Output>, SessionError>,
    /// Frames delivered, by the role that sent them.
    delivered: Vec<(Role, Frame)>,
}

impl Ends {
    fn of(&self, role: Role) -> &Result<Vec<Output>, SessionError> {
        match role {
            Role::Garbler => &self.garbler,
            Role::Evaluator => &self.evaluator,
        }
    }
}

/// One side with what is on its way to it.
struct Side {
    session: Session,
    arriving: VecDeque<Frame>,
    outputs: Vec<Output>,
    /// `Some` once it is over.
    end: Option<Result<(), SessionError>>,
}

struct Pair {
    sides: [Side; 2],
}

impl Pair {
    fn new(garbler: &Setup, evaluator: &Setup) -> Self {
        Self::with_roles(
            garbler.start(Role::Garbler, 1).unwrap(),
            evaluator.start(Role::Evaluator, 2).unwrap(),
        )
    }

    fn with_roles(first: Session, second: Session) -> Self {
        Self {
            sides: [first, second].map(|session| Side {
                session,
                arriving: VecDeque::new(),
                outputs: Vec::new(),
                end: None,
            }),
        }
    }

    /// Runs to the end of both sides; `between` decides what becomes of each frame.
    fn run(self, between: &mut dyn FnMut(Role, Frame) -> Vec<Frame>) -> Ends {
        self.run_to(between, &mut |_| {})
    }

    /// Runs to the end of both sides and shows them.
    fn run_to(
        mut self,
        between: &mut dyn FnMut(Role, Frame) -> Vec<Frame>,
        show: &mut dyn FnMut(&Session),
    ) -> Ends {
        let mut delivered = Vec::new();
        loop {
            let mut worked = false;
            for index in [0, 1] {
                let sent = self.sides[index].step();
                let role = self.sides[index].session.role();
                for frame in sent {
                    worked = true;
                    for frame in between(role, frame) {
                        delivered.push((role, frame.clone()));
                        self.sides[1 - index].arriving.push_back(frame);
                    }
                }
                worked |= self.sides[1 - index].end.is_none()
                    && !self.sides[1 - index].arriving.is_empty();
            }
            if self.sides.iter().all(|side| side.end.is_some()) {
                break;
            }
            if !worked {
                // Nothing is on its way and nobody has anything to say: the link closes.
                for side in &mut self.sides {
                    side.end.get_or_insert(Err(SessionError::Closed));
                }
            }
        }
        let [first, second] = self.sides.map(|side| {
            show(&side.session);
            let outputs = side.outputs;
            (side.session.role(), side.end.unwrap().map(|()| outputs))
        });
        let (garbler, evaluator) = match first.0 {
            Role::Garbler => (first.1, second.1),
            Role::Evaluator => (second.1, first.1),
        };
        Ends {
            garbler,
            evaluator,
            delivered,
        }
    }
}

impl Side {
    /// Works until it waits; returns what it sent.
    fn step(&mut self) -> Vec<Frame> {
        let mut out = Vec::new();
        while self.end.is_none() {
            match self.session.poll(&mut out, true) {
                Ok(Progressed::Worked) => {}
                Ok(Progressed::Finished) => self.end = Some(Ok(())),
                Ok(Progressed::Idle) => match self.arriving.pop_front() {
                    Some(frame) => {
                        if let Err(error) = self.session.handle(frame) {
                            self.fail(error, &mut out);
                        }
                    }
                    None => match self.session.settle() {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(error) => self.fail(error, &mut out),
                    },
                },
                Err(error) => self.fail(error, &mut out),
            }
            self.outputs
                .extend(std::iter::from_fn(|| self.session.next_output()));
        }
        frames(&out)
    }

    fn fail(&mut self, error: SessionError, out: &mut Vec<u8>) {
        out.extend(Session::farewell(&error).unwrap_or_default());
        self.end = Some(Err(error));
    }
}

/// Returns a frame with one bit of its payload flipped, at a part of its length.
fn flipped(frame: Frame, place: f64) -> Frame {
    let mut payload = frame.payload.to_vec();
    if !payload.is_empty() {
        let index = (payload.len() as f64 * place) as usize;
        payload[index] ^= 0x10;
    }
    Frame {
        payload: payload.into(),
        ..frame
    }
}

/// Cuts bytes into frames.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = FrameDecoder::new();
    decoder.buffer().extend_from_slice(bytes);
    std::iter::from_fn(|| decoder.next_frame().unwrap()).collect()
}

/// A random circuit with two input values, every kind of gate, and outputs anywhere.
fn circuits(gates: usize) -> impl Strategy<Value = Circuit> {
    (1..40u32, 0..40u32, 1..30usize).prop_flat_map(move |(first, second, outputs)| {
        let gate = (0..8u8, any::<u32>(), any::<u32>());
        (
            prop::collection::vec(gate, 1..gates),
            prop::collection::vec(any::<u32>(), outputs),
        )
            .prop_map(move |(gates, outputs)| {
                let inputs = first + second;
                let gates: Vec<Gate> = (gates.iter().enumerate())
                    .map(|(index, &(op, a, b))| {
                        let defined = inputs + index as u32;
                        let op = [
                            Op::And,
                            Op::And,
                            Op::And,
                            Op::Xor,
                            Op::Xor,
                            Op::Not,
                            Op::Copy,
                            if a & 1 == 0 { Op::Zero } else { Op::One },
                        ][usize::from(op)];
                        Gate {
                            op,
                            a: a % defined,
                            b: b % defined,
                        }
                    })
                    .collect();
                let wires = inputs + gates.len() as u32;
                let outputs: Vec<u32> = outputs.iter().map(|wire| wire % wires).collect();
                Circuit::new(
                    vec![first, second],
                    vec![outputs.len() as u32],
                    gates,
                    outputs,
                )
                .unwrap()
            })
    })
}

/// Random input bits for `circuit`.
fn random_inputs(circuit: &Circuit, evaluations: usize, seed: u64) -> Vec<Bits> {
    use rand::Rng;
    let mut rng = StdRng::seed_from_u64(seed);
    (0..evaluations)
        .map(|_| {
            (0..circuit.input_bits())
                .map(|_| rng.next_u32() & 1 == 1)
                .collect()
        })
        .collect()
}

/// A circuit with `ands` gates that depend on both parties: a chain of ANDs and XORs.
fn chain(ands: u32) -> Circuit {
    let inputs = 16;
    let mut gates = Vec::new();
    for step in 0..ands {
        let last = inputs + 2 * step - u32::from(step > 0);
        let previous = if step == 0 { 3 } else { last };
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
    Circuit::new(vec![8, 8], vec![2, 1], gates, vec![wires - 1, wires - 2, 0]).unwrap()
}
