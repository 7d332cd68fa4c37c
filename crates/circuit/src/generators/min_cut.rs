//! The exact global minimum cut of a private weighted graph.

use super::{GeneratorError, check};
use crate::{Bit, Builder, Circuit, Word};

/// The largest number of vertices of [`exact_min_cut`]. Each additional vertex about doubles the
/// number of gates.
pub const MAX_VERTICES: usize = 16;

/// The largest width of edge weights in [`exact_min_cut`], in bits.
pub const MAX_WEIGHT_BITS: usize = 64;

/// Options of [`exact_min_cut`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ExactMinCutOptions {
    /// Whether each weight is the sum of two shares, one from each party.
    pub shared: bool,
    /// Whether a second output value contains the vertices on one side of a minimum cut.
    pub argmin: bool,
    /// Whether public bits are constants that the builder folds, which saves gates. Public bits are
    /// the zero padding of the weights, and the numbers of the vertex subsets. Without this option,
    /// the circuit has exactly the numbers of gates documented at [`exact_min_cut`].
    ///
    /// Set this option together with `argmin`. With `argmin` alone, the cuts are compared one after
    /// the other, which makes the circuit deep.
    pub folded: bool,
}

/// Returns a circuit that computes the minimum cut of a complete graph of `vertices` vertices whose
/// edges have unsigned weights of `width` bits. A missing edge has weight 0.
///
/// Edges `(u, v)` with `u < v` are in lexicographic order: (0,1), (0,2), ..., (1,2), ... Each
/// weight has `width` bits, least significant first. Without `shared`, input value 0 holds the
/// weights of the first half of the edges, rounded up, and input value 1 the other weights. With
/// `shared`, each input value holds one share per edge. For the triangle of weights 1, 2, 3 of 4
/// bits without `shared`, the input values are `21` and `3` for
/// [`Bits::from_hex`](crate::Bits::from_hex).
///
/// Output value 0 is the weight of a minimum cut, in the `k` bits that the heaviest possible cut
/// needs. With `argmin`, output value 1 is the side of a minimum cut that does not contain the last
/// vertex: bit `v` is 1 if vertex `v` belongs to this side.
///
/// The circuit computes the weights of the cuts of all subsets `T` of the first `m = vertices - 1`
/// vertices, by dynamic programming: `cut(T + v) = cut(T) + D_v(T)` and `D_v(T + u) = D_v(T) - 2
/// w(u,v)` for `T < u < v`. `D_v(T)` is the increase of the cut when vertex `v` joins `T`, and
/// `w(u,v)` is the weight of an edge. Each subset costs one subtraction and one addition of `k`
/// bits. Without `folded`, the circuit has these numbers of gates, where `edges` is the number of
/// edges:
///
/// ```text
/// AND = m(m-1)(k-1) + (2^m - 1 - m)(2k-3) + (2^m - 2) 2k
///       [+ width edges if shared]  [+ m(2^m - 2) if argmin]
/// XOR = m(m-1)(4k-5) + (2^m - 1 - m)(8k-14) + (2^m - 2)(4k-2)
///       [+ (4 width - 3) edges if shared]
/// ```
///
/// With `folded`, the circuit has fewer gates. For example, `argmin` then costs `2^m - 1 - m` AND
/// gates instead of `m(2^m - 2)`.
///
/// # Errors
/// Returns [`GeneratorError::OutOfRange`] unless `vertices` is from 3 to [`MAX_VERTICES`] and
/// `width` is from 1 to [`MAX_WEIGHT_BITS`].
pub fn exact_min_cut(
    vertices: usize,
    width: usize,
    options: ExactMinCutOptions,
) -> Result<Circuit, GeneratorError> {
    check("number of vertices", vertices, 3..=MAX_VERTICES)?;
    check("edge weight width in bits", width, 1..=MAX_WEIGHT_BITS)?;
    Ok(Builder::build(|b| {
        let zero = if options.folded {
            b.bit(false)
        } else {
            b.opaque_zero()
        };
        let weights = Weights::input(b, vertices, width, options.shared, zero);
        let cuts = Cuts::new(&weights);
        let best = if options.argmin && !options.folded {
            cuts.best_in_chain(b, zero)
        } else {
            cuts.best_in_tree(b, options.argmin)
        };
        b.output(best.cut);
        if options.argmin {
            b.output(best.side);
        }
    })?)
}

/// The weights of all edges, each padded to the number of bits of the heaviest possible cut.
struct Weights<'b> {
    vertices: usize,
    edges: Vec<Word<'b>>,
}

impl<'b> Weights<'b> {
    fn input(b: Builder<'b>, vertices: usize, width: usize, shared: bool, zero: Bit<'b>) -> Self {
        let count = vertices * (vertices - 1) / 2;
        let edges = if shared {
            let shares = b.input_words(count, width);
            (shares.iter().zip(&b.input_words(count, width)))
                .map(|(x, y)| {
                    let (sum, carry) = x.carrying_add(y);
                    sum.concat(&carry.into())
                })
                .collect()
        } else {
            let mut edges = b.input_words(count.div_ceil(2), width);
            edges.extend(b.input_words(count / 2, width));
            edges
        };
        let cut_width = cut_width(vertices, width + usize::from(shared));
        let edges = (edges.iter())
            .map(|edge| {
                let padding = cut_width - edge.width();
                edge.concat(&b.word_of(std::iter::repeat_n(zero, padding)))
            })
            .collect();
        Self { vertices, edges }
    }

    fn edge(&self, u: usize, v: usize) -> &Word<'b> {
        let (u, v) = (u.min(v), u.max(v));
        let before = u * self.vertices - u * (u + 1) / 2;
        &self.edges[before + v - u - 1]
    }

    fn degree(&self, v: usize) -> Word<'b> {
        let edges: Vec<&Word<'b>> = (0..self.vertices)
            .filter(|&u| u != v)
            .map(|u| self.edge(u, v))
            .collect();
        let first = edges[0].clone();
        edges[1..].iter().fold(first, |sum, edge| sum + *edge)
    }
}

/// Returns the number of bits of the heaviest possible cut, which has half of the vertices on each
/// side.
fn cut_width(vertices: usize, width: usize) -> usize {
    let crossing = (vertices / 2 * vertices.div_ceil(2)) as u128;
    let heaviest = crossing * ((1_u128 << width) - 1);
    (128 - heaviest.leading_zeros()) as usize
}

/// The weights of all cuts. In item `i`, the vertices on the side without the last vertex are the
/// one bits of the number `i + 1`.
struct Cuts<'b> {
    free_vertices: usize,
    cuts: Vec<Word<'b>>,
}

/// The lightest cut of those compared so far: its weight, and its side that does not contain the
/// last vertex.
struct Best<'b> {
    cut: Word<'b>,
    side: Word<'b>,
}

impl<'b> Cuts<'b> {
    fn new(weights: &Weights<'b>) -> Self {
        let free_vertices = weights.vertices - 1;
        let mut cuts: Vec<Word<'b>> = Vec::with_capacity((1 << free_vertices) - 1);
        for v in 0..free_vertices {
            // For each subset T of the vertices below v, the increase of the cut's weight when v
            // joins T.
            let mut added = Vec::with_capacity(1 << v);
            added.push(weights.degree(v));
            cuts.push(added[0].clone());
            for side in 1..1_usize << v {
                let u = side.ilog2() as usize;
                let next = subtract_doubled(&added[side - (1 << u)], weights.edge(u, v));
                cuts.push(&cuts[side - 1] + &next);
                added.push(next);
            }
        }
        Self {
            free_vertices,
            cuts,
        }
    }

    /// Returns the lightest cut, with comparisons in a tree that begins with adjacent subsets.
    /// Adjacent subsets agree in their high bits, so the selection of a side needs an AND gate only
    /// for the few bits that differ.
    fn best_in_tree(self, b: Builder<'b>, argmin: bool) -> Best<'b> {
        let width = if argmin { self.free_vertices } else { 0 };
        let mut level: Vec<Best<'b>> = (self.cuts.into_iter().zip(1_u128..))
            .map(|(cut, side)| Best {
                cut,
                side: b.word(if argmin { side } else { 0 }, width),
            })
            .collect();
        // The empty side is not a cut, so the sides begin with 1. In each round, the first item is
        // merged into `first`. Every other item then covers an aligned block of sides, which agree
        // in their high bits.
        let mut first = level.remove(0);
        while !level.is_empty() {
            level = level
                .chunks(2)
                .map(|pair| Best::smaller(&pair[0], &pair[pair.len() - 1]))
                .collect();
            first = Best::smaller(&first, &level.remove(0));
        }
        first
    }

    /// Returns the lightest cut, with one comparison after the other and one AND gate per bit of
    /// the side.
    fn best_in_chain(self, b: Builder<'b>, zero: Bit<'b>) -> Best<'b> {
        let mut cuts = self.cuts.into_iter().zip(1_usize..);
        let width = self.free_vertices;
        let opaque = |side: usize, v: usize| if side >> v & 1 == 1 { !zero } else { zero };
        let mut best = Best {
            cut: b.word(0, 0),
            side: b.word_of((0..width).map(|v| opaque(1, v))),
        };
        for (cut, side) in &mut cuts {
            if side == 1 {
                best.cut = cut;
                continue;
            }
            let (minimum, is_new) = cut.min_with(&best.cut);
            best.cut = minimum;
            best.side = b.word_of((best.side.bits().into_iter().enumerate()).map(|(v, bit)| {
                if side >> v & 1 == 1 {
                    bit | is_new
                } else {
                    bit & !is_new
                }
            }));
        }
        best
    }
}

impl Best<'_> {
    fn smaller(x: &Self, y: &Self) -> Self {
        let (cut, is_x) = x.cut.min_with(&y.cut);
        let side = is_x.select(&x.side, &y.side);
        Self { cut, side }
    }
}

/// Returns `x - 2 y` modulo `2^w`, where `w` is the width of `x`. Bit 0 of the result is bit 0 of
/// `x`, so the subtraction takes only `w - 1` bits.
fn subtract_doubled<'b>(x: &Word<'b>, y: &Word<'b>) -> Word<'b> {
    let high = x.slice(1..x.width()) - y.slice(0..x.width() - 1);
    x.slice(0..1).concat(&high)
}
