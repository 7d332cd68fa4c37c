//! The state machine of a connection: any number of runs on one link.
//!
//! Frames in, bytes out. Each run has its own hellos, secrets and transcripts, and its frames bear the number of the run. Runs share
//! the link, the limits on what is held, and a pool of oblivious transfers. A connection for one run has no pool: the run does
//! transfers of its own.

mod calls;
mod config;
mod events;
mod lifecycle;
mod open;
pub(crate) mod pool;
mod receive;
mod schedule;
mod side;

use std::collections::VecDeque;

use rand::{CryptoRng, SeedableRng};
use transpute_ot::{AnySender, BaseOt};

pub(crate) use self::open::OPEN_LEN;
pub use self::{
    calls::Call,
    config::ConnectionConfig,
    events::{Decline, Event, RunId, RunReport},
    open::{OPEN_START, is_open_start},
};
use self::{
    events::GARBLES,
    open::{Agreed, Limits, Open},
    pool::{ReceiverPool, SenderPool},
    side::Side,
};
use crate::{
    Frame, FrameKind, OtPlan, Progress, Progressed, Role, SecretRng, SessionError,
    error::{AbortReason, Farewell},
    helpers::Spawner,
    pieces::whole_frame,
    session::Session,
    terms::RunLink,
};

/// Bytes of tables that could be evaluated above which no input is taken.
const BACKLOG_LIMIT: u64 = 4 << 20;

/// Bytes of the frame that ends a direction, without its header: the tag and two counts.
pub(crate) const CLOSE_LEN: usize = 12;

/// One side of a connection, without I/O.
///
/// Give it what arrives ([`handle`](Self::handle)), send what it makes ([`poll`](Self::poll)), collect
/// what happens ([`next_event`](Self::next_event)). An error of either ends the connection; a run that
/// fails alone ends with an event.
pub struct Connection {
    config: ConnectionConfig,
    open: Open,
    agreed: Option<Agreed>,
    rng: SecretRng,
    is_open_sent: bool,
    /// Starts the threads of a run.
    spawner: Option<Spawner>,
    /// Whole frames to be sent before anything else but the opening.
    control: VecDeque<Vec<u8>>,
    control_bytes: usize,
    garbling: Side,
    evaluating: Side,
    /// Runs with something to send that the peer waits for.
    urgent: VecDeque<RunId>,
    events: VecDeque<Event>,
    /// For runs in which this side garbles.
    sender: Option<SenderPool>,
    /// For runs in which it evaluates: before the peer's base-OT message is here, and behind that.
    base: Option<AnySender>,
    /// Whether the peer's base-OT message for a pool that this side does not want has been ignored.
    has_ignored_base: bool,
    receiver: Option<ReceiverPool>,
    /// Direct transfers that this side may still ask for while there is no pool, where neither side demands them.
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
        Self::with_rng(config, encrypted, &mut rand::make_rng::<SecretRng>())
    }

    /// Opens a connection whose secrets come from `rng`.
    pub(crate) fn with_rng(
        config: ConnectionConfig,
        encrypted: bool,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let mut connection = Self::opened(config, encrypted, false, rng);
        if connection.config.garbles {
            connection.set_up_sender();
        }
        connection
    }

    fn opened(
        config: ConnectionConfig,
        encrypted: bool,
        is_single: bool,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let (open, base) = Open::new(&config, encrypted, is_single, rng);
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        Self {
            rng: SecretRng::from_seed(*seed),
            is_open_sent: false,
            spawner: None,
            control: VecDeque::new(),
            control_bytes: 0,
            garbling: Side::new(&config),
            evaluating: Side::new(&config),
            urgent: VecDeque::new(),
            events: VecDeque::new(),
            sender: None,
            base,
            has_ignored_base: false,
            receiver: None,
            direct_left: OtPlan::DIRECT_LIMIT,
            evaluates_next: false,
            is_closing: false,
            close_sent: false,
            close_received: None,
            agreed: None,
            open,
            config,
        }
    }

    /// Returns the live counters of a run under way.
    #[must_use]
    pub fn progress(&self, run: RunId) -> Option<Progress> {
        let side = match run.role() {
            Role::Garbler => &self.garbling,
            Role::Evaluator => &self.evaluating,
        };
        side.progress(run.number)
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

    /// Says whether frames should be given to [`handle`](Self::handle) while there is work: where this side garbles, or there are several
    /// runs. A single evaluation takes the next frame when it is done with the last.
    #[must_use]
    pub fn hears_while_working(&self) -> bool {
        self.garbling.has_runs() || self.evaluating.has_several()
    }

    /// Says whether the first frames of this direction, which the peer waits for, are still to be sent.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        !self.is_open_sent || !self.control.is_empty() || !self.urgent.is_empty()
    }

    /// Waits for the threads of a run, where nothing is left to do before a frame arrives and none has. Says whether there is more to do
    /// now. Only with [`Config::threads`] above 1 there is anything to wait for.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub fn settle(&mut self) -> Result<bool, SessionError> {
        if self.spawner.is_none() {
            return Ok(false);
        }
        for number in self.evaluating.numbers() {
            let limits = self.limits(Role::Evaluator);
            let settled = self.evaluating.work(number, limits, Session::settle);
            let run = RunId::new(Role::Evaluator, number);
            match settled {
                None | Some(Ok(false)) => {}
                Some(Ok(true)) => {
                    self.settle_run(run, Some(Ok(())))?;
                    return Ok(true);
                }
                Some(Err(error)) => {
                    self.settle_run(run, Some(Err(error)))?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the sign of life to send when there is nothing else.
    #[must_use]
    pub fn sign_of_life() -> &'static [u8] {
        &[FrameKind::Alive as u8, 0, 0, 0, 0]
    }

    /// Returns the next thing that happened.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the last frames to send after an error that ended the connection, if the peer should hear of
    /// it: the opening if that is still to be sent, and the reason.
    #[must_use]
    pub fn farewell(&mut self, error: &SessionError) -> Option<Vec<u8>> {
        let (kind, code) = match error.farewell()? {
            Farewell::Refuse(field) => (FrameKind::Refuse, field as u8),
            Farewell::Abort(reason) => (FrameKind::Abort, reason as u8),
        };
        let mut frames = self.opening().unwrap_or_default();
        frames.extend(last_frame(kind, code));
        Some(frames)
    }

    /// Returns all frames that are sent to a peer that is rejected: an opening and the reason.
    #[must_use]
    pub fn refusal(encrypted: bool, reason: AbortReason) -> Vec<u8> {
        let mut rng = rand::make_rng::<SecretRng>();
        let (open, _) = Open::new(&ConnectionConfig::default(), encrypted, true, &mut rng);
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
                _ => Err(SessionError::Unexpected {
                    kind,
                    problem: "a connection begins with an opening",
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
            if let Some(opening) = self.opening() {
                out.extend_from_slice(&opening);
                return Ok(Progressed::Worked);
            }
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
        if may_send && !(self.control.is_empty() && self.urgent.is_empty()) {
            // A run has failed, or waits no longer.
            return Ok(Progressed::Worked);
        }
        Ok(if self.close_sent && self.close_received.is_some() {
            Progressed::Finished
        } else {
            Progressed::Idle
        })
    }

    /// Returns the frame that opens this direction, once.
    fn opening(&mut self) -> Option<Vec<u8>> {
        let is_due = !std::mem::replace(&mut self.is_open_sent, true);
        is_due.then(|| whole_frame(FrameKind::Open, &self.open.encode()))
    }

    /// Says whether runs may take transfers from a pool, as far as this side knows.
    fn has_pool(&self) -> bool {
        let is_refused = (self.agreed.as_ref()).is_some_and(|agreed| agreed.theirs.is_single);
        !self.open.is_single && !is_refused
    }

    fn side(&mut self, role: Role) -> &mut Side {
        match role {
            Role::Garbler => &mut self.garbling,
            Role::Evaluator => &mut self.evaluating,
        }
    }

    /// Returns the limits of runs in which this side has a role.
    fn limits(&self, role: Role) -> Limits {
        let limits = match &self.agreed {
            Some(agreed) => agreed.limits,
            None => self.open.first_limits(),
        };
        match role {
            Role::Garbler => limits,
            Role::Evaluator => Limits {
                window: limits.taken_window,
                ..limits
            },
        }
    }

    fn control(&mut self, frame: Vec<u8>) {
        self.control_bytes += frame.len();
        self.control.push_back(frame);
    }

    /// Queues a frame about the connection, or about the pool of one direction.
    fn control_frame(&mut self, garbles: bool, kind: FrameKind, content: &[u8]) {
        let tag = if garbles { GARBLES } else { 0 };
        let payload = [&tag.to_le_bytes(), content].concat();
        self.control(whole_frame(kind, &payload));
    }

    /// Returns what a run is bound to and how far its tables run ahead, if it is known.
    fn run_link(&self, role: Role, number: u32) -> Option<RunLink> {
        let agreed = self.agreed.as_ref()?;
        let (garbler, evaluator) = match role {
            Role::Garbler => (&self.open, &agreed.theirs),
            Role::Evaluator => (&agreed.theirs, &self.open),
        };
        Some(agreed.run_link(garbler, evaluator, number))
    }

    /// Begins the pool for runs in which this side garbles.
    fn set_up_sender(&mut self) {
        let (pool, message) = SenderPool::start(self.open.base_ot, &self.open.nonce, &mut self.rng);
        self.control_frame(true, FrameKind::OtSetup, &message);
        self.sender = Some(pool);
    }

    /// Goes on with that once the peer's opening is here.
    fn connect_sender(&mut self) -> Result<(), SessionError> {
        let (Some(sender), Some(agreed)) = (&mut self.sender, &self.agreed) else {
            return Ok(());
        };
        if agreed.theirs.is_single {
            self.sender = None;
            return Ok(());
        }
        // With ML-KEM the peer's message is an answer.
        if self.open.base_ot == BaseOt::Ristretto255 {
            let sid = agreed.pool_id(&self.open.nonce);
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

    /// Returns the session of a run under way.
    #[cfg(test)]
    pub(crate) fn session(&mut self, run: RunId) -> Option<&mut Session> {
        Some(&mut self.side(run.role()).active(run.number)?.session)
    }

    /// Returns the offset of a run under way.
    #[cfg(test)]
    pub(crate) fn delta(&mut self, run: RunId) -> Option<[u8; 16]> {
        match &self.side(run.role()).active(run.number)?.session.0 {
            crate::session::Core::Garbler(core) => {
                core.delta().map(transpute_garble::Label::to_bytes)
            }
            crate::session::Core::Evaluator(_) => None,
        }
    }
}

/// Returns what ends a connection: a frame of number 0 with the reason.
fn last_frame(kind: FrameKind, code: u8) -> Vec<u8> {
    whole_frame(kind, &[0, 0, 0, 0, code])
}
