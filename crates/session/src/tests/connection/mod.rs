//! Tests of connections with many runs. Both sides run in memory. Their steps are interleaved in
//! random order.

mod bounds;
mod flights;
pub(super) mod hostile;
mod negotiation;
mod outputs;
mod runs;
mod schemes;
mod serving;
mod transfers;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use transpute_circuit::{Bits, Program};

use super::{Setup, frames};
use crate::{
    Call, ConnectionConfig, Frame, FrameKind, OtPlan, Progressed, Proposal, Role, RunId, RunReport,
    SessionConnection, SessionError, SessionEvent,
};

/// Index of a side: 0 or 1.
type End = usize;

/// The events of one run at one side.
#[derive(Debug, Default)]
struct Done {
    outputs: Vec<Bits>,
    is_prepared: bool,
    end: Option<Result<RunReport, SessionError>>,
}

/// Both sides and the frames in flight.
struct Pair {
    sides: [SessionConnection; 2],
    arriving: [VecDeque<Frame>; 2],
    runs: [HashMap<RunId, Done>; 2],
    failed: [Option<SessionError>; 2],
    finished: [bool; 2],
    /// For each side, the reported calls of its peer.
    called: [Vec<(RunId, Option<Proposal>)>; 2],
    /// All sent frames in order, each with the side that sent it.
    sent: Vec<(End, Frame)>,
    rng: StdRng,
}

fn call(setup: &Setup, role: Role) -> Call {
    Call {
        program: Arc::new(Program::compile(&setup.circuit)),
        split: setup.split.clone(),
        config: setup.config.clone(),
        inputs: Some(Box::new(setup.own_inputs(role))),
    }
}

fn preparation(setup: &Setup, role: Role) -> Call {
    Call {
        inputs: None,
        ..call(setup, role)
    }
}

/// Returns the payload of the first frame that a side sends.
pub(in crate::tests) fn first_open() -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(1);
    let mut side = SessionConnection::with_rng(ConnectionConfig::default(), false, &mut rng);
    let mut out = Vec::new();
    side.poll(&mut out, true).unwrap();
    let open = frames(&out).remove(0);
    assert_eq!(open.kind, FrameKind::Open);
    open.payload.to_vec()
}

impl Pair {
    fn new(seed: u64) -> Self {
        Self::with(seed, &ConnectionConfig::default())
    }

    fn with(seed: u64, config: &ConnectionConfig) -> Self {
        let side = |own: u64| {
            let mut rng = StdRng::seed_from_u64(seed ^ own << 32);
            SessionConnection::with_rng(config.clone(), false, &mut rng)
        };
        Self {
            sides: [side(1), side(2)],
            arriving: Default::default(),
            runs: Default::default(),
            failed: [None, None],
            finished: [false; 2],
            called: Default::default(),
            sent: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
        }
    }

    fn call(&mut self, end: End, role: Role, setup: &Setup) -> RunId {
        self.sides[end].call(role, call(setup, role)).unwrap()
    }

    fn prepare(&mut self, end: End, role: Role, setup: &Setup) -> RunId {
        self.sides[end]
            .call(role, preparation(setup, role))
            .unwrap()
    }

    fn provide(&mut self, end: End, run: RunId, setup: &Setup) {
        let inputs = setup.own_inputs(run.role());
        self.sides[end].provide(run, Box::new(inputs)).unwrap();
        self.collect(end);
    }

    /// Calls one run on both sides. The side `garbler` garbles, and the other one evaluates.
    fn call_both(&mut self, garbler: End, setup: &Setup) -> [RunId; 2] {
        [
            self.call(garbler, Role::Garbler, setup),
            self.call(1 - garbler, Role::Evaluator, setup),
        ]
    }

    /// Polls one side once. Returns whether it did anything.
    fn poll(&mut self, end: End) -> bool {
        if self.failed[end].is_some() || self.finished[end] {
            return false;
        }
        let may_send = !self.rng.next_u32().is_multiple_of(4);
        let mut out = Vec::new();
        let mut polled = self.sides[end].poll(&mut out, may_send);
        if matches!(polled, Ok(Progressed::Idle)) && !may_send {
            polled = self.sides[end].poll(&mut out, true);
        }
        self.pass(end, &out);
        self.collect(end);
        match polled {
            Ok(Progressed::Worked) => true,
            Ok(Progressed::Idle) => false,
            Ok(Progressed::Finished) => {
                self.finished[end] = true;
                true
            }
            Err(error) => {
                self.fail(end, error);
                true
            }
        }
    }

    fn pass(&mut self, end: End, bytes: &[u8]) {
        for frame in frames(bytes) {
            self.sent.push((end, frame.clone()));
            self.arriving[1 - end].push_back(frame);
        }
    }

    /// Delivers the next frame to a side, if a frame is in flight and the side accepts input.
    fn deliver(&mut self, end: End) -> bool {
        if self.failed[end].is_some() || self.finished[end] || !self.sides[end].wants_input() {
            return false;
        }
        let Some(frame) = self.arriving[end].pop_front() else {
            return false;
        };
        if let Err(error) = self.sides[end].handle(frame) {
            self.fail(end, error);
        }
        self.collect(end);
        true
    }

    fn fail(&mut self, end: End, error: SessionError) {
        if let Some(bytes) = self.sides[end].farewell(&error) {
            self.pass(end, &bytes);
        }
        self.failed[end] = Some(error);
    }

    fn collect(&mut self, end: End) {
        while let Some(event) = self.sides[end].next_event() {
            match event {
                SessionEvent::Opened | SessionEvent::Reached(..) => {}
                SessionEvent::Called(run, proposal) => self.called[end].push((run, proposal)),
                SessionEvent::Output(run, output) => {
                    let done = self.runs[end].entry(run).or_default();
                    assert_eq!(output.instance as usize, done.outputs.len());
                    assert!(done.end.is_none(), "an output of a run that is over");
                    done.outputs.push(output.bits);
                }
                SessionEvent::Prepared(run) => {
                    let done = self.runs[end].entry(run).or_default();
                    assert!(!done.is_prepared);
                    done.is_prepared = true;
                }
                SessionEvent::Ended(run, result) => {
                    let done = self.runs[end].entry(run).or_default();
                    assert!(done.end.is_none(), "{run} ended twice");
                    done.end = Some(result);
                }
            }
        }
    }

    /// Polls a random side, or delivers a frame to it, `steps` times.
    fn wander(&mut self, steps: usize) {
        for _ in 0..steps {
            let end = (self.rng.next_u32() & 1) as usize;
            if self.rng.next_u32() & 1 == 0 {
                self.poll(end);
            } else {
                self.deliver(end);
            }
        }
    }

    /// Runs until no frame is in flight and no side has work.
    fn rest(&mut self) {
        loop {
            self.wander(16);
            let mut worked = false;
            for end in [0, 1] {
                worked |= self.poll(end);
                worked |= self.deliver(end);
            }
            if !worked {
                return;
            }
        }
    }

    /// Polls one side until it cannot continue without another frame.
    fn exhaust(&mut self, end: End) {
        while self.poll(end) {}
    }

    /// Delivers all frames in flight to a side.
    fn arrive(&mut self, end: End) {
        while self.deliver(end) {}
    }

    fn done(&self, end: End, run: RunId) -> &Done {
        self.runs[end]
            .get(&run)
            .unwrap_or_else(|| panic!("nothing is known of {run}"))
    }

    /// Checks the outputs of a run that has ended on side `end`.
    fn check(&self, end: End, run: RunId, setup: &Setup) {
        let done = self.done(end, run);
        if let Err(error) = done
            .end
            .as_ref()
            .unwrap_or_else(|| panic!("{run} has not ended"))
        {
            panic!("{run}: {error}");
        }
        self.check_outputs(end, run, setup);
    }

    /// Lets side 1 evaluate a run to its end. Checks the outputs and that the run used direct
    /// transfers.
    fn check_direct(&mut self, run: RunId, setup: &Setup) {
        while self.deliver(1) || self.poll(1) {}
        self.check(1, run, setup);
        let Some(Ok(report)) = &self.done(1, run).end else {
            unreachable!()
        };
        assert_eq!(report.ot, OtPlan::Direct);
    }

    fn check_outputs(&self, end: End, run: RunId, setup: &Setup) {
        let outputs = &self.done(end, run).outputs;
        if !setup.config.output.reaches(run.role()) {
            assert!(outputs.is_empty());
            return;
        }
        let expected: Vec<Bits> = (setup.inputs.iter())
            .map(|input| setup.circuit.evaluate(input).unwrap())
            .collect();
        assert_eq!(*outputs, expected, "{run}");
    }

    fn assert_alive(&self) {
        assert!(self.failed.iter().all(Option::is_none), "{:?}", self.failed);
    }
}

/// Returns the run tag at the start of a frame's payload.
fn tag(frame: &Frame) -> u32 {
    let tag = frame.payload.first_chunk().expect("a tag");
    u32::from_le_bytes(*tag)
}

/// Returns the first index and the number of transfers of an `OtCorrect` frame.
fn indices(frame: &Frame) -> Option<(u64, u64)> {
    if frame.kind != FrameKind::OtCorrect {
        return None;
    }
    let first = u64::from_le_bytes(frame.payload[4..12].try_into().unwrap());
    let count = u32::from_le_bytes(frame.payload[12..16].try_into().unwrap());
    Some((first, count.into()))
}
