//! The state machine of a connection.

use std::{collections::VecDeque, sync::Arc};

use rand::{CryptoRng, SeedableRng};
use transpute_circuit::{InputSplit, Program};
use transpute_ot::{AnySender, BaseOt};

use super::{
    ConnectionConfig, Decline, Event, RunId,
    events::GARBLES,
    open::{Agreed, FIRST, Limits, Open, is_open_start},
    side::{Run, Side},
    stock::{ReceiverStock, SenderStock},
};
use crate::{
    Config, Frame, FrameKind, Inputs, OtPlan, Progressed, Role, SecretRng, SessionError,
    error::{AbortReason, Farewell},
    pieces::whole_frame,
    session::Core,
};

/// Bytes of tables that could be evaluated above which no input is taken.
const BACKLOG_LIMIT: u64 = 4 << 20;

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
    pub(super) config: ConnectionConfig,
    pub(super) open: Open,
    pub(super) agreed: Option<Agreed>,
    pub(super) rng: SecretRng,
    /// Whole frames to be sent before anything else.
    pub(super) control: VecDeque<Vec<u8>>,
    pub(super) control_bytes: usize,
    pub(super) garbling: Side,
    pub(super) evaluating: Side,
    /// Runs with something to send that the peer waits for.
    pub(super) urgent: VecDeque<RunId>,
    pub(super) events: VecDeque<Event>,
    /// For runs in which this side garbles.
    pub(super) sender: Option<SenderStock>,
    /// For runs in which it evaluates: before the peer's base-OT message is here, and behind that.
    pub(super) base: Option<AnySender>,
    pub(super) receiver: Option<ReceiverStock>,
    /// Transfers that this side may still ask for without the stock, where neither side demands direct
    /// transfers.
    pub(super) direct_left: u64,
    /// Transfers that the peer may still ask for likewise.
    pub(super) peer_direct_left: u64,
    /// Whether it is the turn of a run in which this side evaluates.
    pub(super) evaluates_next: bool,
    pub(super) is_closing: bool,
    pub(super) close_sent: bool,
    /// Calls of the peer, as garbler and as evaluator, when it closed.
    pub(super) close_received: Option<[u32; 2]>,
}

impl Connection {
    /// Opens a connection. `encrypted` says whether the link authenticates and hides what it carries;
    /// both sides must say the same.
    #[must_use]
    pub fn new(config: ConnectionConfig, encrypted: bool) -> Self {
        Self::with_rng(config, encrypted, &mut rand::make_rng::<SecretRng>())
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
            rng: SecretRng::from_seed(*seed),
            control: VecDeque::new(),
            control_bytes: 0,
            garbling: Side::new(&config),
            evaluating: Side::new(&config),
            urgent: VecDeque::new(),
            events: VecDeque::new(),
            sender: None,
            base: Some(base),
            receiver: None,
            direct_left: OtPlan::DIRECT_LIMIT,
            peer_direct_left: OtPlan::DIRECT_LIMIT,
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
        self.check_may_call(role)?;
        let side = self.side(role);
        let has_transfers = call.split.evaluator_bits() > 0;
        let number = side.call(call);
        if role == Role::Garbler && has_transfers && self.sender.is_none() {
            self.set_up_sender();
            self.connect_sender()?;
        }
        self.start_waiting(role)?;
        Ok(RunId::new(role, number))
    }

    /// Answers the peer's call for a run without calling for it: the next run in this role.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn decline(&mut self, role: Role, why: Decline) -> Result<(), SessionError> {
        self.check_may_call(role)?;
        let side = self.side(role);
        let (number, is_ended) = side.skip();
        self.part_with(RunId::new(role, number), why.frame(), is_ended);
        self.start_waiting(role)
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
        queued + (self.control_bytes as u64) < self.config.queue
            && (backlog < BACKLOG_LIMIT || self.evaluating.ready.is_empty())
    }

    /// Returns the next thing that happened.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns what to send at last after an error that ended the connection, if the peer should hear of
    /// it: the reason, and before it the opening if that is still to be sent.
    #[must_use]
    pub fn farewell(&mut self, error: &SessionError) -> Option<Vec<u8>> {
        let (kind, code) = match error.farewell()? {
            Farewell::Refuse(field) => (FrameKind::Refuse, field as u8),
            Farewell::Abort(reason) => (FrameKind::Abort, reason as u8),
        };
        let is_opening = |frame: &[u8]| frame.first_chunk().is_some_and(is_open_start);
        let opening = self.control.pop_front().filter(|frame| is_opening(frame));
        let mut words = opening.unwrap_or_default();
        words.extend(last_frame(kind, code));
        Some(words)
    }

    /// Returns all that is sent to a peer that is turned away: an opening that nothing follows, and the
    /// reason.
    #[must_use]
    pub fn refusal(encrypted: bool, reason: AbortReason) -> Vec<u8> {
        let mut rng = rand::make_rng::<SecretRng>();
        let (open, _) = Open::new(&ConnectionConfig::default(), encrypted, &mut rng);
        let abort = last_frame(FrameKind::Abort, reason as u8);
        [whole_frame(FrameKind::Open, &open.encode()), abort].concat()
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
        let is_end =
            matches!(kind, FrameKind::Refuse | FrameKind::Abort) && payload.starts_with(&[0; 4]);
        if self.agreed.is_none() && !is_end {
            return match kind {
                FrameKind::Open => self.handle_open(&payload),
                FrameKind::Hello => Err(SessionError::other_number_of_runs(false)),
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

    fn check_may_call(&mut self, role: Role) -> Result<(), SessionError> {
        let peer_called = self.close_received.map(|called| match role {
            Role::Garbler => called[1],
            Role::Evaluator => called[0],
        });
        let called = self.side(role).called;
        let is_over = peer_called.is_some_and(|theirs| called >= theirs);
        if self.is_closing || is_over || called >= GARBLES - 1 {
            return Err(SessionError::Closed);
        }
        Ok(())
    }

    pub(super) fn side(&mut self, role: Role) -> &mut Side {
        match role {
            Role::Garbler => &mut self.garbling,
            Role::Evaluator => &mut self.evaluating,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        match &self.agreed {
            Some(agreed) => agreed.limits,
            None => Limits {
                prepared: 0,
                ..FIRST
            },
        }
    }

    pub(super) fn control(&mut self, frame: Vec<u8>) {
        self.control_bytes += frame.len();
        self.control.push_back(frame);
    }

    /// Queues a frame about the connection, or about the stock of one direction.
    pub(super) fn control_frame(&mut self, garbles: bool, kind: FrameKind, content: &[u8]) {
        let tag = if garbles { GARBLES } else { 0 };
        let payload = [&tag.to_le_bytes(), content].concat();
        self.control(whole_frame(kind, &payload));
    }

    /// Returns what a run is bound to, if it is known.
    pub(super) fn context(&self, role: Role, number: u32) -> Option<[u8; 32]> {
        let agreed = self.agreed.as_ref()?;
        let garbler = match role {
            Role::Garbler => &self.open.nonce,
            Role::Evaluator => &agreed.theirs.nonce,
        };
        Some(agreed.run_context(garbler, number))
    }

    /// Begins the stock for runs in which this side garbles.
    pub(super) fn set_up_sender(&mut self) {
        let (stock, message) =
            SenderStock::start(self.open.base_ot, &self.open.nonce, &mut self.rng);
        self.control_frame(true, FrameKind::OtSetup, &message);
        self.sender = Some(stock);
    }

    /// Goes on with that once the peer's opening is here.
    pub(super) fn connect_sender(&mut self) -> Result<(), SessionError> {
        let (Some(sender), Some(agreed)) = (&mut self.sender, &self.agreed) else {
            return Ok(());
        };
        // With ML-KEM the peer's message is an answer.
        if self.open.base_ot == BaseOt::Ristretto255 {
            let sid = agreed.stock_id(&self.open.nonce);
            sender.connect(agreed.theirs.extension, &sid, &agreed.theirs.point)?;
        }
        Ok(())
    }

    /// Returns what is held for runs in which this side has `role`: bytes of tables of runs not
    /// called, other bytes of those, transfers of those, and bytes of tables of runs under way.
    #[cfg(test)]
    pub(crate) fn held(&mut self, role: Role) -> [u64; 4] {
        let side = self.side(role);
        let (tables, bytes, transfers) = side.held();
        [tables, bytes, transfers, side.sum.tables]
    }

    /// Lets this side ask for any number of transfers without the stock.
    #[cfg(test)]
    pub(crate) fn ignore_direct_limit(&mut self) {
        self.direct_left = u64::MAX;
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

/// Returns what ends a connection: a frame of number 0 with the reason.
fn last_frame(kind: FrameKind, code: u8) -> Vec<u8> {
    whole_frame(kind, &[0, 0, 0, 0, code])
}
