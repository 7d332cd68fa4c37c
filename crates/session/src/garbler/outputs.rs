//! The outputs of finished evaluations, and the evaluator's `Output` messages.

use bytes::Bytes;
use transpute_garble::GarbledOutputs;

use super::GarblerCore;
use crate::{
    FrameKind, Milestone, Output, Role, SessionError, error::out_of_order,
    masked_output::read_output, pieces::piece_frames,
};

impl GarblerCore {
    /// Removes the oldest held evaluation from the queue if [`Self::may_release`] allows it.
    pub(super) fn take_held(&mut self) -> Option<GarbledOutputs> {
        self.may_release().then(|| self.held_outputs.pop_front())?
    }

    /// Returns whether the output of the oldest finished evaluation may be decoded. The hellos must
    /// agree, and the evaluator's inputs must be fixed by transfers that passed their checks. In a
    /// prepared run, the labels of this party's inputs must be sent too.
    pub(super) fn may_release(&self) -> bool {
        let Some(outputs) = self.held_outputs.front() else {
            return false;
        };
        let is_bound = match self.terms.is_prepared {
            true => self.is_provided && self.answered == self.terms.total_choices,
            false => self.answered >= self.layout.choices_through(outputs.instance()),
        };
        self.agreed.is_some() && is_bound
    }

    /// Queues the decoding information of a finished evaluation. If this party learns the output,
    /// the evaluation then waits in `awaited`.
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

    /// Returns whether the `Output` message of any finished evaluation has not arrived yet.
    pub(super) fn is_output_due(&self) -> bool {
        self.awaited.len() + self.held_outputs.len() > self.returned.len()
    }

    /// Handles a piece of an `Output` message.
    ///
    /// A complete message may arrive before its evaluation may be released, because an evaluator
    /// can finish before it has requested labels that no gate and no output reads. The garbler then
    /// keeps the message in `returned` until it releases the evaluation. It rejects a message
    /// without an evaluation in `awaited` or `held_outputs`, so the number of these evaluations
    /// bounds `returned`.
    pub(super) fn handle_output(&mut self, payload: &Bytes) -> Result<(), SessionError> {
        if !self.terms.config.output.reaches(Role::Garbler) {
            return Err(out_of_order(FrameKind::Output));
        }
        let Some((_, message)) = self.output_pieces.add(payload)? else {
            return Ok(());
        };
        // The evaluator can send the message directly after it has the last table. Without tables,
        // the message may arrive before this side has started the evaluation.
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
