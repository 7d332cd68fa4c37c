//! Tests that compare the circuit with a computation in the clear.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use proptest::prelude::*;
use transpute::{Bits, Circuit, Program};

use crate::{
    circuit::circuit,
    statistics::{FIGURE_BITS, Layout, Statistics},
};

thread_local! {
    /// Circuits are cached, because building them takes longer than evaluating them.
    static CIRCUITS: RefCell<HashMap<usize, Arc<Circuit>>> = RefCell::default();
}

fn of(companies: usize) -> Arc<Circuit> {
    CIRCUITS.with_borrow_mut(|circuits| {
        let made = circuits.entry(companies);
        made.or_insert_with(|| Arc::new(circuit(companies).unwrap()))
            .clone()
    })
}

/// Evaluates the circuit without garbling. `shares` and `mask` are the garbler's. The evaluator's
/// shares are the XOR of `shares` and `figures`.
fn evaluate(figures: &[u32], shares: &[u32], mask: &Bits) -> Statistics {
    let wide = |value: u32| Bits::from_u128(value.into(), FIGURE_BITS);
    let mut input = Bits::new();
    input.extend(shares.iter().map(|&share| wide(share)));
    input.extend([mask.clone()]);
    input.extend(
        figures
            .iter()
            .zip(shares)
            .map(|(figure, share)| wide(figure ^ share)),
    );
    let masked = of(figures.len()).evaluate(&input).unwrap();
    let results = masked.iter().zip(mask.iter()).map(|(a, b)| a ^ b).collect();
    Statistics::from_bits(figures.len(), &results).unwrap()
}

/// Figures that are random, small, equal and extreme.
fn figures() -> impl Strategy<Value = Vec<u32>> {
    let figure = || {
        prop_oneof![
            4 => any::<u32>(),
            2 => 0..4_u32,
            1 => Just(0),
            1 => Just(u32::MAX),
            1 => (0..32_u32).prop_map(|shift| 1 << shift),
        ]
    };
    prop_oneof![
        4 => prop::collection::vec(figure(), 1..=32),
        1 => (figure(), 1..=32_usize).prop_map(|(figure, count)| vec![figure; count]),
        1 => prop::collection::vec(0..3_u32, 1..=32),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn statistics_equal_the_plain_computation(
        figures in figures(),
        shares in prop::collection::vec(any::<u32>(), 32),
        mask in prop::collection::vec(any::<bool>(), Layout::new(32).width()),
    ) {
        let shares = &shares[..figures.len()];
        let mask: Bits = mask.into_iter().take(Layout::new(figures.len()).width()).collect();
        prop_assert_eq!(evaluate(&figures, shares, &mask), Statistics::of(&figures));
    }
}

#[test]
fn extreme_figures_of_up_to_fifty_companies_are_computed() {
    for companies in 1..=50_u32 {
        let count = companies as usize;
        let mask = Bits::zeros(Layout::new(count).width());
        for figures in [
            vec![u32::MAX; count],
            vec![0; count],
            (0..companies).map(|i| u32::MAX - i).collect(),
            (0..companies).map(|i| i * 77_777_777).collect(),
        ] {
            let shares = vec![0xdead_beef; count];
            let learnt = evaluate(&figures, &shares, &mask);
            assert_eq!(learnt, Statistics::of(&figures), "{figures:?}");
        }
    }
}

#[test]
fn the_order_of_companies_does_not_matter() {
    let figures = [5, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];
    let mask = Bits::zeros(Layout::new(figures.len()).width());
    let shares = [0; 12];
    let expected = evaluate(&figures, &shares, &mask);
    for turn in 1..figures.len() {
        let mut turned = figures;
        turned.rotate_left(turn);
        assert_eq!(evaluate(&turned, &shares, &mask), expected);
    }
}

#[test]
fn no_bit_is_left_unmasked() {
    let figures = [7, 8, 9, 10, 11];
    let width = Layout::new(5).width();
    let masked = |mask: Bits| {
        let mut input = Bits::zeros(5 * FIGURE_BITS);
        input.extend([mask]);
        input.extend(figures.map(|figure| Bits::from_u128(figure, FIGURE_BITS)));
        of(5).evaluate(&input).unwrap()
    };
    let plain = masked(Bits::zeros(width));
    let flipped = masked((0..width).map(|_| true).collect());
    assert!(plain.iter().zip(flipped.iter()).all(|(a, b)| a != b));
}

/// Compares the table in the README with the circuits.
#[test]
fn and_gates_are_as_documented() {
    let page = include_str!("../README.md");
    let mut missing = Vec::new();
    for companies in [5, 15, 45, 1000] {
        let program = Program::compile(&circuit(companies).unwrap());
        let count = program.and_count();
        let row = format!("| {} | {} |", grouped(companies as u64), grouped(count));
        if !page.contains(&row) {
            missing.push(row);
        }
        // The README states 1,088 gates per company. 6,000 bounds the gates whose number does not
        // grow with the companies.
        assert!(count < 1088 * companies as u64 + 6000, "{count}");
    }
    assert!(missing.is_empty(), "{missing:?}");
}

fn grouped(number: u64) -> String {
    let (mut left, mut text) = (number, String::new());
    while left >= 1000 {
        text = format!(",{:03}{text}", left % 1000);
        left /= 1000;
    }
    format!("{left}{text}")
}
