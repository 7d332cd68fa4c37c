//! Weighted graphs from small text files.

use std::{fs, io, path::Path};

use thiserror::Error;
use transpute::Bits;

/// An undirected graph with weighted edges.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Graph {
    vertices: usize,
    /// Weights of the edges (u, v) with u < v, in lexicographic order.
    weights: Vec<u64>,
}

/// The error of a graph file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not valid.
    #[error("line {line}: {problem}")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The reason why the line is not valid.
        problem: &'static str,
    },
}

impl Graph {
    /// Reads a graph with the given number of vertices from a file. Each line has one edge,
    /// `vertex vertex weight`, with vertices numbered from 0. `#` starts a comment. Edges that are
    /// not in the file get weight 0.
    ///
    /// # Errors
    /// Returns [`GraphError`] if the file cannot be read, a line is not an edge, an edge is
    /// repeated, or a weight has more than `width` bits.
    pub fn open(path: &Path, vertices: usize, width: usize) -> Result<Self, GraphError> {
        Self::parse(&fs::read_to_string(path)?, vertices, width)
    }

    fn parse(text: &str, vertices: usize, width: usize) -> Result<Self, GraphError> {
        let mut weights = vec![None; vertices * (vertices - 1) / 2];
        for (index, line) in text.lines().enumerate() {
            let problem = |problem| GraphError::Line {
                line: index + 1,
                problem,
            };
            let edge = line.split('#').next().unwrap_or_default();
            let numbers: Vec<u64> = edge
                .split_whitespace()
                .map(|word| word.parse().map_err(|_| problem("expected a number")))
                .collect::<Result<_, _>>()?;
            let (u, v, weight) = match numbers[..] {
                [] => continue,
                [u, v, weight] => (u.min(v) as usize, u.max(v) as usize, weight),
                _ => return Err(problem("expected two vertices and a weight")),
            };
            if u == v || v >= vertices {
                return Err(problem("there is no such pair of vertices"));
            }
            if weight >> width != 0 {
                return Err(problem("the weight is too large"));
            }
            // The index of edge (u, v) in `weights`: the number of edges (a, b) with a < u, plus
            // the number of edges (u, b) with b < v.
            let place = u * (2 * vertices - u - 1) / 2 + v - u - 1;
            if weights[place].replace(weight).is_some() {
                return Err(problem("the edge was named before"));
            }
        }
        Ok(Self {
            vertices,
            weights: weights.into_iter().map(Option::unwrap_or_default).collect(),
        })
    }

    /// Returns the weights as input bits, `width` per edge in lexicographic order of the edges,
    /// least significant bit first.
    #[must_use]
    pub fn to_bits(&self, width: usize) -> Bits {
        let mut bits = Bits::new();
        bits.extend(
            self.weights
                .iter()
                .map(|&weight| Bits::from_u128(weight.into(), width)),
        );
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_go_to_their_places() {
        let graph = Graph::parse("2 0 5 # comment\n\n# nothing\n1 2 3\n", 3, 4).unwrap();
        assert_eq!(graph.weights, [0, 5, 3]);
        assert_eq!(graph.to_bits(4).to_string(), "000010101100");
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, line) in [
            ("0 1", 1),
            ("0 1 1\n1 0 1", 2),
            ("0 3 1", 1),
            ("\n0 0 1", 2),
            ("0 1 16", 1),
            ("0 one 2", 1),
        ] {
            match Graph::parse(text, 3, 4) {
                Err(GraphError::Line { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
