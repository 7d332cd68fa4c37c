//! Tests of peers that violate the protocol.

use bytes::Bytes;
use proptest::prelude::*;
use transpute_ot::{Extension, OtError};

use super::{Pair, indices, tag};
use crate::{
    ConnectionConfig, Frame, FrameKind, Role, SessionConnection, SessionError,
    tests::{Setup, chain, flipped, random_inputs},
};

fn setup() -> Setup {
    let circuit = chain(60);
    let mut setup = Setup::new(&circuit, random_inputs(&circuit, 2, 9));
    setup.config.chunk_len = 512;
    setup
}

/// Executes three runs with frame number `target` (from 0) replaced by the result of `change`.
fn run_with(target: usize, change: &dyn Fn(Frame) -> Vec<Frame>) -> Pair {
    let setup = setup();
    let mut pair = Pair::new(1);
    let mut runs = Vec::new();
    for garbler in [0, 1, 0] {
        runs.push(pair.call_both(garbler, &setup));
    }
    let mut seen = 0;
    loop {
        let mut worked = false;
        for end in [0, 1] {
            let before = pair.arriving[1 - end].len();
            worked |= pair.poll(end);
            let new: Vec<Frame> = pair.arriving[1 - end].drain(before..).collect();
            for frame in new {
                let frames = if seen == target {
                    change(frame)
                } else {
                    vec![frame]
                };
                seen += 1;
                pair.arriving[1 - end].extend(frames);
            }
            worked |= pair.deliver(end);
        }
        if !worked {
            break;
        }
    }
    // Runs without an error have the right outputs.
    for (index, run) in runs.iter().enumerate() {
        let garbler = index % 2;
        for (end, run) in [(garbler, run[0]), (1 - garbler, run[1])] {
            if let Some(done) = pair.runs[end].get(&run)
                && matches!(done.end, Some(Ok(_)))
            {
                pair.check_outputs(end, run, &setup);
            }
        }
    }
    pair
}

fn frame_count() -> usize {
    let pair = run_with(usize::MAX, &|frame| vec![frame]);
    pair.assert_alive();
    pair.sent.len()
}

#[test]
fn no_flipped_bit_gives_a_wrong_output_or_a_panic() {
    let count = frame_count();
    let mut noticed = 0;
    for target in 0..count {
        for place in [0.04, 0.6] {
            let pair = run_with(target, &|frame| vec![flipped(frame, place)]);
            let all_well = pair.failed.iter().all(Option::is_none)
                && (pair.runs.iter()).all(|runs| {
                    runs.len() == 3 && runs.values().all(|done| matches!(done.end, Some(Ok(_))))
                });
            noticed += usize::from(!all_well);
        }
    }
    // Changes in unused transfers of the pool, in tables that the evaluator does not read, and at
    // the end of the connection have no effect. At least 75 % of all changes must be detected.
    assert!(noticed * 4 > count * 2 * 3, "{noticed} of {}", count * 2);
}

#[test]
fn frames_dropped_or_doubled_are_noticed() {
    for target in 0..frame_count() {
        let doubled = run_with(target, &|frame| vec![frame.clone(), frame]);
        assert!(
            doubled.failed.iter().any(Option::is_some),
            "frame {target} twice: {:?}",
            doubled.sent[target].1.kind
        );
        let dropped = run_with(target, &|_| vec![]);
        let is_complete = dropped.runs.iter().all(|runs| {
            runs.len() == 3 && runs.values().all(|done| matches!(done.end, Some(Ok(_))))
        });
        let kind = dropped.sent[target].1.kind;
        assert!(
            !is_complete
                || kind == FrameKind::OtExtend
                || kind == FrameKind::OtCheck
                || kind == FrameKind::OtExtendSetup
                || kind == FrameKind::OtSetup,
            "frame {target} dropped: {kind:?}"
        );
    }
}

/// Returns two sides in the middle of their connection, after some runs.
fn warm() -> Pair {
    let mut pair = Pair::new(5);
    for garbler in [0, 1] {
        pair.call_both(garbler, &setup());
    }
    pair.rest();
    pair
}

fn error_of(pair: &mut Pair, frame: Frame) -> SessionError {
    pair.sides[0].handle(frame).expect_err("it was taken")
}

fn frame(kind: FrameKind, tag: u32, content: &[u8]) -> Frame {
    Frame {
        kind,
        payload: [&tag.to_le_bytes()[..], content].concat().into(),
    }
}

#[test]
fn replayed_frames_are_refused() {
    let pair = warm();
    let frames: Vec<Frame> = (pair.sent.iter())
        .filter(|(end, _)| *end == 1)
        .map(|(_, frame)| frame.clone())
        .collect();
    for replayed in frames {
        let kind = replayed.kind;
        let mut pair = warm();
        let error = error_of(&mut pair, replayed);
        assert!(
            matches!(
                error,
                SessionError::Unexpected { .. } | SessionError::Ot(_) | SessionError::Length { .. }
            ),
            "{kind:?}: {error}"
        );
    }
}

#[test]
fn transfers_out_of_step_are_refused() {
    let mut pair = warm();
    let setup = setup();
    pair.call_both(0, &setup);
    pair.exhaust(1);
    let at = (pair.arriving[0].iter())
        .position(|frame| indices(frame).is_some())
        .unwrap();
    let original = pair.arriving[0][at].payload.to_vec();
    for (place, change) in [(4, 1), (4, 0xff), (11, 0x7f), (12, 1), (13, 1), (15, 0x80)] {
        let mut pair = warm();
        pair.call_both(0, &setup);
        pair.exhaust(1);
        let mut payload = original.clone();
        payload[place] = payload[place].wrapping_add(change);
        pair.arriving[0][at].payload = Bytes::from(payload);
        pair.arrive(0);
        assert!(
            matches!(
                pair.failed[0],
                Some(SessionError::Unexpected {
                    kind: FrameKind::OtCorrect,
                    ..
                })
            ),
            "{:?}",
            pair.failed[0]
        );
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let limits = ConnectionConfig::default().max_runs;
    for number in [1, 2 + limits, 1 << 30, (1 << 31) - 1] {
        for garbles in [0, 1 << 31] {
            for kind in [FrameKind::Hello, FrameKind::Tables, FrameKind::Abort] {
                let mut pair = warm();
                let error = error_of(&mut pair, frame(kind, number | garbles, &[0; 8]));
                assert!(matches!(error, SessionError::Unexpected { .. }), "{error}");
            }
        }
    }
    // A frame for the last run in the allowed range is stored.
    let mut pair = warm();
    let refusal = frame(FrameKind::Refuse, 1 + limits, &[1]);
    pair.sides[0].handle(refusal).unwrap();
}

#[test]
fn more_ahead_of_the_calls_than_agreed_is_refused() {
    // The first held frame of a run is a hello.
    let called = |garbles| {
        let mut pair = warm();
        let (_, hello) = (pair.sent.iter())
            .find(|(end, sent)| {
                *end == 1 && sent.kind == FrameKind::Hello && tag(sent) >> 31 == garbles >> 31
            })
            .unwrap();
        let hello = frame(FrameKind::Hello, 2 | garbles, &hello.payload[4..]);
        pair.sides[0].handle(hello).unwrap();
        pair
    };
    // The side stores tables up to the window, and then refuses them.
    let mut pair = called(1 << 31);
    let mut error = None;
    for chunk in 0..60_u64 {
        let content = [&chunk.to_le_bytes()[..], &[7; 1 << 20]].concat();
        let tables = frame(FrameKind::Tables, 2 | 1 << 31, &content);
        if let Err(failed) = pair.sides[0].handle(tables) {
            error = Some((chunk, failed));
            break;
        }
    }
    let (chunk, error) = error.unwrap();
    assert_eq!(chunk, 40);
    assert!(matches!(error, SessionError::Unexpected { .. }), "{error}");
    // The side stores output frames up to a limit, and then refuses them. Empty frames count too.
    for (garbles, len) in [(0, 0), (1 << 31, 0), (0, 1000), (0, 1 << 20)] {
        let mut pair = called(garbles);
        let content = vec![0; len];
        let mut count = 0_u64;
        while pair.sides[0]
            .handle(frame(FrameKind::Output, 2 | garbles, &content))
            .is_ok()
        {
            count += 1;
            assert!(count * (len as u64 + 100) <= 17 << 20);
        }
        assert!(count > 0);
    }
}

#[test]
fn a_segment_without_its_check_or_with_a_wrong_one_ends_the_connection() {
    let extend = |pair: &Pair| {
        let first: u64 = (pair.sent.iter())
            .filter(|(end, frame)| *end == 1 && frame.kind == FrameKind::OtExtend)
            .map(|(_, frame)| ((frame.payload.len() as u64 - 12) / 512 - 1) * 128)
            .sum();
        let content = [&first.to_le_bytes()[..], &[3; 64 * 512]].concat();
        frame(FrameKind::OtExtend, 0, &content)
    };
    let check = vec![3; Extension::SoftSpoken4.check_len()];
    let mut pair = warm();
    let segment = extend(&pair);
    pair.sides[0].handle(segment.clone()).unwrap();
    assert!(matches!(
        error_of(&mut pair, segment),
        SessionError::Unexpected {
            kind: FrameKind::OtExtend,
            ..
        }
    ));

    let mut pair = warm();
    let segment = extend(&pair);
    pair.sides[0].handle(segment).unwrap();
    assert!(matches!(
        error_of(&mut pair, frame(FrameKind::OtCheck, 0, &check)),
        SessionError::Ot(OtError::ColumnCheckFailed)
    ));

    let mut pair = warm();
    let unasked = frame(FrameKind::OtCheck, 0, &check);
    assert!(matches!(
        error_of(&mut pair, unasked),
        SessionError::Unexpected {
            kind: FrameKind::OtCheck,
            ..
        }
    ));
}

#[test]
fn an_opening_within_a_run_ends_the_connection() {
    for (role, sender) in [(Role::Garbler, 0), (Role::Evaluator, 1 << 31)] {
        let mut pair = warm();
        pair.call(0, role, &setup());
        let error = error_of(&mut pair, frame(FrameKind::Open, 2 | sender, b"TPUT"));
        assert!(
            matches!(
                error,
                SessionError::Unexpected {
                    kind: FrameKind::Open,
                    ..
                }
            ),
            "{role}: {error}"
        );
    }
}

#[test]
fn openings_that_lie_are_refused() {
    let open = warm()
        .sent
        .iter()
        .find(|(end, _)| *end == 1)
        .unwrap()
        .1
        .clone();
    // The changed bytes are in the magic, version, flags, extension, limits and base-OT point.
    for (place, change) in [
        (0, 1),
        (4, 1),
        (6, 2),
        (6, 1),
        (6, 8),
        (7, 1),
        (11, 0),
        (91, 0x80),
    ] {
        let mut payload = open.payload.to_vec();
        payload[place] ^= change;
        if place == 11 {
            payload[8..12].fill(0);
        }
        let mut side = SessionConnection::new(ConnectionConfig::default(), false);
        let frame = Frame {
            payload: payload.into(),
            ..open.clone()
        };
        assert!(side.handle(frame).is_err(), "byte {place}");
    }
    // A side refuses its own opening if the peer reflects it.
    let mut side = SessionConnection::new(ConnectionConfig::default(), false);
    let mut out = Vec::new();
    side.poll(&mut out, true).unwrap();
    let own = crate::tests::frames(&out).remove(0);
    assert!(side.handle(own).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_frames_make_a_connection_panic(
        frames in prop::collection::vec(
            (prop::sample::select(&FrameKind::ALL[..]), 0u32..4, any::<bool>(),
             prop::collection::vec(any::<u8>(), 0..300)),
            1..12,
        ),
        called in 0usize..3,
    ) {
        let mut pair = warm();
        for _ in 0..called {
            pair.call(0, Role::Garbler, &setup());
            pair.call(0, Role::Evaluator, &setup());
        }
        for (kind, number, garbles, content) in frames {
            let tag = number | u32::from(garbles) << 31;
            if pair.sides[0].handle(frame(kind, tag, &content)).is_err() {
                break;
            }
            pair.exhaust(0);
        }
    }
}

/// Returns all frames of a connection with some runs, those of one side first.
pub(in crate::tests) fn frames_of_runs() -> Vec<Frame> {
    let pair = run_with(usize::MAX, &|frame| vec![frame]);
    let of = |end| pair.sent.iter().filter(move |(from, _)| *from == end);
    of(0).chain(of(1)).map(|(_, frame)| frame.clone()).collect()
}
