//! The state machine of a connection.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use rand::{CryptoRng, SeedableRng, rngs::StdRng};
use transpute_circuit::{Bits, InputSplit, Program};
use transpute_ot::{BLOCK_OTS, BaseSender};

use super::{
    ConnectionConfig, Event, RunId, RunReport,
    events::GARBLES,
    open::{Agreed, FIRST, Limits, Open},
    side::{Active, Arrived, Held, Run, Side},
    stock::{ReceiverStock, SenderStock},
};
use crate::{
    Config, Frame, FrameKind, Inputs, OtChoice, OtPlan, Progressed, Role, Session, SessionError,
    config::ConfigError,
    error::{AbortReason, Farewell},
    ot::OT_CHUNK,
    pieces::whole_frame,
    session::{Core, Setting, Terms, total_choices},
};

/// Bytes of tables that one run sends before others have their turn: small runs pass whole, so that
/// those which are called first end first.
const TURN: usize = 256 << 10;

/// Bytes of answers that wait to be sent above which no input is taken. Peers that keep to the limits
/// never ask for as much.
const QUEUE_LIMIT: u64 = 32 << 20;

/// Bytes of tables that could be evaluated above which no input is taken.
const BACKLOG_LIMIT: u64 = 4 << 20;

/// Transfers that may be asked for and not answered, in all runs together.
const TRANSFER_LIMIT: u64 = 1 << 19;

/// The most transfers to have in stock.
const MAX_STOCK: usize = 1 << 16;

/// Reason in the `Abort` that only says that the other one has been heard.
const HEARD: u8 = 0;

/// What an application asks for: a run in one of the two roles.
pub struct Call {
    /// What is computed.
    pub program: Arc<Program>,
    /// Whose the inputs are.
    pub split: InputSplit,
    /// The settings; `table_lead` and `threads` are not used.
    pub config: Config,
    /// This side's inputs; `None` for a run that is only prepared.
    pub inputs: Option<Box<dyn Inputs>>,
}

/// One side of a standing connection, without I/O.
///
/// Give it what arrives ([`handle`](Self::handle)), send what it makes ([`poll`](Self::poll)), collect
/// what happens ([`next_event`](Self::next_event)). An error of either ends the connection; a run that
/// fails alone ends with an event.
pub struct Connection {
    config: ConnectionConfig,
    open: Open,
    agreed: Option<Agreed>,
    rng: StdRng,
    /// Whole frames to be sent before anything else.
    control: VecDeque<Vec<u8>>,
    control_bytes: usize,
    garbling: Side,
    evaluating: Side,
    /// Runs with something to send that the peer waits for.
    urgent: VecDeque<RunId>,
    events: VecDeque<Event>,
    /// For runs in which this side garbles.
    sender: Option<SenderStock>,
    /// For runs in which it evaluates: before the peer's base-OT message is here, and behind that.
    base: Option<BaseSender>,
    receiver: Option<ReceiverStock>,
    /// Transfers that may still be done without the stock.
    direct_left: u64,
    /// Whether it is the turn of a run in which this side evaluates.
    evaluates_next: bool,
    is_closing: bool,
    close_sent: bool,
    /// Calls of the peer, as garbler and as evaluator, when it closed.
    close_received: Option<[u32; 2]>,
}

impl Connection {
    /// Opens a connection. `encrypted` says whether the link authenticates and hides what it carries;
    /// both sides must say the same.
    #[must_use]
    pub fn new(config: ConnectionConfig, encrypted: bool) -> Self {
        Self::with_rng(config, encrypted, &mut rand::make_rng::<StdRng>())
    }

    /// Opens a connection whose secrets come from `rng`.
    pub(crate) fn with_rng(
        config: ConnectionConfig,
        encrypted: bool,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let (open, base) = Open::new(&config, encrypted, rng);
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        let mut connection = Self {
            rng: StdRng::from_seed(*seed),
            control: VecDeque::new(),
            control_bytes: 0,
            garbling: Side::new(),
            evaluating: Side::new(),
            urgent: VecDeque::new(),
            events: VecDeque::new(),
            sender: None,
            base: Some(base),
            receiver: None,
            direct_left: OtPlan::DIRECT_LIMIT,
            evaluates_next: false,
            is_closing: false,
            close_sent: false,
            close_received: None,
            agreed: None,
            open,
            config,
        };
        connection.control(whole_frame(FrameKind::Open, &connection.open.encode()));
        if connection.config.garbles {
            connection.set_up_sender();
        }
        connection
    }

    /// Calls for a run; the peer's call of the same number in the other role is its other side. A run
    /// whose settings cannot work ends with an event, on both sides.
    ///
    /// # Errors
    /// [`SessionError::Closed`] if the connection is closing or has no number left.
    pub fn call(&mut self, role: Role, call: Call) -> Result<RunId, SessionError> {
        let side = match role {
            Role::Garbler => &mut self.garbling,
            Role::Evaluator => &mut self.evaluating,
        };
        let peer_called = self.close_received.map(|called| match role {
            Role::Garbler => called[1],
            Role::Evaluator => called[0],
        });
        let is_over = peer_called.is_some_and(|called| side.called >= called);
        if self.is_closing || is_over || side.called >= GARBLES - 1 {
            return Err(SessionError::Closed);
        }
        let has_transfers = call.split.evaluator_bits() > 0;
        let number = side.call(call);
        if role == Role::Garbler && has_transfers && self.sender.is_none() {
            self.set_up_sender();
            self.connect_sender()?;
        }
        self.start_waiting(role)?;
        Ok(RunId::new(role, number))
    }

    /// Gives a prepared run its inputs.
    ///
    /// # Errors
    /// Those that end the connection.
    pub fn provide(&mut self, run: RunId, inputs: Box<dyn Inputs>) -> Result<(), SessionError> {
        let limits = self.limits();
        let side = self.side(run.role());
        if let Some(Run::Held(held)) = side.get(run.number)
            && let Some(call) = &mut held.call
        {
            call.inputs = Some(inputs);
            return Ok(());
        }
        let done = side.work(run.number, limits, |session| match &mut session.0 {
            Core::Garbler(core) => core.provide(inputs),
            Core::Evaluator(core) => {
                core.provide(inputs);
                Ok(())
            }
        });
        self.settle(run, done)
    }

    /// Gives a run up. The peer hears of it; other runs go on.
    pub fn cancel(&mut self, run: RunId) {
        let side = self.side(run.role());
        match side.get(run.number) {
            Some(Run::Held(held)) if held.call.is_some() => {
                // Its turn comes all the same, so that the peer hears of it.
                held.call = None;
            }
            Some(Run::Active(_)) => self.end(run, Err(SessionError::Cancelled)),
            _ => {}
        }
    }

    /// Makes no further calls: the connection ends when all runs have.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Says whether frames may be given to [`handle`](Self::handle) now. If not, poll first.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let queued = self.garbling.sum.queued + self.evaluating.sum.queued;
        let sum = &self.evaluating.sum;
        let backlog = sum.tables.saturating_sub(sum.used);
        queued + (self.control_bytes as u64) < QUEUE_LIMIT
            && (backlog < BACKLOG_LIMIT || self.evaluating.ready.is_empty())
    }

    /// Returns the next thing that happened.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the last frame to send after an error that ended the connection, if the peer should
    /// hear of it.
    #[must_use]
    pub fn farewell(error: &SessionError) -> Option<Vec<u8>> {
        let code = match error.farewell()? {
            Farewell::Refuse(_) => AbortReason::Protocol,
            Farewell::Abort(reason) => reason,
        };
        Some(whole_frame(FrameKind::Abort, &[0, 0, 0, 0, code as u8]))
    }

    /// Takes one received frame.
    ///
    /// # Errors
    /// Any that ends the connection; send [`farewell`](Self::farewell) and close.
    pub fn handle(&mut self, frame: Frame) -> Result<(), SessionError> {
        let Frame { kind, payload } = frame;
        if kind == FrameKind::Alive {
            return Ok(());
        }
        if self.close_received.is_some() {
            return Err(SessionError::Unexpected {
                kind,
                problem: "the peer had closed the connection",
            });
        }
        if self.agreed.is_none() {
            return match kind {
                FrameKind::Open => self.handle_open(&payload),
                _ => Err(SessionError::Unexpected {
                    kind,
                    problem: "a standing connection begins otherwise",
                }),
            };
        }
        let Some((tag, _)) = payload.split_first_chunk() else {
            return Err(SessionError::Unexpected {
                kind,
                problem: "it does not say of which run it is",
            });
        };
        let tag = u32::from_le_bytes(*tag);
        let content = payload.slice(4..);
        // Who sends as garbler talks to the evaluator.
        let role = if tag & GARBLES != 0 {
            Role::Evaluator
        } else {
            Role::Garbler
        };
        match tag & !GARBLES {
            0 => self.handle_control(role, kind, &content),
            number => self.handle_run(RunId::new(role, number), kind, content),
        }
    }

    /// Does one bounded piece of work: appends a few frames to `out` or evaluates one chunk. With
    /// `may_send` false it only does what makes no bytes.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub fn poll(&mut self, out: &mut Vec<u8>, may_send: bool) -> Result<Progressed, SessionError> {
        if may_send {
            if let Some(frame) = self.control.pop_front() {
                self.control_bytes -= frame.len();
                out.extend_from_slice(&frame);
                return Ok(Progressed::Worked);
            }
            while let Some(run) = self.urgent.pop_front() {
                if self.poll_urgent(run, out)? {
                    return Ok(Progressed::Worked);
                }
            }
        }
        for _ in 0..2 {
            self.evaluates_next = !self.evaluates_next;
            let worked = if self.evaluates_next {
                self.poll_ready(Role::Evaluator, out, may_send)?
            } else {
                may_send && self.poll_ready(Role::Garbler, out, true)?
            };
            if worked {
                return Ok(Progressed::Worked);
            }
        }
        if may_send && (self.top_up(out) || self.poll_close(out)) {
            return Ok(Progressed::Worked);
        }
        Ok(if self.close_sent && self.close_received.is_some() {
            Progressed::Finished
        } else {
            Progressed::Idle
        })
    }

    fn side(&mut self, role: Role) -> &mut Side {
        match role {
            Role::Garbler => &mut self.garbling,
            Role::Evaluator => &mut self.evaluating,
        }
    }

    fn limits(&self) -> Limits {
        match &self.agreed {
            Some(agreed) => agreed.limits,
            None => Limits {
                prepared: 0,
                ..FIRST
            },
        }
    }

    fn control(&mut self, frame: Vec<u8>) {
        self.control_bytes += frame.len();
        self.control.push_back(frame);
    }

    /// Queues a frame about the connection, or about the stock of one direction.
    fn control_frame(&mut self, garbles: bool, kind: FrameKind, content: &[u8]) {
        let tag = if garbles { GARBLES } else { 0 };
        let payload = [&tag.to_le_bytes(), content].concat();
        self.control(whole_frame(kind, &payload));
    }

    fn handle_open(&mut self, payload: &[u8]) -> Result<(), SessionError> {
        let agreed = self.open.agree(Open::decode(payload)?)?;
        self.agreed = Some(agreed);
        self.connect_sender()?;
        for role in [Role::Garbler, Role::Evaluator] {
            for number in self.side(role).numbers() {
                let context = self.context(role, number);
                if let Some(active) = self.side(role).active(number) {
                    set_context(&mut active.session, context);
                }
            }
            self.start_waiting(role)?;
        }
        self.wake(Role::Garbler);
        self.events.push_back(Event::Opened);
        Ok(())
    }

    /// Returns what a run is bound to, if it is known.
    fn context(&self, role: Role, number: u32) -> Option<[u8; 32]> {
        let agreed = self.agreed.as_ref()?;
        let garbler = match role {
            Role::Garbler => &self.open.nonce,
            Role::Evaluator => &agreed.theirs.nonce,
        };
        Some(agreed.run_context(garbler, number))
    }

    /// Begins the stock for runs in which this side garbles.
    fn set_up_sender(&mut self) {
        let (stock, message) = SenderStock::start(&self.open.nonce, &mut self.rng);
        self.control_frame(true, FrameKind::OtSetup, &message);
        self.sender = Some(stock);
    }

    /// Goes on with that once the peer's opening is here.
    fn connect_sender(&mut self) -> Result<(), SessionError> {
        let (Some(sender), Some(agreed)) = (&mut self.sender, &self.agreed) else {
            return Ok(());
        };
        let sid = agreed.stock_id(&self.open.nonce);
        sender.connect(agreed.theirs.extension, &sid, &agreed.theirs.point)
    }

    fn handle_control(
        &mut self,
        role: Role,
        kind: FrameKind,
        content: &Bytes,
    ) -> Result<(), SessionError> {
        let unexpected = SessionError::Unexpected {
            kind,
            problem: "it is not about a run",
        };
        match (kind, role) {
            (FrameKind::OtSetup, Role::Evaluator) => {
                let (Some(agreed), Some(base)) = (&self.agreed, self.base.take()) else {
                    return Err(unexpected);
                };
                let (kind, nonce) = (self.open.extension, agreed.theirs.nonce);
                let sid = agreed.stock_id(&nonce);
                let (stock, corrections) = ReceiverStock::new(kind, base, &sid, &nonce, content)?;
                self.receiver = Some(stock);
                if !corrections.is_empty() {
                    self.control_frame(false, FrameKind::OtExtendSetup, &corrections);
                }
                self.wake(Role::Evaluator);
                Ok(())
            }
            (FrameKind::OtExtendSetup, Role::Garbler) => match &mut self.sender {
                Some(sender) => sender.handle_setup(content),
                None => Err(unexpected),
            },
            (FrameKind::OtExtend, Role::Garbler) => match &mut self.sender {
                Some(sender) => sender.handle_extend(content, MAX_STOCK + OT_CHUNK + BLOCK_OTS),
                None => Err(unexpected),
            },
            (FrameKind::Close, Role::Garbler) => {
                let (counts, rest) = content.as_chunks::<4>();
                let (&[garbled, evaluated], []) = (counts, rest) else {
                    return Err(SessionError::Length {
                        kind,
                        expected: 8,
                        found: content.len(),
                    });
                };
                let called = [garbled, evaluated].map(u32::from_le_bytes);
                self.close_received = Some(called);
                self.handle_close(called)
            }
            (FrameKind::Abort, Role::Garbler) => {
                let reason = content
                    .first()
                    .and_then(|code| AbortReason::from_code(*code));
                Err(SessionError::PeerAborted(
                    reason.unwrap_or(AbortReason::Protocol),
                ))
            }
            _ => Err(unexpected),
        }
    }

    /// Ends what the peer will not call for any more.
    fn handle_close(&mut self, [garbled, evaluated]: [u32; 2]) -> Result<(), SessionError> {
        for (role, theirs) in [(Role::Evaluator, garbled), (Role::Garbler, evaluated)] {
            for number in self.side(role).numbers() {
                let run = RunId::new(role, number);
                if number > theirs {
                    let side = self.side(role);
                    let held = side.take_held(number);
                    let was_called = held.is_some_and(|held| held.call.is_some());
                    let was_active = side.take_active(number).is_some();
                    side.close(number);
                    if was_called || was_active {
                        self.events
                            .push_back(Event::Ended(run, Err(SessionError::Closed)));
                    }
                }
            }
            self.start_waiting(role)?;
        }
        self.is_closing = true;
        Ok(())
    }

    fn handle_run(
        &mut self,
        run: RunId,
        kind: FrameKind,
        payload: Bytes,
    ) -> Result<(), SessionError> {
        let limits = self.limits();
        // Transfers leave the stock in the order of these frames, whatever becomes of the run.
        let is_correct = kind == FrameKind::OtCorrect && run.garbles;
        let rows = match (&mut self.sender, is_correct) {
            (Some(sender), true) => Some(sender.take(&payload)?),
            _ => None,
        };
        let frame = Frame { kind, payload };
        let side = self.side(run.role());
        side.check(run.number, limits, kind)?;
        let arrived = match rows {
            Some(rows) => Arrived::Correct(frame, rows),
            None => Arrived::Frame(frame),
        };
        match side.get(run.number) {
            None | Some(Run::Held(_)) => {
                side.hold(run.number, arrived, limits)?;
                Ok(())
            }
            Some(Run::Active(_)) => self.deliver(run, arrived),
            Some(Run::Over) => {
                if matches!(
                    kind,
                    FrameKind::Finish | FrameKind::Refuse | FrameKind::Abort
                ) {
                    side.close(run.number);
                    self.start_waiting(run.role())?;
                }
                Ok(())
            }
        }
    }

    /// Gives an active run what came about it.
    fn deliver(&mut self, run: RunId, arrived: Arrived) -> Result<(), SessionError> {
        let limits = self.limits();
        let before = self.side(run.role()).sum;
        let done = self
            .side(run.role())
            .work(run.number, limits, |session| match arrived {
                Arrived::Frame(frame) => session.handle(frame),
                Arrived::Correct(frame, rows) => match &mut session.0 {
                    Core::Garbler(core) => core.handle_correct(frame, rows),
                    // Only a garbler's runs have them.
                    Core::Evaluator(_) => Ok(()),
                },
            });
        self.settle(run, done)?;
        let sum = self.side(run.role()).sum;
        if sum.used < before.used
            || sum.transfers < before.transfers
            || sum.unagreed < before.unagreed
        {
            self.wake(run.role());
        }
        Ok(())
    }

    /// Starts the calls whose turn it is.
    fn start_waiting(&mut self, role: Role) -> Result<(), SessionError> {
        let limits = self.limits();
        let mut from = 0;
        loop {
            let side = self.side(role);
            let Some(&number) = side.waiting.range(from..).next() else {
                return Ok(());
            };
            if !side.is_in_range(number, limits) {
                return Ok(());
            }
            from = number + 1;
            // Room for prepared runs is not known before the openings are.
            let is_prepared = match side.get(number) {
                Some(Run::Held(held)) => held.is_prepared,
                _ => false,
            };
            if is_prepared && self.agreed.is_none() {
                continue;
            }
            if let Some(held) = self.side(role).take_held(number) {
                self.start(RunId::new(role, number), held)?;
            }
        }
    }

    /// Starts a run and gives it what has come already.
    fn start(&mut self, run: RunId, held: Held) -> Result<(), SessionError> {
        let begun = match held.call {
            Some(call) => self.begin(run, call, held.is_prepared),
            None => Err(SessionError::Cancelled),
        };
        match begun {
            Ok(active) => self.side(run.role()).insert(run.number, active),
            Err(error) => {
                self.part(run, &error, held.is_ended);
                self.events.push_back(Event::Ended(run, Err(error)));
                return Ok(());
            }
        }
        self.schedule(run);
        for arrived in held.arrived {
            self.deliver(run, arrived)?;
        }
        Ok(())
    }

    /// Makes the session of a run.
    fn begin(&mut self, run: RunId, call: Call, is_prepared: bool) -> Result<Active, SessionError> {
        let Call {
            program,
            split,
            mut config,
            inputs,
        } = call;
        config.table_lead = 0;
        config.threads = std::num::NonZeroUsize::MIN;
        let count = total_choices(&split, &config)?;
        let plan = match (config.ot, count) {
            (_, 0) => OtPlan::None,
            (OtChoice::Auto, _) => OtPlan::Stock,
            (OtChoice::Direct, count) if !is_prepared && count <= OtPlan::DIRECT_LIMIT => {
                OtPlan::Direct
            }
            _ => return Err(ConfigError::OtOfConnection.into()),
        };
        let setting = Setting::Run {
            context: self.context(run.role(), run.number),
            is_prepared,
        };
        let terms = Terms::new(program, split, config, plan, setting)?;
        let encrypted = self.open.is_encrypted;
        let (early, late) = match run.role() {
            Role::Garbler if is_prepared => (None, inputs),
            _ => (inputs, None),
        };
        let mut session = Session::start(
            run.role(),
            terms,
            early,
            encrypted,
            &run.tag(),
            &mut self.rng,
        )?;
        let mut reserved = 0;
        if is_prepared {
            let layout = match &mut session.0 {
                Core::Garbler(core) => *core.layout(),
                Core::Evaluator(core) => *core.layout(),
            };
            reserved = layout.total_tables();
            let limit = self.limits().prepared;
            let free = limit.saturating_sub(self.side(run.role()).prepared);
            if reserved > free {
                return Err(SessionError::PreparedFull {
                    needed: reserved,
                    free,
                });
            }
        }
        if let (Some(inputs), Core::Garbler(core)) = (late, &mut session.0) {
            core.provide(inputs)?;
        }
        Ok(Active::new(session, reserved))
    }

    /// Looks at what became of a piece of work on a run.
    fn settle(
        &mut self,
        run: RunId,
        done: Option<Result<(), SessionError>>,
    ) -> Result<(), SessionError> {
        match done {
            None => Ok(()),
            Some(Ok(())) => {
                self.note(run);
                if self.end_finished(run) {
                    return self.start_waiting(run.role());
                }
                self.schedule(run);
                Ok(())
            }
            Some(Err(error)) if error.ends_connection() => Err(error),
            Some(Err(error)) => {
                self.end(run, Err(error));
                self.start_waiting(run.role())
            }
        }
    }

    /// Ends a run that is complete in both directions; says whether it is. At once, because the peer
    /// may use its place from then on.
    fn end_finished(&mut self, run: RunId) -> bool {
        let active = self.side(run.role()).active(run.number);
        let is_finished = active.is_some_and(|active| active.session.channel().is_finished());
        if is_finished {
            self.end(run, Ok(()));
        }
        is_finished
    }

    /// Tells what a run has come to.
    fn note(&mut self, run: RunId) {
        let Self {
            garbling,
            evaluating,
            events,
            ..
        } = self;
        let side = if run.garbles { garbling } else { evaluating };
        let Some(active) = side.active(run.number) else {
            return;
        };
        while let Some(output) = active.session.next_output() {
            events.push_back(Event::Output(run, output));
        }
        if active.session.terms().is_prepared() && !active.is_announced && active.is_prepared() {
            active.is_announced = true;
            events.push_back(Event::Prepared(run));
        }
    }

    /// Puts a run where it is polled.
    fn schedule(&mut self, run: RunId) {
        let Self {
            garbling,
            evaluating,
            urgent,
            ..
        } = self;
        let side = if run.garbles { garbling } else { evaluating };
        let Some(active) = side.active(run.number) else {
            return;
        };
        if active.wants_urgently() && !active.is_urgent {
            active.is_urgent = true;
            urgent.push_back(run);
        }
        if !active.is_ready {
            active.is_ready = true;
            side.ready.push_back(run.number);
        }
    }

    /// Lets runs of a role try again that waited for room or transfers.
    fn wake(&mut self, role: Role) {
        for number in std::mem::take(&mut self.side(role).parked) {
            self.schedule(RunId::new(role, number));
        }
    }

    /// Sends what the peer waits for; says whether there was anything.
    fn poll_urgent(&mut self, run: RunId, out: &mut Vec<u8>) -> Result<bool, SessionError> {
        let limits = self.limits();
        let side = self.side(run.role());
        let Some(active) = side.active(run.number) else {
            return Ok(false);
        };
        active.is_urgent = false;
        let is_question = match &active.session.0 {
            Core::Garbler(core) if !core.is_urgent() => return Ok(false),
            Core::Garbler(_) => false,
            Core::Evaluator(core) => !core.is_urgent(),
        };
        if is_question {
            return self.ask(run, out);
        }
        let done = side.work(run.number, limits, |session| {
            session.poll(out, true).map(drop)
        });
        self.settle(run, done)?;
        Ok(true)
    }

    /// Asks for the next labels of a run; says whether it could.
    fn ask(&mut self, run: RunId, out: &mut Vec<u8>) -> Result<bool, SessionError> {
        let limits = self.limits();
        let side = &mut self.evaluating;
        let (sum, called) = (side.sum, side.active(run.number));
        let Some(active) = called else {
            return Ok(false);
        };
        let Core::Evaluator(core) = &active.session.0 else {
            return Ok(false);
        };
        let Some(count) = core.question() else {
            return Ok(false);
        };
        let total = active.session.terms().total_choices;
        let added = count as u64;
        let has_room = sum.transfers + added <= TRANSFER_LIMIT
            && (core.has_agreed() || sum.unagreed + added <= super::side::HELD_TRANSFERS);
        let may_be_direct = core.may_ask_directly()
            && !active.session.terms().is_prepared()
            && total <= self.direct_left;
        let done = match &mut self.receiver {
            Some(stock) if has_room => {
                // No transfer leaves the stock before there is a choice to use it for.
                let drawn = side.work(run.number, limits, |session| match &mut session.0 {
                    Core::Evaluator(core) => core.draw_choices(count),
                    Core::Garbler(_) => Ok(Bits::new()),
                });
                match drawn {
                    None => None,
                    Some(Err(error)) => Some(Err(error)),
                    Some(Ok(choices)) => {
                        if stock.len() < count {
                            extend_stock(stock, count - stock.len(), &mut self.rng, out);
                        }
                        let Some(items) = stock.take(count) else {
                            return Err(SessionError::Cancelled);
                        };
                        side.work(run.number, limits, |session| match &mut session.0 {
                            Core::Evaluator(core) => core.ask(items, choices, out),
                            Core::Garbler(_) => Ok(()),
                        })
                    }
                }
            }
            None if has_room && may_be_direct => {
                self.direct_left -= total;
                active.is_direct = true;
                side.work(run.number, limits, |session| match &mut session.0 {
                    Core::Evaluator(core) => core.ask_directly(out),
                    Core::Garbler(_) => Ok(()),
                })
            }
            _ => {
                side.parked.insert(run.number);
                return Ok(false);
            }
        };
        self.settle(run, done)?;
        Ok(true)
    }

    /// Does a piece of work of the run whose turn it is; says whether any run had one.
    fn poll_ready(
        &mut self,
        role: Role,
        out: &mut Vec<u8>,
        may_send: bool,
    ) -> Result<bool, SessionError> {
        let limits = self.limits();
        for _ in 0..self.side(role).ready.len() {
            let Some(&number) = self.side(role).ready.front() else {
                break;
            };
            let run = RunId::new(role, number);
            let side = self.side(role);
            let start = out.len();
            let used = side.sum.used;
            let Some(result) = side.work(number, limits, |session| session.poll(out, may_send))
            else {
                side.ready.pop_front();
                continue;
            };
            let (done, progressed) = match result {
                Ok(progressed) => (Ok(()), progressed),
                Err(error) => (Err(error), Progressed::Idle),
            };
            let is_freed = side.sum.used < used;
            if done.is_ok() {
                match progressed {
                    Progressed::Worked => {
                        if let Some(active) = side.active(number) {
                            active.turn += out.len() - start;
                            // Evaluation takes turns chunk by chunk, as they come.
                            if active.turn >= TURN || role == Role::Evaluator {
                                active.turn = 0;
                                side.ready.rotate_left(1);
                            }
                        }
                    }
                    // It may have something to send.
                    Progressed::Idle if !may_send => side.ready.rotate_left(1),
                    Progressed::Idle | Progressed::Finished => {
                        side.ready.pop_front();
                        if let Some(active) = side.active(number) {
                            active.is_ready = false;
                            active.turn = 0;
                            let is_held_back = match &active.session.0 {
                                Core::Garbler(core) => core.is_held_back(),
                                Core::Evaluator(_) => false,
                            };
                            if is_held_back {
                                side.parked.insert(number);
                            }
                        }
                    }
                }
            }
            let is_finished = if done.is_err() {
                self.settle(run, Some(done))?;
                false
            } else {
                self.note(run);
                let is_finished = self.end_finished(run);
                if is_finished {
                    self.start_waiting(role)?;
                } else {
                    self.schedule_urgent(run);
                }
                is_finished
            };
            if is_freed {
                self.wake(role);
            }
            if progressed == Progressed::Worked || is_finished {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts a run among the urgent ones if it is.
    fn schedule_urgent(&mut self, run: RunId) {
        let side = if run.garbles {
            &mut self.garbling
        } else {
            &mut self.evaluating
        };
        if let Some(active) = side.active(run.number)
            && active.wants_urgently()
            && !active.is_urgent
        {
            active.is_urgent = true;
            self.urgent.push_back(run);
        }
    }

    /// Ends an active run on this side.
    fn end(&mut self, run: RunId, result: Result<(), SessionError>) {
        let side = self.side(run.role());
        let Some(active) = side.take_active(run.number) else {
            return;
        };
        let channel = active.session.channel();
        match result {
            Ok(()) => {
                let report = RunReport {
                    traffic: channel.traffic,
                    bytes_sent: channel.bytes_sent,
                    bytes_received: channel.bytes_received,
                    ot: if active.is_direct {
                        OtPlan::Direct
                    } else {
                        active.session.terms().plan
                    },
                };
                side.close(run.number);
                self.events.push_back(Event::Ended(run, Ok(report)));
            }
            Err(error) => {
                let is_sent = channel.finish_sent;
                let is_received = channel.finish_received
                    || matches!(
                        error,
                        SessionError::PeerAborted(_) | SessionError::RefusedByPeer(_)
                    );
                if is_sent {
                    if is_received {
                        side.close(run.number);
                    } else {
                        side.expect_end(run.number);
                    }
                } else {
                    self.part(run, &error, is_received);
                }
                self.events.push_back(Event::Ended(run, Err(error)));
            }
        }
        self.wake(run.role());
    }

    /// Tells the peer that this side is done with a run that failed.
    fn part(&mut self, run: RunId, error: &SessionError, is_received: bool) {
        let (kind, code) = match error.farewell() {
            _ if matches!(error, SessionError::Cancelled) => {
                (FrameKind::Abort, AbortReason::Cancelled as u8)
            }
            Some(Farewell::Refuse(field)) => (FrameKind::Refuse, field as u8),
            Some(Farewell::Abort(reason)) => (FrameKind::Abort, reason as u8),
            None => (FrameKind::Abort, HEARD),
        };
        let payload = [&run.tag()[..], &[code]].concat();
        self.control(whole_frame(kind, &payload));
        let side = self.side(run.role());
        if is_received {
            side.close(run.number);
        } else {
            side.expect_end(run.number);
        }
    }

    /// Adds to the stock when there is nothing else to do; says whether it did.
    fn top_up(&mut self, out: &mut Vec<u8>) -> bool {
        let target = (self.config.stock as usize).min(MAX_STOCK);
        match &mut self.receiver {
            // Not for every transfer that is used: half of it at a time.
            Some(stock) if !self.is_closing && 2 * stock.len() < target => {
                extend_stock(stock, target - stock.len(), &mut self.rng, out);
                true
            }
            _ => false,
        }
    }

    fn poll_close(&mut self, out: &mut Vec<u8>) -> bool {
        let is_done = self.garbling.is_done() && self.evaluating.is_done();
        if !self.is_closing || self.close_sent || !is_done || self.agreed.is_none() {
            return false;
        }
        self.close_sent = true;
        let mut payload = vec![0; 4];
        payload.extend_from_slice(&self.garbling.called.to_le_bytes());
        payload.extend_from_slice(&self.evaluating.called.to_le_bytes());
        out.extend_from_slice(&whole_frame(FrameKind::Close, &payload));
        true
    }

    /// Returns what is held for runs in which this side has `role`: bytes of tables of runs not
    /// called, other bytes of those, transfers of those, and bytes of tables of runs under way.
    #[cfg(test)]
    pub(crate) fn held(&mut self, role: Role) -> [u64; 4] {
        let side = self.side(role);
        let (tables, bytes, transfers) = side.held();
        [tables, bytes, transfers, side.sum.tables]
    }

    /// Returns the offset of a run under way.
    #[cfg(test)]
    pub(crate) fn delta(&mut self, run: RunId) -> Option<[u8; 16]> {
        match &self.side(run.role()).active(run.number)?.session.0 {
            Core::Garbler(core) => core.delta().map(transpute_garble::Label::to_bytes),
            Core::Evaluator(_) => None,
        }
    }
}

fn set_context(session: &mut Session, context: Option<[u8; 32]>) {
    let Some(context) = context else { return };
    match &mut session.0 {
        Core::Garbler(core) => core.set_context(context),
        Core::Evaluator(core) => core.set_context(context),
    }
}

/// Appends frames that add at least `count` transfers to the stock.
fn extend_stock(
    stock: &mut ReceiverStock,
    count: usize,
    rng: &mut impl CryptoRng,
    out: &mut Vec<u8>,
) {
    let due = stock.len() + count;
    while stock.len() < due {
        let mut payload = vec![0; 4];
        stock.extend(due - stock.len(), rng, &mut payload);
        out.extend_from_slice(&whole_frame(FrameKind::OtExtend, &payload));
    }
}
