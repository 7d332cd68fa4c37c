//! The sizes of the circuits, compared with the paper's.

use serde_json::{Value, json};
use transpute::{Circuit, CircuitError, Program};

use crate::{
    circuit,
    division::{Division, WIDTHS},
};

/// The paper's Table 1: width in bits, and number of gates of multiplication. The paper's compiler
/// failed for 128 bits.
const TABLE_1: [(usize, u32); 6] = [
    (8, 430),
    (16, 1_622),
    (24, 3_582),
    (32, 6_310),
    (48, 14_070),
    (64, 24_902),
];

/// The paper's Table 2: width in bits, and number of gates of division. The paper's compiler failed
/// for 32 bits and was not tried for larger widths.
const TABLE_2: [(usize, u32); 6] = [
    (8, 971),
    (12, 1_379),
    (16, 3_987),
    (20, 8_377),
    (24, 12_169),
    (28, 16_665),
];

/// The number of gates of a circuit after constant folding and removal of negations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Gates {
    /// AND gates, which cost bytes and time.
    pub(crate) and: u64,
    /// XOR gates, which are free.
    pub(crate) xor: u64,
}

impl Gates {
    fn of(circuit: &Circuit) -> Self {
        let program = Program::compile(circuit);
        Self {
            and: program.and_count(),
            xor: program.xor_count(),
        }
    }
}

/// A line of a printed table: the circuits of one width, and the paper's number of gates.
struct Line {
    width: usize,
    unsigned: Gates,
    signed: Gates,
    paper: Option<u32>,
}

type Make = fn(usize, bool) -> Result<Circuit, CircuitError>;

fn divide(width: usize, signed: bool) -> Result<Circuit, CircuitError> {
    circuit::division(Division::of_width(width, signed))
}

/// The name of a table, the function that builds its circuits, and the paper's numbers.
type Source = (&'static str, Make, &'static [(usize, u32)]);

const TABLES: [Source; 2] = [
    ("multiplication", circuit::multiplication, &TABLE_1),
    ("division", divide, &TABLE_2),
];

fn lines(make: Make, published: &[(usize, u32)]) -> Result<Vec<Line>, CircuitError> {
    (WIDTHS.into_iter())
        .map(|width| {
            let paper = published.iter().find(|(known, _)| *known == width);
            Ok(Line {
                width,
                unsigned: Gates::of(&make(width, false)?),
                signed: Gates::of(&make(width, true)?),
                paper: paper.map(|&(_, gates)| gates),
            })
        })
        .collect()
}

/// Returns the lines of both tables.
///
/// # Errors
/// Returns [`CircuitError`] if a circuit is too large.
pub(crate) fn tables(as_json: bool) -> Result<Vec<String>, CircuitError> {
    let mut object = serde_json::Map::new();
    let mut text = Vec::new();
    for (index, (name, make, published)) in TABLES.into_iter().enumerate() {
        let lines = lines(make, published)?;
        object.insert(name.to_owned(), lines.iter().map(Line::json).collect());
        text.push(format!(
            "Gates of {name}, including the addition of the shares, compared with the paper's Table {}",
            index + 1
        ));
        text.push(format!(
            "{:>6}{:>20}{:>20}{:>14}",
            "", "unsigned", "signed", "the paper,"
        ));
        text.push(format!(
            "{:>6}{:>10}{:>10}{:>10}{:>10}{:>14}",
            "bits", "AND", "XOR", "AND", "XOR", "all gates"
        ));
        text.extend(lines.iter().map(Line::text));
        text.push(String::new());
    }
    Ok(match as_json {
        true => vec![Value::Object(object).to_string()],
        false => text,
    })
}

impl Line {
    fn text(&self) -> String {
        let [unsigned, signed] = [self.unsigned, self.signed];
        let paper = self
            .paper
            .map_or_else(|| "-".to_owned(), |gates| gates.to_string());
        format!(
            "{:>6}{:>10}{:>10}{:>10}{:>10}{:>14}",
            self.width, unsigned.and, unsigned.xor, signed.and, signed.xor, paper
        )
    }

    fn json(&self) -> Value {
        json!({
            "width": self.width,
            "unsigned": { "and": self.unsigned.and, "xor": self.unsigned.xor },
            "signed": { "and": self.signed.and, "xor": self.signed.xor },
            "paper": self.paper,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_numbers_of_gates() {
        let [multiplication, division] =
            TABLES.map(|(_, make, published)| lines(make, published).unwrap());
        for (one, other) in multiplication.iter().zip(&division) {
            let columns = [one, other].map(|line| {
                let paper = line
                    .paper
                    .map_or("-".to_owned(), |gates| grouped(gates.into()));
                let [unsigned, signed] =
                    [line.unsigned, line.signed].map(|gates| grouped(gates.and));
                format!("{unsigned} | {signed} | {paper}")
            });
            let line = format!("| {} | {} |\n", one.width, columns.join(" | "));
            assert!(include_str!("README.md").contains(&line), "{line}");
        }
    }

    /// Formats a number below a million with a comma.
    fn grouped(number: u64) -> String {
        match number {
            0..1_000 => number.to_string(),
            _ => format!("{},{:03}", number / 1_000, number % 1_000),
        }
    }

    #[test]
    fn every_circuit_has_fewer_and_gates_than_the_papers_has_gates() {
        for (name, make, published) in TABLES {
            for line in lines(make, published).unwrap() {
                if let Some(paper) = line.paper {
                    let width = line.width;
                    assert!(line.signed.and < u64::from(paper), "{name} of {width} bits");
                }
            }
        }
    }

    #[test]
    fn division_has_about_three_halves_of_the_square_of_the_width() {
        for line in lines(divide, &TABLE_2).unwrap() {
            let n = line.width as u64;
            // The terms are an upper bound of the gates for the reconstruction of both numbers, for
            // the division steps, for the divisor's bits, and for the late steps.
            let expected = 2 * (n - 1) + n * (n + 1) / 2 + n * n + 4 * n;
            assert!(
                line.unsigned.and <= expected,
                "{n} bits: {}",
                line.unsigned.and
            );
            assert!(line.unsigned.and > n * n, "{n} bits: {}", line.unsigned.and);
        }
    }
}
