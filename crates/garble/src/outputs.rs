//! Decoding and checking of the output labels.
//!
//! * **Decoding.** The evaluator has one label per output bit. The garbler sends the colour that
//!   means 0 for each of these labels.
//! * **Check.** Optionally, the garbler adds a short hash of both labels of every output bit, so
//!   that the evaluator detects altered tables and labels.
//! * **Tag.** If the garbler learns the output, the evaluator sends the colours and a hash of all
//!   output labels. Without the offset, it cannot claim an output that it did not obtain.
//!
//! Outputs that do not depend on the inputs have no label: both parties read them from the program.

use std::{fmt, sync::Arc};

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use transpute_circuit::{Bits, OutputBit, Program};
use zeroize::Zeroizing;

use crate::{
    GarbleError, Label,
    output_check::{CHECK_BYTES, CheckHash},
};

/// Decoding information: the meaning of output colours, and optionally hashes for checking the
/// labels.
///
/// On the wire it has one bit per output bit, the colour that means 0, packed from bit 0 of each
/// byte upwards (zero for outputs without a label). With a check, two 8-byte hashes follow for each
/// output bit with a label, for value 0 and for value 1.
#[derive(Clone, Eq, PartialEq)]
pub struct DecodeInfo {
    zero_colours: Bits,
    checks: Option<Vec<[[u8; CHECK_BYTES]; 2]>>,
}

impl DecodeInfo {
    /// Returns the wire encoding; its length is [`decode_len`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.zero_colours.len().div_ceil(8)];
        for (i, colour) in self.zero_colours.iter().enumerate() {
            bytes[i / 8] |= u8::from(colour) << (i % 8);
        }
        for check in self.checks.iter().flatten() {
            bytes.extend_from_slice(check.as_flattened());
        }
        bytes
    }

    /// Decodes the bytes of [`DecodeInfo::to_bytes`] for `program`, with or without a check.
    ///
    /// # Errors
    /// Returns [`GarbleError::DecodeLength`] for a wrong length. Returns
    /// [`GarbleError::DecodePadding`] if unused bits are set.
    pub fn from_bytes(program: &Program, check: bool, bytes: &[u8]) -> Result<Self, GarbleError> {
        let expected = decode_len(program, check);
        if bytes.len() != expected {
            return Err(GarbleError::DecodeLength {
                expected,
                found: bytes.len(),
            });
        }
        let outputs = program.outputs();
        let (packed, hashes) = bytes.split_at(outputs.len().div_ceil(8));
        let bit = |i: usize| packed[i / 8] >> (i % 8) & 1 == 1;
        let padding = outputs.len()..8 * packed.len();
        let constants = (outputs.iter().enumerate())
            .filter(|(_, output)| matches!(output, OutputBit::Constant(_)))
            .map(|(i, _)| i);
        if padding.chain(constants).any(bit) {
            return Err(GarbleError::DecodePadding);
        }
        let (pairs, _) = hashes.as_chunks::<{ 2 * CHECK_BYTES }>();
        Ok(Self {
            zero_colours: (0..outputs.len()).map(bit).collect(),
            checks: check.then(|| pairs.iter().map(split_pair).collect()),
        })
    }

    /// Returns whether there are hashes for checking the labels.
    #[must_use]
    pub fn has_check(&self) -> bool {
        self.checks.is_some()
    }
}

impl fmt::Debug for DecodeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeInfo")
            .field("outputs", &self.zero_colours.len())
            .field("check", &self.has_check())
            .finish()
    }
}

/// Returns the length of the decoding information for `program` on the wire, in bytes.
#[must_use]
pub fn decode_len(program: &Program, check: bool) -> usize {
    let packed = program.outputs().len().div_ceil(8);
    let labels = slot_outputs(program).count();
    packed + if check { 2 * CHECK_BYTES * labels } else { 0 }
}

/// The garbler's data of a finished instance: both labels of every output bit.
///
/// Several such values may be kept while later instances are garbled. This type does not implement
/// `Debug`, and is wiped on drop.
pub struct GarbledOutputs {
    program: Arc<Program>,
    instance: u64,
    /// Both labels of each output that has a slot. The index is the value in the slot, before the
    /// output inverts it.
    labels: Zeroizing<Vec<[Label; 2]>>,
}

impl GarbledOutputs {
    pub(crate) fn new(
        program: Arc<Program>,
        instance: u64,
        labels: Zeroizing<Vec<[Label; 2]>>,
    ) -> Self {
        Self {
            program,
            instance,
            labels,
        }
    }

    /// Returns the number of the instance.
    #[must_use]
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// Returns the decoding information for the evaluator, with hashes for checking the labels if
    /// `check` is set. `sid` is the session identifier.
    ///
    /// The hash of a label is `π(π(label) ⊕ i) ⊕ π(label)`, truncated to 8 bytes. `π` is AES-128
    /// under a key derived from `sid` and the instance, and `i` is the number of the output bit.
    #[must_use]
    pub fn decode_info(&self, sid: &[u8; 32], check: bool) -> DecodeInfo {
        let mut zero_colours = Bits::zeros(self.program.outputs().len());
        let mut by_value = Zeroizing::new(Vec::with_capacity(2 * self.labels.len()));
        for ((bit, invert), pair) in slot_outputs(&self.program).zip(self.labels.iter()) {
            let labels = by_output_value(pair, invert);
            zero_colours.set(bit, labels[0].colour());
            by_value.extend(labels.map(|label| (bit, label)));
        }
        let checks = check.then(|| {
            let hashes = CheckHash::new(sid, self.instance).all(&by_value);
            hashes.as_chunks().0.to_vec()
        });
        DecodeInfo {
            zero_colours,
            checks,
        }
    }

    /// Returns the outputs that the evaluator claims with the colours of its output labels, if the
    /// tag proves that it has these labels.
    ///
    /// # Errors
    /// Returns [`GarbleError::ColourCount`] for a wrong number of colours. Returns
    /// [`GarbleError::TagRejected`] if the tag does not match.
    pub fn verify(
        &self,
        sid: &[u8; 32],
        colours: &Bits,
        tag: &[u8; 32],
    ) -> Result<Bits, GarbleError> {
        let mut outputs = constant_outputs(&self.program);
        if colours.len() != outputs.len() {
            return Err(GarbleError::ColourCount {
                expected: outputs.len(),
                found: colours.len(),
            });
        }
        let mut hash = TagHash::new(sid, self.instance);
        let mut canonical = Bits::zeros(outputs.len());
        for ((bit, invert), pair) in slot_outputs(&self.program).zip(self.labels.iter()) {
            let [zero, one] = by_output_value(pair, invert);
            let value = colours.get(bit) ^ zero.colour();
            hash.add(zero ^ (zero ^ one).masked(value));
            outputs.set(bit, value);
            canonical.set(bit, colours.get(bit));
        }
        // The colours of outputs without a label must be 0.
        let genuine = hash.finish().ct_eq(tag);
        if bool::from(genuine) && canonical == *colours {
            Ok(outputs)
        } else {
            Err(GarbleError::TagRejected)
        }
    }
}

/// The evaluator's result of a finished instance: the active label of every output bit.
///
/// This type does not implement `Debug`, and is wiped on drop.
pub struct EvaluatedOutputs {
    program: Arc<Program>,
    instance: u64,
    labels: Zeroizing<Vec<Label>>,
}

impl EvaluatedOutputs {
    pub(crate) fn new(program: Arc<Program>, instance: u64, labels: Zeroizing<Vec<Label>>) -> Self {
        Self {
            program,
            instance,
            labels,
        }
    }

    /// Returns the number of the instance.
    #[must_use]
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// Returns the colour of the label of every output bit; 0 for outputs without a label.
    #[must_use]
    pub fn colours(&self) -> Bits {
        let mut colours = Bits::zeros(self.program.outputs().len());
        for ((bit, _), label) in slot_outputs(&self.program).zip(self.labels.iter()) {
            colours.set(bit, label.colour());
        }
        colours
    }

    /// Returns the tag that proves possession of these output labels: `SHA-256("transpute output"
    /// || sid || LE64(instance) || labels)`.
    #[must_use]
    pub fn tag(&self, sid: &[u8; 32]) -> [u8; 32] {
        let mut hash = TagHash::new(sid, self.instance);
        for label in self.labels.iter() {
            hash.add(*label);
        }
        hash.finish()
    }

    /// Returns the output bits. If `info` has a check, every label is compared with the hash of its
    /// value, in constant time.
    ///
    /// # Errors
    /// Returns [`GarbleError::DecodeLength`] if `info` is for another program. Returns
    /// [`GarbleError::OutputRejected`] if a label fails the check.
    pub fn decode(&self, info: &DecodeInfo, sid: &[u8; 32]) -> Result<Bits, GarbleError> {
        let mut outputs = constant_outputs(&self.program);
        let hashed = info.checks.as_ref().map_or(self.labels.len(), Vec::len);
        if info.zero_colours.len() != outputs.len() || hashed != self.labels.len() {
            return Err(GarbleError::DecodeLength {
                expected: decode_len(&self.program, info.has_check()),
                found: info.to_bytes().len(),
            });
        }
        for ((bit, _), label) in slot_outputs(&self.program).zip(self.labels.iter()) {
            outputs.set(bit, label.colour() ^ info.zero_colours.get(bit));
        }
        let mut genuine = Choice::from(1);
        if let Some(checks) = &info.checks {
            let bits = slot_outputs(&self.program).map(|(bit, _)| bit);
            let labelled = bits.zip(self.labels.iter().copied());
            let labelled = Zeroizing::new(labelled.collect::<Vec<_>>());
            let found = CheckHash::new(sid, self.instance).all(&labelled);
            for ((&(bit, _), pair), found) in labelled.iter().zip(checks).zip(found) {
                let [zero, one] = pair.map(u64::from_le_bytes);
                let value = u8::from(outputs.get(bit)).into();
                let expected = u64::conditional_select(&zero, &one, value);
                genuine &= u64::from_le_bytes(found).ct_eq(&expected);
            }
        }
        if bool::from(genuine) {
            Ok(outputs)
        } else {
            Err(GarbleError::OutputRejected)
        }
    }
}

/// Iterates over the outputs that have a label. Each item is the number of the output bit, and
/// whether this bit is the inverse of the value in its slot.
fn slot_outputs(program: &Program) -> impl Iterator<Item = (usize, bool)> + '_ {
    (program.outputs().iter().enumerate()).filter_map(|(bit, output)| match *output {
        OutputBit::Slot { invert, .. } => Some((bit, invert)),
        OutputBit::Constant(_) => None,
    })
}

/// Returns the values of the constant output bits; all other bits are 0.
fn constant_outputs(program: &Program) -> Bits {
    (program.outputs().iter())
        .map(|output| matches!(output, OutputBit::Constant(true)))
        .collect()
}

/// Returns both labels of an output, indexed by the value of the output bit. `pair` has them
/// indexed by the value in the slot, which is the inverse if `invert` is true.
fn by_output_value(pair: &[Label; 2], invert: bool) -> [Label; 2] {
    if invert { [pair[1], pair[0]] } else { *pair }
}

fn split_pair(pair: &[u8; 2 * CHECK_BYTES]) -> [[u8; CHECK_BYTES]; 2] {
    let mut halves = [[0; CHECK_BYTES]; 2];
    halves.as_flattened_mut().copy_from_slice(pair);
    halves
}

/// The hash of all active output labels.
struct TagHash(Sha256);

// SHA-256 buffers a block of labels, so it must be wiped on drop.
const _: () = {
    const fn wiped_on_drop<T: zeroize::ZeroizeOnDrop>() {}
    wiped_on_drop::<Sha256>();
};

impl TagHash {
    fn new(sid: &[u8; 32], instance: u64) -> Self {
        let hash = Sha256::new()
            .chain_update(b"transpute output")
            .chain_update(sid)
            .chain_update(instance.to_le_bytes());
        Self(hash)
    }

    fn add(&mut self, label: Label) {
        self.0.update(label.to_bytes());
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
