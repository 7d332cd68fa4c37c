//! `Output` messages, with which the evaluator returns the masked output of an evaluation to the
//! garbler.

use transpute_circuit::{Bits, Program};

use crate::{FrameKind, SessionError};

/// Returns the length of an `Output` message, in bytes: the masked output and its tag.
pub(crate) fn output_len(program: &Program) -> usize {
    program.outputs().len().div_ceil(8) + TAG_LEN
}

/// Length of the tag, in bytes. The tag proves that the evaluator has the output labels.
const TAG_LEN: usize = 32;

/// Encodes an `Output` message: the colour bits of the output labels, packed from bit 0 of each
/// byte upwards, and the tag.
pub(crate) fn write_output(colours: &Bits, tag: &[u8; TAG_LEN]) -> Vec<u8> {
    let mut message = vec![0; colours.len().div_ceil(8)];
    for (index, colour) in colours.iter().enumerate() {
        message[index / 8] |= u8::from(colour) << (index % 8);
    }
    message.extend_from_slice(tag);
    message
}

/// Decodes an `Output` message, the result of [`write_output`].
pub(crate) fn read_output(
    message: &[u8],
    outputs: usize,
) -> Result<(Bits, [u8; TAG_LEN]), SessionError> {
    let wrong = SessionError::Unexpected {
        kind: FrameKind::Output,
        problem: "it has bits behind the last output",
    };
    match message.split_last_chunk() {
        Some((packed, tag)) if packed.len() == outputs.div_ceil(8) => {
            let bit = |index: usize| packed[index / 8] >> (index % 8) & 1 == 1;
            if (outputs..packed.len() * 8).any(bit) {
                return Err(wrong);
            }
            Ok(((0..outputs).map(bit).collect(), *tag))
        }
        _ => Err(wrong),
    }
}
