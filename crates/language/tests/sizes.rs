//! Tests the AND counts in docs/circuits.md: those of compiled programs, and those of the same
//! circuits from the builder.

use std::{fs, path::Path};

use transpute_circuit::{Builder, Circuit, Program, Word, catalogue};
use transpute_language::{CompileOptions, Panics, compile};

fn ands(circuit: &Circuit) -> u64 {
    Program::compile(circuit).and_count()
}

/// Returns the AND counts of a source with and without the panic flag.
fn both(source: &str) -> [u64; 2] {
    [Panics::Output, Panics::Ignore].map(|panics| {
        let mut options = CompileOptions::default();
        options.panics = panics;
        ands(&compile(source, &options).unwrap().circuit)
    })
}

fn program(name: &str) -> [u64; 2] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs");
    both(&fs::read_to_string(folder.join(format!("{name}.garble.rs"))).unwrap())
}

fn named(spec: &str) -> u64 {
    ands(&catalogue::named(spec).unwrap())
}

/// Sorts eight numbers by odd-even transposition in eight rounds, as `benchmarking.garble.rs` does.
fn sort() -> Circuit {
    Builder::build(|b| {
        let mut numbers: Vec<Word<'_>> = b.input_words(8, 16);
        for round in 0..8 {
            for i in (round % 2..7).step_by(2) {
                let (a, b) = (&numbers[i], &numbers[i + 1]);
                let low = a.min(b);
                // Computes the larger number from the smaller one, without further AND gates.
                let high = &(a ^ b) ^ &low;
                numbers[i] = low;
                numbers[i + 1] = high;
            }
        }
        b.output(numbers);
    })
    .unwrap()
}

const SORT: &str = "
    pub fn main(one: [u16; 4], other: [u16; 4]) -> [u16; 8] {
        let mut f = [one[0], one[1], one[2], one[3], other[0], other[1], other[2], other[3]];
        for round in 0usize..8usize {
            for pair in 0usize..4usize {
                let i = pair * 2usize + (round & 1usize);
                if i < 7usize {
                    let low = f[i];
                    let high = f[i + 1usize];
                    let swap = low > high;
                    f[i] = if swap { high } else { low };
                    f[i + 1usize] = if swap { low } else { high };
                }
            }
        }
        f
    }";

/// The product of sums of shares, as in appendix A.1 of blanton-2005.
fn multiplication() -> Circuit {
    Builder::build(|b| {
        let [alice, bob] = [0, 1].map(|_| b.input_words(2, 8));
        let [x, y] = [0, 1].map(|i| &alice[i] + &bob[i]);
        b.output(x.widening_mul(&y));
    })
    .unwrap()
}

#[test]
fn the_table_is_current() {
    let binary = |op: char, ty: &str| {
        both(&format!(
            "pub fn main(a: {ty}, b: {ty}) -> {ty} {{ a {op} b }}"
        ))
    };
    let rows = [
        ("a + b", "32", binary('+', "u32"), named("add:32")),
        ("a * b", "32", binary('*', "u32"), named("mul:32")),
        ("a / b", "32", binary('/', "u32"), named("div:32")),
        ("sorting", "8 x 16", both(SORT), ands(&sort())),
        (
            "`multiplication`",
            "8",
            program("multiplication"),
            ands(&multiplication()),
        ),
    ];
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/circuits.md");
    let docs = fs::read_to_string(docs).unwrap();
    let mut missing = Vec::new();
    for (what, bits, [with, without], ours) in rows {
        let line = format!("| {what} | {bits} | {with} | {without} | {ours} |");
        if !docs.contains(&line) {
            missing.push(line);
        }
    }
    for name in [
        "division",
        "moving_average",
        "benchmarking",
        "survey_histogram",
        "running_average",
    ] {
        let [with, without] = program(name);
        let line = format!("| `{name}` | {with} | {without} |");
        if !docs.contains(&line) {
            missing.push(line);
        }
    }
    assert!(
        missing.is_empty(),
        "docs/circuits.md lacks\n{}",
        missing.join("\n")
    );
}
