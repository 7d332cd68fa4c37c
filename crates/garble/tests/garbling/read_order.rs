//! Tests in which the evaluator's input labels arrive shortly before they are read. The garbler
//! generates some of these labels and adopts others.

use std::sync::Arc;

use crate::common::{Lcg, fixed_params, random_circuit};
use transpute_circuit::{Bits, Circuit, InputSplit, Program};
use transpute_garble::{
    Backend, ChunkPlan, Evaluator, GarbleError, Garbler, LANES, Label, ReadOrder, Scheme, Seed,
};

const SID: [u8; 32] = [3; 32];
const LIMIT: usize = 640;

/// Runs instances with labels in the order of reading. Before each chunk, some labels are
/// transferred; the garbler adopts labels that it has not generated yet, if `adopts` is set.
fn run(circuit: &Circuit, scheme: Scheme, lanes: usize, seed: u64, adopts: bool) {
    let program = Arc::new(Program::compile(circuit));
    let split = InputSplit::first_to_garbler(program.input_widths());
    let order = ReadOrder::new(&program, &split);
    let count = split.evaluator_bits();
    let (params, backend) = (fixed_params(scheme, 1), Backend::best().unwrap());
    let secret = Seed::from_bytes([0x5e; 32]);
    let mut garbler = Garbler::new(program.clone(), &split, params, secret, backend).unwrap();
    let mut evaluator = Evaluator::new(program.clone(), &split, params, backend).unwrap();
    let mut rng = Lcg(seed);
    let (mut transferred, mut added) = (0, 0);
    for group in 0..2_u64 {
        let first = group * lanes as u64;
        let inputs: Vec<Bits> = (0..lanes).map(|_| rng.bits(program.input_bits())).collect();
        let part = |lane: usize, of_garbler| -> Bits {
            let positions = split.ranges(of_garbler).flatten();
            positions.map(|i| inputs[lane].get(i as usize)).collect()
        };
        let mine: Vec<Bits> = (0..lanes).map(|lane| part(lane, true)).collect();
        let theirs: Vec<Bits> = (0..lanes).map(|lane| part(lane, false)).collect();
        let mut active: Vec<Label> = Vec::new();
        // Transfers some labels: generated labels are used as they are, others are adopted.
        let mut transfer = |garbler: &mut Garbler, number: usize, active: &mut Vec<Label>| {
            for _ in 0..number {
                let t = active.len();
                if t == lanes * count {
                    break;
                }
                let (lane, position) = (t % lanes, order.positions()[t / lanes]);
                let bit = theirs[lane].get(position as usize);
                if transferred < garbler.labels_made() || !adopts {
                    let at = [(position, ())];
                    garbler.evaluator_labels(first + lane as u64, at, |(), pair| {
                        active.push(pair[usize::from(bit)]);
                    });
                } else {
                    let zero: [u8; 16] = std::array::from_fn(|_| rng.below(256) as u8);
                    garbler.adopt(transferred, vec![Label::from_bytes(zero)].into());
                    let delta = garbler.delta().unwrap();
                    let zero = Label::from_bytes(zero);
                    active.push(if bit { zero ^ delta } else { zero });
                }
                transferred += 1;
            }
        };
        transfer(&mut garbler, seed as usize % 7, &mut active);
        garbler.begin_side_by_side(&mine).unwrap();
        let is_free = ChunkPlan::side_by_side(&program, scheme, LIMIT, lanes)
            .unwrap()
            .next()
            .is_none();
        if is_free {
            transfer(&mut garbler, usize::MAX, &mut active);
            evaluator.add_labels(active.clone().into());
        }
        evaluator.begin(lanes, None).unwrap();
        let plan = ChunkPlan::side_by_side(&program, scheme, LIMIT, lanes).unwrap();
        let mut due = 0;
        for (len, reads) in plan.with_reads(&split) {
            due += lanes * reads;
            let mut chunk = Vec::new();
            garbler.garble_chunk(LIMIT, &mut chunk).unwrap();
            assert_eq!(chunk.len(), len);
            if active.len() < due {
                let error = GarbleError::LabelCount {
                    party: "evaluator",
                    expected: lanes * reads,
                    found: added_before(&active, due, lanes * reads),
                };
                evaluator.add_labels(active[added..].to_vec().into());
                added = active.len();
                assert_eq!(evaluator.evaluate_chunk(&chunk, LIMIT), Err(error));
                transfer(
                    &mut garbler,
                    due - active.len() + seed as usize % 11,
                    &mut active,
                );
            }
            evaluator.add_labels(active[added..].to_vec().into());
            added = active.len();
            evaluator.evaluate_chunk(&chunk, LIMIT).unwrap();
        }
        added = 0;
        transfer(&mut garbler, usize::MAX, &mut active);
        for input in &inputs {
            let decode = garbler.take_outputs().unwrap().decode_info(&SID, true);
            let outputs = evaluator.take_outputs().unwrap();
            let outputs = outputs.decode(&decode, &SID).unwrap();
            assert_eq!(outputs, circuit.evaluate(input).unwrap(), "{scheme}");
        }
    }
}

/// Returns how many of the `reads` labels that a chunk reads were already transferred.
fn added_before(active: &[Label], due: usize, reads: usize) -> usize {
    reads - (due - active.len()).min(reads)
}

#[test]
fn labels_may_arrive_late_and_be_adopted() {
    for seed in 0..60 {
        let circuit = random_circuit(seed, 1 + 17 * seed as usize);
        for scheme in [Scheme::HalfGates, Scheme::FixedKey, Scheme::ThreeHalves] {
            for lanes in [1, LANES] {
                for adopts in [false, true] {
                    run(&circuit, scheme, lanes, seed, adopts);
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "in order")]
fn generated_labels_cannot_be_adopted() {
    let program = Arc::new(Program::compile(&random_circuit(8, 300)));
    let split = InputSplit::first_to_garbler(program.input_widths());
    let params = fixed_params(Scheme::HalfGates, 1);
    let seed = Seed::from_bytes([1; 32]);
    let mut garbler =
        Garbler::new(program, &split, params, seed, Backend::best().unwrap()).unwrap();
    garbler
        .begin_instance(&Bits::zeros(split.garbler_bits()))
        .unwrap();
    while !garbler.is_instance_done() {
        garbler.garble_chunk(1 << 20, &mut Vec::new()).unwrap();
    }
    garbler.adopt(0, vec![Label::from_bytes([1; 16])].into());
}
