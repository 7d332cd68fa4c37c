//! Tests of the number of flights and bytes of a cold run on a single-run connection.

use transpute_circuit::{Circuit, InputSplit, generators};
use transpute_ot::{BaseOt, Extension};

use super::{Pair, Setup, chain, random_inputs, schemes::half_round_trips};
use crate::{FrameKind, OtChoice, Role};

/// A run on a new connection, with the expected number of half round trips until the evaluator has
/// its output. The frames and bytes of each direction are those of the run, from hello to `Finish`.
/// They exclude run tags and the frames that open and close the connection.
struct Case {
    circuit: Circuit,
    evaluations: usize,
    ot: OtChoice,
    base_ot: BaseOt,
    has_transfers: bool,
    halves: usize,
    garbler: [usize; 2],
    evaluator: [usize; 2],
}

fn cases() -> Vec<Case> {
    let aes = |halves, base_ot, evaluations, garbler, evaluator| Case {
        circuit: generators::aes128(),
        evaluations,
        ot: OtChoice::Auto,
        base_ot,
        has_transfers: true,
        halves,
        garbler,
        evaluator,
    };
    let small = |extension, base_ot, garbler, evaluator| Case {
        circuit: chain(300),
        ot: OtChoice::Extension(extension),
        ..aes(3, base_ot, 40, garbler, evaluator)
    };
    let [points, kem] = [BaseOt::Ristretto255, BaseOt::MlKem768];
    vec![
        aes(2, points, 1, [9, 211_355], [3, 8_477]),
        aes(2, kem, 1, [9, 489_851], [3, 303_389]),
        aes(3, points, 10, [47, 2_098_169], [5, 24_927]),
        small(Extension::SoftSpoken8, points, [54, 400_220], [6, 6_244]),
        small(Extension::SoftSpoken4, kem, [54, 695_132], [6, 286_532]),
        Case {
            has_transfers: false,
            circuit: chain(300),
            ..aes(2, points, 3, [8, 29_305], [2, 280])
        },
    ]
}

#[test]
fn a_cold_run_takes_one_round_trip_or_one_and_a_half_and_no_byte_too_many() {
    // Bytes of the frames that open and close one direction. The opening has a 5-byte header and
    // 100 bytes of payload. The closing frame has a header, a tag and two counts.
    let connection = 5 + 100 + 5 + 12;
    for case in cases() {
        let mut setup = Setup::new(
            &case.circuit,
            random_inputs(&case.circuit, case.evaluations, 4),
        );
        setup.config.ot = case.ot;
        setup.config.base_ot = case.base_ot;
        if !case.has_transfers {
            setup.split = InputSplit::new(case.circuit.input_widths(), &[0, 1]).unwrap();
        }
        assert_eq!(half_round_trips(&setup, &setup), case.halves);
        let mut sent = [0; 2];
        let ends = Pair::new(&setup, &setup).run_to(&mut |_, frame| vec![frame], &mut |side| {
            sent[side.single.role as usize] = side.sent as usize;
        });
        assert!(ends.garbler.is_ok() && ends.evaluator.is_ok());
        for (role, [frames, bytes]) in [
            (Role::Garbler, case.garbler),
            (Role::Evaluator, case.evaluator),
        ] {
            assert_eq!(
                sent[role as usize],
                connection + bytes + 4 * frames,
                "{role}"
            );
            let of_run = (ends.delivered.iter())
                .filter(|(from, frame)| *from == role && frame.kind != FrameKind::Open);
            assert_eq!(of_run.count(), frames, "{role}");
        }
    }
}

#[test]
fn nobody_waits_for_the_opening_of_the_peer() {
    let circuit = chain(4000);
    let setup = Setup::new(&circuit, random_inputs(&circuit, 20, 1));
    for role in [Role::Garbler, Role::Evaluator] {
        let mut pair = Pair::new(&setup, &setup);
        let first = pair.sides[role as usize].step();
        let bytes = |kind| -> usize {
            let of_kind = first.iter().filter(|frame| frame.kind == kind);
            of_kind.map(|frame| frame.payload.len()).sum()
        };
        assert_eq!(first[0].kind, FrameKind::Open);
        assert_eq!(first[1].kind, FrameKind::Hello);
        assert_eq!(first[2].kind, FrameKind::OtSetup);
        // The garbler sends more than the 1 MiB that every side accepts, although it does not know
        // the peer's window yet.
        let tables = bytes(FrameKind::Tables);
        assert_eq!(tables > 2 << 20, role == Role::Garbler, "{tables}");
    }
}
