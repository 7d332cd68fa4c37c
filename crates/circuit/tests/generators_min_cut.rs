//! Compares the two MinCut generators with brute force, and checks their gate counts.

use proptest::prelude::*;
use transpute_circuit::{
    Bits, Circuit, Op,
    generators::{
        CandidatesOptions, ExactMinCutOptions, GeneratorError, MinimumShape, XorProfile,
        exact_min_cut, min_of_candidates,
    },
};

/// Evaluates a circuit on numbers of `width` bits, which are concatenated to form the input values.
fn run(circuit: &Circuit, numbers: &[u128], width: usize) -> Vec<u128> {
    let mut bits = Bits::new();
    bits.extend(numbers.iter().map(|&number| Bits::from_u128(number, width)));
    let output = circuit.evaluate(&bits).unwrap();
    (circuit.split_outputs(&output).iter())
        .map(|value| value.to_u128().unwrap())
        .collect()
}

fn counts(circuit: &Circuit) -> [usize; 2] {
    [circuit.count(Op::And), circuit.count(Op::Xor)]
}

fn all_shapes() -> [CandidatesOptions; 4] {
    let (tree, chain) = (MinimumShape::Tree, MinimumShape::Chain);
    let (lean, paper) = (XorProfile::Lean, XorProfile::Paper);
    [
        candidates(tree, lean),
        candidates(tree, paper),
        candidates(chain, lean),
        candidates(chain, paper),
    ]
}

fn candidates(shape: MinimumShape, xor: XorProfile) -> CandidatesOptions {
    let mut options = CandidatesOptions::default();
    options.shape = shape;
    options.xor = xor;
    options
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_minimum_is_found(width in 1_usize..=64, numbers in prop::collection::vec(any::<u64>(), 2..40)) {
        let numbers: Vec<u128> = numbers.iter().map(|n| u128::from(n >> (64 - width))).collect();
        for options in all_shapes() {
            let circuit = min_of_candidates(numbers.len(), width, options).unwrap();
            let expected = *numbers.iter().min().unwrap();
            prop_assert_eq!(run(&circuit, &numbers, width), [expected]);
        }
    }

    #[test]
    fn the_minimum_cut_is_found(
        vertices in 3_usize..=6,
        width in 1_usize..=9,
        numbers in prop::collection::vec(any::<u16>(), 30),
        [shared, argmin, folded] in any::<[bool; 3]>(),
    ) {
        let edges = vertices * (vertices - 1) / 2;
        let given = if shared { 2 * edges } else { edges };
        let numbers: Vec<u128> =
            numbers[..given].iter().map(|&n| u128::from(n) & ((1 << width) - 1)).collect();
        let weights: Vec<u128> = (0..edges)
            .map(|i| numbers[i] + if shared { numbers[i + edges] } else { 0 })
            .collect();
        let mut options = ExactMinCutOptions::default();
        options.shared = shared;
        options.argmin = argmin;
        options.folded = folded;
        let circuit = exact_min_cut(vertices, width, options).unwrap();
        let outputs = run(&circuit, &numbers, width);

        let best = (1..1_u128 << (vertices - 1)).map(|side| cut(vertices, &weights, side)).min();
        prop_assert_eq!(Some(outputs[0]), best);
        if argmin {
            prop_assert!(outputs[1] != 0 && outputs[1] < 1 << (vertices - 1));
            prop_assert_eq!(Some(cut(vertices, &weights, outputs[1])), best);
        }
        prop_assert_eq!(outputs.len(), 1 + usize::from(argmin));
    }
}

/// Returns the weight of all edges between `side` and the other vertices.
fn cut(vertices: usize, weights: &[u128], side: u128) -> u128 {
    let pairs = (0..vertices).flat_map(|u| (u + 1..vertices).map(move |v| (u, v)));
    (pairs.zip(weights))
        .filter(|((u, v), _)| side >> u & 1 != side >> v & 1)
        .map(|(_, weight)| weight)
        .sum()
}

#[test]
fn candidate_counts_follow_the_formulas() {
    for (count, width) in [(2, 1), (3, 2), (10, 5), (17, 20), (100, 33)] {
        for options in all_shapes() {
            let circuit = min_of_candidates(count, width, options).unwrap();
            let steps = count - 1;
            let xor = match options.xor {
                XorProfile::Paper => (5 * width + 1) * steps + width + 1,
                _ => (4 * width - 2) * steps,
            };
            // With fewer than two output bits there is no room for the w - 2 padding gates.
            let surplus = 2_usize.saturating_sub(width) * usize::from(xor > 4 * width * steps);
            assert_eq!(counts(&circuit), [2 * width * steps, xor + surplus]);
        }
    }
}

#[test]
fn the_benchmark_of_the_paper_is_reproduced() {
    let tree = min_of_candidates(25_000, 20, CandidatesOptions::default()).unwrap();
    assert_eq!(counts(&tree), [999_960, 1_949_922]);
    assert_eq!(tree.input_widths(), [250_000, 250_000]);
    let paper = candidates(MinimumShape::Chain, XorProfile::Paper);
    let paper = min_of_candidates(25_000, 20, paper).unwrap();
    assert_eq!(counts(&paper), [999_960, 2_524_920]);
}

#[test]
fn documented_layouts_hold() {
    let circuit = min_of_candidates(3, 4, CandidatesOptions::default()).unwrap();
    assert_eq!(circuit.input_widths(), [4, 8]);
    let mut inputs = Bits::from_hex("1", 4).unwrap();
    inputs.extend([Bits::from_hex("32", 8).unwrap()]);
    assert_eq!(circuit.evaluate(&inputs).unwrap().to_hex(), "1");

    let mut options = ExactMinCutOptions::default();
    options.argmin = true;
    let circuit = exact_min_cut(3, 4, options).unwrap();
    assert_eq!(circuit.input_widths(), [8, 4]);
    // w(0,1) = 1, w(0,2) = 2, w(1,2) = 3: separating vertex 0 costs 3.
    let mut inputs = Bits::from_hex("21", 8).unwrap();
    inputs.extend([Bits::from_hex("3", 4).unwrap()]);
    let output = circuit.evaluate(&inputs).unwrap();
    let values = circuit.split_outputs(&output);
    assert_eq!(
        (values[0].to_u128(), values[1].to_u128()),
        (Some(3), Some(1))
    );
}

/// A test case: number of vertices, width of weights in bits, `shared`, `argmin`, and the numbers
/// of AND and XOR gates.
type Row = (usize, usize, bool, bool, [usize; 2]);

fn exact(row: Row, folded: bool) -> Circuit {
    let (vertices, width, shared, argmin, _) = row;
    let mut options = ExactMinCutOptions::default();
    options.shared = shared;
    options.argmin = argmin;
    options.folded = folded;
    exact_min_cut(vertices, width, options).unwrap()
}

#[test]
fn exact_min_cut_counts_match_the_documented_table() {
    let table: [Row; 6] = [
        (8, 8, false, false, [6_006, 17_442]),
        (10, 8, false, false, [25_670, 74_064]),
        (12, 8, false, false, [109_618, 315_622]),
        (14, 22, false, true, [1_002_756, 2_634_972]),
        (15, 10, false, false, [1_001_655, 2_892_488]),
        (15, 9, true, false, [1_002_600, 2_895_953]),
    ];
    for row in table {
        assert_eq!(counts(&exact(row, false)), row.4);
    }
}

#[test]
fn folding_public_bits_saves_gates() {
    let plain = (12, 8, false, false, [109_453, 295_692]);
    assert_eq!(counts(&exact(plain, true)), plain.4);
    // The circuit compares the cuts in a binary tree over 2^11 sides. In half of the comparisons,
    // the two sides differ in 1 bit, in a quarter in at most 2 bits, and so on. The highest of
    // these bits is a constant in both sides, so its selection is free. Each other bit costs an AND
    // gate.
    let with_side = exact((12, 8, false, true, plain.4), true);
    assert_eq!(with_side.count(Op::And), plain.4[0] + (1 << 11) - 1 - 11);
}

#[test]
fn parameters_out_of_range_are_refused() {
    let default = CandidatesOptions::default();
    for (count, width) in [(1, 8), (4, 0), (usize::MAX, 20), (2, usize::MAX)] {
        let error = min_of_candidates(count, width, default).unwrap_err();
        assert!(matches!(error, GeneratorError::OutOfRange { .. }));
    }
    for (vertices, width) in [(2, 8), (17, 8), (8, 0), (8, 65), (usize::MAX, usize::MAX)] {
        let error = exact_min_cut(vertices, width, ExactMinCutOptions::default()).unwrap_err();
        assert!(matches!(error, GeneratorError::OutOfRange { .. }));
    }
}
