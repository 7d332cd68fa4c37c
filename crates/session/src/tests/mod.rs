//! Tests of single-run connections. Both sides run in memory and exchange frames directly.

mod agreement;
mod chain;
mod connection;
mod deviations;
mod document;
mod flights;
mod hostile;
mod mixed;
mod plans;
mod reads;
mod runs;
mod schemes;
mod traffic;
mod transfers;

use std::{collections::VecDeque, sync::Arc};

use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};
use transpute_circuit::{Bits, Circuit, Gate, InputSplit, Op, Program};
use transpute_garble::Scheme;

use self::chain::chain;
use crate::{
    Call, Config, Frame, FrameDecoder, FrameKind, OtPlan, Output, Progressed, Role, RunId,
    SessionConnection, SessionError, SessionEvent, session::Session,
};

/// Compiles only if `T` is wiped from memory when it is dropped.
const fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() {}

// A random-number generator holds its secret key, and a hash state holds a block of its input. So
// both types must be wiped.
const _: () = {
    wiped_on_drop::<crate::SecretRng>();
    wiped_on_drop::<sha2::Sha256>();
};

/// The inputs and settings of one side.
#[derive(Clone)]
struct Setup {
    circuit: Circuit,
    split: InputSplit,
    config: Config,
    /// The input bits of both parties, for each evaluation.
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

    /// Starts the side of `role`. `seed` makes its randomness reproducible.
    fn start(&self, role: Role, seed: u64) -> Single {
        let call = Call {
            program: Arc::new(Program::compile(&self.circuit)),
            split: self.split.clone(),
            config: self.config.clone(),
            inputs: Some(Box::new(self.own_inputs(role))),
        };
        let mut rng = StdRng::seed_from_u64(seed);
        let (connection, run) =
            SessionConnection::single_with_rng(role, call, self.encrypted, Some(spawn), &mut rng)
                .unwrap();
        let mut single = Single {
            role,
            connection,
            run,
            plan: OtPlan::None,
            scheme: self.config.scheme,
        };
        single.note();
        single
    }

    /// Returns the error if the side of `role` fails to start the run.
    fn start_error(&self, role: Role) -> Option<SessionError> {
        match self.start(role, 1).connection.next_event() {
            Some(SessionEvent::Ended(_, Err(error))) => Some(error),
            _ => None,
        }
    }

    /// Runs both sides, delivers every frame unchanged, and checks all outputs.
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

/// The result of the run on each side, and all delivered frames.
struct Ends {
    garbler: Result<Vec<Output>, SessionError>,
    evaluator: Result<Vec<Output>, SessionError>,
    /// Delivered frames in order, each with the role of its sender.
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

fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}

/// One side of a single-run connection.
struct Single {
    role: Role,
    connection: SessionConnection,
    run: RunId,
    /// The OT plan and the scheme of the run, as last read by `note`.
    plan: OtPlan,
    scheme: Scheme,
}

impl Single {
    /// Returns the session of the run while it is active.
    fn session(&mut self) -> &mut Session {
        let run = self.run;
        self.connection.session(run).expect("the run is under way")
    }

    fn note(&mut self) {
        let run = self.run;
        if let Some(session) = self.connection.session(run) {
            let terms = session.terms();
            (self.plan, self.scheme) = (terms.plan, terms.config.scheme);
        }
    }
}

/// One side with the frames in flight to it.
struct Side {
    single: Single,
    arriving: VecDeque<Frame>,
    outputs: Vec<Output>,
    /// The result of the run, once it has ended.
    end: Option<Result<(), SessionError>>,
    /// Whether the connection has ended.
    is_over: bool,
    /// Total length of the sent frames, in bytes.
    sent: u64,
}

struct Pair {
    sides: [Side; 2],
}

impl Pair {
    fn new(garbler: &Setup, evaluator: &Setup) -> Self {
        Self::with_roles(
            garbler.start(Role::Garbler, 1),
            evaluator.start(Role::Evaluator, 2),
        )
    }

    fn with_roles(first: Single, second: Single) -> Self {
        Self {
            sides: [first, second].map(|single| Side {
                single,
                arriving: VecDeque::new(),
                outputs: Vec::new(),
                end: None,
                is_over: false,
                sent: 0,
            }),
        }
    }

    /// Runs both sides until both connections have ended. `between` receives each frame without its
    /// run tag, and returns the frames that are delivered instead. The frames that close the
    /// connection are delivered unchanged.
    fn run(self, between: &mut dyn FnMut(Role, Frame) -> Vec<Frame>) -> Ends {
        self.run_to(between, &mut |_| {})
    }

    /// Does the same as [`Self::run`], and calls `show` with each side at the end.
    fn run_to(
        mut self,
        between: &mut dyn FnMut(Role, Frame) -> Vec<Frame>,
        show: &mut dyn FnMut(&Side),
    ) -> Ends {
        let mut delivered = Vec::new();
        loop {
            let mut worked = false;
            for index in [0, 1] {
                let sent = self.sides[index].step();
                let role = self.sides[index].single.role;
                for frame in sent {
                    worked = true;
                    let Some(frame) = untagged(&frame) else {
                        self.sides[1 - index].arriving.push_back(frame);
                        continue;
                    };
                    for frame in between(role, frame) {
                        delivered.push((role, frame.clone()));
                        self.sides[1 - index]
                            .arriving
                            .push_back(tagged(role, frame));
                    }
                }
                worked |=
                    !self.sides[1 - index].is_over && !self.sides[1 - index].arriving.is_empty();
            }
            if self.sides.iter().all(|side| side.is_over) {
                break;
            }
            if !worked {
                // No frame is in flight and no side has work: the link closes.
                for side in &mut self.sides {
                    side.end.get_or_insert(Err(SessionError::Closed));
                    side.is_over = true;
                }
            }
        }
        let [first, second] = self.sides.map(|side| {
            show(&side);
            let outputs = side.outputs;
            let end = side.end.unwrap_or(Err(SessionError::Closed));
            (side.single.role, end.map(|()| outputs))
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
    /// Handles arriving frames until this side waits for more. Returns the frames that it sends.
    fn step(&mut self) -> Vec<Frame> {
        let mut out = Vec::new();
        self.collect();
        while !self.is_over {
            match self.single.connection.poll(&mut out, true) {
                Ok(Progressed::Worked) => {}
                Ok(Progressed::Finished) => self.is_over = true,
                Ok(Progressed::Idle) => match self.arriving.pop_front() {
                    Some(frame) => {
                        if let Err(error) = self.single.connection.handle(frame) {
                            self.fail(error, &mut out);
                        }
                    }
                    None => match self.single.connection.settle() {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(error) => self.fail(error, &mut out),
                    },
                },
                Err(error) => self.fail(error, &mut out),
            }
            self.collect();
        }
        self.sent += out.len() as u64;
        frames(&out)
    }

    fn fail(&mut self, error: SessionError, out: &mut Vec<u8>) {
        out.extend(self.single.connection.farewell(&error).unwrap_or_default());
        self.end.get_or_insert(Err(error));
        self.is_over = true;
    }

    fn collect(&mut self) {
        self.single.note();
        while let Some(event) = self.single.connection.next_event() {
            match event {
                SessionEvent::Output(_, output) => self.outputs.push(output),
                SessionEvent::Ended(run, result) if run == self.single.run => {
                    if let Ok(report) = &result {
                        (self.single.plan, self.single.scheme) = (report.ot, report.scheme);
                    }
                    self.end.get_or_insert(result.map(drop));
                }
                _ => {}
            }
        }
    }
}

/// Bit in the last byte of a run tag. It is set if the sender of the frame is the garbler.
const GARBLES: u8 = 0x80;

/// Removes the run tag of a frame. Returns an opening unchanged, and `None` for other frames that
/// belong to no run.
fn untagged(frame: &Frame) -> Option<Frame> {
    if frame.kind == FrameKind::Open {
        return Some(frame.clone());
    }
    let (tag, content) = frame.payload.split_first_chunk::<4>()?;
    (tag[0] != 0).then(|| Frame {
        kind: frame.kind,
        payload: bytes::Bytes::copy_from_slice(content),
    })
}

/// Adds the tag of run 1 to a frame that the party of `role` sends. Frames that belong to no run
/// stay unchanged.
fn tagged(role: Role, frame: Frame) -> Frame {
    if matches!(frame.kind, FrameKind::Open | FrameKind::Alive) {
        return frame;
    }
    let garbles = if role == Role::Garbler { GARBLES } else { 0 };
    let payload = [&[1, 0, 0, garbles], &frame.payload[..]].concat();
    Frame {
        kind: frame.kind,
        payload: payload.into(),
    }
}

/// Flips one bit of a frame's payload. `place` is the position as a fraction of the payload's
/// length.
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

/// Decodes all complete frames in `bytes`.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = FrameDecoder::new();
    decoder.buffer().extend_from_slice(bytes);
    std::iter::from_fn(|| decoder.next_frame().unwrap()).collect()
}

/// Generates random circuits with two input values, every kind of gate, and random outputs.
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
