//! The peak throughput of the AES units, as a bound for benchmarks. This interface is not stable.

use std::hint::black_box;

use crate::{
    Backend, GarbleError,
    dispatch::{Dispatch, Job},
    engine::{Isa, KeyNumbers, Lanes, Wide},
};

/// An AES operation to measure. It works on eight gates at a time, whose labels stay in registers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ceiling {
    /// Encryption of blocks under one key.
    OneKey,
    /// Expansion of keys and encryption of two blocks under each, as a garbler of half gates needs.
    FreshKeysTwoBlocks,
    /// Expansion of keys and encryption of one block under each, as an evaluator of half gates
    /// needs.
    FreshKeysOneBlock,
}

impl Ceiling {
    /// Runs the operation on `rounds` groups of eight half gates. Returns the number of blocks
    /// encrypted.
    ///
    /// # Errors
    /// Returns [`GarbleError::BackendUnavailable`] if this CPU lacks the instructions.
    pub fn run(self, backend: Backend, rounds: u64) -> Result<u64, GarbleError> {
        let mut blocks = 0;
        Dispatch::new(backend)?.run(Measure {
            what: self,
            rounds,
            blocks: &mut blocks,
        });
        Ok(blocks)
    }
}

struct Measure<'a> {
    what: Ceiling,
    rounds: u64,
    blocks: &'a mut u64,
}

impl Job for Measure<'_> {
    #[inline(always)]
    fn run<I: Isa, const N: usize, const M: usize, J, const P: usize, L>(
        self,
        w: Wide<I, N>,
        _half: Wide<I, M>,
        _pair: Wide<J, P>,
        _narrow: Wide<L, 1>,
    ) where
        J: Isa<Keys = I::Keys>,
        L: Isa<Keys = I::Keys>,
    {
        let width = Wide::<I, N>::WIDTH as u64;
        let start = u128::from(black_box(self.rounds));
        let mut cache = I::Keys::default();
        let mut sum = w.splat(0);
        for round in 0..self.rounds {
            let block = w.xor(w.splat(start), w.counter(round * width, 1, 0));
            let keys = [block, w.swap(block)];
            match self.what {
                Ceiling::OneKey => {
                    let numbers = KeyNumbers {
                        start,
                        gate: 0,
                        log_gates: 55,
                    };
                    let blocks = [[block, w.swap(block)], [sum_free(w, block), block]];
                    let out = w.encrypt_numbered(&mut cache, numbers, blocks);
                    sum = w.xor(w.xor(out[0][0], out[0][1]), w.xor(out[1][0], sum));
                    sum = w.xor(out[1][1], sum);
                    *self.blocks += 4 * width;
                }
                Ceiling::FreshKeysTwoBlocks => {
                    let out = w.encrypt_keyed(keys, [[block, keys[1]], [keys[1], block]]);
                    sum = w.xor(w.xor(out[0][0], out[0][1]), w.xor(out[1][0], sum));
                    sum = w.xor(out[1][1], sum);
                    *self.blocks += 4 * width;
                }
                Ceiling::FreshKeysOneBlock => {
                    let out = w.encrypt_keyed(keys, [[block], [keys[1]]]);
                    sum = w.xor(w.xor(out[0][0], out[1][0]), sum);
                    *self.blocks += 2 * width;
                }
            }
        }
        black_box(w.colours(sum));
    }
}

/// Derives another input block from `block` without AES, so that encryptions do not wait for each
/// other.
#[inline(always)]
fn sum_free<I: Isa, const N: usize>(w: Wide<I, N>, block: Lanes<I, N>) -> Lanes<I, N> {
    w.double_halves(block)
}
