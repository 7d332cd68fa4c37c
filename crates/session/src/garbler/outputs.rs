//! The outputs of finished evaluations, and the evaluator's `Output` messages.

use bytes::Bytes;
use transpute_circuit::{Bits, Program};
use transpute_garble::GarbledOutputs;

use super::GarblerCore;
use crate::{
    FrameKind, Milestone, Output, Role, SessionError, pieces::piece_frames, session::out_of_order,
};

impl GarblerCore {
    /// Removes the oldest held evaluation from the queue if [`Self::may_release`] allows it.
    pub(super) fn take_held(&mut self) -> Option<GarbledOutputs> {
        self.may_release().then(|| self.held_outputs.pop_front())?
    }

    /// Says whether the output of the oldest finished evaluation may be decoded: the hellos agree
    /// and the evaluator's inputs are fixed by transfers that passed their checks. Where tables are
    /// made before the inputs are known, this party's inputs must be fixed too.
    pub(super) fn may_release(&self) -> bool {
        let Some(outputs) = self.held_outputs.front() else {
            return false;
        };
        let is_bound = match self.terms.is_prepared() {
            true => self.is_provided && self.answered == self.terms.total_choices,
            false => self.answered >= self.layout.choices_through(outputs.instance()),
        };
        self.agreed.is_some() && is_bound
    }

    /// Sends what a finished evaluation needs to be decoded, and keeps what its check needs.
    pub(super) fn release(&mut self, outputs: GarbledOutputs) -> Result<(), SessionError> {
        let Some(agreed) = &self.agreed else {
            return Ok(());
        };
        let config = &self.terms.config;
        if config.output.reaches(Role::Evaluator) {
            let info = outputs.decode_info(&agreed.sid, config.output_check);
            for frame in piece_frames(FrameKind::Decode, outputs.instance(), &info.to_bytes()) {
                self.channel.queue(frame);
            }
        }
        if config.output.reaches(Role::Garbler) {
            self.awaited.push_back(outputs);
        }
        self.verify_returned()
    }

    /// Says whether an evaluation is finished whose `Output` message has not arrived.
    pub(super) fn is_output_due(&self) -> bool {
        self.awaited.len() + self.held_outputs.len() > self.returned.len()
    }

    /// Takes a piece of an `Output` message.
    ///
    /// A complete message may arrive before its evaluation may be released: an evaluator finishes
    /// without the labels that no gate and no output reads, and then asks for them. The garbler
    /// then keeps the message in `returned` until it releases the evaluation. It refuses a message for
    /// which there is no evaluation in `awaited` or `held_outputs`, so their number bounds `returned`.
    pub(super) fn handle_output(&mut self, payload: &Bytes) -> Result<(), SessionError> {
        if !self.terms.config.output.reaches(Role::Garbler) {
            return Err(out_of_order(FrameKind::Output));
        }
        let Some((_, message)) = self.output_pieces.add(payload)? else {
            return Ok(());
        };
        // The message may arrive before anything was sent after the last table. Where there are no
        // tables, it may even arrive before the evaluation has begun.
        self.begin_without_tables()?;
        if !self.is_output_due() {
            return Err(out_of_order(FrameKind::Output));
        }
        self.returned.push_back(message);
        while let Some(outputs) = self.take_held() {
            self.release(outputs)?;
        }
        self.verify_returned()
    }

    /// Verifies and decodes the `Output` messages of released evaluations.
    fn verify_returned(&mut self) -> Result<(), SessionError> {
        let Some(agreed) = &self.agreed else {
            return Ok(());
        };
        while !self.awaited.is_empty()
            && let Some(message) = self.returned.pop_front()
            && let Some(outputs) = self.awaited.pop_front()
        {
            let instance = outputs.instance();
            let (colours, tag) = read_output(&message, self.terms.program.outputs().len())?;
            let bits = outputs.verify(&agreed.sid, &colours, &tag)?;
            self.outputs.push_back(Output { instance, bits });
            if instance + 1 == self.terms.config.batch {
                self.channel.reach(Milestone::LastOutput);
            }
        }
        Ok(())
    }
}

/// Bytes of a masked output with its tag.
pub(crate) fn output_len(program: &Program) -> usize {
    program.outputs().len().div_ceil(8) + TAG_LEN
}

/// Bytes of the tag that proves which output labels the evaluator holds.
const TAG_LEN: usize = 32;

/// Encodes what the evaluator returns: the colours of its output labels, packed from bit 0 of each
/// byte upwards, and their tag.
pub(crate) fn write_output(colours: &Bits, tag: &[u8; TAG_LEN]) -> Vec<u8> {
    let mut message = vec![0; colours.len().div_ceil(8)];
    for (index, colour) in colours.iter().enumerate() {
        message[index / 8] |= u8::from(colour) << (index % 8);
    }
    message.extend_from_slice(tag);
    message
}

/// Reads what [`write_output`] wrote.
fn read_output(message: &[u8], outputs: usize) -> Result<(Bits, [u8; TAG_LEN]), SessionError> {
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
