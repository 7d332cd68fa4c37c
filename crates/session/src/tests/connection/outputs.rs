//! Tests of `Output` messages that arrive before the garbler may decode them.

use transpute_circuit::{Circuit, Gate, Op};

use super::{End, Pair};
use crate::{
    FrameKind, OutputPolicy, Role, RunId,
    tests::{Setup, random_inputs},
};

const BATCH: usize = 3;

/// Returns a setup whose circuit has `widths` as inputs and one AND gate of the first two bits, or
/// no gate. No gate reads the other bits, but two of them are outputs.
fn setup(widths: [u32; 2], has_tables: bool, output: OutputPolicy) -> Setup {
    let and = Gate {
        op: Op::And,
        a: 0,
        b: 1,
    };
    let gates = if has_tables { vec![and] } else { Vec::new() };
    let last = widths[0] + widths[1] + u32::from(has_tables) - 1;
    let outputs = if has_tables {
        vec![last, 0]
    } else {
        vec![0, 1]
    };
    let circuit = Circuit::new(widths.to_vec(), vec![2], gates, outputs).unwrap();
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, BATCH, 1));
    setup.config.output = output;
    setup
}

/// Returns all setups in which the evaluator sends `Output` messages.
fn setups(widths: [u32; 2]) -> impl Iterator<Item = Setup> {
    [OutputPolicy::Garbler, OutputPolicy::Both]
        .into_iter()
        .flat_map(move |policy| [true, false].map(|tables| setup(widths, tables, policy)))
}

fn count(pair: &Pair, from: End, kind: FrameKind) -> usize {
    (pair.sent.iter())
        .filter(|(end, frame)| *end == from && frame.kind == kind)
        .count()
}

/// Polls the evaluator, side 1, until it has sent this number of frames of a kind.
fn send_until(pair: &mut Pair, kind: FrameKind, frames: usize) {
    for _ in 0..100 {
        if count(pair, 1, kind) == frames {
            return;
        }
        let mut out = Vec::new();
        pair.sides[1].poll(&mut out, true).unwrap();
        pair.pass(1, &out);
    }
    let sent: Vec<_> = pair
        .sent
        .iter()
        .map(|(end, frame)| (end, frame.kind))
        .collect();
    panic!("{kind:?}: {sent:?}");
}

/// Asserts that the garbler, side 0, has this number of `Output` messages and has decoded nothing.
fn assert_held(pair: &Pair, garbler: RunId, messages: usize) {
    pair.assert_alive();
    assert_eq!(count(pair, 1, FrameKind::Output), messages);
    assert!(pair.arriving[0].is_empty());
    let outputs = pair.runs[0].get(&garbler).map(|done| &done.outputs);
    assert!(outputs.is_none_or(Vec::is_empty), "{outputs:?}");
    assert_eq!(count(pair, 0, FrameKind::Decode), 0);
}

fn finish(mut pair: Pair, [garbler, evaluator]: [RunId; 2], setup: &Setup) {
    pair.rest();
    pair.assert_alive();
    pair.check(0, garbler, setup);
    pair.check(1, evaluator, setup);
}

fn prepare(setup: &Setup) -> (Pair, [RunId; 2]) {
    let mut pair = Pair::new(1);
    let runs = [
        pair.prepare(0, Role::Garbler, setup),
        pair.prepare(1, Role::Evaluator, setup),
    ];
    pair.rest();
    (pair, runs)
}

/// A garbler without input bits sends no labels for which the evaluator would wait.
#[test]
fn an_output_of_a_prepared_run_waits_for_the_garbler() {
    for setup in setups([0, 5]) {
        let (mut pair, runs) = prepare(&setup);
        pair.provide(1, runs[1], &setup);
        pair.rest();
        assert_held(&pair, runs[0], BATCH);
        pair.provide(0, runs[0], &setup);
        finish(pair, runs, &setup);
    }
}

/// While the link accepts nothing, the evaluator evaluates. So the first `Output` message precedes
/// the request for labels on which no output depends.
#[test]
fn an_output_may_precede_the_request_for_unread_labels() {
    for setup in setups([2, 3]).filter(|setup| setup.circuit.gates().len() == 1) {
        let mut pair = Pair::new(2);
        pair.rest();
        let runs = pair.call_both(0, &setup);
        pair.exhaust(0);
        send_until(&mut pair, FrameKind::Hello, 1);
        // The garbler's hello and tables.
        pair.arrive(1);
        for _ in 0..100 {
            pair.sides[1].poll(&mut Vec::new(), false).unwrap();
        }
        send_until(&mut pair, FrameKind::Output, 1);
        assert_eq!(count(&pair, 1, FrameKind::OtCorrect), 0);
        pair.arrive(0);
        assert_held(&pair, runs[0], 1);
        finish(pair, runs, &setup);
    }
}

/// The garbler rejects an `Output` message beyond the last evaluation, or one in a run whose output
/// it does not learn.
#[test]
fn an_output_that_is_not_due_is_refused() {
    for policy in [OutputPolicy::Evaluator, OutputPolicy::Garbler] {
        let setup = setup([0, 5], true, OutputPolicy::Garbler);
        let (mut pair, runs) = prepare(&setup);
        pair.provide(1, runs[1], &setup);
        pair.rest();
        assert_held(&pair, runs[0], BATCH);
        let (_, first) = (pair.sent.iter())
            .find(|(end, frame)| *end == 1 && frame.kind == FrameKind::Output)
            .unwrap()
            .clone();
        if policy == OutputPolicy::Evaluator {
            let setup = self::setup([0, 5], true, policy);
            (pair, _) = prepare(&setup);
            assert!(pair.sides[0].handle(first).is_err());
            continue;
        }
        let mut payload = first.payload.to_vec();
        payload[4..12].copy_from_slice(&(BATCH as u64).to_le_bytes());
        let more = crate::Frame {
            payload: payload.into(),
            ..first
        };
        assert!(pair.sides[0].handle(more).is_err());
    }
}
