//! Compares the outputs of the programs under `examples/programs` with the same computation in
//! Rust.

use std::{fs, path::Path};

use proptest::prelude::*;
use transpute_circuit::{Bits, Circuit};
use transpute_language::{CompileOptions, Compiled, Panics, compile};

fn source(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs");
    fs::read_to_string(folder.join(format!("{name}.garble.rs"))).unwrap()
}

fn compiled(name: &str) -> Compiled {
    compile(&source(name), &CompileOptions::default()).unwrap()
}

/// Concatenates the bits of numbers. Each number is given with its width in bits.
fn joined(numbers: &[(u128, usize)]) -> Bits {
    (numbers.iter())
        .flat_map(|&(number, width)| (0..width).map(move |bit| number >> bit & 1 == 1))
        .collect()
}

/// Evaluates a circuit and splits its result into numbers of the given widths; returns `None` if
/// the program panicked.
fn evaluate(circuit: &Circuit, inputs: &[(u128, usize)], widths: &[usize]) -> Option<Vec<u128>> {
    let output = circuit.evaluate(&joined(inputs)).unwrap();
    let mut bits = output.iter();
    let numbers = (widths.iter())
        .map(|&width| {
            (0..width).fold(0, |number, bit| {
                number | u128::from(bits.next().unwrap()) << bit
            })
        })
        .collect();
    let panicked: Vec<_> = bits.collect();
    assert_eq!(panicked.len() + 1, circuit.output_widths().len());
    (panicked != [true]).then_some(numbers)
}

fn wide<T: Into<u128> + Copy>(list: &[T], width: usize) -> Vec<(u128, usize)> {
    list.iter().map(|&number| (number.into(), width)).collect()
}

#[test]
fn every_program_has_a_test_and_two_input_values() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs");
    let mut names: Vec<_> = (fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let here = include_str!("programs.rs");
    for name in &names {
        let name = name.strip_suffix(".garble.rs").unwrap();
        assert!(here.contains(&format!("compiled(\"{name}\")")), "{name}");
        assert_eq!(compiled(name).inputs.len(), 2, "{name}");
    }
    assert_eq!(names.len(), 6);
}

#[test]
fn the_same_program_is_the_same_circuit() {
    for name in ["division", "benchmarking", "running_average"] {
        let first = compiled(name);
        for _ in 0..4 {
            assert!(compiled(name) == first, "{name}");
        }
    }
}

#[test]
fn divisions_of_appendix_a_are_right() {
    let circuit = compiled("division").circuit;
    for x in 0..=255_u128 {
        for y in [0, 1, 2, 3, 5, 7, 16, 100, 127, 128, 129, 200, 254, 255] {
            let expected = (x << 8).checked_div(y).unwrap_or(0xffff);
            let inputs = [(x, 8), (y, 8), (0, 8), (0, 8)];
            assert_eq!(
                evaluate(&circuit, &inputs, &[16]),
                Some(vec![expected]),
                "{x} / {y}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn multiplication(alice: [u8; 2], bob: [u8; 2]) {
        let circuit = compiled("multiplication").circuit;
        let inputs = [wide(&alice, 8), wide(&bob, 8)].concat();
        let [a, b] = [0, 1].map(|i| u128::from(alice[i].wrapping_add(bob[i])));
        prop_assert_eq!(evaluate(&circuit, &inputs, &[16]), Some(vec![a * b]));
    }

    #[test]
    fn division(alice: [u8; 2], bob: [u8; 2]) {
        let circuit = compiled("division").circuit;
        let inputs = [wide(&alice, 8), wide(&bob, 8)].concat();
        let [x, y] = [0, 1].map(|i| u128::from(alice[i].wrapping_add(bob[i])));
        let expected = (x << 8).checked_div(y).unwrap_or(0xffff);
        prop_assert_eq!(evaluate(&circuit, &inputs, &[16]), Some(vec![expected]));
    }

    #[test]
    fn moving_average(sold: [[u16; 4]; 2], outlets in prop::array::uniform2(prop_oneof![Just(0_u8), any::<u8>()])) {
        let circuit = compiled("moving_average").circuit;
        let inputs = [
            wide(&sold[0], 16), wide(&[outlets[0]], 8), wide(&sold[1], 16), wide(&[outlets[1]], 8),
        ]
        .concat();
        let total: u128 = sold.iter().flatten().map(|&sold| u128::from(sold)).sum();
        let periods = outlets.iter().map(|&outlets| u128::from(outlets)).sum::<u128>() * 4;
        let expected = total.checked_div(periods).unwrap_or(0);
        prop_assert_eq!(evaluate(&circuit, &inputs, &[32]), Some(vec![expected]));
    }

    #[test]
    fn benchmarking(figures: [u16; 8], shares: [u16; 8]) {
        let circuit = compiled("benchmarking").circuit;
        let others: Vec<u16> = figures.iter().zip(shares).map(|(figure, share)| figure ^ share).collect();
        let inputs = [wide(&shares, 16), wide(&others, 16)].concat();
        let mut rising: Vec<u128> = figures.iter().map(|&figure| u128::from(figure)).collect();
        rising.sort_unstable();
        let expected = vec![
            rising.iter().sum(),
            rising.iter().map(|figure| figure * figure).sum(),
            rising[0],
            (rising[3] + rising[4]) / 2,
            rising[7],
            (rising[6] + rising[7]) / 2,
        ];
        prop_assert_eq!(evaluate(&circuit, &inputs, &[32, 64, 16, 16, 16, 16]), Some(expected));
    }

    #[test]
    fn survey_histogram(answers in prop::array::uniform16(0..6_u8), shares: [u8; 16]) {
        let circuit = compiled("survey_histogram").circuit;
        let others: Vec<u8> = answers.iter().zip(shares).map(|(answer, share)| answer ^ share).collect();
        let inputs = [wide(&shares, 8), wide(&others, 8)].concat();
        let expected: Vec<u128> = (0..4)
            .map(|value| answers.iter().filter(|&&answer| answer == value).count() as u128)
            .collect();
        prop_assert_eq!(evaluate(&circuit, &inputs, &[8, 8, 8, 8]), Some(expected));
    }

    #[test]
    fn running_average(metres: u16, sum: u32, rounds: u16) {
        let compiled = compiled("running_average");
        prop_assert_eq!(&compiled.outputs, &["(u32, u32)", "panic: bool"]);
        let inputs = [(metres.into(), 16), (sum.into(), 32), (rounds.into(), 16)];
        let expected = sum.checked_add(metres.into()).map(|sum| {
            let average = sum / (u32::from(rounds) + 1);
            vec![sum.into(), average.into()]
        });
        prop_assert_eq!(evaluate(&compiled.circuit, &inputs, &[32, 32]), expected);
    }
}

#[test]
fn panics_can_be_ignored() {
    let mut options = CompileOptions::default();
    options.panics = Panics::Ignore;
    let compiled = compile(&source("division"), &options).unwrap();
    assert_eq!(compiled.outputs, ["u16"]);
    let inputs = [(200, 8), (9, 8), (100, 8), (250, 8)];
    let expected = (44 << 8) / 3;
    assert_eq!(
        evaluate(&compiled.circuit, &inputs, &[16]),
        Some(vec![expected])
    );
}
