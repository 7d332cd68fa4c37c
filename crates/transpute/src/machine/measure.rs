//! Measuring how fast this machine computes, by computing.
//!
//! Gates are timed inside two sessions that run in this thread without a link: so what a session does around its gates is in the
//! figures, and what the link does is not, which the model counts with what is carried. Everything is done a few times, and the
//! least time counts: it is what the machine can do when nothing else wants its processor.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use rand::Rng;
use thiserror::Error;
use transpute_circuit::{
    Bits, Circuit, CircuitError, Gate, InputSplit, Op, Program, SplitError,
    generators::{self, GeneratorError},
};
use transpute_garble::{Backend, GarbleError, Garbler, Params, Scheme, Seed};
use transpute_ot::{
    BASE_COUNT, BaseOt, BaseReceiver, BaseSender, CotReceiver, CotSender, Extension, MaskHash,
    OtError,
};
use transpute_select::{Machine, SelectError};
use transpute_session::{
    Config, FrameDecoder, FrameError, FrameKind, OtChoice, OtPlan, Progressed, Repeat, Role,
    Session, SessionError,
};

/// How often gates and extended transfers are done.
const ROUNDS: usize = 3;

/// How often base transfers are done, which take longest.
const BASE_ROUNDS: usize = 2;

/// Candidates in the circuit for AND gates, and bits of each: 2,520 AND gates with as much of order among them as real circuits have.
const CANDIDATES: usize = 64;
const CANDIDATE_BITS: usize = 20;

/// Rows of the circuit for XOR gates, and gates in each.
const XOR_ROWS: u32 = 64;
const XOR_WIDTH: u32 = 128;

/// Extended transfers that are timed: half of what a session asks for at a time.
const TRANSFERS: usize = 4096;

/// Base transfers that are timed. A run with an extension has 128, which take a sixth less each.
const BASE_TRANSFERS: usize = 8;

/// Why nothing could be measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The circuit to measure with cannot be made.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
    /// The circuit to measure with cannot be made.
    #[error(transparent)]
    Circuit(#[from] CircuitError),
    /// Its inputs cannot be given out.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Garbling failed.
    #[error(transparent)]
    Garble(#[from] GarbleError),
    /// Oblivious transfer failed.
    #[error(transparent)]
    Transfer(#[from] OtError),
    /// A session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A session wrote what none reads.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A session did not come to its end.
    #[error("a session to measure with does not go on")]
    Stalled,
    /// The clock says what cannot be.
    #[error("the clock is of no use: {0}")]
    Clock(SelectError),
}

/// Measures how fast this machine computes under a scheme, which takes less than ten milliseconds.
///
/// The amount of work is always the same, and no figure depends on anything but the machine and what else it does: a processor
/// that is busy all the time passes for a slow one. They are whole picoseconds.
///
/// # Errors
/// [`MeasureError`]; none of them is expected.
pub fn measure(scheme: Scheme) -> Result<Machine, MeasureError> {
    let ands = generators::min_of_candidates(CANDIDATES, CANDIDATE_BITS, Default::default())?;
    let ands = Arc::new(Program::compile(&ands));
    let xors = Arc::new(Program::compile(&lattice()?));
    let count = |gates: u64| gates.max(1) as f64;
    let (garbled, evaluated) = gates(&xors, scheme)?;
    // Of the few AND gates at its end nothing is subtracted.
    let xor_s = garbled.max(evaluated).as_secs_f64() / count(xors.xor_count());
    let (garbled, evaluated) = gates(&ands, scheme)?;
    let and_s = |took: Duration| {
        let all = took.as_secs_f64();
        // Where the clock had a bad moment over the XOR gates, the AND gates are most of it all the same.
        (all - xor_s * ands.xor_count() as f64).max(all / 2.0) / count(ands.and_count())
    };
    let transfer_s = extended(&ands, scheme)?.as_secs_f64() / TRANSFERS as f64;
    let base_transfer_s = base()?.as_secs_f64() / BASE_TRANSFERS as f64;
    // No clock is better than that, and the same figures are kept and said.
    let picoseconds = |seconds: f64| (seconds * 1e12).round() / 1e12;
    let machine = Machine {
        garble_and_s: picoseconds(and_s(garbled)),
        evaluate_and_s: picoseconds(and_s(evaluated)),
        xor_s: picoseconds(xor_s),
        transfer_s: picoseconds(transfer_s),
        base_transfer_s: picoseconds(base_transfer_s),
    };
    machine.checked().map_err(MeasureError::Clock)
}

/// Makes a circuit of XOR gates, and one AND gate at the end so that there are tables to wait for.
fn lattice() -> Result<Circuit, CircuitError> {
    let mut gates = Vec::new();
    for row in 0..XOR_ROWS {
        let below = row * XOR_WIDTH;
        gates.extend((0..XOR_WIDTH).map(|column| Gate {
            op: Op::Xor,
            a: below + column,
            // Odd steps: no pair of wires meets twice.
            b: below + (column + 2 * row + 1) % XOR_WIDTH,
        }));
    }
    let top = XOR_ROWS * XOR_WIDTH;
    gates.push(Gate {
        op: Op::And,
        a: top,
        b: top + 1,
    });
    let outputs = (top + 2..=top + XOR_WIDTH).collect();
    Circuit::new(vec![XOR_WIDTH], vec![XOR_WIDTH - 1], gates, outputs)
}

/// Times the tables of a circuit: garbling, evaluating.
fn gates(program: &Arc<Program>, scheme: Scheme) -> Result<(Duration, Duration), MeasureError> {
    let mut least = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let (garbled, evaluated) = compute(program, scheme)?;
        least = (least.0.min(garbled), least.1.min(evaluated));
    }
    Ok(least)
}

/// Runs two sessions against each other, the garbler having all inputs, and adds up the time that each spends on tables.
fn compute(program: &Arc<Program>, scheme: Scheme) -> Result<(Duration, Duration), MeasureError> {
    let values: Vec<usize> = (0..program.input_widths().len()).collect();
    let split = InputSplit::new(program.input_widths(), &values)?;
    let config = Config {
        scheme,
        ..Config::default()
    };
    let begin = |role, bits| {
        let inputs = Box::new(Repeat(Bits::zeros(bits)));
        Session::new(
            role,
            program.clone(),
            split.clone(),
            config.clone(),
            inputs,
            true,
        )
    };
    let mut garbler = begin(Role::Garbler, split.garbler_bits())?;
    let mut evaluator = begin(Role::Evaluator, 0)?;
    let (mut garbled, mut evaluated) = (Duration::ZERO, Duration::ZERO);
    let (mut to_evaluator, mut to_garbler) = (FrameDecoder::new(), FrameDecoder::new());
    let mut out = Vec::new();
    loop {
        out.clear();
        let started = Instant::now();
        let progressed = garbler.poll(&mut out, true)?;
        let took = started.elapsed();
        let is_tables = out.first() == Some(&(FrameKind::Tables as u8));
        if is_tables {
            garbled += took;
        }
        to_evaluator.buffer().extend_from_slice(&out);
        out.clear();
        let mut has_worked = progressed == Progressed::Worked;
        let started = Instant::now();
        while let Some(frame) = to_evaluator.next_frame()? {
            evaluator.handle(frame)?;
        }
        // To its end: what comes with the next tables has nothing before it.
        let end = loop {
            match evaluator.poll(&mut out, true)? {
                Progressed::Worked => has_worked = true,
                end => break end,
            }
        };
        if is_tables {
            evaluated += started.elapsed();
        }
        to_garbler.buffer().extend_from_slice(&out);
        while let Some(frame) = to_garbler.next_frame()? {
            garbler.handle(frame)?;
            has_worked = true;
        }
        if (progressed, end) == (Progressed::Finished, Progressed::Finished) {
            return Ok((garbled, evaluated));
        }
        if !has_worked {
            return Err(MeasureError::Stalled);
        }
    }
}

/// Times an extension, on whichever side takes longer.
fn extended(program: &Arc<Program>, scheme: Scheme) -> Result<Duration, MeasureError> {
    let mut rng = rand::rng();
    let mut draw = || u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    // Random, and from no base transfers: what they are does not matter here.
    let pairs: Vec<[u128; 2]> = (0..BASE_COUNT).map(|_| [draw(), draw()]).collect();
    let (delta, sid) = (draw(), [0; 32]);
    let keys: Vec<u128> = (pairs.iter().enumerate())
        .map(|(index, pair)| pair[(delta >> index & 1) as usize])
        .collect();
    let kind = match OtPlan::new(OtChoice::Auto, BaseOt::Ristretto255, TRANSFERS as u64) {
        Ok(OtPlan::Extension(kind)) => kind,
        _ => Extension::SoftSpoken4,
    };
    let (mut receiver, setup) = CotReceiver::new(kind, &pairs, &sid);
    let mut sender = CotSender::new(kind, delta, &keys, &sid);
    if !setup.is_empty() {
        sender.setup(&setup)?;
    }
    let choices: Vec<u64> = (0..TRANSFERS / 64).map(|_| draw() as u64).collect();
    let labels = Labels::new(program, scheme)?;
    let masks = (!scheme.is_free_xor()).then(|| MaskHash::new(&sid));
    let mut least = Duration::MAX;
    // A hash of the transcript, in a session. Both ends are here, so any value does.
    let challenge = [0; 32];
    for round in 0..ROUNDS as u64 {
        let (mut message, mut check, mut t) = (Vec::new(), Vec::new(), Vec::new());
        let (mut replies, mut chosen) = (Vec::new(), Vec::new());
        let started = Instant::now();
        let segment = receiver.extend(&choices, TRANSFERS, &mut rand::rng(), &mut message);
        segment.prove(&challenge, &mut check, &mut t);
        let mut receiving = started.elapsed();
        let started = Instant::now();
        let unchecked = sender.extend(TRANSFERS, &message, &challenge)?;
        let q = sender.check(unchecked, &check)?;
        let mut own = labels.derive();
        match &masks {
            None => own
                .iter_mut()
                .zip(q.iter())
                .for_each(|(label, q)| label[0] ^= q),
            Some(masks) => masks.mask(round * TRANSFERS as u64, &q, delta, &own, &mut replies),
        }
        let sending = started.elapsed();
        let started = Instant::now();
        match &masks {
            None => t.iter_mut().zip(&own).for_each(|(t, label)| *t ^= label[0]),
            Some(masks) => {
                let start = round * TRANSFERS as u64;
                masks.unmask(start, &t, &choices, &replies, &mut chosen);
            }
        }
        receiving += started.elapsed();
        black_box((&t, &own, &replies, &chosen));
        least = least.min(sending.max(receiving));
    }
    Ok(least)
}

/// The labels that the garbler has to make for its answers.
struct Labels {
    garbler: Garbler,
    bits: usize,
}

impl Labels {
    fn new(program: &Arc<Program>, scheme: Scheme) -> Result<Self, GarbleError> {
        let split = InputSplit::first_to_garbler(program.input_widths());
        let params = Params::random(scheme, 1, &mut rand::rng());
        let (seed, backend) = (Seed::random(), Backend::best());
        Ok(Self {
            garbler: Garbler::new(program.clone(), &split, params, seed, backend)?,
            bits: split.evaluator_bits(),
        })
    }

    /// Makes those of all transfers.
    fn derive(&self) -> Vec<[u128; 2]> {
        let mut labels = Vec::with_capacity(TRANSFERS);
        for instance in 0.. {
            let missing = TRANSFERS - labels.len();
            if missing == 0 || self.bits == 0 {
                break;
            }
            let mut pairs = Vec::new();
            let range = 0..missing.min(self.bits);
            self.garbler
                .evaluator_label_pairs(instance, range, &mut pairs);
            let block = |label: transpute_garble::Label| u128::from_le_bytes(label.to_bytes());
            labels.extend(pairs.into_iter().map(|pair| pair.map(block)));
        }
        labels
    }
}

/// Times base transfers, on both sides together.
fn base() -> Result<Duration, MeasureError> {
    let (sid, binding) = ([0; 32], [0; 32]);
    let choices = [true; BASE_TRANSFERS];
    let mut least = Duration::MAX;
    for _ in 0..BASE_ROUNDS {
        let mut rng = rand::rng();
        let started = Instant::now();
        let (receiver, to_sender) = BaseReceiver::start(&choices, &binding, &mut rng);
        let (sender, to_receiver) = BaseSender::start(&mut rng);
        black_box(receiver.finish(&sid, &to_receiver)?);
        black_box(sender.finish(&sid, &binding, &to_sender, BASE_TRANSFERS)?);
        least = least.min(started.elapsed());
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_is_measured_within_the_bounds() {
        for scheme in Scheme::ALL {
            let machine = measure(scheme).unwrap();
            assert!(machine.checked().is_ok());
            // Of the many orders of magnitude between the bounds.
            assert!(machine.base_transfer_s > 10.0 * machine.transfer_s);
            assert!(machine.base_transfer_s > 10.0 * machine.garble_and_s);
        }
    }

    #[test]
    fn the_circuits_are_what_they_are_for() {
        let xors = Program::compile(&lattice().unwrap());
        assert_eq!(xors.and_count(), 1);
        assert_eq!(xors.xor_count(), u64::from(XOR_ROWS * XOR_WIDTH));
        let labels = |scheme| {
            let program = Arc::new(Program::compile(
                &generators::min_of_candidates(4, 20, Default::default()).unwrap(),
            ));
            Labels::new(&program, scheme).unwrap().derive()
        };
        for scheme in Scheme::ALL {
            let mut all = labels(scheme);
            assert_eq!(all.len(), TRANSFERS);
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), TRANSFERS);
        }
    }
}
