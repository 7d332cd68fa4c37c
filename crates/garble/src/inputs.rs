//! The labels of the input wires.
//!
//! Under free XOR the garbler need not send the active labels of its own inputs: any function known to both will
//! do, because the secret is which value a label stands for. With `X` the public label of an input
//! bit `x`, the label of value 0 is `X ^ x D`, and `D` is unknown to the evaluator.

use std::ops::Range;

use aes::{
    Aes128,
    cipher::{Array, KeyInit},
};

use zeroize::Zeroizing;

use crate::{
    Label, Seed,
    seed::{Purpose, SecretPrg, expand_labels},
};

/// Whose input a bit is.
#[derive(Clone, Copy)]
pub(crate) enum Party {
    Garbler,
    Evaluator,
}

/// The labels only the garbler knows.
pub(crate) struct SecretLabels {
    prg: SecretPrg,
    delta: Option<Zeroizing<Label>>,
}

impl SecretLabels {
    pub(crate) fn new(seed: &Seed, free_xor: bool) -> Self {
        let prg = SecretPrg::new(seed);
        let delta = free_xor.then(|| Zeroizing::new(prg.delta()));
        Self { prg, delta }
    }

    pub(crate) fn prg(&self) -> &SecretPrg {
        &self.prg
    }

    /// The offset between the two labels of every wire, under free XOR.
    pub(crate) fn delta(&self) -> Option<Label> {
        self.delta.as_deref().copied()
    }

    /// Hands out both labels of a party's input bits, by value. Under free XOR only those of the
    /// evaluator come from here.
    pub(crate) fn pairs(
        &self,
        party: Party,
        instance: u64,
        range: Range<usize>,
        mut each: impl FnMut(usize, [Label; 2]),
    ) {
        let (zero, one) = match party {
            Party::Garbler => (Purpose::GarblerZero, Purpose::GarblerOne),
            Party::Evaluator => (Purpose::EvaluatorZero, Purpose::EvaluatorOne),
        };
        if let Some(delta) = self.delta() {
            self.prg.labels(zero, instance, range, |i, zero| {
                each(i, [zero, zero ^ delta]);
            });
            return;
        }
        let mut ones = Zeroizing::new([Label::ZERO; 64]);
        let mut start = range.start;
        while start < range.end {
            let piece = start..range.end.min(start + ones.len());
            self.prg.labels(one, instance, piece.clone(), |i, label| {
                ones[i - start] = label;
            });
            self.prg.labels(zero, instance, piece.clone(), |i, zero| {
                each(i, [zero, ones[i - start].with_colour(!zero.colour())]);
            });
            start = piece.end;
        }
    }
}

/// Byte 15 of the AES input.
const DOMAIN: u8 = 0x20;

/// Random-access public labels: AES-128 under the public seed, a block per label.
///
/// Input: bytes 0-7 the instance, bytes 8-11 the position among the garbler's input bits, byte 15
/// `0x20`; little-endian.
pub(crate) struct PublicLabels(Aes128);

impl PublicLabels {
    pub(crate) fn new(seed: [u8; 16]) -> Self {
        Self(Aes128::new(&Array(seed)))
    }

    /// Hands out the labels, position by position.
    pub(crate) fn labels(
        &self,
        instance: u64,
        range: Range<usize>,
        each: impl FnMut(usize, Label),
    ) {
        expand_labels(&self.0, DOMAIN, instance, range, each);
    }
}
