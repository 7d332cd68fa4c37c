//! The evaluator's side of the protocol.

mod in_connection;
mod labels;
mod planning;
mod scheme;

use std::{collections::VecDeque, iter};

use bytes::Bytes;
use rand::CryptoRng;
use transpute_circuit::Bits;
use transpute_garble::{DecodeInfo, EvaluatedOutputs, Evaluator, Label};
use zeroize::{Zeroize, Zeroizing};

use crate::{
    Frame, FrameKind, Inputs, Milestone, OtPlan, Output, Progressed, Role, SessionError,
    channel::Channel,
    credit::Credit,
    error::out_of_order,
    hello::{Agreement, Hello, check_setup},
    helpers::{EvaluatingThreads, Group, Spawner},
    layout::{Layout, decode_bytes},
    masked_output::write_output,
    ot::EvaluatorOt,
    ot_plan::OT_CHUNK,
    pieces::{Assembler, piece_frames, split_number, whole_frame},
    queue::extend_secret,
    terms::RunTerms,
    transfers::{Choices, Transfers},
};

pub(crate) struct EvaluatorCore {
    pub(crate) terms: RunTerms,
    pub(crate) channel: Channel,
    pub(crate) outputs: VecDeque<Output>,
    /// This party's inputs. `None` in a prepared run until [`Self::provide`] sets them.
    inputs: Option<Box<dyn Inputs>>,
    spawner: Option<Spawner>,
    hello: Hello,
    /// The base-OT message that follows the hello, perhaps empty. `None` after both were sent.
    setup: Option<Vec<u8>>,
    agreed: Option<Agreed>,
    ot: EvaluatorOt,
    /// The seed of the randomness for transfers that start again under another plan.
    late: Zeroizing<[u8; 32]>,
    setup_received: bool,
    /// Whether the garbler's next base-OT message is ignored, because it belongs to another plan
    /// than the agreed one.
    skips_setup: bool,
    /// Number of bytes that this side has ignored, because the garbler must start again. `None` if
    /// the garbler need not start again.
    ignored: Option<u64>,
    choices: Choices,
    /// Number of requested transfers.
    asked: u64,
    /// Number of answered transfers.
    answered: u64,
    /// Labels of the evaluator's inputs, for evaluations that have not started.
    labels: VecDeque<Label>,
    /// Labels of the garbler's inputs, for evaluations that have not started.
    garbler_labels: VecDeque<Label>,
    garbler_labels_received: u64,
    lead: Credit,
    layout: Layout,
    transfers: Transfers,
    tables: VecDeque<Bytes>,
    table_bytes: u64,
    chunks_received: u64,
    /// Number of started evaluations.
    begun: u64,
    is_running: bool,
    /// Number of finished evaluations.
    finished: u64,
    /// Number of bytes of tables of the running evaluations that have not arrived yet.
    tables_left: u64,
    /// Number of chunks of the running evaluations that are evaluated, or passed to other threads.
    chunks_done: u64,
    decode_pieces: Assembler,
    decode_infos: VecDeque<Vec<u8>>,
    /// Finished evaluations that wait for their decoding information.
    undecoded: VecDeque<EvaluatedOutputs>,
    /// Whether a deviating evaluator, in tests, ignores the limit of requested transfers.
    #[cfg(test)]
    pub(crate) asks_without_limit: bool,
}

struct Agreed {
    sid: [u8; 32],
    theirs: Hello,
    evaluating: Evaluating,
}

/// The evaluator on this thread, or the threads that evaluate.
enum Evaluating {
    Here(Box<Evaluator>),
    Others(EvaluatingThreads),
}

impl EvaluatorCore {
    pub(crate) fn new(
        terms: RunTerms,
        channel: Channel,
        mut hello: Hello,
        mut inputs: Option<Box<dyn Inputs>>,
        spawner: Option<Spawner>,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, SessionError> {
        let config = &terms.config;
        let (mut choices, mut direct_choices) = (Choices::default(), Bits::new());
        let layout = Layout::new(&terms)?;
        let transfers = Transfers::new(&terms, layout.clone());
        if let Some(inputs) = inputs.as_mut().filter(|_| terms.plan == OtPlan::Direct) {
            direct_choices =
                choices.take(terms.total_choices as usize, &mut **inputs, &transfers)?;
        }
        let correlated = config.scheme.is_free_xor();
        let (ot, setup) = EvaluatorOt::start(
            terms.plan,
            config.base_ot,
            correlated,
            direct_choices,
            &hello.nonce,
            rng,
        );
        let mut late = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *late);
        if !setup.is_empty() {
            hello.set_setup(&setup);
        }
        terms.progress.set_total(layout.total_tables());
        let mut lead = Credit::new(layout.clone());
        if terms.choices == 0 {
            lead.set_answered(config.batch);
        }
        Ok(Self {
            lead,
            decode_pieces: Assembler::new(FrameKind::Decode, decode_bytes(&terms)),
            terms,
            channel,
            outputs: VecDeque::new(),
            inputs,
            spawner,
            hello,
            setup: Some(setup),
            agreed: None,
            ot,
            late,
            setup_received: false,
            skips_setup: false,
            ignored: None,
            choices,
            asked: 0,
            answered: 0,
            labels: VecDeque::new(),
            garbler_labels: VecDeque::new(),
            garbler_labels_received: 0,
            layout,
            transfers,
            tables: VecDeque::new(),
            table_bytes: 0,
            chunks_received: 0,
            begun: 0,
            is_running: false,
            finished: 0,
            tables_left: 0,
            chunks_done: 0,
            decode_infos: VecDeque::new(),
            undecoded: VecDeque::new(),
            #[cfg(test)]
            asks_without_limit: false,
        })
    }

    pub(crate) fn handle(&mut self, frame: Frame) -> Result<(), SessionError> {
        let Some(Frame { kind, payload }) = self.channel.receive(frame)? else {
            return Ok(());
        };
        match (&self.agreed, kind) {
            (Some(_), _) | (None, FrameKind::Hello) => {}
            (None, _) => return self.ignore(kind, payload.len()),
        }
        match kind {
            FrameKind::Hello => self.handle_hello(&payload),
            FrameKind::OtSetup => self.handle_setup(&payload),
            FrameKind::OtReply => {
                let (first, reply) = split_number(kind, &payload)?;
                self.handle_reply(first, &reply)
            }
            FrameKind::GarblerLabels => {
                let (first, labels) = split_number(kind, &payload)?;
                self.handle_garbler_labels(first, &labels)
            }
            FrameKind::Tables => {
                let (number, chunk) = split_number(kind, &payload)?;
                self.handle_tables(number, chunk)
            }
            FrameKind::Decode => {
                if !self.terms.config.output.reaches(Role::Evaluator) {
                    return Err(out_of_order(kind));
                }
                self.commit(kind, payload.len().saturating_sub(8))?;
                if let Some((_, info)) = self.decode_pieces.add(&payload)? {
                    self.decode_infos.push_back(info);
                }
                Ok(())
            }
            FrameKind::Finish => {
                // `Finish` may arrive directly after the last table, before this side has evaluated
                // the table.
                if self.chunks_received < self.layout.total_chunks()
                    || self.answered < self.terms.total_choices
                    || !self.channel.is_flushed()
                {
                    return Err(out_of_order(kind));
                }
                self.channel.finish_received = true;
                if !self.terms.config.output.reaches(Role::Evaluator) {
                    self.channel.reach(Milestone::LastOutput);
                }
                Ok(())
            }
            _ => Err(out_of_order(kind)),
        }
    }

    /// Makes the evaluator deviate in its corrections of an extension.
    #[cfg(test)]
    pub(crate) fn deviate(&mut self, change: fn(&mut [u8])) {
        self.ot.deviate(change);
    }

    pub(crate) fn poll(
        &mut self,
        out: &mut Vec<u8>,
        may_send: bool,
    ) -> Result<Progressed, SessionError> {
        // The evaluator first sends messages that the garbler waits for. Then it evaluates, which
        // frees memory.
        let worked = (may_send && self.poll_send(out)?)
            || self.decode_next()?
            || self.evaluate_next()?
            || (may_send && self.poll_finish(out)?);
        Ok(if worked {
            Progressed::Worked
        } else if self.channel.is_finished() {
            Progressed::Finished
        } else {
            Progressed::Idle
        })
    }

    /// Sends the next queued frame or the next request of transfers. Returns whether there was one.
    fn poll_send(&mut self, out: &mut Vec<u8>) -> Result<bool, SessionError> {
        if let Some(setup) = self.setup.take() {
            self.channel
                .send_opening(out, &self.hello.encode(), &setup)?;
            return Ok(true);
        }
        if self.channel.send_queued(out) {
            return Ok(true);
        }
        if !self.ot.can_extend() || !self.may_ask() {
            return Ok(false);
        }
        let first = self.asked;
        let n = (self.terms.total_choices - first).min(OT_CHUNK as u64) as usize;
        let choices = self.take_choices(n)?;
        self.ot.extend(first, choices, &mut self.channel, out)?;
        self.asked += n as u64;
        Ok(true)
    }

    /// Starts an evaluation, or evaluates one chunk. Returns whether this was possible.
    fn evaluate_next(&mut self) -> Result<bool, SessionError> {
        let has_labels = self.has_labels();
        let Some(agreed) = &mut self.agreed else {
            return Ok(false);
        };
        if let Evaluating::Others(others) = &mut agreed.evaluating
            && let Some(outputs) = others.outputs()?
        {
            self.finish_instances(outputs);
            return Ok(true);
        }
        if self.is_running {
            let next = match has_labels {
                true => self.tables.pop_front(),
                false => None,
            };
            let Some(chunk) = next else {
                return Ok(false);
            };
            let (len, max_len) = (chunk.len() as u64, self.terms.config.chunk_len as usize);
            self.table_bytes -= len;
            match &mut agreed.evaluating {
                Evaluating::Here(evaluator) => evaluator.evaluate_chunk(&chunk, max_len)?,
                Evaluating::Others(others) => others.chunk(chunk)?,
            }
            self.terms.progress.add_tables(len);
            self.tables_left = self.tables_left.saturating_sub(len);
            self.chunks_done += 1;
        } else {
            let lanes = self.layout.lanes(self.begun);
            let theirs = if self.terms.sends_garbler_labels() {
                lanes * self.terms.split.garbler_bits()
            } else {
                0
            };
            if self.begun == self.terms.config.batch
                || !has_labels
                || self.garbler_labels.len() < theirs
            {
                return Ok(false);
            }
            let given =
                (self.terms.sends_garbler_labels()).then(|| take(&mut self.garbler_labels, theirs));
            match &mut agreed.evaluating {
                Evaluating::Here(evaluator) => evaluator.begin(lanes, given)?,
                Evaluating::Others(others) => others.begin(Group {
                    instance: self.begun,
                    lanes,
                    given,
                    labels: take(&mut self.labels, lanes * self.terms.choices),
                })?,
            }
            self.begun += lanes as u64;
            self.is_running = true;
            self.tables_left = self.layout.tables(lanes);
        }
        if self.tables_left == 0 {
            self.is_running = false;
            self.chunks_done = 0;
            if let Evaluating::Here(evaluator) = &mut agreed.evaluating {
                let lanes = evaluator.lanes();
                let outputs = iter::repeat_with(|| evaluator.take_outputs()).take(lanes);
                let outputs = outputs.collect::<Result<_, _>>()?;
                self.finish_instances(outputs);
            }
        }
        Ok(true)
    }

    /// Waits for the outputs of other threads, if any are outstanding. Returns whether there were
    /// any.
    pub(crate) fn settle(&mut self) -> Result<bool, SessionError> {
        let Some(Agreed {
            evaluating: Evaluating::Others(others),
            ..
        }) = &mut self.agreed
        else {
            return Ok(false);
        };
        // The running evaluations are excluded, because their tables may not have arrived.
        if others.outstanding() <= u64::from(self.is_running) {
            return Ok(false);
        }
        let outputs = others.wait()?;
        self.finish_instances(outputs);
        Ok(true)
    }

    /// Handles the outputs of evaluations that were evaluated together. Queues them for the
    /// garbler, for decoding, or for both.
    fn finish_instances(&mut self, outputs: Vec<EvaluatedOutputs>) {
        let Some(agreed) = &self.agreed else { return };
        let policy = self.terms.config.output;
        for outputs in outputs {
            self.terms.progress.add_evaluation();
            if outputs.instance() + 1 == self.terms.config.batch {
                self.channel.reach(Milestone::LastTable);
            }
            if policy.reaches(Role::Garbler) {
                let message = write_output(&outputs.colours(), &outputs.tag(&agreed.sid));
                for frame in piece_frames(FrameKind::Output, outputs.instance(), &message) {
                    self.channel.queue(frame);
                }
            }
            self.finished += 1;
            if policy.reaches(Role::Evaluator) {
                self.undecoded.push_back(outputs);
            }
        }
    }

    /// Decodes the oldest finished evaluation if its decoding information has arrived.
    fn decode_next(&mut self) -> Result<bool, SessionError> {
        let Some(agreed) = self.agreed.as_ref().filter(|_| !self.undecoded.is_empty()) else {
            return Ok(false);
        };
        let Some(info) = self.decode_infos.pop_front() else {
            return Ok(false);
        };
        let Some(outputs) = self.undecoded.pop_front() else {
            return Ok(false);
        };
        let instance = outputs.instance();
        let check = self.terms.config.output_check;
        let info = DecodeInfo::from_bytes(&self.terms.program, check, &info)?;
        let bits = outputs.decode(&info, &agreed.sid)?;
        self.outputs.push_back(Output { instance, bits });
        if instance + 1 == self.terms.config.batch {
            self.channel.reach(Milestone::LastOutput);
        }
        Ok(true)
    }

    fn is_all_evaluated(&self) -> bool {
        self.finished == self.terms.config.batch && self.undecoded.is_empty()
    }

    fn poll_finish(&mut self, out: &mut Vec<u8>) -> Result<bool, SessionError> {
        // The evaluator sends `Finish` only after the garbler's `Finish` has arrived. After an
        // error, it sends `Abort` instead.
        if self.channel.finish_sent
            || !self.channel.finish_received
            || !self.is_all_evaluated()
            || !self.channel.is_flushed()
        {
            return Ok(false);
        }
        self.channel.send_finish(out)?;
        Ok(true)
    }

    fn handle_hello(&mut self, payload: &[u8]) -> Result<(), SessionError> {
        if self.agreed.is_some() {
            return Err(out_of_order(FrameKind::Hello));
        }
        let theirs = Hello::decode(payload)?;
        let Agreement {
            plan,
            scheme,
            begins_again,
        } = (self.hello).agree(&theirs, self.terms.config.base_ot, self.has_excess())?;
        if begins_again {
            return self.await_second_hello();
        }
        self.set_scheme(scheme)?;
        self.follow(plan)?;
        self.skips_setup = theirs.announces_setup() && !theirs.has_begun(self.terms.plan);
        let sid = self.terms.session_id(payload, &self.hello.encode())?;
        let config = &self.terms.config;
        let backend = config.backend()?;
        let evaluator = || {
            let evaluator = Evaluator::new(
                self.terms.program.clone(),
                &self.terms.split,
                theirs.params(config),
                backend,
            )?;
            Ok::<_, SessionError>(if self.terms.is_prepared {
                evaluator.expecting_garbler_labels()
            } else {
                evaluator
            })
        };
        let evaluating = match config.threads.get() {
            1 => Evaluating::Here(Box::new(evaluator()?)),
            threads => {
                let evaluators = iter::repeat_with(evaluator).take(threads);
                let evaluators = evaluators.collect::<Result<_, _>>()?;
                Evaluating::Others(EvaluatingThreads::start(
                    evaluators,
                    config.chunk_len as usize,
                    self.spawner,
                )?)
            }
        };
        self.channel.reach(Milestone::Agreed);
        if self.terms.choices == 0 {
            self.channel.reach(Milestone::FirstLabels);
        }
        self.agreed = Some(Agreed {
            sid,
            theirs,
            evaluating,
        });
        Ok(())
    }

    fn handle_setup(&mut self, message: &[u8]) -> Result<(), SessionError> {
        let Some(agreed) = self.agreed.as_ref().filter(|_| !self.setup_received) else {
            return Err(out_of_order(FrameKind::OtSetup));
        };
        // If the garbler's hello contains a hash of this message, the message must match it. Other
        // messages are bound to the session by the keys that are derived from them.
        if agreed.theirs.announces_setup()
            && (self.skips_setup || agreed.theirs.has_begun(self.terms.plan))
        {
            check_setup(&agreed.theirs, message)?;
        }
        if std::mem::take(&mut self.skips_setup) {
            return Ok(());
        }
        self.setup_received = true;
        let answer = self
            .ot
            .handle_setup(&agreed.sid, &agreed.theirs.nonce, message)?;
        for (kind, message) in [
            (FrameKind::OtSetup, answer.setup),
            (FrameKind::OtExtendSetup, answer.seeds),
        ] {
            if let Some(message) = message {
                self.channel.queue(whole_frame(kind, &message));
            }
        }
        Ok(())
    }

    fn handle_garbler_labels(&mut self, first: u64, bytes: &[u8]) -> Result<(), SessionError> {
        let (labels, rest) = bytes.as_chunks::<16>();
        let total = self.terms.split.garbler_bits() as u64 * self.terms.config.batch;
        if !self.terms.sends_garbler_labels()
            || first != self.garbler_labels_received
            || labels.len() as u64 > total - first
            || labels.is_empty()
            || !rest.is_empty()
        {
            return Err(SessionError::Unexpected {
                kind: FrameKind::GarblerLabels,
                problem: "it is not about the next input bits of the garbler",
            });
        }
        self.commit(FrameKind::GarblerLabels, bytes.len())?;
        self.garbler_labels_received += labels.len() as u64;
        let labels = labels.iter().map(|label| Label::from_bytes(*label));
        extend_secret(&mut self.garbler_labels, labels);
        Ok(())
    }

    fn handle_tables(&mut self, number: u64, chunk: Bytes) -> Result<(), SessionError> {
        let due = (self.layout.chunk_len(number)).filter(|_| number == self.chunks_received);
        let Some(expected) = due else {
            return Err(SessionError::Unexpected {
                kind: FrameKind::Tables,
                problem: "it is not the next chunk",
            });
        };
        // The length is checked on arrival. Otherwise many short chunks could use much memory
        // within the window.
        if chunk.len() != expected {
            return Err(SessionError::Length {
                kind: FrameKind::Tables,
                expected: 8 + expected,
                found: 8 + chunk.len(),
            });
        }
        self.chunks_received += 1;
        self.commit(FrameKind::Tables, chunk.len())?;
        self.channel.reach(Milestone::FirstTable);
        self.table_bytes += chunk.len() as u64;
        self.tables.push_back(chunk);
        Ok(())
    }

    /// Counts bytes that arrived without a request, and rejects them if they exceed the agreed
    /// window.
    fn commit(&mut self, kind: FrameKind, bytes: usize) -> Result<(), SessionError> {
        self.lead.commit(bytes as u64);
        if self.lead.is_exceeded() {
            return Err(SessionError::Unexpected {
                kind,
                problem: "it runs further ahead of the labels than agreed",
            });
        }
        Ok(())
    }
}

impl Drop for EvaluatorCore {
    fn drop(&mut self) {
        for queue in [&mut self.labels, &mut self.garbler_labels] {
            discard(queue, queue.len());
        }
    }
}

/// Removes and returns the oldest `count` labels. If the queue has no other labels, as is usual
/// with large groups, it does not copy them.
fn take(labels: &mut VecDeque<Label>, count: usize) -> Zeroizing<Vec<Label>> {
    if labels.len() == count {
        return Zeroizing::new(std::mem::take(labels).into());
    }
    let taken = Zeroizing::new(labels.range(..count).copied().collect());
    discard(labels, count);
    taken
}

/// Wipes and removes the oldest `count` labels.
fn discard(labels: &mut VecDeque<Label>, count: usize) {
    labels.iter_mut().take(count).for_each(Zeroize::zeroize);
    labels.drain(..count);
}
