//! The garbler's side of the protocol.

mod in_connection;
mod outputs;
mod planning;
mod scheme;

use std::{collections::VecDeque, iter};

use rand::CryptoRng;
use transpute_circuit::Bits;
use transpute_garble::{GarbledOutputs, Garbler, Params};
use zeroize::Zeroizing;

use scheme::{Undecided, garblers};

use crate::{
    Frame, FrameKind, Inputs, Milestone, Output, Progressed, SessionError,
    channel::Channel,
    credit::Credit,
    error::out_of_order,
    hello::{Agreement, Hello, check_setup},
    helpers::{GarblingThreads, Spawner},
    layout::Layout,
    masked_output::output_len,
    ot::GarblerOt,
    ot_plan::OT_CHUNK,
    pieces::{Assembler, numbered_frame, split_number, whole_frame},
    terms::RunTerms,
    transfers::Transfers,
};

/// Maximum number of bytes of output labels that the garbler keeps for finished evaluations, until
/// the evaluator has returned their outputs.
const AWAITED_LIMIT: usize = 16 << 20;

/// Number of labels of the garbler's inputs per frame.
pub(crate) const LABELS_PER_FRAME: usize = 4096;

pub(crate) struct GarblerCore {
    pub(crate) terms: RunTerms,
    pub(crate) channel: Channel,
    pub(crate) outputs: VecDeque<Output>,
    /// Computes the labels of all inputs. It also garbles the tables if `others` is `None`.
    garbler: Garbler,
    others: Option<GarblingThreads>,
    spawner: Option<Spawner>,
    /// State for another start with another scheme or a smaller window. `None` if this garbler does
    /// not start again.
    undecided: Option<Undecided>,
    /// This party's inputs. `None` in a prepared run, which gets its inputs from [`Self::provide`].
    inputs: Option<Box<dyn Inputs>>,
    /// Whether the labels of this party's inputs of a prepared run are queued or sent.
    is_provided: bool,
    /// This party's fetched input bits, for groups of evaluations that have not started.
    fetched: VecDeque<Vec<Bits>>,
    /// Number of evaluations whose input bits were fetched.
    fetched_to: u64,
    hello: Hello,
    /// The base-OT message that follows the hello, perhaps empty. `None` after both were sent.
    setup: Option<Vec<u8>>,
    agreed: Option<Agreed>,
    ot: GarblerOt,
    /// The seed of the randomness for transfers that start again under another plan, or for a
    /// second hello.
    late: Zeroizing<[u8; 32]>,
    /// Whether the evaluator's next base-OT message is ignored, because it belongs to another plan
    /// than the agreed one.
    skips_setup: bool,
    setup_received: bool,
    /// Number of answered transfers.
    answered: u64,
    lead: Credit,
    layout: Layout,
    transfers: Transfers,
    /// Number of bytes of tables of the running evaluations that are not sent yet.
    tables_left: u64,
    /// Number of started evaluations.
    begun: u64,
    is_running: bool,
    chunks: u64,
    /// Frames with this party's labels, which must not be sent before the hellos agree.
    held_labels: Vec<Vec<u8>>,
    /// Finished evaluations whose outputs [`Self::may_release`] does not yet allow to be decoded.
    held_outputs: VecDeque<GarbledOutputs>,
    /// Finished evaluations whose output the evaluator must return.
    awaited: VecDeque<GarbledOutputs>,
    /// `Output` messages of the oldest evaluations in `held_outputs`. Empty while `awaited` is not.
    returned: VecDeque<Vec<u8>>,
    output_pieces: Assembler,
}

struct Agreed {
    sid: [u8; 32],
    theirs: Hello,
}

impl GarblerCore {
    pub(crate) fn new(
        terms: RunTerms,
        channel: Channel,
        mut hello: Hello,
        inputs: Option<Box<dyn Inputs>>,
        spawner: Option<Spawner>,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, SessionError> {
        let config = &terms.config;
        let params = Params::random(config.scheme, config.rekey_period, rng);
        hello.set_params(&params);
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        let undecided = Undecided::new(&terms, &seed);
        let (garbler, others) = garblers(&terms, params, &seed, spawner)?;
        let (ot, setup) = GarblerOt::start(
            terms.plan,
            config.base_ot,
            garbler.delta(),
            &hello.nonce,
            rng,
        );
        let mut late = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *late);
        if !setup.is_empty() {
            hello.set_setup(&setup);
        }
        let layout = Layout::new(&terms)?;
        terms.progress.set_total(layout.total_tables());
        Ok(Self {
            lead: Credit::new(layout.clone()),
            transfers: Transfers::new(&terms, layout.clone()),
            output_pieces: Assembler::new(FrameKind::Output, output_len(&terms.program)),
            terms,
            channel,
            outputs: VecDeque::new(),
            garbler,
            others,
            spawner,
            undecided,
            inputs,
            is_provided: false,
            fetched: VecDeque::new(),
            fetched_to: 0,
            hello,
            setup: Some(setup),
            agreed: None,
            ot,
            late,
            skips_setup: false,
            setup_received: false,
            answered: 0,
            layout,
            tables_left: 0,
            begun: 0,
            is_running: false,
            chunks: 0,
            held_labels: Vec::new(),
            held_outputs: VecDeque::new(),
            awaited: VecDeque::new(),
            returned: VecDeque::new(),
        })
    }

    pub(crate) fn handle(&mut self, frame: Frame) -> Result<(), SessionError> {
        let Some(Frame { kind, payload }) = self.channel.receive(frame)? else {
            return Ok(());
        };
        match (&self.agreed, kind) {
            (Some(_), _) | (None, FrameKind::Hello) => {}
            (None, _) => return Err(out_of_order(kind)),
        }
        match kind {
            FrameKind::Hello => self.handle_hello(&payload),
            FrameKind::OtSetup => self.handle_setup(&payload),
            FrameKind::OtExtendSetup => self.ot.handle_extend_setup(&payload),
            FrameKind::OtExtend => {
                let (first, message) = split_number(kind, &payload)?;
                self.handle_extend(first, &message)
            }
            FrameKind::OtCheck => self.handle_check(&payload),
            FrameKind::Output => self.handle_output(&payload),
            FrameKind::Finish => {
                if !self.is_all_sent() || !self.awaited.is_empty() {
                    return Err(out_of_order(kind));
                }
                self.channel.finish_received = true;
                self.channel.reach(Milestone::LastOutput);
                Ok(())
            }
            _ => Err(out_of_order(kind)),
        }
    }

    pub(crate) fn poll(&mut self, out: &mut Vec<u8>) -> Result<Progressed, SessionError> {
        if let Some(setup) = self.setup.take() {
            self.channel
                .send_opening(out, &self.hello.encode(), &setup)?;
        } else if self.channel.send_queued(out) {
        } else if let Some(outputs) = self.take_held() {
            self.release(outputs)?;
        } else if self.is_running {
            let len = self.tables_left.min(u64::from(self.terms.config.chunk_len));
            if !self.lead.allows(len) {
                return Ok(self.idle());
            }
            self.send_chunk(out)?;
        } else if self.begun < self.terms.config.batch {
            if self.awaits_scheme() || !self.may_begin() {
                return Ok(self.idle());
            }
            self.begin()?;
        } else if self.may_finish() {
            self.channel.send_finish(out)?;
        } else {
            return Ok(self.idle());
        }
        Ok(Progressed::Worked)
    }

    /// Returns the result of a poll that has no work.
    pub(crate) fn idle(&self) -> Progressed {
        if self.channel.is_finished() {
            Progressed::Finished
        } else {
            Progressed::Idle
        }
    }

    /// Returns whether the next evaluations may start. The window must have room for their bytes
    /// other than tables, and the output labels must stay within [`AWAITED_LIMIT`].
    fn may_begin(&self) -> bool {
        let lanes = self.layout.lanes(self.begun);
        let per_output = 16 * self.terms.program.outputs().len();
        let waiting = (self.awaited.len() + self.held_outputs.len()) * per_output;
        (self.lead.is_empty() || self.lead.allows(self.layout.untabled(lanes)))
            && (self.terms.is_prepared
                || waiting == 0
                || waiting + lanes * per_output <= AWAITED_LIMIT)
    }

    fn begin(&mut self) -> Result<(), SessionError> {
        self.fetch()?;
        let Some(bits) = self.fetched.pop_front() else {
            return Ok(());
        };
        let lanes = bits.len();
        let instances = self.begun..self.begun + lanes as u64;
        let is_prepared = self.terms.is_prepared;
        if is_prepared {
            self.garbler.begin_without_inputs(lanes)?;
        } else if self.others.is_none() {
            self.garbler.begin_side_by_side(&bits)?;
        }
        self.begun = instances.end;
        self.is_running = true;
        self.tables_left = self.layout.tables(lanes);
        self.lead.commit(self.layout.untabled(lanes));
        if self.terms.sends_garbler_labels() && !is_prepared {
            for (instance, bits) in instances.zip(&bits) {
                self.send_labels(instance, bits);
            }
        }
        if self.tables_left == 0 {
            self.finish_instances()?;
        }
        Ok(())
    }

    /// Starts evaluations without tables until one of them waits for its `Output` message.
    fn begin_without_tables(&mut self) -> Result<(), SessionError> {
        while !self.is_output_due()
            && !self.is_running
            && self.begun < self.terms.config.batch
            && self.layout.tables(self.layout.lanes(self.begun)) == 0
            && self.may_begin()
        {
            self.begin()?;
        }
        Ok(())
    }

    /// Fetches the input bits of the next groups of evaluations, one group per thread.
    fn fetch(&mut self) -> Result<(), SessionError> {
        let threads = self.terms.config.threads.get();
        while self.fetched.len() < threads && self.fetched_to < self.terms.config.batch {
            let first = self.fetched_to;
            let lanes = self.layout.lanes(first);
            self.fetched_to += lanes as u64;
            let mut bits = Vec::with_capacity(lanes);
            for instance in first..self.fetched_to {
                bits.push(match &mut self.inputs {
                    Some(inputs) if !self.terms.is_prepared => {
                        let own = inputs.bits(instance);
                        own.map_err(|source| SessionError::Input { instance, source })?
                    }
                    _ => Bits::new(),
                });
            }
            if let Some(others) = &mut self.others {
                others.begin(first, bits.clone())?;
            }
            if let Some(undecided) = &mut self.undecided {
                undecided.keep(&bits);
            }
            self.fetched.push_back(bits);
        }
        Ok(())
    }

    /// Queues the active labels of this party's inputs. They are sent after the hellos agree.
    fn send_labels(&mut self, instance: u64, bits: &Bits) {
        let width = self.terms.split.garbler_bits();
        for start in (0..width).step_by(LABELS_PER_FRAME) {
            let range = start..width.min(start + LABELS_PER_FRAME);
            let mut labels = Vec::with_capacity(range.len() * 16);
            self.garbler
                .garbler_labels(instance, range, bits, &mut labels);
            let first = instance * width as u64 + start as u64;
            let frame = numbered_frame(FrameKind::GarblerLabels, first, &[&labels]);
            if self.agreed.is_some() {
                self.channel.queue(frame);
            } else {
                self.held_labels.push(frame);
            }
        }
    }

    fn send_chunk(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        let number = self.chunks;
        let max_len = self.terms.config.chunk_len as usize;
        let (garbler, others) = (&mut self.garbler, &mut self.others);
        let mut len = 0;
        self.channel.send(out, FrameKind::Tables, |out| {
            out.extend_from_slice(&number.to_le_bytes());
            let start = out.len();
            match others {
                Some(others) => others.chunk(out)?,
                None => garbler.garble_chunk(max_len, out).map(drop)?,
            }
            len = (out.len() - start) as u64;
            Ok(())
        })?;
        self.chunks += 1;
        self.tables_left -= len;
        self.lead.commit(len);
        self.terms.progress.add_tables(len);
        self.channel.reach(Milestone::FirstTable);
        if self.tables_left == 0 {
            self.finish_instances()?;
        }
        Ok(())
    }

    /// Takes the outputs of the evaluations that were garbled together.
    fn finish_instances(&mut self) -> Result<(), SessionError> {
        self.is_running = false;
        if self.begun == self.terms.config.batch {
            self.channel.reach(Milestone::LastTable);
        }
        let outputs = match &mut self.others {
            Some(others) => others.outputs()?,
            None => {
                let lanes = self.garbler.lanes();
                let outputs = iter::repeat_with(|| self.garbler.take_outputs()).take(lanes);
                outputs.collect::<Result<_, _>>()?
            }
        };
        for outputs in outputs {
            self.terms.progress.add_evaluation();
            self.held_outputs.push_back(outputs);
        }
        Ok(())
    }

    fn is_all_sent(&self) -> bool {
        self.begun == self.terms.config.batch
            && !self.is_running
            && self.held_outputs.is_empty()
            && self.channel.is_flushed()
            && self.agreed.is_some()
            && self.answered == self.terms.total_choices
    }

    fn may_finish(&self) -> bool {
        !self.channel.finish_sent && self.is_all_sent() && self.awaited.is_empty()
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
        if self.follow_scheme(scheme, begins_again, payload)? {
            return Ok(());
        }
        self.follow(plan);
        self.skips_setup = theirs.announces_setup() && !theirs.has_begun(plan);
        let sid = self.terms.session_id(&self.hello.encode(), payload)?;
        self.agreed = Some(Agreed { sid, theirs });
        self.channel.reach(Milestone::Agreed);
        for frame in self.held_labels.drain(..) {
            self.channel.queue(frame);
        }
        self.count_labelled();
        Ok(())
    }

    fn handle_setup(&mut self, message: &[u8]) -> Result<(), SessionError> {
        let Some(agreed) = self.agreed.as_ref().filter(|_| !self.setup_received) else {
            return Err(out_of_order(FrameKind::OtSetup));
        };
        if std::mem::take(&mut self.skips_setup) {
            return check_setup(&agreed.theirs, message);
        }
        self.setup_received = true;
        if agreed.theirs.announces_setup() && agreed.theirs.has_begun(self.terms.plan) {
            check_setup(&agreed.theirs, message)?;
        }
        let answer = self.ot.handle_setup(
            &agreed.sid,
            &agreed.theirs.nonce,
            message,
            self.terms.total_choices as usize,
            &self.garbler,
            &self.transfers,
        )?;
        if let Some(setup) = answer.setup {
            self.channel.queue(whole_frame(FrameKind::OtSetup, &setup));
        }
        if let Some(reply) = answer.reply {
            let frame = numbered_frame(FrameKind::OtReply, 0, &[&reply]);
            self.channel.queue(frame);
            self.answered = self.terms.total_choices;
            self.count_labelled();
        }
        Ok(())
    }

    fn handle_extend(&mut self, first: u64, message: &[u8]) -> Result<(), SessionError> {
        let left = self.terms.total_choices - self.answered;
        let n = left.min(OT_CHUNK as u64) as usize;
        if first != self.answered || n == 0 {
            return Err(SessionError::Unexpected {
                kind: FrameKind::OtExtend,
                problem: "it is not about the next transfers",
            });
        }
        let made = self.begun.saturating_mul(self.terms.choices as u64);
        if first > made.saturating_add(self.layout.max_asked()) {
            return Err(SessionError::Unexpected {
                kind: FrameKind::OtExtend,
                problem: "it asks further ahead of the tables than agreed",
            });
        }
        let challenge = self.channel.received_hash();
        self.ot.handle_extend(first, n, message, &challenge)
    }

    /// Verifies the check of a segment of transfers, and queues the answer.
    fn handle_check(&mut self, message: &[u8]) -> Result<(), SessionError> {
        let (first, n, reply) = self.ot.handle_check(
            message,
            &mut self.garbler,
            &self.transfers,
            self.others.is_none(),
        )?;
        let frame = numbered_frame(FrameKind::OtReply, first, &[&reply]);
        self.channel.queue(frame);
        self.answered += n as u64;
        self.count_labelled();
        Ok(())
    }

    /// Updates the credit with the number of answered transfers.
    fn count_labelled(&mut self) {
        let choices = self.terms.choices as u64;
        self.lead.set_answered(match choices {
            0 => self.terms.config.batch,
            _ => self.answered,
        });
        if self.answered >= choices {
            self.channel.reach(Milestone::FirstLabels);
        }
    }
}
